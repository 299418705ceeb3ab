"""A dataset with the labels of a label file."""

from __future__ import annotations

import os

import numpy as np
from mmengine.dataset import BaseDataset

from ..registry import DATASETS
from .errors import MissingDataError
from .label_file import SampleLabels, load_label_file
from .label_wrapper import LabelWrapper


@DATASETS.register_module()
class Relabelled(LabelWrapper):
    """Any multi-label dataset with the labels of a file, such as the one that ``tools/pseudo_label.py`` writes.

    A file that was made for another dataset is refused: other classes, other images, another order, other labels to
    start from.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        labels: The label file, see :mod:`mmml_losses.datasets.label_file`.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = Relabelled(dict(type='mmml_losses.DigitScenes', split='train'), labels='pseudo_labels.json')
        >>> dataset.get_data_info(0)['gt_label']
        [1, 4, 7]
    """

    def __init__(self, dataset: BaseDataset | dict, labels: str | os.PathLike, lazy_init: bool = False):
        self.label_file = os.path.expanduser(labels)
        # Reading the wrapped dataset may take a while; what must fail should fail before.
        if not lazy_init and not os.path.isfile(self.label_file):
            raise MissingDataError(f'label file {self.label_file} does not exist', [self.label_file])
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels of the file, if it fits."""
        return load_label_file(self.label_file).labels_for(samples)

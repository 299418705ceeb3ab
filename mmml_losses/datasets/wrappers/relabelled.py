"""A dataset with the labels of a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from ..labels.label_file import LabelFile, load_label_file
from ..labels.label_list import ENDINGS as LIST_ENDINGS
from ..labels.label_list import read_label_list
from ..labels.sample_labels import SampleLabels
from ..readers.feature_dataset import FeatureDataset
from .label_wrapper import LabelWrapper


@DATASETS.register_module()
class Relabelled(LabelWrapper):
    """Any multi-label dataset with the labels of a file.

    A ``.json`` file is what ``tools/make_labels.py`` wrote of drawn labels or ``tools/pseudo_label.py`` of corrected
    ones. It may also choose some of the samples. A file that was made for another dataset is refused: other classes,
    other images, another order, other labels to start from; and so is one that was changed after it was written.

    A ``.txt`` or ``.txt.gz`` file is a list as others publish them, see
    :func:`mmml_losses.datasets.labels.label_list.read_label_list`.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        labels: The file.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = Relabelled(dict(type='mmml_losses.DigitScenes', split='train'), labels='pseudo_labels.json')
        >>> dataset.get_data_info(0)['gt_label']
        [1, 4, 7]
    """

    def __init__(self, dataset: BaseDataset | dict, labels: str | os.PathLike, lazy_init: bool = False):
        self.label_file = os.path.expanduser(labels)
        self._content: LabelFile | None = None
        if not self.label_file.endswith(('.json', *LIST_ENDINGS)):
            raise ValueError(f"labels must be a file '.json', '.txt' or '.txt.gz', got '{self.label_file}'")
        # Reading the wrapped dataset may take a while; what must fail should fail before.
        if not lazy_init and self.missing_files():
            raise MissingDataError(f'label file {self.label_file} does not exist', self.missing_files())
        super().__init__(dataset, lazy_init=lazy_init)

    def missing_files(self) -> list[str]:
        """The label file, if there is none. What the wrapped dataset misses is not in it."""
        return [] if os.path.isfile(self.label_file) else [self.label_file]

    def settings(self) -> dict:
        """The name of the file, and its checksum."""
        file = Path(self.label_file)
        return super().settings() | dict(labels=file.name, sha256=hashlib.sha256(file.read_bytes()).hexdigest())

    def select(self, samples: SampleLabels) -> np.ndarray | None:
        """The samples that the file chooses, if it fits."""
        if self.label_file.endswith(LIST_ENDINGS):
            return None
        self._content = load_label_file(self.label_file)
        self._content.check_fit(samples)
        return self._content.selected

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels of the file."""
        if self._content is None:
            return read_label_list(self.label_file, samples)
        labels, self._content = self._content.labels, None
        return labels


@DATASETS.register_module()
class StoredLabels(LabelWrapper):
    """A :class:`FeatureDataset` of true labels that serves other labels of the same file.

    Training on the observed labels alone needs no wrapper (``FeatureDataset(labels=...)``). With it, hooks and
    analyses have both, as with every label wrapper.

    Args:
        dataset: The dataset with the true labels, or its config.
        labels: Name of the array of the labels to serve, with 1, 0 and -1.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> full = dict(type='mmml_losses.FeatureDataset', ann_file='features.npz', split='train', labels='train_full')
        >>> dataset = StoredLabels(full, labels='train_40')
    """

    def __init__(self, dataset: FeatureDataset | dict, labels: str, lazy_init: bool = False):
        self.labels_name = labels
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels of the array."""
        if not isinstance(self.dataset, FeatureDataset):
            raise TypeError(f'dataset must be a FeatureDataset, got {type(self.dataset).__name__}')
        labels = self.dataset.label_array(self.labels_name)
        if labels.dtype != np.int8:
            raise AnnotationError(f'{self.dataset.ann_file}, array {self.labels_name!r}: labels must be 1, 0 or -1')
        return labels

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(type=type(self).__name__, labels=self.labels_name)

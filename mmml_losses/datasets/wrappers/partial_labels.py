"""A dataset of which only some labels are known."""

from __future__ import annotations

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ...utils.arrays import row_blocks
from ..labels.draws import uniform_draws
from ..labels.sample_labels import UNKNOWN, SampleLabels
from .hiding import check_ratio, check_seed
from .label_wrapper import LabelWrapper


@DATASETS.register_module()
class PartialLabels(LabelWrapper):
    """Any multi-label dataset in which labels, positives and negatives alike, are known at random only.

    Each label is known with probability ``known_ratio``, independently of all others; the others become -1, which
    losses leave out. With one seed a larger ratio shows what a smaller one does, and more.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        known_ratio: Share of labels that stay known, in [0, 1].
        seed: Determines which ones, together with the names of the samples.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = PartialLabels(dict(type='mmml_losses.DigitScenes', split='train'), known_ratio=0.5)
        >>> dataset.get_data_info(3)['gt_score']
        array([-1.,  1., -1.,  0., -1., -1., -1.,  0., -1.,  0.], dtype=float32)
    """

    def __init__(self, dataset: BaseDataset | dict, known_ratio: float, *, seed: int = 0, lazy_init: bool = False):
        self.known_ratio = check_ratio('known_ratio', known_ratio)
        self.seed = check_seed(seed)
        super().__init__(dataset, lazy_init=lazy_init)

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(type=type(self).__name__, known_ratio=self.known_ratio, seed=self.seed)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels with those that are not known as -1."""
        labels = samples.labels.copy()
        columns = np.arange(labels.shape[1])
        for block in row_blocks(*labels.shape):
            keys = samples.keys[block]
            draws = uniform_draws(self.seed, self.stream, keys, np.arange(len(keys))[:, None], columns)
            labels[block][draws >= self.known_ratio] = UNKNOWN
        return labels

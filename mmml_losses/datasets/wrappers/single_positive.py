"""A dataset in which each sample has one positive label."""

from __future__ import annotations

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ..labels.draws import uniform_draws
from ..labels.sample_labels import POSITIVE, SampleLabels
from .hiding import HIDDEN_VALUES, check_choice, check_seed, positive_areas
from .label_wrapper import LabelWrapper

WEIGHTS = ('uniform', 'area')


@DATASETS.register_module()
class SinglePositive(LabelWrapper):
    """Any multi-label dataset with at most one positive per sample.

    A sample without a positive stays without, and labels that are unknown stay so.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        by: How the positive is drawn. ``'uniform'``: each with the same probability (Assumption 5.1 of the LASD
            paper). ``'area'``: with a probability in proportion to the area of its largest object in the image, as
            large objects are named first; it needs a dataset that knows areas (COCO's format, boxes). Always the
            largest is ``MissingLabels(missing_ratio=1, order='smallest_first')``.
        hidden: What the other positives become: ``'negative'`` (0, as it looks where nobody labelled them) or
            ``'unknown'`` (-1).
        seed: Determines which one is drawn, together with the names of the samples.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = SinglePositive(dict(type='mmml_losses.DigitScenes', split='train'))
        >>> info = dataset.get_data_info(6)
        >>> info['gt_label'], np.flatnonzero(info['true_label'])
        ([2], array([0, 1, 2, 8]))
    """

    def __init__(
        self,
        dataset: BaseDataset | dict,
        by: str = 'uniform',
        *,
        hidden: str = 'negative',
        seed: int = 0,
        lazy_init: bool = False,
    ):
        self.by = check_choice('by', by, WEIGHTS)
        self.hidden = check_choice('hidden', hidden, HIDDEN_VALUES)
        self.seed = check_seed(seed)
        self.needs_areas = by == 'area'
        super().__init__(dataset, lazy_init=lazy_init)

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(type=type(self).__name__, by=self.by, hidden=self.hidden, seed=self.seed)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels with one positive each."""
        rows, columns = np.nonzero(samples.labels == POSITIVE)
        labels = np.where(samples.labels == POSITIVE, np.int8(HIDDEN_VALUES[self.hidden]), samples.labels)
        if len(rows):
            weights = positive_areas(samples, self, rows, columns) if self.needs_areas else np.ones(len(rows))
            chosen = self._choose(rows, weights, samples)
            labels[rows[chosen], columns[chosen]] = POSITIVE
        return labels

    def _choose(self, rows: np.ndarray, weights: np.ndarray, samples: SampleLabels) -> np.ndarray:
        """Which of the positives stays, one for each sample: a point drawn on a line that they divide."""
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        sizes = np.diff(firsts, append=len(rows))
        # Samples in which nothing has an area are drawn from uniformly.
        weights = np.where(np.repeat(np.maximum.reduceat(weights, firsts) > 0, sizes), weights, 1.0)
        draws = uniform_draws(self.seed, self.stream, samples.keys, rows[firsts], np.zeros(len(firsts), dtype=np.int64))
        chosen = np.empty(len(firsts), dtype=np.int64)
        # Sample by sample of one size: a sum over all of them would lose the small areas.
        for size in np.unique(sizes):
            those = sizes == size
            ends = np.cumsum(weights[firsts[those, None] + np.arange(size)], axis=1)
            passed = ends <= draws[those, None] * ends[:, -1:]
            # The product may round up to the whole length.
            chosen[those] = firsts[those] + np.minimum(passed.sum(axis=1), size - 1)
        return chosen

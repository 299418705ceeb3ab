"""Precision, recall and F1 as an MMEngine metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmml_losses.registry import METRICS

from ...utils.arrays import Empty, as_array
from ..functional.f1 import F1Scores, best_threshold, checked_thresholds, checked_top_k, f1_scores
from ..functional.predictions import Predictions
from .base import PredictionMetric, distinct_names

OF_RESULT = {
    'CP': 'cp',
    'CR': 'cr',
    'CF1': 'cf1',
    'OP': 'op',
    'OR': 'or_',
    'OF1': 'of1',
    'macro-F1': 'macro_f1',
}
ITEMS = (*OF_RESULT, 'F1', 'best-macro-F1', 'best-OF1')


@METRICS.register_module()
class MultiLabelF1(PredictionMetric):
    """Precision, recall and F1 of predicted label sets, by class and overall, in percent.

    ``CF1`` is the harmonic mean of ``CP`` and ``CR``, as the multi-label literature has it; ``macro-F1`` is the mean of
    the classes' F1s, which scikit-learn and mmpretrain call the macro average. Nothing divided by nothing is 0. See
    :class:`mmml_losses.evaluation.F1Scores`.

    Args:
        items: What to report: some of ``'CP'``, ``'CR'``, ``'CF1'``, ``'OP'``, ``'OR'``, ``'OF1'`` (these by default),
            ``'macro-F1'``, ``'F1'`` (of each class, as ``F1/<class name>``), ``'best-macro-F1'`` and ``'best-OF1'``
            (with the threshold of each class, or the one of all, that is best on these very data; ``best-threshold``
            beside the latter, as it is).
        threshold: Scores of at least this much are predicted; one number or one for each class. 0.5 if neither this
            nor ``top_k`` is given.
        top_k: Predict the k classes that score highest in each sample instead. The names then end with ``@k``.
        empty: What the means over classes do with classes without a positive: ``'zero'`` counts their 0, ``'skip'``
            leaves them out, ``'error'`` refuses them.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        result: Counts of the last evaluation; None before it and on other than the main process.
    """

    def __init__(
        self,
        items: Sequence[str] = ('CP', 'CR', 'CF1', 'OP', 'OR', 'OF1'),
        threshold: float | Sequence[float] | None = None,
        top_k: int | None = None,
        empty: Empty = 'zero',
        prefix: str | None = None,
    ):
        super().__init__(prefix=prefix)
        if isinstance(items, str) or any(item not in ITEMS for item in items):
            raise ValueError(f'items must be some of {ITEMS}, got {items!r}')
        if threshold is not None and top_k is not None:
            raise ValueError(f'threshold and top_k must not both be given, got {threshold} and {top_k}')
        if empty not in ('skip', 'zero', 'error'):
            raise ValueError(f"empty must be 'skip', 'zero' or 'error', got {empty!r}")
        self.items = tuple(items)
        self.threshold = threshold
        self.top_k = None if top_k is None else checked_top_k(top_k)
        self.empty = empty
        self.result: F1Scores | None = None
        if threshold is not None:
            self._check_choice(as_array(threshold).size)

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        """Refuse thresholds and a number of labels that do not fit the number of classes, with the first batch."""
        if data_samples:
            self._check_choice(len(data_samples[0]['pred_score']))

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        result = f1_scores(scores, labels, threshold=self.threshold, top_k=self.top_k, empty=self.empty)
        self.result = result
        if result.num_empty:
            fate = 'are left out of the class means' if self.empty == 'skip' else 'count as 0 in the class means'
            self.log(f'{result.num_empty} of {predictions.num_classes} classes have no positive label and {fate}')
        if result.num_ties_cut:
            self.log(f'top-{self.top_k} cuts through tied scores in {result.num_ties_cut} samples')
        ending = '' if self.top_k is None else f'@{self.top_k}'
        metrics = {
            f'{item}{ending}': 100 * getattr(result, OF_RESULT[item]) for item in self.items if item in OF_RESULT
        }
        if 'F1' in self.items:
            by_class = zip(distinct_names(predictions.class_names), result.class_f1.tolist(), strict=True)
            metrics |= {f'F1{ending}/{name}': 100 * value for name, value in by_class}
        return metrics | self._best(predictions)

    def details(self) -> dict[str, Any]:
        """The numbers of classes without a positive and without a prediction, and of ties that top-k cuts."""
        names = ('num_empty', 'num_unpredicted', 'num_ties_cut')
        return {} if self.result is None else {name: getattr(self.result, name) for name in names}

    def _check_choice(self, num_classes: int) -> None:
        if self.threshold is not None:
            checked_thresholds(self.threshold, np.empty((0, num_classes), np.float32))
        if self.top_k is not None:
            checked_top_k(self.top_k, num_classes)

    def _best(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        metrics = {}
        if 'best-macro-F1' in self.items:
            thresholds = best_threshold(scores, labels).threshold
            metrics['best-macro-F1'] = 100 * f1_scores(scores, labels, threshold=thresholds, empty=self.empty).macro_f1
        if 'best-OF1' in self.items:
            best = best_threshold(scores, labels, average='pooled')
            metrics |= {'best-OF1': 100 * best.f1, 'best-threshold': best.threshold}
        return metrics

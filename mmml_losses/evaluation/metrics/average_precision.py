"""Mean average precision as an MMEngine metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmml_losses.registry import METRICS

from ..predictions import Predictions
from ..ranking import MeanAveragePrecision, average_precision
from .base import PredictionMetric

ITEMS = ('mAP@class', 'mAP@sample', 'AP')


@METRICS.register_module()
class MultiLabelAP(PredictionMetric):
    """Average precision over classes and over samples, in percent.

    Exact, and tied scores count as in scikit-learn. Classes (samples) without a positive are left out of the mean,
    and the log says how many; see :func:`mmml_losses.evaluation.average_precision`.

    Args:
        items: What to report: ``'mAP@class'`` (the usual mAP), ``'mAP@sample'`` (classes ranked within each sample)
            and ``'AP'`` (of each class, as ``AP/<class name>``; NaN for a class without a positive).
        prefix: Prefix of the metric names; ``multi-label`` by default.
    """

    def __init__(self, items: Sequence[str] = ('mAP@class', 'mAP@sample'), prefix: str | None = None):
        super().__init__(prefix=prefix)
        unknown = [item for item in items if item not in ITEMS]
        if unknown or isinstance(items, str):
            raise ValueError(f'items must be some of {ITEMS}, got {items!r}')
        self.items = tuple(items)

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        metrics = {}
        if 'mAP@class' in self.items or 'AP' in self.items:
            per_class = average_precision(predictions.scores, predictions.labels, by='class')
        if 'mAP@class' in self.items:
            metrics['mAP@class'] = self._mean(per_class, 'classes')
        if 'mAP@sample' in self.items:
            per_sample = average_precision(predictions.scores, predictions.labels, by='sample')
            metrics['mAP@sample'] = self._mean(per_sample, 'samples')
        if 'AP' in self.items:
            metrics |= {
                f'AP/{name}': 100 * float(value) for name, value in zip(predictions.class_names, per_class, strict=True)
            }
        return metrics

    def _mean(self, precisions: np.ndarray, what: str) -> float:
        mean = MeanAveragePrecision.of(precisions)
        if mean.num_skipped:
            self.log(f'{mean.num_skipped} of {precisions.size} {what} have no positive label and are left out')
        return 100 * mean.value

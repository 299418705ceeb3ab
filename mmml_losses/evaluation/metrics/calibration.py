"""Calibration errors as an MMEngine metric."""

from __future__ import annotations

from mmml_losses.registry import METRICS

from ..calibration import ReliabilityBins, calibration_errors, reliability_bins
from ..predictions import Predictions
from .base import PredictionMetric


@METRICS.register_module()
class CalibrationError(PredictionMetric):
    """How far predicted probabilities are from observed frequencies, in percent.

    All known (sample, class) pairs fall into bins of equal width; the gap of a bin is the distance between its mean
    probability and its share of positives. ``ACE`` is the unweighted mean gap over non-empty bins (Neumann et al.),
    ``MCE`` the largest gap, ``ECE`` the mean gap weighted by the size of the bins.

    Args:
        num_bins: Number of bins.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        bins: Reliability bins of the last evaluation, for plots; None before it and on other than the main process.
    """

    def __init__(self, num_bins: int = 10, prefix: str | None = None):
        super().__init__(prefix=prefix)
        if num_bins < 1:
            raise ValueError(f'num_bins must be at least 1, got {num_bins}')
        self.num_bins = num_bins
        self.bins: ReliabilityBins | None = None

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        self.bins = reliability_bins(predictions.scores, predictions.labels, self.num_bins)
        errors = calibration_errors(self.bins)
        return {'ACE': 100 * errors.ace, 'MCE': 100 * errors.mce, 'ECE': 100 * errors.ece}

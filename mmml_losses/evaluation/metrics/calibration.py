"""Calibration errors as an MMEngine metric."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mmml_losses.registry import METRICS

from ..functional.calibration import (
    AceReading,
    Binning,
    ClassReliabilityBins,
    ReliabilityBins,
    calibration_errors,
    check_ace,
    check_binning,
    class_calibration_errors,
    class_reliability_bins,
    reliability_bins,
)
from ..functional.intervals import Interval, calibration_intervals, check_resampling
from ..functional.predictions import Predictions
from ..functional.scores import (
    CalibrationLine,
    brier_score,
    calibration_line,
    class_brier_scores,
    class_negative_log_likelihoods,
    negative_log_likelihood,
)
from .base import PredictionMetric, distinct_names, finite_or_none, refuse_raw_scores

BIN_ITEMS = ('ACE', 'MCE', 'ECE')
LINE_ITEMS = ('slope', 'intercept')
# Items and the units that they are reported in.
ITEMS = {'ACE': 100, 'MCE': 100, 'ECE': 100, 'Brier': 100, 'NLL': 1, 'slope': 1, 'intercept': 1}
PER = ('pooled', 'class', 'each')


@METRICS.register_module()
class CalibrationError(PredictionMetric):
    """How far predicted probabilities are from observed frequencies.

    Known (sample, class) pairs fall into bins by predicted probability; the gap of a bin is the distance between its
    mean probability and its share of positives. ``ACE`` is the unweighted mean gap (Neumann et al.), ``MCE`` the
    largest gap, ``ECE`` the mean gap weighted by the size of the bins. ``Brier`` is the mean squared error. These four
    are in percent. ``NLL`` is the negative log-likelihood in nats. ``slope`` and ``intercept`` are those of the
    logistic recalibration, 1 and 0 for calibrated probabilities.

    Args:
        num_bins: Number of bins.
        binning: ``'width'``, bins of equal width, or ``'mass'``, bins that hold equally many pairs.
        ace: Which ACE: over the ``'non-empty'`` bins, over ``'all'`` bins where an empty one counts as 0, or
            ``'adaptive'``, over bins of equal mass (with ``binning='mass'``).
        per: One or several of ``'pooled'`` (over all pairs, as ``ACE``), ``'class'`` (the mean over the classes that
            have a known label, as ``ACE@class``) and ``'each'`` (of each class, as ``ACE/<class name>``). Slope and
            intercept are pooled only.
        items: What to report: some of ``'ACE'``, ``'MCE'``, ``'ECE'``, ``'Brier'``, ``'NLL'``, ``'slope'``,
            ``'intercept'``.
        num_resamples: Resamples of the images for a bootstrap interval of each pooled item, reported as
            ``ACE_lower`` and ``ACE_upper``; 0 for none.
        confidence: Of the intervals.
        seed: Of the resamples.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        bins: Reliability bins of the last evaluation, for plots; None before it and on other than the main process.
        class_bins: Those of each class; None likewise, and where ``per`` is ``'pooled'`` alone.
    """

    def __init__(
        self,
        num_bins: int = 10,
        binning: Binning = 'width',
        ace: AceReading = 'non-empty',
        per: str | Sequence[str] = 'pooled',
        items: Sequence[str] = BIN_ITEMS,
        num_resamples: int = 0,
        confidence: float = 0.95,
        seed: int = 0,
        prefix: str | None = None,
    ):
        super().__init__(prefix=prefix)
        check_binning(num_bins, binning)
        check_ace(ace, binning)
        if isinstance(items, str) or not items or any(item not in ITEMS for item in items):
            raise ValueError(f'items must be some of {tuple(ITEMS)}, got {items!r}')
        self.per = (per,) if isinstance(per, str) else tuple(per)
        if not self.per or any(each not in PER for each in self.per):
            raise ValueError(f'per must be one or several of {PER}, got {per!r}')
        check_resampling((), num_resamples or 1, confidence, seed)
        if 'pooled' not in self.per and (num_resamples or set(LINE_ITEMS) & set(items)):
            raise ValueError(f"per must hold 'pooled' for slope, intercept and intervals, got {per!r}")
        self.num_bins, self.binning, self.ace, self.items = num_bins, binning, ace, tuple(items)
        self.num_resamples, self.confidence, self.seed = num_resamples, confidence, seed
        self.bins: ReliabilityBins | None = None
        self.class_bins: ClassReliabilityBins | None = None
        self._details: dict[str, Any] = {}

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        """Refuse scores that are no probabilities with the first batch."""
        for sample in data_samples:
            refuse_raw_scores(sample['pred_score'], type(self).__name__)

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        self.bins = reliability_bins(scores, labels, self.num_bins, self.binning)
        self._details = {
            'ace': self.ace,
            'num_pairs': int(self.bins.counts.sum()),
            'num_unknown': labels.size - int(self.bins.counts.sum()),
            'bins': self.bins.to_dict(),
        }
        metrics = {}
        if 'pooled' in self.per:
            metrics |= self._pooled(scores, labels)
        if self.num_resamples:
            metrics |= self._intervals(scores, labels)
        if {'class', 'each'} & set(self.per):
            metrics |= self._by_class(scores, labels, distinct_names(predictions.class_names))
        return metrics

    def details(self) -> dict[str, Any]:
        """The bins, the counts of pairs, and what was computed for each class."""
        return self._details

    def _pooled(self, scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        values = dict(zip(BIN_ITEMS, calibration_errors(self.bins, self.ace), strict=True))
        values |= self._scores_of(scores, labels, brier_score, negative_log_likelihood)
        if set(LINE_ITEMS) & set(self.items):
            line = calibration_line(scores, labels)
            self._details['line'] = line.status
            self._say_why_not_fitted(line)
            values |= {'slope': line.slope, 'intercept': line.intercept}
        return {item: ITEMS[item] * values[item] for item in self.items}

    def _intervals(self, scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        intervals: dict[str, Interval] = calibration_intervals(
            scores,
            labels,
            self.num_bins,
            self.binning,
            self.ace,
            measures=[item.lower() for item in self.items],
            num_resamples=self.num_resamples,
            confidence=self.confidence,
            seed=self.seed,
        )
        return {
            f'{item}_{end}': ITEMS[item] * getattr(intervals[item.lower()], end)
            for item in self.items
            for end in ('lower', 'upper')
        }

    def _by_class(self, scores: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> dict[str, float]:
        self.class_bins = class_reliability_bins(scores, labels, self.num_bins, self.binning)
        errors = class_calibration_errors(self.class_bins, self.ace)
        values = dict(zip(BIN_ITEMS, errors, strict=True))
        values |= self._scores_of(scores, labels, class_brier_scores, class_negative_log_likelihoods)
        values = {item: ITEMS[item] * values[item] for item in self.items if item in values}
        if errors.num_skipped:
            self.log(f'{errors.num_skipped} of {len(errors.mce)} classes have no known label and are left out')
        self._details['num_classes_skipped'] = errors.num_skipped
        self._details['classes'] = {
            name: {item: finite_or_none(float(array[index])) for item, array in values.items()}
            for index, name in enumerate(class_names)
        }
        metrics = {}
        if 'class' in self.per:
            metrics |= {f'{item}@class': _mean_of_known(array) for item, array in values.items()}
        if 'each' in self.per:
            metrics |= {
                f'{item}/{name}': float(value)
                for item, array in values.items()
                for name, value in zip(class_names, array, strict=True)
            }
        return metrics

    def _scores_of(self, scores: np.ndarray, labels: np.ndarray, brier: Callable, nll: Callable) -> dict[str, Any]:
        """The proper scores that are asked for."""
        functions = {'Brier': brier, 'NLL': nll}
        return {item: function(scores, labels) for item, function in functions.items() if item in self.items}

    def _say_why_not_fitted(self, line: CalibrationLine) -> None:
        if line.status != 'fitted':
            self.log(f'no slope and intercept could be fitted: {line.status}', logging.WARNING)


def _mean_of_known(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float('nan')

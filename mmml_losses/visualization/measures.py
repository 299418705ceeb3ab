"""The numbers of a run that a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..evaluation import (
    CalibrationErrors,
    F1Scores,
    MeanAveragePrecision,
    Predictions,
    ReliabilityBins,
    average_precision,
    brier_score,
    calibration_errors,
    f1_scores,
    mean_average_precision,
    mean_average_precision_of_groups,
    micro_average_precision,
    negative_log_likelihood,
    reliability_bins,
)

# Probability from which on a label counts as predicted.
THRESHOLD = 0.5


@dataclass(frozen=True)
class RunMeasures:
    """The numbers of one run.

    Attributes:
        by_class: mAP@class.
        by_sample: mAP@sample.
        micro: Average precision of all pairs in one ranking.
        groups: mAP@class of head, medium and tail, where they are known.
        decisions: Precision, recall and F1 at ``THRESHOLD``.
        bins: Reliability bins.
        errors: What the bins say.
        brier: Brier score.
        nll: Negative log-likelihood, in nats.
    """

    by_class: MeanAveragePrecision
    by_sample: MeanAveragePrecision
    micro: float
    groups: Mapping[str, MeanAveragePrecision]
    decisions: F1Scores
    bins: ReliabilityBins
    errors: CalibrationErrors
    brier: float
    nll: float


def measure(
    predictions: Predictions, num_bins: int = 10, groups: Mapping[str, Sequence[int]] | None = None
) -> RunMeasures:
    """Compute what a report shows of one run, but for retrieval.

    Args:
        predictions: What the run says of a dataset.
        num_bins: Number of bins of the calibration errors.
        groups: Class indices of head, medium and tail, where they are known.
    """
    scores, labels = predictions.scores, predictions.labels
    precisions = average_precision(scores, labels)
    bins = reliability_bins(scores, labels, num_bins)
    return RunMeasures(
        by_class=MeanAveragePrecision.of(precisions),
        by_sample=mean_average_precision(scores, labels, by='sample'),
        micro=micro_average_precision(scores, labels),
        groups=mean_average_precision_of_groups(precisions, groups or {}),
        decisions=f1_scores(scores, labels, threshold=THRESHOLD),
        bins=bins,
        errors=calibration_errors(bins),
        brier=brier_score(scores, labels),
        nll=negative_log_likelihood(scores, labels),
    )

"""Do probabilities mean what they say? Reliability bins and the errors read from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .arrays import ArrayLike, as_labels_of, as_probabilities, row_blocks


@dataclass(frozen=True)
class ReliabilityBins:
    """Predicted probability against observed frequency, bin by bin.

    Attributes:
        counts: (B,) number of known (sample, class) pairs in each bin.
        mean_probability: (B,) mean predicted probability; NaN in an empty bin.
        positive_rate: (B,) share of positive labels; NaN in an empty bin.
    """

    counts: np.ndarray
    mean_probability: np.ndarray
    positive_rate: np.ndarray

    @property
    def num_bins(self) -> int:
        return len(self.counts)

    @property
    def edges(self) -> np.ndarray:
        """(B + 1,) limits of the bins, from 0 to 1."""
        return np.arange(self.num_bins + 1) / self.num_bins


class CalibrationErrors(NamedTuple):
    """Calibration errors in [0, 1], each a summary of :math:`|\\text{positive rate} - \\text{mean probability}|`.

    Attributes:
        ace: Unweighted mean over the non-empty bins (average calibration error of Neumann et al.).
        mce: Maximum over the non-empty bins.
        ece: Mean weighted by the number of pairs in each bin.
    """

    ace: float
    mce: float
    ece: float


def reliability_bins(probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 10) -> ReliabilityBins:
    r"""Sort all known (sample, class) pairs into bins of equal width by predicted probability.

    Bin :math:`b` of :math:`B` holds :math:`b/B \le p < (b+1)/B`; the last one also holds :math:`p = 1`. Limits are
    compared in double precision: float32's 0.7 is a little less than 0.7 and belongs to the bin below.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        num_bins: Number of bins.
    """
    if num_bins < 1:
        raise ValueError(f'num_bins must be at least 1, got {num_bins}')
    probabilities = as_probabilities(probabilities)
    labels = as_labels_of(probabilities, labels, 'probabilities')

    inner_edges = np.arange(1, num_bins) / num_bins
    counts = np.zeros(num_bins, dtype=np.int64)
    positives = np.zeros(num_bins, dtype=np.int64)
    total_probability = np.zeros(num_bins)
    for rows in row_blocks(*probabilities.shape):
        known = labels[rows] >= 0
        p = probabilities[rows][known].astype(np.float64)
        bins = np.searchsorted(inner_edges, p, side='right')
        counts += np.bincount(bins, minlength=num_bins)
        positives += np.bincount(bins[labels[rows][known] == 1], minlength=num_bins)
        total_probability += np.bincount(bins, weights=p, minlength=num_bins)
    with np.errstate(invalid='ignore'):
        return ReliabilityBins(counts, total_probability / counts, positives / counts)


def calibration_errors(bins: ReliabilityBins) -> CalibrationErrors:
    """Read the calibration errors from reliability bins; all NaN when every bin is empty."""
    filled = bins.counts > 0
    if not filled.any():
        return CalibrationErrors(float('nan'), float('nan'), float('nan'))
    gaps = np.abs(bins.positive_rate[filled] - bins.mean_probability[filled])
    return CalibrationErrors(
        ace=float(gaps.mean()),
        mce=float(gaps.max()),
        ece=float(np.average(gaps, weights=bins.counts[filled])),
    )

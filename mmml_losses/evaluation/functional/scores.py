"""Proper scores of predicted probabilities (Brier score, negative log-likelihood), and the logistic recalibration line.

A proper score has its smallest expectation at the true probabilities, so it measures calibration and sharpness
together. The recalibration line has a slope and an intercept on the scale of log-odds.
"""

from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Literal, NamedTuple

import numpy as np

from ...utils import arrays
from ...utils.arrays import ArrayLike, as_labels_of, as_probabilities, as_scores, row_blocks
from ...utils.logistic import line_derivatives, logistic_loss, logistic_parts, minimise

# The proper score of each pair, from (n, C) float64 probabilities (or log-odds) and which pairs are positive.
PairScore = Callable[[np.ndarray, np.ndarray], np.ndarray]


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Compute the mean of :math:`(p - y)^2`, in [0, 1], over all known (sample, class) pairs; NaN without a known pair.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
    """
    return _mean_of(*_sums(as_probabilities(probabilities), labels, squared_error))


def class_brier_scores(probabilities: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Compute the :func:`brier_score` of each class, as (C,); NaN for a class without a known label."""
    return _ratio(*_sums(as_probabilities(probabilities), labels, squared_error))


def negative_log_likelihood(probabilities: ArrayLike, labels: ArrayLike, clip: float | None = None) -> float:
    r"""Compute the mean of :math:`-\log p` over positive and :math:`-\log(1 - p)` over negative known pairs, in nats.

    The result is NaN without a known pair. A wrong probability of exactly 0 or 1 has an infinite loss. As in
    scikit-learn's ``log_loss``, probabilities are therefore clipped to [clip, 1 - clip]. The default clip is the
    machine epsilon of their dtype: about 2e-16 for float64, 1e-7 for float32 and 1e-3 for float16.
    :func:`negative_log_likelihood_of_log_odds` takes log-odds, which need no clipping.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        clip: Lower bound of the clipped probabilities, in [0, 0.5); 0 does not clip. None is the machine epsilon.
    """
    probabilities = as_probabilities(probabilities)
    return _mean_of(*_sums(probabilities, labels, clipped_log_loss(clip_of(probabilities, clip))))


def class_negative_log_likelihoods(
    probabilities: ArrayLike, labels: ArrayLike, clip: float | None = None
) -> np.ndarray:
    """Compute the :func:`negative_log_likelihood` of each class, as (C,); NaN for a class without a known label."""
    probabilities = as_probabilities(probabilities)
    return _ratio(*_sums(probabilities, labels, clipped_log_loss(clip_of(probabilities, clip))))


def negative_log_likelihood_of_log_odds(log_odds: ArrayLike, labels: ArrayLike) -> float:
    r"""Compute the mean negative log-likelihood of labels from log-odds, without clipping.

    It is the mean of :math:`\log(1 + e^{-x})` over positive and :math:`\log(1 + e^x)` over negative known pairs.

    Args:
        log_odds: (N, C) log-odds :math:`x = \log(p / (1 - p))`; infinite where the model is certain.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.

    Returns:
        The mean in nats; NaN without a known pair, infinite where a certain model is wrong.
    """
    return _mean_of(*_sums(as_scores(log_odds, 'log_odds'), labels, logistic_loss, 'log_odds'))


def squared_error(p: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Compute the squared error of each pair, from probabilities ``p`` and booleans ``positive`` of the same shape."""
    return np.square(p - positive)


def clipped_log_loss(clip: float) -> PairScore:
    """Return a function of (p, positive): the negative log-likelihood of each pair, p clipped to [clip, 1 - clip]."""

    def log_loss(p: np.ndarray, positive: np.ndarray) -> np.ndarray:
        p = np.clip(p, clip, 1 - clip)
        with np.errstate(divide='ignore'):  # infinite for a wrong 0 or 1 without clipping
            return -np.log(np.where(positive, p, 1 - p))

    return log_loss


def clip_of(probabilities: np.ndarray, clip: float | None) -> float:
    """Return ``clip`` if in [0, 0.5), else raise a ValueError; for None, the dtype's epsilon (integers: float64's)."""
    if clip is None:
        kind = probabilities.dtype if probabilities.dtype.kind == 'f' else np.dtype(np.float64)
        return float(np.finfo(kind).eps)
    if not 0 <= clip < 0.5:
        raise ValueError(f'clip must lie in [0, 0.5), got {clip}')
    return clip


def sample_sums(values: np.ndarray, labels: np.ndarray, score: PairScore) -> np.ndarray:
    """Compute (N,) sums of ``score(values, labels == 1)`` over the known pairs of each sample; 0 if none is known."""
    return np.concatenate([np.zeros(0), *(scores.sum(axis=1) for scores, _ in _scored(values, labels, score))])


def _sums(
    values: np.ndarray, labels: ArrayLike, score: PairScore, name: str = 'probabilities'
) -> tuple[np.ndarray, np.ndarray]:
    """Return (C,) sums of ``score(values, labels == 1)`` over the known pairs of each class, and (C,) pair counts."""
    totals, counts = np.zeros(values.shape[1]), np.zeros(values.shape[1], dtype=np.int64)
    for scores, known in _scored(values, as_labels_of(values, labels, name), score):
        totals += scores.sum(axis=0)
        counts += known.sum(axis=0)
    return totals, counts


def _scored(values: np.ndarray, labels: np.ndarray, score: PairScore) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ``score(values, labels == 1)`` (0 if unknown) and a mask of known pairs, (n, C) for a block of n rows."""
    for rows in row_blocks(*values.shape):
        scores, known = score(values[rows].astype(np.float64), labels[rows] == 1), labels[rows] >= 0
        yield np.where(known, scores, 0.0), known


def _mean_of(totals: np.ndarray, counts: np.ndarray) -> float:
    return float(_ratio(totals.sum(), counts.sum()))


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    with np.errstate(invalid='ignore'):
        return np.true_divide(total, count)


class CalibrationLine(NamedTuple):
    r"""Logistic recalibration, :math:`\text{logit}\,P(y = 1) = a + b\,\text{logit}\,p`, of predicted probabilities p.

    Attributes:
        slope: The factor b, 1 for calibrated probabilities. Below 1, p is too extreme; above 1, not extreme enough.
        intercept: The summand a, 0 for calibrated probabilities. At slope 1: above 0, p is too low; below 0, too high.
        status: ``'fitted'``, or why there is no finite line. ``'separable'``: a threshold on p divides positives from
            negatives (both may equal it), so the likelihood has no maximum; the slope is ``inf`` (``-inf`` if positives
            lie below), the intercept NaN. ``'constant'``: all p are equal. ``'one label'``: only positives or only
            negatives. ``'empty'``: no known pair. Slope, intercept are NaN in these three cases. ``'not converged'``:
            the line of Newton's last step, not the best one; only if a single pair keeps labels from being separable.
    """

    slope: float
    intercept: float
    status: Literal['fitted', 'separable', 'constant', 'one label', 'empty', 'not converged']


class LogOddsRange(NamedTuple):
    """Mean log-odds of all known pairs; least (``low``) and greatest (``high``) of [negatives, positives], as (2,)."""

    num_pairs: int
    num_positives: int
    mean: float
    low: np.ndarray
    high: np.ndarray

    @property
    def width(self) -> float:
        return self.high.max() - self.low.min()


def calibration_line(probabilities: ArrayLike, labels: ArrayLike, clip: float | None = None) -> CalibrationLine:
    r"""Fit calibration slope and intercept to all known pairs by maximum likelihood.

    The model is :math:`y \sim \text{Bernoulli}(\sigma(a + b\,\text{logit}\,p))` without a penalty, solved by Newton's
    method in float64, block by block. The intercept is fitted together with the slope. It is not the "calibration in
    the large", whose slope is fixed at 1. Probabilities are clipped to [clip, 1 - clip] before the logit. By default,
    0 and 1 thus have log-odds of ±36 in float64, ±15.9 in float32 and ±6.9 in float16.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        clip: Lower bound of the clipped probabilities, in (0, 0.5). None is the machine epsilon of their dtype.
    """
    probabilities = as_probabilities(probabilities)
    labels = as_labels_of(probabilities, labels, 'probabilities')
    clip = clip_of(probabilities, clip)
    if clip == 0:
        raise ValueError('clip must be above 0 for log-odds to be finite, got 0')
    return fit_line(probabilities, labels, clip)


def fit_line(probabilities: np.ndarray, labels: np.ndarray, clip: float) -> CalibrationLine:
    """Fit a line as :func:`calibration_line` does, without checking the arrays and ``clip``."""
    known = _range_of(probabilities, labels, clip)
    if (line := _without_fit(known)) is not None:
        return line

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return ((x, positive) for _, x, positive in _log_odds(probabilities, labels, clip))

    derivatives = line_derivatives(blocks, known.mean, known.width)
    start = _guess(probabilities, labels, clip, known)
    at_start = derivatives(start)
    # Without a slope, the best loss is the entropy of the rate. A guess that is no better may lie where all second
    # derivatives vanish; this start never does.
    rate = known.num_positives / known.num_pairs
    if start[1] and not at_start[0] < -rate * np.log(rate) - (1 - rate) * np.log1p(-rate):
        start = np.array([np.log(rate) - np.log1p(-rate), 0.0])
        at_start = derivatives(start)
    (offset, scale), converged = minimise(derivatives, start, at_start)
    slope = scale / known.width
    return CalibrationLine(float(slope), float(offset - slope * known.mean), 'fitted' if converged else 'not converged')


def _guess(probabilities: np.ndarray, labels: np.ndarray, clip: float, known: LogOddsRange) -> np.ndarray:
    """Return the (2,) start of Newton's method: offset and slope of a line over (log-odds - mean) / width of ``known``.

    The line is fitted to every k-th row of a large matrix. For a small matrix, or if this fit fails, its slope is 0 and
    its offset is the log-odds of the positive rate.
    """
    stride = probabilities.size // arrays.BLOCK_ENTRIES
    if 1 < stride < len(probabilities):
        guess = fit_line(probabilities[::stride], labels[::stride], clip)
        if guess.status == 'fitted':
            return np.array([guess.intercept + guess.slope * known.mean, guess.slope * known.width])
    return np.array([np.log(known.num_positives / (known.num_pairs - known.num_positives)), 0.0])


def line_sums(probabilities: np.ndarray, labels: np.ndarray, clip: float, line: CalibrationLine) -> np.ndarray:
    """Compute (N, 9) derivatives of the negative log-likelihood by intercept a and slope b, summed over each sample.

    They are taken at ``line``. The columns are a, b; aa, ab, bb; aaa, aab, abb, bbb: the variables differentiated by.
    """
    sums = np.zeros((len(probabilities), 9))
    for rows, x, positive in _log_odds(probabilities, labels, clip):
        num_known = np.count_nonzero(labels[rows] >= 0, axis=1)
        filled = num_known > 0
        starts = (np.cumsum(num_known) - num_known)[filled]
        if not starts.size:
            continue
        _, residual, residual_x, *second = logistic_parts(line.intercept, line.slope, x, positive)
        third = [second[0] * (1 - 2 * (residual + positive))]
        for _ in range(3):
            third.append(third[-1] * x)
        for column, part in enumerate((residual, residual_x, *second, *third)):
            sums[rows][filled, column] = np.add.reduceat(part, starts)
    return sums


def _log_odds(
    probabilities: np.ndarray, labels: np.ndarray, clip: float
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield (slice of rows, log-odds, is positive) for each block; the last two hold only its known pairs, as 1-D."""
    for rows in row_blocks(*probabilities.shape):
        known = labels[rows] >= 0
        p = np.clip(probabilities[rows][known].astype(np.float64), clip, 1 - clip)
        yield rows, np.log(p) - np.log1p(-p), labels[rows][known] == 1


def _range_of(probabilities: np.ndarray, labels: np.ndarray, clip: float) -> LogOddsRange:
    num_pairs, num_positives, total = 0, 0, 0.0
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for _, x, positive in _log_odds(probabilities, labels, clip):
        num_pairs += x.size
        num_positives += int(positive.sum())
        total += x.sum()
        for kind in (0, 1):
            part = x[positive == kind]
            low[kind] = part.min(initial=low[kind])
            high[kind] = part.max(initial=high[kind])
    return LogOddsRange(num_pairs, num_positives, total / max(1, num_pairs), low, high)


def _without_fit(known: LogOddsRange) -> CalibrationLine | None:
    """Return a CalibrationLine that states why none can be fitted: the likelihood has no unique maximum. Else None."""
    if known.num_positives in (0, known.num_pairs):
        return CalibrationLine(nan, nan, 'one label' if known.num_pairs else 'empty')
    if known.width == 0:
        return CalibrationLine(nan, nan, 'constant')
    if known.high[0] <= known.low[1]:
        return CalibrationLine(inf, nan, 'separable')
    return CalibrationLine(-inf, nan, 'separable') if known.high[1] <= known.low[0] else None

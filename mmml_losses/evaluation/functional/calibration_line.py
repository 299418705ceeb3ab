"""Calibration slope and intercept: the straight line that would turn log-odds into calibrated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ...utils import arrays
from ...utils.arrays import ArrayLike, as_labels_of, as_probabilities, row_blocks
from .proper_scores import clip_of

# Of a function of two numbers: its value, its two first derivatives and the matrix of its second ones.
Derivatives: TypeAlias = tuple[float, np.ndarray, np.ndarray]

MAX_STEPS = 200
# A Newton step that would lower the mean negative log-likelihood by less is the last one: it squares the error.
LAST_STEP = 1e-12


class CalibrationLine(NamedTuple):
    r"""Logistic recalibration, :math:`\text{logit}\,P(y = 1) = a + b\,\text{logit}\,p`.

    Attributes:
        slope: The factor b, 1 for calibrated probabilities; below 1 they are too extreme, above 1 too timid.
        intercept: The summand a, 0 for calibrated probabilities; at slope 1, above 0 they are too low, below too high.
        status: ``'fitted'``, or why there is no finite line: ``'separable'`` (some probability divides positives from
            negatives, so the likelihood has no maximum: the slope is infinite, negative if the positives lie below,
            and the intercept NaN), ``'constant'`` (all probabilities are equal), ``'one label'`` (only positives or
            only negatives), ``'empty'`` (no known pair; NaN both, as in the two cases before) or ``'not converged'``
            (the line after the last step; seen only where a single pair keeps the labels from being separable).
    """

    slope: float
    intercept: float
    status: Literal['fitted', 'separable', 'constant', 'one label', 'empty', 'not converged']


class LogOddsRange(NamedTuple):
    """What is known of the log-odds before the fit: least and greatest of the positives and of the negatives."""

    num_pairs: int
    num_positives: int
    mean: float
    positive: tuple[float, float]
    negative: tuple[float, float]

    @property
    def width(self) -> float:
        return max(self.positive[1], self.negative[1]) - min(self.positive[0], self.negative[0])


def calibration_line(probabilities: ArrayLike, labels: ArrayLike, clip: float | None = None) -> CalibrationLine:
    r"""Fit calibration slope and intercept to all known pairs by maximum likelihood.

    The model is :math:`y \sim \text{Bernoulli}(\sigma(a + b\,\text{logit}\,p))` without a penalty, solved by Newton's
    method in double precision, block by block. The intercept is fitted together with the slope; it is not the
    "calibration in the large", whose slope is fixed at 1. Probabilities are clipped to [clip, 1 - clip] before the
    logit, as for :func:`~mmml_losses.evaluation.negative_log_likelihood`: by default at the machine epsilon of their
    type, so that 0 and 1 mean log-odds of 36 in float64, 15.9 in float32 and 6.9 in float16.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        clip: Smallest probability that is told from 0, between 0 and 0.5.
    """
    probabilities = as_probabilities(probabilities)
    labels = as_labels_of(probabilities, labels, 'probabilities')
    clip = clip_of(probabilities, clip)
    if clip == 0:
        raise ValueError('clip must be above 0 for log-odds to be finite, got 0')
    return fit_line(probabilities, labels, clip)


def fit_line(probabilities: np.ndarray, labels: np.ndarray, clip: float) -> CalibrationLine:
    """:func:`calibration_line` of checked arrays."""
    known = _range_of(probabilities, labels, clip)
    degenerate = _without_fit(known)
    if degenerate is not None:
        return degenerate

    # Newton's steps do not depend on place and scale of the log-odds, but the rounding of their equations does.
    def derivatives(coefficients: np.ndarray) -> Derivatives:
        sums = np.zeros(6)
        for _, z, positive in _log_odds(probabilities, labels, clip):
            z = (z - known.mean) / known.width
            sums += np.array([part.sum() for part in _parts(coefficients, z, positive)])
        value, *rest = sums / known.num_pairs
        return value, np.array(rest[:2]), np.array([[rest[2], rest[3]], [rest[3], rest[4]]])

    start = _guess(probabilities, labels, clip, known)
    at_start = derivatives(start)
    # Without a slope, the best value is the entropy of the rate. A guess that is no better may be anywhere, even where
    # all second derivatives vanish; this start never is.
    rate = known.num_positives / known.num_pairs
    if start[1] and not at_start[0] < -rate * np.log(rate) - (1 - rate) * np.log1p(-rate):
        start = np.array([np.log(rate) - np.log1p(-rate), 0.0])
        at_start = derivatives(start)
    (offset, scale), converged = _minimise(derivatives, start, at_start)
    slope = scale / known.width
    return CalibrationLine(float(slope), float(offset - slope * known.mean), 'fitted' if converged else 'not converged')


def _guess(probabilities: np.ndarray, labels: np.ndarray, clip: float, known: LogOddsRange) -> np.ndarray:
    """Where to start: with the base rate, or nearer if a few rows tell, so that few passes over all rows are left."""
    stride = probabilities.size // arrays.BLOCK_ENTRIES
    if 1 < stride < len(probabilities):
        guess = fit_line(probabilities[::stride], labels[::stride], clip)
        if guess.status == 'fitted':
            return np.array([guess.intercept + guess.slope * known.mean, guess.slope * known.width])
    return np.array([np.log(known.num_positives / (known.num_pairs - known.num_positives)), 0.0])


def line_sums(probabilities: np.ndarray, labels: np.ndarray, clip: float, line: CalibrationLine) -> np.ndarray:
    """(N, 9) derivatives of the negative log-likelihood by intercept and slope, summed over the pairs of each sample.

    The columns are the two first derivatives, the three second ones and the four third ones, each time from all by the
    intercept to all by the slope.
    """
    sums = np.zeros((len(probabilities), 9))
    coefficients = np.array([line.intercept, line.slope])
    for rows, x, positive in _log_odds(probabilities, labels, clip):
        num_known = np.count_nonzero(labels[rows] >= 0, axis=1)
        filled = num_known > 0
        starts = (np.cumsum(num_known) - num_known)[filled]
        if not starts.size:
            continue
        _, residual, residual_x, *second = _parts(coefficients, x, positive)
        third = [second[0] * (1 - 2 * (residual + positive))]
        for _ in range(3):
            third.append(third[-1] * x)
        for column, part in enumerate((residual, residual_x, *second, *third)):
            sums[rows][filled, column] = np.add.reduceat(part, starts)
    return sums


def _log_odds(
    probabilities: np.ndarray, labels: np.ndarray, clip: float
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Rows of a block, and log-odds and labels of its known pairs."""
    for rows in row_blocks(*probabilities.shape):
        known = labels[rows] >= 0
        p = np.clip(probabilities[rows][known].astype(np.float64), clip, 1 - clip)
        yield rows, np.log(p) - np.log1p(-p), labels[rows][known] == 1


def _range_of(probabilities: np.ndarray, labels: np.ndarray, clip: float) -> LogOddsRange:
    num_pairs = num_positives = 0
    total = 0.0
    extremes = {True: (np.inf, -np.inf), False: (np.inf, -np.inf)}
    for _, x, positive in _log_odds(probabilities, labels, clip):
        num_pairs += x.size
        num_positives += int(positive.sum())
        total += x.sum()
        for kind, (low, high) in extremes.items():
            part = x[positive == kind]
            if part.size:
                extremes[kind] = (min(low, part.min()), max(high, part.max()))
    mean = total / max(1, num_pairs)
    return LogOddsRange(num_pairs, num_positives, mean, extremes[True], extremes[False])


def _without_fit(known: LogOddsRange) -> CalibrationLine | None:
    """The answer where the likelihood has no maximum, or not a single one."""
    nan = float('nan')
    if known.num_pairs == 0:
        return CalibrationLine(nan, nan, 'empty')
    if known.num_positives in (0, known.num_pairs):
        return CalibrationLine(nan, nan, 'one label')
    if known.positive == known.negative and known.positive[0] == known.positive[1]:
        return CalibrationLine(nan, nan, 'constant')
    if known.negative[1] <= known.positive[0]:
        return CalibrationLine(float('inf'), nan, 'separable')
    if known.positive[1] <= known.negative[0]:
        return CalibrationLine(-float('inf'), nan, 'separable')
    return None


def _parts(coefficients: np.ndarray, x: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, ...]:
    """Negative log-likelihood of each pair, its two first derivatives and its three second ones."""
    offset, slope = coefficients
    t = offset + slope * x
    decay = np.exp(-np.abs(t))
    upper = 1 / (1 + decay)
    p = np.where(t >= 0, upper, decay * upper)
    value = np.log1p(decay) + np.maximum(t, 0) - np.where(positive, t, 0)
    residual = p - positive
    weight = decay * np.square(upper)
    return value, residual, residual * x, weight, weight * x, weight * np.square(x)


def _minimise(
    derivatives: Callable[[np.ndarray], Derivatives], start: np.ndarray, at_start: Derivatives
) -> tuple[np.ndarray, bool]:
    """Newton's method for a convex function, with steps halved until the function falls as its slope promises.

    Returns:
        The last point, and whether it is the minimum; it is not where rounding has taken all curvature away.
    """
    point = start
    value, gradient, curvature = at_start
    for _ in range(MAX_STEPS):
        try:
            step = np.linalg.solve(curvature, gradient)
        except np.linalg.LinAlgError:
            return point, False
        promise = float(gradient @ step)
        if promise < -LAST_STEP or not np.isfinite(promise):
            return point, False
        if promise <= LAST_STEP:
            return point - step, True
        length = 1.0
        while True:
            new_value, new_gradient, new_curvature = derivatives(point - length * step)
            if new_value <= value - 1e-4 * length * promise or length < 1e-9:
                break
            length /= 2
        point, value, gradient, curvature = point - length * step, new_value, new_gradient, new_curvature
    return point, False

"""Logistic recalibration of log-odds: the negative log-likelihood, and a line fitted by Newton's method in float64."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

# Value of a function of a few numbers, its first derivatives, and the matrix of its second ones.
Derivatives: TypeAlias = tuple[float, np.ndarray, np.ndarray]

MAX_STEPS = 200
# A Newton step that promises less than this is the last one: it squares the error.
LAST_STEP = 1e-12


def logistic_loss(log_odds: np.ndarray, labels: np.ndarray) -> np.ndarray:
    r"""Return the negative log-likelihood of each label, in the shape of ``labels``, given its log-odds :math:`x`.

    It is :math:`y \log(1 + e^{-x}) + (1 - y) \log(1 + e^x)` for a label :math:`y` in [0, 1], exact in both tails.
    """
    against = np.where(labels > 0.5, -log_odds, log_odds)  # log-odds of the less likely label
    soft = np.minimum(labels, 1 - labels)
    with np.errstate(invalid='ignore'):  # infinite log-odds times 0
        return np.logaddexp(0, against) - np.where(soft > 0, soft * against, 0)


def logistic_parts(intercept: float, slope: float, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute the logistic loss of each label y at log-odds a + b x, for intercept a and slope b, and its derivatives.

    Return a tuple of six arrays in the shape of x: the loss; its first derivatives by a and by b; and its second
    derivatives by a and a, by a and b, and by b and b.
    """
    t = intercept + slope * x
    decay = np.exp(-np.abs(t))
    upper = 1 / (1 + decay)
    residual = np.where(t >= 0, upper, decay * upper) - y
    weight = decay * np.square(upper)
    return logistic_loss(t, y), residual, residual * x, weight, weight * x, weight * np.square(x)


def line_derivatives(
    blocks: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]], centre: float, width: float
) -> Callable[[np.ndarray], Derivatives]:
    """Return a function from a point (intercept, slope) to (mean logistic loss, its gradient (2,), its Hessian (2, 2)).

    The log-odds are ``intercept + slope * (x - centre) / width``. ``blocks()`` yields pairs of arrays (x, labels).
    With ``centre`` near the mean of x and ``width`` near its range, Newton's method has small rounding errors.
    """

    def derivatives(point: np.ndarray) -> Derivatives:
        intercept, slope = point
        sums, num_pairs = np.zeros(6), 0
        for x, y in blocks():
            sums += np.array([part.sum() for part in logistic_parts(intercept, slope, (x - centre) / width, y)])
            num_pairs += x.size
        value, *rest = sums / num_pairs
        return value, np.array(rest[:2]), np.array([[rest[2], rest[3]], [rest[3], rest[4]]])

    return derivatives


def minimise(
    derivatives: Callable[[np.ndarray], Derivatives], start: np.ndarray, at_start: Derivatives | None = None
) -> tuple[np.ndarray, bool]:
    """Minimise a convex function by Newton's method. Halve a step while it lowers the function too little.

    ``derivatives`` maps a point to (value, gradient, second derivatives); ``at_start`` is its result at ``start``, or
    None to compute it. Return (last point, True if it is the minimum); False if rounding or the step limit ended it.
    """
    point = start
    value, gradient, curvature = at_start or derivatives(start)
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


def fit_bounded_line(
    x: np.ndarray, y: np.ndarray, lower: float, upper: float, with_intercept: bool = True
) -> tuple[float, float]:
    """Fit log-odds ``slope * x + intercept`` to labels by maximum likelihood, with the slope in [lower, upper].

    Args:
        x: (n,) log-odds before the fit.
        y: (n,) labels in [0, 1], not all 0 and not all 1.
        lower: Smallest slope allowed.
        upper: Largest slope allowed.
        with_intercept: Whether to fit the intercept; if not, it is 0.

    Returns:
        A tuple (slope, intercept). If all x are equal, or all 0 without intercept: slope 1, moved into the bounds.
    """
    rate = y.mean()
    centre = x.mean() if with_intercept else 0.0
    width = np.abs(x - centre).max()
    slope = 1.0
    if width > 0:
        both = line_derivatives(lambda: [(x, y)], centre, width)
        if with_intercept:
            (offset, scale), _ = minimise(both, np.array([np.log(rate) - np.log1p(-rate), 0.0]))
        else:

            def slope_alone(point: np.ndarray) -> Derivatives:
                value, gradient, curvature = both(np.array([0.0, *point]))
                return value, gradient[1:], curvature[1:, 1:]

            (scale,), _ = minimise(slope_alone, np.zeros(1))
        slope = float(scale / width)
        if with_intercept and lower <= slope <= upper:
            return slope, float(offset - slope * centre)
    # The loss is convex: if the best slope lies outside, the best one inside is the nearest bound.
    slope = min(max(slope, lower), upper)
    return slope, _intercept_for(slope, x, y) if with_intercept else 0.0


def _intercept_for(slope: float, x: np.ndarray, y: np.ndarray) -> float:
    """Find the best intercept for a slope by bisection; Newton's method fails if all probabilities are near 0 or 1."""
    t, rate = slope * x, np.log(y.mean()) - np.log1p(-y.mean())
    low, high = rate - t.max(), rate - t.min()
    while low < (middle := (low + high) / 2) < high:
        is_low = logistic_parts(middle, 1.0, t, y)[1].sum() < 0
        low, high = (middle, high) if is_low else (low, middle)
    return float(middle)

"""Test whether two methods differ over paired runs, such as trainings with the same seeds."""

import math
from collections.abc import Sequence
from statistics import mean, stdev


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> float:
    r"""Return the two-sided p-value of Student's paired t-test: how likely means differ as much by chance alone.

    :math:`t = \bar d \sqrt n / s` with the mean and standard deviation of the n differences, which are taken as normal
    and independent. The distribution of t with n - 1 degrees of freedom is summed exactly (Abramowitz and Stegun,
    26.7.3 and 26.7.4). Equal differences give 0, or 1 if all are 0.

    Args:
        first: n figures of the first method, at least 2.
        second: n figures of the second method, in the order of ``first``.

    Example:
        >>> round(paired_t_test([60.1, 60.4, 59.8], [61.0, 61.2, 60.9]), 4)
        0.0088
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f'first and second must be equally many, at least 2, got {len(first)} and {len(second)}')
    differences = [b - a for a, b in zip(first, second, strict=True)]
    shift, deviation, freedom = mean(differences), stdev(differences), len(differences) - 1
    if deviation == 0:
        return 1.0 if shift == 0 else 0.0
    angle = math.atan(shift * math.sqrt(len(differences) / freedom) / deviation)
    sine, square = math.sin(abs(angle)), math.cos(angle) ** 2
    # The probability of a smaller |t|: a sum of powers of the cosine, whose factors are products of fractions.
    odd = freedom % 2
    term, total = 1.0, 0.0
    for step in range((freedom - odd) // 2):
        total += term
        term *= square * (2 * step + 1 + odd) / (2 * step + 2 + odd)
    inside = 2 / math.pi * (abs(angle) + sine * math.cos(angle) * total) if odd else sine * total
    return min(max(1 - inside, 0.0), 1.0)

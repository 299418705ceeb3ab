"""Test the paired t-test against SciPy."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from mmml_losses.evaluation.functional.significance import paired_t_test


@pytest.mark.parametrize('number', [2, 3, 4, 5, 9, 10, 30])
def test_p_values_are_those_of_scipy(number):
    rng = np.random.RandomState(number)
    for shift in (0, 0.3, -2, 50):
        first = rng.randn(number)
        second = first + shift + rng.randn(number)
        expected = ttest_rel(first, second).pvalue
        assert paired_t_test(first.tolist(), second.tolist()) == pytest.approx(expected, abs=1e-12)


def test_equal_differences_are_certain_or_none():
    assert paired_t_test([1.0, 2.0], [1.0, 2.0]) == 1
    assert paired_t_test([1.0, 2.0], [2.0, 3.0]) == 0


@pytest.mark.parametrize('second', [[1.0], [1.0, 2.0, 3.0]])
def test_runs_without_a_partner_are_rejected(second):
    with pytest.raises(ValueError, match=f'equally many, at least 2, got 2 and {len(second)}'):
        paired_t_test([1.0, 2.0], second)

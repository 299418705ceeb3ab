import numpy as np
import pytest
from scipy.optimize import minimize

from mmml_losses.utils.logistic import fit_bounded_line, logistic_loss


def case(slope=0.6, intercept=-1.0, soft=False, spread=2.0):
    rng = np.random.default_rng(0)
    x = rng.normal(1, spread, 400)
    rates = 1 / (1 + np.exp(-(intercept + slope * x)))
    return x, rates if soft else (rng.random(400) < rates).astype(np.float64)


def test_loss_is_that_of_the_formula_and_exact_in_the_tails():
    x, y = case(soft=True)
    expected = -y * np.log(1 / (1 + np.exp(-x))) - (1 - y) * np.log(1 / (1 + np.exp(x)))
    np.testing.assert_allclose(logistic_loss(x, y), expected, rtol=1e-12)
    tails = logistic_loss(np.array([40.0, -40.0, 1e4, -1e4]), np.array([1, 0, 0, 1]))
    np.testing.assert_allclose(tails, [np.exp(-40), np.exp(-40), 1e4, 1e4], rtol=1e-12)
    infinite = logistic_loss(np.array([np.inf, -np.inf, np.inf, -np.inf]), np.array([1, 0, 0, 1]))
    assert infinite.tolist() == [0, 0, np.inf, np.inf]


@pytest.mark.parametrize('with_intercept', [True, False])
@pytest.mark.parametrize('soft', [True, False])
@pytest.mark.parametrize(('slope', 'spread'), [(0.6, 2.0), (3.0, 0.1), (-0.5, 2.0), (0.002, 900.0)])
def test_line_has_the_least_loss_within_the_bounds(slope, spread, soft, with_intercept):
    x, y = case(slope, soft=soft, spread=spread)
    found = fit_bounded_line(x, y, 0.05, 1.5, with_intercept)
    size = 1 + with_intercept

    def loss(line):
        slope, intercept = (*line, 0.0)[:2]
        return logistic_loss(slope * x + intercept, y).mean()

    bounds = [(0.05, 1.5), (None, None)][:size]
    best = minimize(
        loss, [1.0, 0.0][:size], bounds=bounds, method='Nelder-Mead', options={'xatol': 1e-9, 'fatol': 1e-14}
    )
    np.testing.assert_allclose(found[:size], best.x, rtol=1e-4, atol=1e-4)
    assert loss(found[:size]) <= best.fun + 1e-12
    assert with_intercept or found[1] == 0


def test_separable_labels_stop_at_a_bound_or_before():
    x = np.linspace(-1, 1, 20)
    for labels in (x > 0, x < 0):
        slope, intercept = fit_bounded_line(x, labels.astype(np.float64), 0.01, 100)
        assert 0.01 <= slope <= 100
        assert np.isfinite(intercept)


def test_log_odds_that_are_all_equal_keep_their_slope():
    y = np.array([1.0, 0.0, 0.0, 0.0])
    slope, intercept = fit_bounded_line(np.full(4, 7.0), y, 0.01, 100)
    assert slope == 1
    assert intercept + 7 == pytest.approx(np.log(1 / 3))


def test_saturated_log_odds_have_the_intercept_that_balances_them():
    """At the least slope every log-odds of 1e4 is still saturated, and Newton's steps would be infinite."""
    x = 1e4 * np.array([1, 1, 1, -1, -1, -1.0])
    slope, intercept = fit_bounded_line(x, np.array([0, 0, 1, 0, 0, 1.0]), 0.01, 100)
    residuals = 1 / (1 + np.exp(-(slope * x + intercept))) - [0, 0, 1, 0, 0, 1]
    assert slope == 0.01
    assert abs(residuals.sum()) < 1e-9

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.metrics import brier_score_loss, log_loss

from mmml_losses.evaluation import (
    brier_score,
    calibration_errors,
    calibration_intervals,
    calibration_line,
    class_brier_scores,
    class_negative_log_likelihoods,
    negative_log_likelihood,
    negative_log_likelihood_of_log_odds,
    reliability_bins,
)
from mmml_losses.evaluation.functional.intervals import MEASURES
from mmml_losses.utils import arrays, logistic

CASES = pytest.mark.parametrize('kind', ['random', 'tied', 'constant', 'extreme'])
DTYPES = pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])


def some_case(kind='random', dtype=np.float64, shape=(90, 5)):
    rng = np.random.default_rng(0)
    probabilities = {
        'random': rng.random(shape),
        'tied': rng.integers(1, 10, shape) / 10,
        'constant': np.full(shape, 0.3),
        'extreme': rng.choice([0, 1e-7, 0.5, 1], shape),
    }[kind].astype(dtype)
    labels = (rng.random(shape) < 0.2 + 0.5 * probabilities).astype(np.int8)
    labels[rng.random(shape) < 0.1] = -1
    return probabilities, labels


@CASES
@DTYPES
def test_scores_equal_scikit_learn(kind, dtype, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 64)
    probabilities, labels = some_case(kind, dtype)
    known = labels >= 0
    # Doubles, so that scikit-learn does not sum in half precision; it clips by the epsilon of the first type.
    flat, truth = probabilities[known].astype(np.float64), labels[known]
    epsilon = float(np.finfo(dtype).eps)
    assert brier_score(probabilities, labels) == pytest.approx(brier_score_loss(truth, flat), rel=1e-12)
    expected = log_loss(truth, np.clip(flat, epsilon, 1 - epsilon))
    assert negative_log_likelihood(probabilities, labels) == pytest.approx(expected, rel=1e-12)
    if dtype != np.float16:
        direct = log_loss(truth, probabilities[known])
        assert negative_log_likelihood(probabilities, labels) == pytest.approx(direct, rel=1e-5)


def test_scores_of_a_class_are_those_of_its_column():
    probabilities, labels = some_case()
    labels[:, 3] = -1
    for pooled, by_class in (
        (brier_score, class_brier_scores),
        (negative_log_likelihood, class_negative_log_likelihoods),
    ):
        expected = [pooled(probabilities[:, [index]], labels[:, [index]]) for index in range(5)]
        np.testing.assert_allclose(by_class(probabilities, labels), expected, equal_nan=True)
        assert np.isnan(expected).tolist() == [False, False, False, True, False]


def test_log_odds_need_no_clipping():
    log_odds, labels = np.array([[-800.0, 800.0, 3.0, 0.0]]), np.array([[1, 0, 1, -1]])
    expected = (800 + 800 + np.log1p(np.exp(-3))) / 3
    assert negative_log_likelihood_of_log_odds(log_odds, labels) == pytest.approx(expected, rel=1e-14)
    rng = np.random.default_rng(0)
    log_odds, labels = rng.normal(size=(40, 3)), rng.integers(-1, 2, (40, 3))
    probabilities = 1 / (1 + np.exp(-log_odds))
    assert negative_log_likelihood_of_log_odds(log_odds, labels) == pytest.approx(
        negative_log_likelihood(probabilities, labels), rel=1e-12
    )


def test_infinite_log_odds_are_right_for_nothing_or_wrong_for_all():
    assert negative_log_likelihood_of_log_odds([[np.inf, -np.inf]], [[1, 0]]) == 0
    assert negative_log_likelihood_of_log_odds([[np.inf, 0.0]], [[0, 0]]) == np.inf


def test_clipping_is_the_callers_choice():
    assert negative_log_likelihood([[0.0]], [[1]], clip=0.01) == pytest.approx(-np.log(0.01))
    assert negative_log_likelihood([[0.0]], [[1]], clip=0) == np.inf
    assert negative_log_likelihood([[0.0]], [[0]], clip=0) == 0
    for dtype in (np.float16, np.float32, np.float64):
        wrong = np.zeros((1, 1), dtype)
        assert negative_log_likelihood(wrong, [[1]]) == pytest.approx(-np.log(np.finfo(dtype).eps))
    with pytest.raises(ValueError, match=r'clip must lie in \[0, 0.5\), got 0.5'):
        negative_log_likelihood([[0.5]], [[1]], clip=0.5)


@pytest.mark.parametrize('function', [brier_score, negative_log_likelihood, negative_log_likelihood_of_log_odds])
def test_no_known_pair_gives_nan(function):
    assert np.isnan(function([[0.5]], [[-1]]))
    assert np.isnan(function(np.zeros((0, 3)), np.zeros((0, 3))))


@pytest.mark.parametrize(
    'function', [brier_score, class_brier_scores, negative_log_likelihood, calibration_line, calibration_intervals]
)
def test_bad_input_is_rejected(function):
    with pytest.raises(ValueError, match=r'probabilities must lie in \[0, 1\], got 2'):
        function([[2.0]], [[1]])
    with pytest.raises(ValueError, match='probabilities must not hold NaN'):
        function([[np.nan]], [[1]])
    with pytest.raises(ValueError, match='labels must have the shape of probabilities'):
        function([[0.5]], [[1, 0]])
    with pytest.raises(ValueError, match='labels must be 1'):
        function([[0.5]], [[3]])


def naive_line(probabilities, labels):
    """Compute slope and intercept by a general optimiser, then refine them by plain Newton steps."""
    known = labels >= 0
    epsilon = np.finfo(probabilities.dtype).eps
    p = np.clip(probabilities[known].astype(np.float64), epsilon, 1 - epsilon)
    design = np.stack([np.ones(p.size), np.log(p / (1 - p))], axis=1)
    y = labels[known].astype(np.float64)
    found = minimize(lambda w: np.mean(np.logaddexp(0, design @ w) - y * (design @ w)), np.zeros(2)).x
    for _ in range(4):
        mean = 1 / (1 + np.exp(-(design @ found)))
        curvature = design.T @ (design * (mean * (1 - mean))[:, None])
        found = found - np.linalg.solve(curvature, design.T @ (mean - y))
    return found[1], found[0]


@pytest.mark.parametrize('kind', ['random', 'tied', 'extreme'])
@DTYPES
def test_line_equals_a_general_optimiser(kind, dtype, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 64)
    probabilities, labels = some_case(kind, dtype)
    line = calibration_line(probabilities, labels)
    assert line.status == 'fitted'
    np.testing.assert_allclose(line[:2], naive_line(probabilities, labels), rtol=1e-9)


def test_line_equals_logistic_regression_without_penalty():
    from sklearn.linear_model import LogisticRegression

    probabilities, labels = some_case()
    known = labels >= 0
    log_odds = np.log(probabilities[known] / (1 - probabilities[known]))
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(log_odds[:, None], labels[known])
    line = calibration_line(probabilities, labels)
    np.testing.assert_allclose(line[:2], [model.coef_.item(), model.intercept_.item()], rtol=1e-5)


def test_line_finds_what_was_done_to_the_probabilities():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-1, 2, (30_000, 8))
    labels = rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))
    for slope, intercept in ((1, 0), (0.5, 0.3), (2, -1), (-1, 0.5)):
        # The line turns what is predicted back into what is true.
        line = calibration_line(1 / (1 + np.exp(-(log_odds - intercept) / slope)), labels)
        assert line.slope == pytest.approx(slope, rel=0.03)
        assert line.intercept == pytest.approx(intercept, abs=0.03)


@pytest.mark.parametrize(
    ('probabilities', 'labels', 'slope', 'status'),
    [
        ([[0.1, 0.2, 0.8]], [[0, 0, 1]], np.inf, 'separable'),
        ([[0.1, 0.2, 0.2, 0.8]], [[0, 0, 1, 1]], np.inf, 'separable'),
        ([[0.1, 0.2, 0.8]], [[1, 1, 0]], -np.inf, 'separable'),
        ([[0.3, 0.3, 0.3]], [[1, 0, 0]], np.nan, 'constant'),
        ([[0.3, 0.4, 0.5]], [[0, 0, 0]], np.nan, 'one label'),
        ([[0.3, 0.4, 0.5]], [[1, 1, -1]], np.nan, 'one label'),
        ([[0.3, 0.4]], [[-1, -1]], np.nan, 'empty'),
        (np.zeros((0, 2)), np.zeros((0, 2)), np.nan, 'empty'),
    ],
)
def test_line_has_the_reason_why_there_is_none(probabilities, labels, slope, status):
    line = calibration_line(probabilities, labels)
    assert line.status == status
    np.testing.assert_equal(line.slope, slope)
    assert np.isnan(line.intercept)


@pytest.mark.parametrize('gap', [1e-2, 1e-6, 1e-10])
def test_line_of_nearly_separable_labels(gap):
    probabilities = np.array([[0.1, 0.5, 0.5 - gap, 0.9]])
    labels = np.array([[0, 0, 1, 1]])
    line = calibration_line(probabilities, labels)
    assert line.status == 'fitted'
    # The gradient vanishes there.
    x = np.log(probabilities / (1 - probabilities))
    residual = 1 / (1 + np.exp(-(line.intercept + line.slope * x))) - labels
    assert abs(residual.sum()) < 1e-9
    assert abs((residual * x).sum()) < 1e-9


@pytest.mark.parametrize('gap', [1e-3, 1e-7, 1e-12])
def test_line_survives_rows_that_guess_wrong(gap, monkeypatch):
    """Every other row, from which the fit takes its start, is almost separable."""
    rng = np.random.default_rng(0)
    probabilities, labels = rng.random((2000, 1)), rng.integers(0, 2, (2000, 1))
    labels[::2, 0] = rng.random(1000) < 0.5
    probabilities[::2] = 0.5 + gap * (2 * labels[::2] - 1)
    labels[[0, 2], 0] = 1 - labels[[0, 2], 0]
    expected = calibration_line(probabilities, labels)
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 1000)
    line = calibration_line(probabilities, labels)
    assert line.status == 'fitted'
    np.testing.assert_allclose(line[:2], expected[:2], rtol=1e-9)


def test_line_reports_if_rounding_removes_all_curvature():
    def derivatives(point):
        return 1.0, np.array([0.5, 0.0]), np.zeros((2, 2))

    point, converged = logistic.minimise(derivatives, np.ones(2))
    assert not converged
    np.testing.assert_array_equal(point, [1, 1])


def test_line_needs_finite_log_odds():
    with pytest.raises(ValueError, match='clip must be above 0'):
        calibration_line([[0.5]], [[1]], clip=0)


def recomputed(probabilities, labels, measure):
    if measure in ('ace', 'mce', 'ece'):
        return getattr(calibration_errors(reliability_bins(probabilities, labels)), measure)
    if measure in ('slope', 'intercept'):
        return getattr(calibration_line(probabilities, labels), measure)
    return {'brier': brier_score, 'nll': negative_log_likelihood}[measure](probabilities, labels)


def test_intervals_equal_those_of_resamples_computed_anew(monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 1000)
    probabilities, labels = some_case(shape=(400, 6))
    intervals = calibration_intervals(
        probabilities, labels, measures=MEASURES, num_resamples=60, confidence=0.9, seed=3
    )
    # The same images, drawn in the same blocks of resamples.
    rng = np.random.default_rng(3)
    drawn = np.concatenate([rng.integers(400, size=(size, 400)) for size in [2] * 30])
    for measure in MEASURES:
        resamples = [recomputed(probabilities[rows], labels[rows], measure) for rows in drawn]
        expected = [recomputed(probabilities, labels, measure), *np.quantile(resamples, [0.05, 0.95])]
        # Slope and intercept are two Newton steps away from the fit to the whole set, the other measures are exact.
        tolerance = 2e-4 if measure in ('slope', 'intercept') else 1e-10
        np.testing.assert_allclose(intervals[measure], expected, rtol=0, atol=tolerance, err_msg=measure)


def test_intervals_hold_the_truth_about_as_often_as_their_confidence():
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        probabilities = rng.random((80, 3))
        # Each image shows all classes or none: pairs of an image are not independent, images are.
        labels = np.repeat(rng.random((80, 1)) < 0.4, 3, axis=1)
        interval = calibration_intervals(probabilities, labels, measures=['brier'], num_resamples=200)['brier']
        # E (p - y)^2 for uniform p is 1/3 whatever y is.
        held += interval.lower <= 1 / 3 <= interval.upper
    assert 50 <= held <= 60


def test_intervals_repeat_with_the_seed_and_differ_without():
    case = some_case()
    first, again, other = (calibration_intervals(*case, num_resamples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first['ece'] != other['ece']
    assert first['ece'].value == other['ece'].value


def test_intervals_of_equal_mass_and_of_other_aces():
    probabilities, labels = some_case()
    adaptive = calibration_intervals(probabilities, labels, 6, 'mass', 'adaptive', num_resamples=20)
    bins = reliability_bins(probabilities, labels, 6, 'mass')
    assert adaptive['ace'].value == pytest.approx(calibration_errors(bins, 'adaptive').ace)
    sparse = np.array([[0.05, 0.95], [0.06, 0.94]]), np.array([[0, 0], [0, 1]])
    over_all = calibration_intervals(*sparse, ace='all', num_resamples=5)['ace'].value
    assert over_all == pytest.approx(calibration_errors(reliability_bins(*sparse), 'all').ace)


def test_intervals_without_a_known_pair_are_nan():
    for case in (([[0.5]], [[-1]]), (np.zeros((0, 3)), np.zeros((0, 3)))):
        intervals = calibration_intervals(*case, measures=MEASURES, num_resamples=4)
        assert np.isnan(list(intervals.values())).all()


def test_intervals_of_a_line_that_did_not_converge_have_no_ends(monkeypatch):
    monkeypatch.setattr(logistic, 'MAX_STEPS', 1)
    line = calibration_line(*some_case())
    assert line.status == 'not converged'
    intervals = calibration_intervals(*some_case(), measures=['slope', 'intercept'], num_resamples=20)
    np.testing.assert_equal(tuple(intervals['slope']), (line.slope, np.nan, np.nan))
    np.testing.assert_equal(tuple(intervals['intercept']), (line.intercept, np.nan, np.nan))


def test_intervals_of_a_line_that_cannot_be_fitted_have_no_ends():
    intervals = calibration_intervals([[0.5, 0.9], [0.1, 0.8]], [[0, 1], [0, 1]], measures=MEASURES, num_resamples=4)
    np.testing.assert_equal(tuple(intervals['slope']), (np.inf, np.nan, np.nan))
    assert np.isnan(intervals['intercept']).all()
    assert np.isfinite(intervals['nll']).all()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'measures': ['auc']}, r"measures must be some of .*, got \['auc'\]"),
        ({'measures': 'ace'}, r"measures must be some of .*, got 'ace'"),
        ({'num_resamples': 0}, 'num_resamples must be at least 1, got 0'),
        ({'num_resamples': 10.5}, 'num_resamples must be a whole number, got 10.5'),
        ({'num_bins': 2.5}, 'num_bins must be a whole number, got 2.5'),
        ({'seed': -1}, 'seed must be at least 0, got -1'),
        ({'seed': 'now'}, "seed must be a whole number, got 'now'"),
        ({'confidence': 1.0}, 'confidence must lie between 0 and 1, got 1.0'),
        ({'ace': 'adaptive'}, "ace='adaptive' must be read from bins made with binning='mass'"),
    ],
)
def test_bad_arguments_of_intervals_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        calibration_intervals([[0.5]], [[1]], **arguments)


def few_resamples(probabilities, labels):
    return calibration_intervals(probabilities, labels, num_resamples=9)


@pytest.mark.parametrize('function', [brier_score, negative_log_likelihood, calibration_line, few_resamples])
def test_no_second_score_matrix(function, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 1 << 14)
    rng = np.random.default_rng(0)
    probabilities = rng.random((1_500, 500), dtype=np.float32)
    labels = rng.integers(-1, 2, probabilities.shape, dtype=np.int8)
    tracemalloc.start()
    function(probabilities, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < probabilities.nbytes


def test_tensors_give_the_same_as_arrays():
    probabilities, labels = some_case(dtype=np.float32)
    tensors = torch.from_numpy(probabilities), torch.from_numpy(labels)
    assert brier_score(*tensors) == brier_score(probabilities, labels)
    assert negative_log_likelihood(*tensors) == negative_log_likelihood(probabilities, labels)
    assert calibration_line(*tensors) == calibration_line(probabilities, labels)

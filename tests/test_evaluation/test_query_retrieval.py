import itertools
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from math import comb, sqrt
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from mmml_losses.evaluation import (
    average_precision,
    count_queries,
    query_retrieval,
    relevant_images,
    retrieval_scores,
)
from mmml_losses.evaluation.functional.retrieval import measure, queries, sampling
from mmml_losses.evaluation.functional.retrieval.measure import positive_sets
from mmml_losses.evaluation.functional.retrieval.queries import condition_table
from mmml_losses.evaluation.functional.retrieval.sampling import StratumSampler

NUM_IMAGES, NUM_CLASSES = 60, 6


@pytest.fixture(params=[False, True], ids=['plain', 'numba'])
def use_numba(request):
    if request.param:
        pytest.importorskip('numba')
    return request.param


def make_case(kind, num_images=NUM_IMAGES, num_classes=NUM_CLASSES, rate=0.3):
    generator = np.random.default_rng(0)
    labels = (generator.random((num_images, num_classes)) < rate).astype(np.int8)
    scores = 1 / (1 + np.exp(-generator.normal(2.0 * labels - 2.0, 1.5)))
    if kind == 'tied':
        scores = scores.round(1)
    elif kind == 'certain':
        scores = np.where(generator.random(scores.shape) < 0.4, scores.round(), scores)
    elif kind == 'constant':
        scores = np.full_like(scores, 0.3)
    elif kind == 'unknown':
        labels[generator.random(labels.shape) < 0.3] = -1
    elif kind == 'rare':
        labels[:, 0] = 0
        labels[3:, 1] = 0
    elif kind == 'float16':
        scores = scores.astype(np.float16)
    return scores, labels


def every_query(num_classes, max_conditions):
    for length in range(1, max_conditions + 1):
        for classes in itertools.combinations(range(num_classes), length):
            for signs in itertools.product([True, False], repeat=length):
                positives = [index for index, sign in zip(classes, signs, strict=True) if sign]
                if positives:
                    yield positives, [index for index in classes if index not in positives]


def brute_force(scores, labels, max_conditions, min_positives=1):
    """Compute average precisions by (|P|, |N|), query by query; None for a query without a relevant image."""
    found = {}
    for positives, negatives in every_query(scores.shape[1], max_conditions):
        if len(positives) < min_positives:
            continue
        known = (labels[:, positives + negatives] >= 0).all(axis=1)
        relevant = relevant_images(labels, positives, negatives)[known]
        # scikit-learn takes no infinite scores; ranks order the images alike.
        _, ranks = np.unique(retrieval_scores(scores, positives, negatives)[known], return_inverse=True)
        precision = average_precision_score(relevant, ranks) if relevant.any() else None
        found.setdefault((len(positives), len(negatives)), []).append(precision)
    return found


def joined(found, length=None):
    return [each for counts, group in found.items() if length in (None, sum(counts)) for each in group]


def check_mean(mean, precisions):
    defined = [precision for precision in precisions if precision is not None]
    assert mean.value == pytest.approx(np.mean(defined) if defined else np.nan, abs=1e-12, nan_ok=True)
    assert (mean.num_queries, mean.num_evaluated) == (len(defined), len(defined))
    assert mean.num_skipped == len(precisions) - len(defined)
    if defined:
        assert mean.half_width == 0


@pytest.mark.parametrize('kind', ['random', 'tied', 'certain', 'constant', 'unknown', 'rare', 'float16'])
def test_all_queries_equal_brute_force(kind, use_numba):
    scores, labels = make_case(kind)
    expected = brute_force(scores, labels, max_conditions=3)
    copies = scores.copy(), labels.copy()
    result = query_retrieval(scores, labels, max_conditions=3, use_numba=use_numba)
    assert set(result.by_counts) == set(expected)
    for counts, precisions in expected.items():
        check_mean(result.by_counts[counts], precisions)
    for length in (1, 2, 3):
        check_mean(result.by_conditions[length], joined(expected, length))
    check_mean(result.overall, joined(expected))
    assert result.exhaustive
    assert result.complete
    assert (result.num_images, result.num_classes) == scores.shape
    np.testing.assert_array_equal(scores, copies[0])
    np.testing.assert_array_equal(labels, copies[1])


def test_smallest_number_of_positives_is_kept(use_numba):
    scores, labels = make_case('random')
    expected = brute_force(scores, labels, max_conditions=3, min_positives=2)
    result = query_retrieval(scores, labels, max_conditions=3, min_positives=2, use_numba=use_numba)
    assert set(result.by_counts) == {(2, 0), (3, 0), (2, 1)}
    check_mean(result.overall, joined(expected))


@pytest.mark.parametrize('kind', ['random', 'tied', 'certain', 'unknown'])
def test_query_for_one_class_has_its_average_precision(kind, use_numba):
    scores, labels = make_case(kind)
    for index, expected in enumerate(average_precision(scores, labels)):
        column = slice(index, index + 1)
        result = query_retrieval(scores[:, column], labels[:, column], use_numba=use_numba)
        assert result.overall.value == pytest.approx(expected, abs=1e-12)
        assert set(result.by_counts) == {(1, 0)}


@pytest.mark.parametrize('spread', [0.3, 3.0, 60.0])
@pytest.mark.parametrize('num_images', [300, 9000])
def test_numba_and_numpy_agree_to_the_last_bit(num_images, spread):
    """Few and many relevant images, scores far apart and all but equal: every way to count."""
    pytest.importorskip('numba')
    generator = np.random.default_rng(1)
    labels = (generator.random((num_images, 4)) < [0.5, 0.3, 0.03, 0.003]).astype(np.int8)
    labels[generator.random(labels.shape) < 0.02] = -1
    logits = generator.normal(spread * labels, spread)
    logits[::7] = logits[0]
    logits[::11, 1] = np.inf
    logits[1::11, 1] = -np.inf
    logits[2::3, 0] = 20 + 1e-6 * generator.random(len(logits[2::3]))
    plain = query_retrieval(logits, labels, 4, scale='logit', use_numba=False)
    compiled = query_retrieval(logits, labels, 4, scale='logit', use_numba=True)
    assert compiled == plain
    np.testing.assert_allclose(
        [query_retrieval(logits[:, [i]], labels[:, [i]], scale='logit').overall.value for i in range(4)],
        average_precision(logits, labels),
        rtol=1e-12,
    )


@pytest.mark.parametrize('options', [{}, {'budget': 0, 'sample_size': 600}])
def test_threads_change_nothing(options, monkeypatch):
    monkeypatch.setattr(sampling, 'QUERIES_AT_A_TIME', 7)
    scores, labels = make_case('tied')
    one, three = (query_retrieval(scores, labels, 3, num_workers=workers, **options) for workers in (1, 3))
    assert one == three


def test_log_odds_keep_what_probabilities_lose():
    # As float32 probabilities all of these are 1, and the ranking is lost.
    logits = np.array([[40.0], [30.0], [60.0], [50.0]])
    labels = np.array([[0], [0], [1], [1]])
    assert query_retrieval(logits, labels, scale='logit').overall.value == 1.0
    rounded = (1 / (1 + np.exp(-logits))).astype(np.float32)
    assert query_retrieval(rounded, labels).overall.value == 0.5


def test_number_of_queries():
    assert count_queries(4, 3) == dict(Counter((len(p), len(n)) for p, n in every_query(4, 3)))
    assert sum(count_queries(20).values()) == 561_869
    assert sum(count_queries(80, 3).values()) == 584_680
    assert sum(count_queries(80).values()) == 769_548_876
    assert count_queries(2, 5) == {(1, 0): 2, (2, 0): 1, (1, 1): 2}
    assert count_queries(0) == {}


def test_positive_sets_are_those_that_occur():
    scores, labels = make_case('random', num_images=12)
    expected = [
        classes
        for length in range(1, 4)
        for classes in itertools.combinations(range(NUM_CLASSES), length)
        if (labels[:, classes] == 1).all(axis=1).any()
    ]
    assert sorted(positive_sets(condition_table(scores, labels), 3)) == sorted(expected)


@pytest.mark.parametrize(
    ('counts', 'rate', 'by_image'),
    [((1, 2), 0.5, False), ((2, 1), 0.5, False), ((3, 0), 0.08, True), ((2, 1), 0.03, True)],
)
def test_draws_are_uniform_over_queries_with_a_relevant_image(counts, rate, by_image):
    scores, labels = make_case('random', num_images=40, rate=rate)
    labels[:3, :3] = 1
    labels[5:9, 2] = -1
    size = count_queries(NUM_CLASSES, 3)[counts]
    table = condition_table(scores, labels)
    sampler = StratumSampler(counts, size, table, np.packbits(table.satisfied, axis=1))
    assert sampler.by_image == by_image
    num_draws = 20_000
    drawn, num_accepted = sampler.draw((0,), num_draws, num_draws)
    expected = {
        (*positives, *(NUM_CLASSES + index for index in negatives))
        for positives, negatives in every_query(NUM_CLASSES, 3)
        if (len(positives), len(negatives)) == counts and relevant_images(labels, positives, negatives).any()
    }
    seen = Counter(map(tuple, drawn.tolist()))
    assert set(seen) == expected
    assert sum(seen.values()) == num_accepted
    mean = num_accepted / len(expected)
    chi_square = sum((number - mean) ** 2 / mean for number in seen.values())
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * sqrt(2 * freedom) + 4
    stratum = sampler.estimate(num_draws, num_accepted, np.ones(2))
    assert abs(stratum.num_queries - len(expected)) <= 4 * sqrt(stratum.count_variance)


@pytest.fixture(scope='module')
def large_case():
    """Sparse labels with skew, so that strata differ in how many of their queries have a relevant image."""
    generator = np.random.default_rng(3)
    rates = 0.5 / np.arange(1, 13)
    labels = (generator.random((150, 12)) < rates).astype(np.int8)
    labels[:3, 4:7] = 1
    scores = 1 / (1 + np.exp(-generator.normal(3.0 * labels - 3.0, 1.5)))
    return scores, labels


def test_sample_estimates_the_mean_without_bias_and_knows_its_error(large_case):
    exact = query_retrieval(*large_case, 4)
    names = [('overall', None), *(('by_conditions', 3 + i) for i in range(2)), ('by_counts', (2, 2))]
    errors = {name: [] for name in names}
    for seed in range(40):
        sample = query_retrieval(*large_case, 4, budget=1000, sample_size=1000, seed=seed, num_workers=1)
        assert not sample.exhaustive
        assert sample.by_conditions[1] == pytest.approx(exact.by_conditions[1])
        for attribute, key in names:
            mean, truth = (getattr(result, attribute) for result in (sample, exact))
            mean, truth = (mean, truth) if key is None else (mean[key], truth[key])
            assert mean.half_width > 0
            assert mean.num_queries == pytest.approx(truth.num_queries, rel=0.25)
            assert mean.num_queries + mean.num_skipped == truth.num_queries + truth.num_skipped
            errors[attribute, key].append((mean.value - truth.value) / (mean.half_width / 1.96))
    for standardised in errors.values():
        assert abs(np.mean(standardised)) < 4 / sqrt(len(standardised))
        assert 0.4 < np.mean(np.square(standardised)) < 1.8


@pytest.mark.parametrize('sample_size', [700, 2_000, 20_000])
def test_no_query_is_evaluated_more_often_than_it_exists(large_case, sample_size):
    """A stratum whose share is as large as itself is listed, and what that saves goes to the others."""
    exact = query_retrieval(*large_case, 3)
    sample = query_retrieval(*large_case, 3, budget=0, sample_size=sample_size)
    assert sample.overall.num_evaluated <= sample_size
    listed = []
    for counts, mean in sample.by_counts.items():
        assert mean.num_evaluated <= exact.by_counts[counts].num_queries
        if mean.half_width == 0:
            listed.append(counts)
            assert mean == pytest.approx(exact.by_counts[counts])
    # Each as large as the threshold below which strata are listed from the start would not be.
    assert [counts for counts in listed if count_queries(12, 3)[counts] > sample_size // 12] or sample_size > 2_000
    assert sample.overall.value == pytest.approx(exact.overall.value, abs=2 * sample.overall.half_width + 1e-12)
    if sample_size == 20_000:
        assert sample.overall == pytest.approx(exact.overall)


def test_sample_is_the_same_for_the_same_seed(large_case, use_numba):
    options = {'budget': 0, 'sample_size': 700, 'use_numba': use_numba}
    first = query_retrieval(*large_case, 3, **options, num_workers=1)
    assert query_retrieval(*large_case, 3, **options, num_workers=2) == first
    assert query_retrieval(*large_case, 3, **options, seed=1) != first
    assert query_retrieval(*large_case, 3, budget=0, sample_size=700) == first


def test_budget_is_the_largest_number_evaluated_whole():
    scores, labels = make_case('random')
    total = sum(count_queries(NUM_CLASSES, 3).values())
    assert query_retrieval(scores, labels, 3, budget=total).exhaustive
    assert not query_retrieval(scores, labels, 3, budget=total - 1).exhaustive


@pytest.mark.parametrize('labels', [np.zeros((5, 3)), np.full((5, 3), -1), np.empty((0, 3)), np.empty((5, 0))])
@pytest.mark.parametrize('budget', [1000, 0])
def test_nothing_relevant_is_nan_and_counted(labels, budget, use_numba):
    num_queries = sum(count_queries(labels.shape[1], 3).values())
    result = query_retrieval(np.full(labels.shape, 0.5), labels, 3, budget=budget, use_numba=use_numba)
    assert np.isnan(result.overall.value)
    assert result.overall[2:] == (0, 0, num_queries)
    assert sum(mean.num_skipped for mean in result.by_counts.values()) == num_queries


def test_ctrl_c_does_not_wait_for_the_rest(monkeypatch):
    scores, labels = make_case('random', num_classes=8)
    started, calls = threading.Event(), []

    def slow(*args):
        calls.append(args)
        started.set()
        time.sleep(0.05)
        return np.zeros((1, 3), np.int64), np.zeros((1, 3))

    def interrupted(line):
        if 'done' in line:
            assert started.wait(60)
            raise KeyboardInterrupt

    monkeypatch.setattr(queries, 'evaluate', slow)
    monkeypatch.setattr(measure, 'SECONDS_BETWEEN_LINES', 0.0)
    with pytest.raises(KeyboardInterrupt):
        query_retrieval(scores, labels, 3, num_workers=2, use_numba=False, log=interrupted)
    assert len(calls) < 10 < sum(1 for _ in positive_sets(condition_table(scores, labels), 3))


def test_old_name_of_an_interruption_is_taken_with_a_warning():
    with pytest.warns(UserWarning, match='RetrievalInterrupted is now KeyboardInterrupt'):
        from mmml_losses.evaluation import RetrievalInterrupted
    assert RetrievalInterrupted is KeyboardInterrupt


def test_checkpoint_file_is_taken_with_a_warning(tmp_path):
    scores, labels = make_case('random')
    with pytest.warns(UserWarning, match='checkpoint_file is ignored') as caught:
        result = query_retrieval(scores, labels, 2, checkpoint_file=tmp_path / 'checkpoint.npz')
    assert len(caught) == 1
    assert result == query_retrieval(scores, labels, 2)
    assert not list(tmp_path.iterdir())


def test_number_of_queries_is_logged_before_the_work_starts(monkeypatch):
    lines = []
    scores, labels = make_case('random', num_classes=3)
    method = queries.evaluate
    monkeypatch.setattr(queries, 'evaluate', lambda *args: lines.append('work') or method(*args))
    query_retrieval(scores, labels, 2, log=lines.append, num_workers=1, use_numba=False)
    assert list(dict.fromkeys(lines)) == [
        '12 queries over 60 images, by (positives, negatives) (1, 0): 3, (1, 1): 6, (2, 0): 3',
        '11 of them ask for classes that occur together and are evaluated',
        'work',
        '1 queries have no relevant image and are left out',
    ]
    lines.clear()
    query_retrieval(scores, labels, 2, budget=11, sample_size=120, log=lines.append)
    assert lines[1] == 'they are more than the budget, so a stratified sample of about 120 is evaluated'


def test_progress_is_shown_only_if_requested(monkeypatch, capfd):
    scores, labels = make_case('random', num_classes=3)
    query_retrieval(scores, labels)
    assert capfd.readouterr() == ('', '')
    pytest.importorskip('tqdm')
    query_retrieval(scores, labels, progress=True)
    assert '16.0/16.0' in capfd.readouterr().err
    monkeypatch.setattr(measure, 'SECONDS_BETWEEN_LINES', 0.0)
    lines = []
    query_retrieval(scores, labels, log=lines.append)
    assert re.fullmatch('16 of 16 queries done in 0 s', lines[-2])


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'probabilities': [[0.2, 1.2]]}, r'probabilities must lie in \[0, 1\], got 1.2'),
        ({'probabilities': [[0.2, np.nan]]}, r'probabilities must not hold NaN, got NaN at \(0, 1\)'),
        ({'probabilities': [[np.nan, 7.0]], 'scale': 'logit'}, 'logits must not hold NaN'),
        ({'probabilities': [0.2, 0.3]}, r'probabilities must have the shape \(samples, classes\), got \(2,\)'),
        ({'labels': [[1]]}, r'labels must have the shape of probabilities \(1, 2\), got \(1, 1\)'),
        ({'labels': [[1, 2]]}, 'labels must be 1'),
        ({'max_conditions': 0}, 'max_conditions must be at least 1, got 0'),
        ({'max_conditions': 2.5}, 'max_conditions must be a whole number, got 2.5'),
        ({'max_conditions': '3'}, "max_conditions must be a whole number, got '3'"),
        ({'min_positives': 1.5}, 'min_positives must be a whole number, got 1.5'),
        ({'sample_size': 1e5}, 'sample_size must be a whole number, got 100000.0'),
        ({'num_workers': 1.5}, 'num_workers must be a whole number, got 1.5'),
        ({'min_positives': 0}, r'min_positives must be from 1 to max_conditions \(5\), got 0'),
        ({'min_positives': 6}, r'min_positives must be from 1 to max_conditions \(5\), got 6'),
        ({'budget': -1}, 'budget must be at least 0, got -1'),
        ({'sample_size': 10}, 'sample_size must be at least 480, got 10'),
        ({'num_workers': 0}, 'num_workers must be at least 1, got 0'),
        ({'seed': -1}, 'seed must be at least 0, got -1'),
        ({'scale': 'log'}, "scale must be 'probability' or 'logit', got 'log'"),
    ],
)
def test_bad_input_is_rejected(change, message):
    arguments = {'probabilities': [[0.2, 0.3]], 'labels': [[1, 0]], **change}
    with pytest.raises(ValueError, match=message):
        query_retrieval(**arguments)


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch):
    pytest.importorskip('numba')
    from mmml_losses.evaluation.functional import kernels

    def njit(cache=False, **options):
        if cache:
            raise RuntimeError('cannot cache function: no locator available')
        return lambda function: (function, options)

    monkeypatch.setattr(kernels, 'njit', njit)
    function, options = kernels.compiled(abs)
    assert function is abs
    assert options['nogil']


def test_broken_numba_costs_time_and_nothing_else(monkeypatch):
    pytest.importorskip('numba')
    scores, labels = make_case('tied')
    expected = query_retrieval(scores, labels, 2)
    monkeypatch.setitem(sys.modules, 'mmml_losses.evaluation.functional.kernels', None)
    monkeypatch.delattr('mmml_losses.evaluation.functional.kernels', raising=False)
    with pytest.warns(UserWarning, match='numba is installed and cannot be imported, so retrieval is slower'):
        assert query_retrieval(scores, labels, 2) == expected
    with pytest.raises(ImportError):
        query_retrieval(scores, labels, 2, use_numba=True)


SCRIPT = """
import sys
sys.modules['numba'] = sys.modules['tqdm'] = None
from mmml_losses.evaluation import query_retrieval
result = query_retrieval([[0.9, 0.2], [0.3, 0.1]], [[1, 0], [0, 0]], progress=True)
assert result.overall.value == 1.0, result
try:
    query_retrieval([[0.9]], [[1]], use_numba=True)
except ValueError as error:
    assert str(error) == 'use_numba must be False or None where numba is not installed, got True'
else:
    raise AssertionError('not refused')
"""


def test_neither_numba_nor_tqdm_is_needed():
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, '-c', SCRIPT], cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_space_is_counted_by_binomials():
    for (positives, negatives), number in count_queries(9, 4).items():
        assert number == comb(9, positives) * comb(9 - positives, negatives)

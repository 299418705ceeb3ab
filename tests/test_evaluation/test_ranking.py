import sys
import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score

from mmml_losses import evaluation
from mmml_losses.evaluation import average_precision, mean_average_precision, micro_average_precision
from mmml_losses.evaluation.functional import positive_ranks
from mmml_losses.utils import arrays


@pytest.fixture(params=['plain', 'compiled'])
def path(request, monkeypatch):
    """Run each test with and without the compiled kernel, whatever the size of its matrix."""
    if request.param == 'compiled':
        pytest.importorskip('numba')
    monkeypatch.setattr(positive_ranks, 'LARGE', 0 if request.param == 'compiled' else np.inf)
    return request.param


def random_case(num_samples=300, num_classes=7, levels=12, unknown=0.0, seed=0):
    """Make scores of few values, so that most are tied, and labels that are positive more often for high scores."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (num_samples, num_classes)) / levels
    labels = (rng.random(scores.shape) < 0.1 + 0.4 * scores).astype(np.int8)
    labels[rng.random(scores.shape) < unknown] = -1
    return scores, labels


def reference(scores, labels):
    """Compute average precision by scikit-learn on the known entries of each column; NaN without a positive."""
    values = []
    for column, truth in zip(np.asarray(scores, dtype=np.float64).T, np.asarray(labels).T, strict=True):
        known = truth >= 0
        has_positive = (truth == 1).any()
        with np.errstate(invalid='ignore'):  # differences of the largest numbers overflow there
            values.append(average_precision_score(truth[known], column[known]) if has_positive else np.nan)
    return np.array(values)


def pooled_reference(scores, labels):
    known = labels >= 0
    with np.errstate(invalid='ignore'):
        return average_precision_score(labels[known], np.asarray(scores, dtype=np.float64)[known])


@pytest.mark.parametrize('levels', [1, 2, 12, 10**6])
@pytest.mark.parametrize('unknown', [0.0, 0.3])
@pytest.mark.parametrize('num_classes', [1, 7, 300])
def test_equals_scikit_learn_with_ties_and_unknown_labels(levels, unknown, num_classes, path):
    scores, labels = random_case(100, num_classes, levels, unknown)
    np.testing.assert_allclose(average_precision(scores, labels), reference(scores, labels), rtol=1e-12)
    np.testing.assert_allclose(
        average_precision(scores, labels, by='sample'), reference(scores.T, labels.T), rtol=1e-12
    )
    np.testing.assert_allclose(micro_average_precision(scores, labels), pooled_reference(scores, labels), rtol=1e-12)


@pytest.mark.parametrize('levels', [1, 12, 10**6])
@pytest.mark.parametrize('unknown', [0.0, 0.3])
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_equals_torchmetrics(levels, unknown, dtype):
    functional = pytest.importorskip('torchmetrics.functional.classification')
    scores, labels = random_case(100, 5, levels, unknown)
    scores, targets = torch.from_numpy(scores).to(dtype), torch.from_numpy(labels).long()
    options = {'num_labels': 5, 'ignore_index': -1 if unknown else None}
    theirs = functional.multilabel_average_precision(scores, targets, average=None, **options)
    np.testing.assert_allclose(average_precision(scores, labels), theirs.float(), rtol=1e-5)
    theirs = functional.multilabel_average_precision(scores, targets, average='macro', **options)
    np.testing.assert_allclose(mean_average_precision(scores, labels).value, theirs.float(), rtol=1e-5)
    theirs = functional.multilabel_average_precision(scores, targets, average='micro', **options)
    np.testing.assert_allclose(micro_average_precision(scores, labels), theirs.float(), rtol=1e-5)


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16, bool])
def test_every_dtype_is_ranked_exactly(dtype, path):
    rng = np.random.default_rng(1)
    scores = (rng.normal(size=(200, 5)) * 30).clip(0 if np.dtype(dtype).kind == 'u' else -100, 100).astype(dtype)
    labels = rng.integers(-1, 2, scores.shape)
    np.testing.assert_allclose(average_precision(scores, labels), reference(scores, labels), rtol=1e-12)
    np.testing.assert_allclose(micro_average_precision(scores, labels), pooled_reference(scores, labels), rtol=1e-12)


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])
def test_extreme_scores_are_ranked_exactly(dtype, path):
    rng = np.random.default_rng(2)
    limits = np.finfo(dtype)
    finite = [0.0, -0.0, 1.0, limits.max, limits.min, limits.tiny, -limits.tiny, limits.smallest_subnormal, limits.eps]
    scores = rng.choice(np.array(finite, dtype), size=(400, 6))
    labels = rng.integers(-1, 2, scores.shape)
    expected = reference(scores, labels)
    np.testing.assert_allclose(average_precision(scores, labels), expected, rtol=1e-12)
    # Infinities rank like one more step beyond the largest numbers; scikit-learn rejects them.
    infinite = np.where(scores == limits.max, np.inf, np.where(scores == limits.min, -np.inf, scores)).astype(dtype)
    np.testing.assert_allclose(average_precision(infinite, labels), expected, rtol=1e-12)
    np.testing.assert_allclose(micro_average_precision(infinite, labels), pooled_reference(scores, labels), rtol=1e-12)


def test_scores_crowded_next_to_an_outlier_are_ranked_exactly(path):
    # Nearly all positives fall into one part of the compiled kernel's table.
    rng = np.random.default_rng(3)
    scores = 0.5 + 1e-9 * rng.random((3000, 2))
    scores[:2] = [[-1e300, 1e300], [-1e300, 1e300]]
    labels = rng.integers(0, 2, scores.shape)
    labels[:2] = 1
    np.testing.assert_allclose(average_precision(scores, labels), reference(scores, labels), rtol=1e-12)
    np.testing.assert_allclose(micro_average_precision(scores, labels), pooled_reference(scores, labels), rtol=1e-12)


def test_both_kinds_of_ranking_agree_to_the_last_bit(monkeypatch):
    pytest.importorskip('numba')
    scores, labels = random_case(5000, 20, levels=10**6, unknown=0.1)
    results = []
    for large in (0, np.inf):
        monkeypatch.setattr(positive_ranks, 'LARGE', large)
        by_sample = average_precision(scores, labels, by='sample')
        micro = micro_average_precision(scores, labels)
        results.append([*average_precision(scores, labels), *by_sample, micro])
    np.testing.assert_array_equal(*results)


def test_without_numba_large_matrices_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(positive_ranks, 'LARGE', 0)
    # A name that maps to None cannot be imported.
    monkeypatch.setitem(sys.modules, 'numba', None)
    monkeypatch.delitem(sys.modules, 'mmml_losses.evaluation.functional.kernels', raising=False)
    monkeypatch.delattr(evaluation, 'kernels', raising=False)
    monkeypatch.setattr(positive_ranks, 'load_compiled', positive_ranks.load_compiled.__wrapped__)
    assert positive_ranks.load_compiled() is None
    scores, labels = random_case()
    np.testing.assert_allclose(average_precision(scores, labels), reference(scores, labels), rtol=1e-12)
    np.testing.assert_allclose(micro_average_precision(scores, labels), pooled_reference(scores, labels), rtol=1e-12)


def test_broken_numba_costs_time_and_a_warning(monkeypatch):
    pytest.importorskip('numba')
    monkeypatch.setattr(positive_ranks, 'LARGE', 0)
    monkeypatch.setitem(sys.modules, 'mmml_losses.evaluation.functional.kernels', None)
    monkeypatch.delattr(evaluation, 'kernels', raising=False)
    positive_ranks.load_compiled.cache_clear()
    scores, labels = random_case()
    with pytest.warns(UserWarning, match='numba is installed and cannot be imported, so ranking is slower'):
        precisions = average_precision(scores, labels)
    np.testing.assert_allclose(precisions, reference(scores, labels), rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # one warning is enough
        np.testing.assert_array_equal(average_precision(scores, labels), precisions)
    positive_ranks.load_compiled.cache_clear()


def test_double_precision_differences_count(path):
    scores = np.array([[0.5], [np.nextafter(0.5, 1)]])
    assert average_precision(scores, [[0], [1]]) == [1.0]
    assert average_precision(scores, [[1], [0]]) == [0.5]


def test_large_integers_are_not_rounded():
    scores = np.array([[2**62], [2**62 + 1]])
    assert average_precision(scores, [[0], [1]]) == [1.0]
    assert average_precision(scores, [[1], [0]]) == [0.5]


def test_the_lowest_integer_is_a_score_and_not_an_unknown_label():
    scores = np.full((3, 1), np.iinfo(np.int64).min)
    assert average_precision(scores, [[1], [0], [-1]]) == [0.5]


def test_mean_over_samples_is_the_label_ranking_average_precision(path):
    scores, labels = random_case(500, 20, unknown=0)
    labels[:, 0] = 1
    expected = label_ranking_average_precision_score(labels, scores)
    assert mean_average_precision(scores, labels, by='sample').value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('by', ['class', 'sample'])
def test_blocks_do_not_change_the_result(by, path, monkeypatch):
    scores, labels = random_case(600, 9, unknown=0.2)
    whole = average_precision(scores, labels, by=by)
    micro = micro_average_precision(scores, labels)
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 50)
    np.testing.assert_array_equal(average_precision(scores, labels, by=by), whole)
    assert micro_average_precision(scores, labels) == micro
    monkeypatch.setattr(positive_ranks, 'MANY_ROWS', 0)
    np.testing.assert_allclose(average_precision(scores, labels, by=by), whole, rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_order_of_samples_and_classes_does_not_matter(data):
    shape = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 5))
    size = shape[0] * shape[1]
    values = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])
    scores = np.array(data.draw(st.lists(values, min_size=size, max_size=size))).reshape(shape)
    labels = np.array(data.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size))).reshape(shape)
    samples = data.draw(st.permutations(range(shape[0])))
    classes = data.draw(st.permutations(range(shape[1])))
    shuffled = scores[samples][:, classes], labels[samples][:, classes]
    for by, order in (('class', classes), ('sample', samples)):
        expected = average_precision(scores, labels, by=by)[order]
        np.testing.assert_allclose(average_precision(*shuffled, by=by), expected, rtol=1e-14)
    expected = micro_average_precision(scores, labels)
    np.testing.assert_allclose(micro_average_precision(*shuffled), expected, rtol=1e-14)


def test_a_monotone_map_of_the_scores_changes_nothing(path):
    scores, labels = random_case(unknown=0.1)
    np.testing.assert_array_equal(average_precision(np.exp(scores), labels), average_precision(scores, labels))


def test_constant_scores_give_the_share_of_positives(path):
    labels = np.array([[1], [0], [0], [0]])
    assert average_precision(np.ones((4, 1)), labels) == [0.25]
    assert average_precision(np.ones((4, 1)), labels[::-1]) == [0.25]


def test_tensors_and_strided_views_give_the_same_as_arrays():
    scores, labels = random_case()
    expected = average_precision(scores[::2, ::-1], labels[::2, ::-1])
    np.testing.assert_array_equal(
        average_precision(scores[::2, ::-1].copy(), torch.tensor(labels[::2, ::-1].copy())), expected
    )
    transposed = torch.tensor(scores.T.copy(), requires_grad=True).T[::2].flip(1)
    np.testing.assert_array_equal(average_precision(transposed, labels[::2, ::-1]), expected)
    half = torch.tensor(scores[::2, ::-1].copy()).bfloat16()
    np.testing.assert_array_equal(
        average_precision(half, labels[::2, ::-1]), average_precision(half.double(), labels[::2, ::-1])
    )


@pytest.mark.parametrize('by', ['class', 'sample'])
def test_inputs_stay_as_they_were(by, path):
    scores, labels = random_case(unknown=0.3)
    scores.setflags(write=False)
    labels.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        average_precision(scores, labels, by=by)
        micro_average_precision(scores, labels)


def test_infinite_scores_rank_like_any_other(path):
    scores = np.array([[np.inf], [np.inf], [-np.inf], [-np.inf], [-np.inf]])
    labels = np.array([[1], [0], [1], [0], [-1]])
    # The first positive is one of two at the top, the second is tied with everything known.
    assert average_precision(scores, labels) == pytest.approx([(1 / 2 + 2 / 4) / 2])


def test_classes_without_positives_are_nan_and_counted():
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.3, 0.5]])
    labels = np.array([[1, 0, -1], [0, 0, -1]])
    np.testing.assert_array_equal(average_precision(scores, labels), [1.0, np.nan, np.nan])
    assert mean_average_precision(scores, labels) == (1.0, 1, 2, 2)
    assert mean_average_precision(scores, labels, by='sample') == (1.0, 1, 1, 1)


def test_classes_without_positives_count_as_zero_or_are_rejected():
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.3, 0.5]])
    labels = np.array([[1, 0, -1], [0, 0, -1]])
    np.testing.assert_array_equal(average_precision(scores, labels, empty='zero'), [1.0, 0.0, 0.0])
    assert mean_average_precision(scores, labels, empty='zero') == (1 / 3, 3, 0, 2)
    for measure in (average_precision, mean_average_precision):
        with pytest.raises(ValueError, match='2 of 3 classes have no positive label, the first at 1'):
            measure(scores, labels, empty='error')
        with pytest.raises(ValueError, match='1 of 2 samples have no positive label, the first at 1'):
            measure(scores, labels, by='sample', empty='error')
        with pytest.raises(ValueError, match="empty must be 'skip', 'zero' or 'error', got 'one'"):
            measure(scores, labels, empty='one')
    assert mean_average_precision(scores[:1, :1], labels[:1, :1], empty='error') == (1.0, 1, 0, 0)


def test_pooled_pairs_without_a_positive(path):
    scores, labels = np.ones((2, 3)), np.array([[0, 0, -1], [0, 0, 0]])
    assert np.isnan(micro_average_precision(scores, labels))
    assert micro_average_precision(scores, labels, empty='zero') == 0
    with pytest.raises(ValueError, match='1 of 1 rankings have no positive label'):
        micro_average_precision(scores, labels, empty='error')


@pytest.mark.parametrize('shape', [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_rank_is_nan(shape):
    empty = np.zeros(shape)
    assert average_precision(empty, empty).shape == (shape[1],)
    result = mean_average_precision(empty, empty)
    assert np.isnan(result.value)
    assert result.num_averaged == 0
    assert np.isnan(micro_average_precision(empty, empty))


@pytest.mark.parametrize(
    ('scores', 'labels', 'message'),
    [
        (np.zeros((6, 5)), np.zeros((5, 6)), r'labels must have the shape of scores \(6, 5\), got \(5, 6\)'),
        (np.zeros(5), np.zeros(5), r'scores must have the shape \(samples, classes\), got \(5,\)'),
        ([[0.1, np.nan]], [[0, 1]], r'scores must not hold NaN, got NaN at \(0, 1\)'),
        ([[0.1, 0.2]], [[0, 0.3]], r'labels must be 1 \(positive\), 0 \(negative\) or -1 \(unknown\), got 0.3'),
        ([[0.1, 0.2]], [[0, 257]], 'got 257'),
        ([[0.1, 0.2]], [[0, np.nan]], 'got nan'),
        ([['a', 'b']], [[0, 1]], 'scores must be real numbers'),
        ([[0.1, 0.2]], [['a', 'b']], 'labels must be numbers'),
        ([[0.1, 0.2]], 1, r'labels must have the shape of scores \(1, 2\), got \(\)'),
    ],
)
def test_bad_input_is_rejected_by_name(scores, labels, message):
    for measure in (average_precision, mean_average_precision, micro_average_precision):
        with pytest.raises(ValueError, match=message):
            measure(scores, labels)


def test_unknown_axis_is_rejected():
    with pytest.raises(ValueError, match="by must be 'class' or 'sample', got 'micro'"):
        average_precision([[0.5]], [[1]], by='micro')


def test_memory_is_that_of_a_few_columns():
    scores, labels = np.random.default_rng(4).random((4000, 2000), dtype=np.float32), np.zeros((4000, 2000), np.int8)
    labels[::50] = 1
    for large in (np.inf, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(positive_ranks, 'LARGE', large)
            micro_average_precision(scores[:50], labels[:50])  # what is imported and compiled for it stays
            average_precision(scores[:50], labels[:50])
            tracemalloc.start()
            average_precision(scores, labels)
            average_precision(scores, labels, by='sample')
            micro_average_precision(scores, labels)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < scores.nbytes / 1.5

import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from mmml_losses.evaluation import arrays, average_precision, mean_average_precision, ranking


def random_case(num_samples=300, num_classes=7, levels=12, unknown=0.0, seed=0):
    """Scores on few levels, so that most of them are tied, and labels that lean towards high scores."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (num_samples, num_classes)) / levels
    labels = (rng.random(scores.shape) < 0.1 + 0.4 * scores).astype(np.int8)
    labels[rng.random(scores.shape) < unknown] = -1
    return scores, labels


def reference(scores, labels):
    """scikit-learn on the known entries of each column; NaN where it has no positive."""
    values = []
    for column, truth in zip(np.asarray(scores, dtype=np.float64).T, np.asarray(labels).T, strict=True):
        known = truth >= 0
        has_positive = (truth == 1).any()
        values.append(average_precision_score(truth[known], column[known]) if has_positive else np.nan)
    return np.array(values)


@pytest.mark.parametrize('levels', [1, 2, 12, 10**6])
@pytest.mark.parametrize('unknown', [0.0, 0.3])
@pytest.mark.parametrize('num_classes', [1, 7, 300])
def test_equals_scikit_learn_with_ties_and_unknown_labels(levels, unknown, num_classes):
    scores, labels = random_case(100, num_classes, levels, unknown)
    np.testing.assert_allclose(average_precision(scores, labels), reference(scores, labels), rtol=1e-12)
    np.testing.assert_allclose(
        average_precision(scores, labels, by='sample'), reference(scores.T, labels.T), rtol=1e-12
    )


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64, np.int64])
def test_every_dtype_is_ranked_exactly(dtype):
    rng = np.random.default_rng(1)
    scores = (rng.normal(size=(200, 5)) * 100).astype(dtype)
    labels = rng.integers(-1, 2, scores.shape)
    np.testing.assert_allclose(average_precision(scores, labels), reference(scores, labels), rtol=1e-12)


def test_double_precision_differences_count():
    scores = np.array([[0.5], [np.nextafter(0.5, 1)]])
    assert average_precision(scores, [[0], [1]]) == [1.0]
    assert average_precision(scores, [[1], [0]]) == [0.5]


@pytest.mark.parametrize('by', ['class', 'sample'])
def test_blocks_do_not_change_the_result(by, monkeypatch):
    scores, labels = random_case(600, 9, unknown=0.2)
    whole = average_precision(scores, labels, by=by)
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 50)
    np.testing.assert_array_equal(average_precision(scores, labels, by=by), whole)
    monkeypatch.setattr(ranking, 'MANY_ROWS', 0)
    np.testing.assert_allclose(average_precision(scores, labels, by=by), whole, rtol=1e-14)


def test_order_of_samples_does_not_matter():
    scores, labels = random_case(unknown=0.1)
    order = np.random.default_rng(2).permutation(len(scores))
    np.testing.assert_allclose(
        average_precision(scores[order], labels[order]), average_precision(scores, labels), rtol=1e-14
    )


def test_constant_scores_give_the_share_of_positives():
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
def test_inputs_stay_as_they_were(by):
    scores, labels = random_case(unknown=0.3)
    scores.setflags(write=False)
    labels.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        average_precision(scores, labels, by=by)


def test_infinite_scores_rank_like_any_other():
    scores = np.array([[np.inf], [np.inf], [-np.inf], [-np.inf], [-np.inf]])
    labels = np.array([[1], [0], [1], [0], [-1]])
    # The first positive is one of two at the top, the second is tied with everything known.
    assert average_precision(scores, labels) == pytest.approx([(1 / 2 + 2 / 4) / 2])


def test_classes_without_positives_are_nan_and_counted():
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.3, 0.5]])
    labels = np.array([[1, 0, -1], [0, 0, -1]])
    np.testing.assert_array_equal(average_precision(scores, labels), [1.0, np.nan, np.nan])
    assert mean_average_precision(scores, labels) == (1.0, 1, 2)
    assert mean_average_precision(scores, labels, by='sample') == (1.0, 1, 1)


@pytest.mark.parametrize('shape', [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_rank_is_nan(shape):
    empty = np.zeros(shape)
    assert average_precision(empty, empty).shape == (shape[1],)
    result = mean_average_precision(empty, empty)
    assert np.isnan(result.value)
    assert result.num_averaged == 0


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
    ],
)
def test_bad_input_is_refused_by_name(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        average_precision(scores, labels)


def test_unknown_way_is_refused():
    with pytest.raises(ValueError, match="by must be 'class' or 'sample', got 'micro'"):
        average_precision([[0.5]], [[1]], by='micro')

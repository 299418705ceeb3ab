import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score

from mmml_losses.evaluation import best_threshold, f1_scores, midpoint_threshold
from mmml_losses.evaluation.functional import positive_ranks
from mmml_losses.utils import arrays

MultiLabelMetric = pytest.importorskip('mmpretrain.evaluation').MultiLabelMetric


def random_case(num_samples=120, num_classes=7, levels=15, unknown=0.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = (rng.integers(0, levels, (num_samples, num_classes)) / levels).astype(np.float32)
    labels = (rng.random(scores.shape) < 0.1 + 0.4 * scores).astype(np.int8)
    labels[rng.random(scores.shape) < unknown] = -1
    return scores, labels


@pytest.mark.parametrize('threshold', [None, 0.2, 0.9, 2.0])
def test_equals_scikit_learn_at_a_threshold(threshold):
    scores, labels = random_case()
    result = f1_scores(scores, labels, threshold=threshold)
    chosen = scores >= (0.5 if threshold is None else threshold)
    for average, ours in (
        (None, (result.class_precision, result.class_recall, result.class_f1)),
        ('macro', (result.cp, result.cr, result.macro_f1)),
        ('micro', (result.op, result.or_, result.of1)),
    ):
        for measure, value in zip((precision_score, recall_score, f1_score), ours, strict=True):
            np.testing.assert_allclose(value, measure(labels, chosen, average=average, zero_division=0), rtol=1e-12)
    mean = result.cp + result.cr
    assert result.cf1 == pytest.approx(2 * result.cp * result.cr / mean if mean else 0)


@pytest.mark.parametrize('unknown', [0.0, 0.3])
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize('chosen_by', [{'threshold': 0.5}, {'threshold': 0.25}, {'top_k': 1}, {'top_k': 3}])
def test_equals_mmpretrain(unknown, dtype, chosen_by):
    # Few levels for thresholds; for top-k no ties within a row, which mmpretrain cuts in an order of its own.
    scores, labels = random_case(unknown=unknown)
    if 'top_k' in chosen_by:
        rng = np.random.default_rng(1)
        scores = rng.permuted(np.tile(np.arange(scores.shape[1]) / 16, (len(scores), 1)), axis=1)
    scores = torch.from_numpy(scores).to(dtype)
    result = f1_scores(scores, labels, **chosen_by)
    theirs = {'thr': chosen_by.get('threshold'), 'topk': chosen_by.get('top_k')}
    for average, ours in (
        (None, (result.class_precision, result.class_recall, result.class_f1)),
        ('macro', (result.cp, result.cr, result.macro_f1)),
        ('micro', (result.op, result.or_, result.of1)),
    ):
        expected = MultiLabelMetric.calculate(scores, torch.from_numpy(labels.copy()), average=average, **theirs)
        for value, reference in zip(ours, expected[:3], strict=True):
            np.testing.assert_allclose(100 * np.asarray(value), reference.numpy(), rtol=1e-5)
    assert result.num_ties_cut == 0


@pytest.mark.parametrize('dtype', [np.float32, np.float64, np.int64])
def test_each_class_may_have_its_threshold(dtype):
    scores, labels = random_case(unknown=0.2)
    scores = (scores * 15).astype(dtype)
    thresholds = np.array([0, 3, 5, 7, 9, 20, np.inf])
    result = f1_scores(scores, labels, threshold=thresholds)
    for index, threshold in enumerate(thresholds):
        alone = f1_scores(scores[:, [index]], labels[:, [index]], threshold=float(threshold))
        assert alone.class_f1 == result.class_f1[index]
    assert result.num_unpredicted == 2


def test_threshold_is_rounded_to_the_precision_of_the_scores():
    # As numpy and torch do: otherwise a float32 of 0.7 would not reach 0.7.
    assert f1_scores(np.full((1, 1), 0.7, np.float32), [[1]], threshold=0.7).of1 == 1
    assert f1_scores(np.full((1, 1), 0.7, np.float32), [[1]], threshold=[0.7]).of1 == 1


def test_the_two_variants_of_cf1_differ():
    result = f1_scores([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], [[1, 1], [0, 1], [0, 1]])
    # Class precisions 1/2 and 1, recalls 1 and 1/3, F1s 2/3 and 1/2.
    assert (result.cp, result.cr) == (pytest.approx(3 / 4), pytest.approx(2 / 3))
    assert result.cf1 == pytest.approx(2 / (4 / 3 + 3 / 2))
    assert result.macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 2)


def f1_of_each_class(scores, labels):
    """Return precisions, recalls and F1s at 0.5, one class after the other, one sample after the other."""
    values = []
    for column in range(scores.shape[1]):
        found = predicted = positive = 0
        for score, label in zip(scores[:, column], labels[:, column], strict=True):
            if label >= 0:
                found += score >= 0.5 and label == 1
                predicted += score >= 0.5
                positive += label == 1
        precision, recall = found / max(predicted, 1), found / max(positive, 1)
        values.append((precision, recall, 2 * precision * recall / max(precision + recall, 1e-12)))
    return np.array(values).T


@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize('unknown', [0.0, 0.3])
def test_the_mean_of_f1s_is_never_above_the_harmonic_mean(seed, unknown):
    # The CF1 of the Hill and SPLC paper is the first: in Table X, BCE has CP 89.2, CR 34.4 and CF1 45.8, which is less
    # than their harmonic mean, 49.7.
    scores, labels = random_case(unknown=unknown, seed=seed)
    precisions, recalls, f1s = f1_of_each_class(scores, labels)
    result = f1_scores(scores, labels)
    cp, cr = precisions.mean(), recalls.mean()
    assert (result.cp, result.cr, result.macro_f1) == pytest.approx((cp, cr, f1s.mean()))
    assert result.cf1 == pytest.approx(2 * cp * cr / (cp + cr))
    assert result.macro_f1 < result.cf1


@pytest.mark.parametrize('unknown', [0.0, 0.4])
def test_midpoint_threshold_equals_a_loop(unknown):
    scores, labels = random_case(unknown=unknown)
    scores = 0.3 + 0.7 * scores
    labels[scores == scores.min()] = -1
    lowest = min(score for score, label in zip(scores.flat, labels.flat, strict=True) if label >= 0)
    assert lowest > scores.min()
    assert midpoint_threshold(scores, labels) == (1 + float(lowest)) / 2
    assert midpoint_threshold([[0.2]], [[-1]]) == 1
    with pytest.raises(ValueError, match=r'probabilities must lie in \[0, 1\], got -3'):
        midpoint_threshold([[-3.0]], [[1]])


def test_nothing_by_nothing_is_zero():
    result = f1_scores([[0.1, 0.9], [0.1, 0.1]], [[1, 0], [0, 0]])
    np.testing.assert_array_equal(result.class_precision, 0)
    np.testing.assert_array_equal(result.class_recall, 0)
    assert (result.cf1, result.macro_f1, result.of1) == (0, 0, 0)
    assert (result.num_empty, result.num_unpredicted) == (1, 1)


def test_classes_without_positives_by_argument():
    scores, labels = np.array([[0.9, 0.1], [0.1, 0.1]]), np.array([[1, 0], [0, -1]])
    assert f1_scores(scores, labels).macro_f1 == 0.5
    skipped = f1_scores(scores, labels, empty='skip')
    assert (skipped.cp, skipped.cr, skipped.cf1, skipped.macro_f1) == (1, 1, 1, 1)
    assert skipped.num_empty == 1
    with pytest.raises(ValueError, match='1 of 2 classes have no positive label, the first at 1'):
        f1_scores(scores, labels, empty='error')


def test_ties_at_the_last_place_go_to_the_first_classes_and_are_counted():
    scores = np.array([[0.5, 0.9, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.1, 0.1]])
    result = f1_scores(scores, np.ones((3, 4)), top_k=2)
    assert result.predicted.tolist() == [2, 2, 1, 1]
    assert result.num_ties_cut == 1
    assert f1_scores(scores, np.ones((3, 4)), top_k=4).predicted.tolist() == [3, 3, 3, 3]


def exhaustive_best(scores, labels):
    """Find the best threshold by trying every score."""
    known = labels >= 0
    scores, labels = scores[known], labels[known]
    best = (0.0, np.inf)
    for threshold in np.unique(scores):
        f1 = f1_score(labels, scores >= threshold, zero_division=0)
        best = max(best, (f1, float(threshold)))
    return best


@pytest.fixture(params=['plain', 'compiled'])
def path(request, monkeypatch):
    if request.param == 'compiled':
        pytest.importorskip('numba')
    monkeypatch.setattr(positive_ranks, 'LARGE', 0 if request.param == 'compiled' else np.inf)


@pytest.mark.parametrize('levels', [1, 6, 10**6])
@pytest.mark.parametrize('unknown', [0.0, 0.3])
def test_best_threshold_is_the_best_of_all(levels, unknown, path):
    scores, labels = random_case(60, 4, levels, unknown)
    scores -= 0.5  # negative scores come back as they were
    labels[:, 2] = np.minimum(labels[:, 2], 0)
    best = best_threshold(scores, labels)
    expected = [exhaustive_best(*column) for column in zip(scores.T, labels.T, strict=True)]
    np.testing.assert_allclose(best.f1, [f1 for f1, _ in expected], rtol=1e-12)
    np.testing.assert_array_equal(best.threshold, [threshold for _, threshold in expected])
    assert best.num_empty == 1
    np.testing.assert_allclose(f1_scores(scores, labels, threshold=best.threshold).class_f1, best.f1, rtol=1e-12)
    pooled = best_threshold(scores, labels, average='pooled')
    f1, threshold = exhaustive_best(scores, labels)
    assert (pooled.f1, pooled.threshold, pooled.num_empty) == (pytest.approx(f1, rel=1e-12), threshold, 0)
    assert f1_scores(scores, labels, threshold=pooled.threshold).of1 == pytest.approx(f1, rel=1e-12)


def test_integers_and_infinities_have_a_best_threshold():
    assert best_threshold(np.array([[3], [1], [2]]), [[1], [0], [1]])[:2] == ([2], [1])
    assert best_threshold([[np.inf], [-np.inf], [0]], [[1], [0], [0]])[:2] == ([np.inf], [1])


def test_without_positives_nothing_is_predicted():
    empty = best_threshold([[0.3], [0.4]], [[0], [-1]])
    assert (empty.threshold.tolist(), empty.f1.tolist(), empty.num_empty) == ([np.inf], [0], 1)
    assert best_threshold([[0.3]], [[0]], average='pooled') == (np.inf, 0, 1)


def test_blocks_do_not_change_the_result(monkeypatch):
    scores, labels = random_case(unknown=0.2)
    whole = f1_scores(scores, labels, top_k=2), best_threshold(scores, labels)
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 20)
    pieces = f1_scores(scores, labels, top_k=2), best_threshold(scores, labels)
    assert pieces[0].class_f1.tolist() == whole[0].class_f1.tolist()
    assert pieces[0].num_ties_cut == whole[0].num_ties_cut > 0
    np.testing.assert_array_equal(pieces[1].threshold, whole[1].threshold)


def test_an_empty_set_has_no_positives():
    result = f1_scores(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (result.num_empty, result.of1, result.cf1) == (3, 0, 0)
    assert np.isnan(f1_scores(np.zeros((0, 3)), np.zeros((0, 3)), empty='skip').cp)
    assert best_threshold(np.zeros((0, 3)), np.zeros((0, 3))).num_empty == 3


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'threshold': 0.5, 'top_k': 1}, 'threshold and top_k must not both be given, got 0.5 and 1'),
        ({'threshold': [0.5]}, r'threshold must be one number or one for each of 2 classes, got the shape \(1,\)'),
        ({'threshold': float('nan')}, 'threshold must be numbers, got nan'),
        ({'threshold': 'high'}, 'threshold must be numbers, got high'),
        ({'top_k': 3}, 'top_k must be a whole number of at least 1 and at most the 2 classes, got 3'),
        ({'top_k': 0}, 'got 0'),
        ({'top_k': 1.5}, 'got 1.5'),
        ({'empty': 'one'}, "empty must be 'skip', 'zero' or 'error', got 'one'"),
    ],
)
def test_bad_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        f1_scores([[0.1, 0.2]], [[0, 1]], **arguments)


def test_bad_input_is_rejected():
    for measure in (f1_scores, best_threshold):
        with pytest.raises(ValueError, match=r'scores must not hold NaN, got NaN at \(0, 1\)'):
            measure([[0.1, np.nan]], [[0, 1]])
        with pytest.raises(ValueError, match='got 2'):
            measure([[0.1, 0.2]], [[0, 2]])
        with pytest.raises(ValueError, match='labels must have the shape of scores'):
            measure([[0.1, 0.2]], [[0, 1, 1]])
    with pytest.raises(ValueError, match="average must be 'class' or 'pooled', got 'micro'"):
        best_threshold([[0.1]], [[1]], average='micro')

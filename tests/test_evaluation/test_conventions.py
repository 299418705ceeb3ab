"""Average precision by the conventions of other projects, compared with their code or a loop."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import mmml_losses  # noqa: F401  (repairs torchvision's import, which torchmetrics needs)
from mmml_losses.evaluation import average_precision, mean_average_precision, micro_average_precision

AveragePrecision = pytest.importorskip('mmpretrain.evaluation').AveragePrecision


def random_case(num_samples=200, num_classes=6, levels=10**6, unknown=0.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = (rng.integers(0, levels, (num_samples, num_classes)) / levels).astype(np.float32)
    labels = (rng.random(scores.shape) < 0.1 + 0.3 * scores).astype(np.int8)
    labels[rng.random(scores.shape) < unknown] = -1
    return scores, labels


def naive_eleven_point(scores, labels):
    """Compute the eleven-point average precision of one class, comparing recalls in whole numbers."""
    points = []
    num_positives = sum(label == 1 for label in labels)
    for threshold in set(scores.tolist()):
        known = [label for score, label in zip(scores, labels, strict=True) if score >= threshold and label >= 0]
        hits = sum(label == 1 for label in known)
        if known:
            points.append((Fraction(hits, num_positives), Fraction(hits, len(known))))
    levels = [Fraction(tenths, 10) for tenths in range(11)]
    return float(sum(max(p for r, p in points if r >= level) for level in levels) / 11)


def naive_asl(scores, labels):
    """Compute the mean precision at the ranks of the positives as the ASL repository does."""
    hits, total = 0, 0.0
    for place, index in enumerate(np.argsort(scores)[::-1], start=1):
        if labels[index] == 1:
            hits += 1
            total += hits / place
    return total / (hits + 1e-8)


@pytest.mark.parametrize('levels', [1, 7, 10**6])
@pytest.mark.parametrize('unknown', [0.0, 0.3])
def test_voc_eleven_points(levels, unknown):
    scores, labels = random_case(60, 5, levels, unknown)
    expected = [naive_eleven_point(*column) for column in zip(scores.T, labels.T, strict=True)]
    np.testing.assert_allclose(average_precision(scores, labels, convention='voc11'), expected, rtol=1e-12)


def test_three_of_ten_positives_reach_the_recall_of_three_tenths():
    # In floating point 3 * 0.1 is more than 3 / 10, which loses the point.
    scores = np.arange(20, 0, -1.0)[:, None]
    labels = np.array([1, 1, 1] + [0] * 10 + [1] * 7)[:, None]
    expected = [1.0] * 4 + [Fraction(10, 20)] * 7
    assert average_precision(scores, labels, convention='voc11')[0] == pytest.approx(float(sum(expected) / 11))


def test_pooled_eleven_points():
    scores, labels = random_case(40, 3, 9, unknown=0.2)
    expected = naive_eleven_point(scores.ravel(), labels.ravel())
    assert micro_average_precision(scores, labels, convention='voc11') == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize('levels', [1, 3, 12, 10**6])
@pytest.mark.parametrize('unknown', [0.0, 0.3])
@pytest.mark.parametrize('dtype', [torch.float16, torch.float32, torch.float64])
def test_mmpretrain_to_the_digit(levels, unknown, dtype):
    scores, labels = random_case(300, 6, levels, unknown)
    labels[:, 2] = np.minimum(labels[:, 2], 0)
    scores = torch.from_numpy(scores).to(dtype)
    theirs = AveragePrecision.calculate(scores.clone(), torch.from_numpy(labels.copy()), average=None)
    ours = average_precision(scores, labels, convention='mmpretrain')
    assert ours[2] == 0
    assert torch.equal(torch.from_numpy(ours).to(dtype) * 100, theirs)
    if dtype != torch.float16:
        theirs = AveragePrecision.calculate(scores.clone(), torch.from_numpy(labels.copy()))
        mean = mean_average_precision(scores, labels, convention='mmpretrain')
        assert 100 * mean.value == pytest.approx(theirs.item(), rel=1e-6)
        assert (mean.num_averaged, mean.num_skipped, mean.num_empty) == (6, 0, 1)


def test_mmpretrain_convention_depends_on_the_order_of_ties_as_mmpretrain_does():
    scores, labels = torch.ones(4, 1), torch.tensor([[1], [0], [0], [0]])
    for order in (labels, labels.flip(0)):
        theirs = AveragePrecision.calculate(scores, order.clone(), average=None) / 100
        np.testing.assert_array_equal(average_precision(scores, order, convention='mmpretrain'), theirs)


@pytest.mark.parametrize('levels', [1, 5, 10**6])
def test_asl_repository(levels):
    scores, labels = random_case(150, 5, levels)
    labels[:, 3] = 0
    expected = [naive_asl(*column) for column in zip(scores.T, labels.T, strict=True)]
    np.testing.assert_allclose(average_precision(scores, labels, convention='asl'), expected, rtol=1e-13, atol=1e-15)
    mean = mean_average_precision(scores, labels, convention='asl')
    assert mean.value == pytest.approx(np.mean(expected))
    assert (mean.num_averaged, mean.num_empty) == (5, 1)


@pytest.mark.parametrize('convention', ['mmpretrain', 'asl'])
@pytest.mark.parametrize('by', ['class', 'sample'])
def test_without_ties_all_orders_give_the_exact_value(convention, by):
    scores, labels = random_case(80, 9, 10**6, unknown=0.2, seed=1)
    ours = average_precision(scores, labels, by=by, convention=convention, empty='skip')
    np.testing.assert_allclose(ours, average_precision(scores, labels, by=by), rtol=1e-6)


@pytest.mark.parametrize('convention', ['exact', 'voc11', 'mmpretrain', 'asl'])
def test_every_convention_takes_every_rule_for_empty_classes(convention):
    scores, labels = np.array([[0.9, 0.1], [0.2, 0.3]]), np.array([[1, -1], [0, -1]])
    assert mean_average_precision(scores, labels, convention=convention, empty='zero').value == pytest.approx(0.5)
    assert mean_average_precision(scores, labels, convention=convention, empty='skip').value == pytest.approx(1)
    with pytest.raises(ValueError, match='1 of 2 classes have no positive label, the first at 1'):
        average_precision(scores, labels, convention=convention, empty='error')
    default = mean_average_precision(scores, labels, convention=convention)
    assert default.value == pytest.approx(1 if convention in ('exact', 'voc11') else 0.5)
    assert default.num_empty == 1


def test_unknown_and_unfitting_conventions_are_rejected():
    with pytest.raises(ValueError, match=r"convention must be one of \('exact', .*\), got 'coco'"):
        average_precision([[0.5]], [[1]], convention='coco')
    with pytest.raises(ValueError, match="convention must be 'exact' or 'voc11' for pooled pairs, got 'asl'"):
        micro_average_precision([[0.5]], [[1]], convention='asl')

"""Weights from class frequencies, against the formulas label by label."""

import math

import pytest
import torch

from mmml_losses import functional as F
from mmml_losses.functional import weights as W
from mmml_losses.functional.pair import pair_loss
from mmml_losses.functional.terms import as_term, asymmetric_negative, bce_negative, bce_positive, hill_negative

FREQUENCIES = [12.0, 3.0, 700.0, 55.0, 240.0]
IMAGES = 1000.0
COUNTS = torch.tensor(FREQUENCIES, dtype=torch.float64)
LOSSES = {
    'weighted_bce': lambda v, y: F.weighted_bce_loss(v, y, COUNTS, IMAGES),
    'rw': lambda v, y: F.reweighted_bce_loss(v, y, COUNTS, IMAGES),
    'rw_inverse': lambda v, y: F.reweighted_bce_loss(v, y, COUNTS, IMAGES, mode='inverse'),
    'cb_by_class': lambda v, y: F.cb_focal_loss(v, y, COUNTS),
    'cb_average_n': lambda v, y: F.cb_focal_loss(v, y, COUNTS, mode='average_n'),
    'cb_average_w': lambda v, y: F.cb_focal_loss(v, y, COUNTS, mode='average_w'),
    'cb_min_n': lambda v, y: F.cb_focal_loss(v, y, COUNTS, mode='min_n'),
    'db': lambda v, y: F.db_loss(v, y, COUNTS, IMAGES),
    'db_focal': lambda v, y: F.db_focal_loss(v, y, COUNTS, IMAGES),
    'ldam': lambda v, y: F.ldam_loss(v, y, COUNTS, scale=2.0),
}
WITHOUT_IMAGE_WEIGHTS = ['weighted_bce', 'rw', 'rw_inverse', 'cb_by_class', 'ldam']


@pytest.fixture
def example():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(7, 5, generator=generator, dtype=torch.float64)
    targets = (torch.rand(7, 5, generator=generator) < 0.4).double()
    targets[0], targets[1] = 0, 1
    targets[2, 3] = targets[3, 0] = -1
    targets[4] = -1
    return logits.requires_grad_(), targets


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def positives(row):
    return [c for c, label in enumerate(row) if label == 1]


def by_hand(name, v, row, c):
    """Compute the loss of class c with logit v, in an image with the labels of row."""
    n, y = FREQUENCIES[c], row[c]
    effective = [(1 - 0.9) / (1 - 0.9**count) for count in FREQUENCIES]
    present = positives(row)
    if y == -1:
        return 0.0
    if name == 'weighted_bce':
        mean = sum(count**-0.1 for count in FREQUENCIES) / len(FREQUENCIES)
        weight = n**-0.1 / mean * ((IMAGES - n) / n if y == 1 else 1)
        return -weight * math.log(sigmoid(v if y == 1 else -v))
    if name.startswith('rw'):
        weight = IMAGES / n if name == 'rw_inverse' else math.sqrt(IMAGES / n)
        return -weight * math.log(sigmoid(v if y == 1 else -v))
    if name == 'ldam':
        margin = 0.5 * (n / min(FREQUENCIES)) ** -0.25
        return -math.log(sigmoid(2 * (v - margin) if y == 1 else -2 * v))
    if name.startswith('cb'):
        mode = name.removeprefix('cb_')
        if mode == 'by_class':
            weight = effective[c]
        elif not present:
            weight = 0.1
        elif mode == 'average_n':
            weight = 0.1 / (1 - 0.9 ** (sum(FREQUENCIES[k] for k in present) / len(present)))
        elif mode == 'average_w':
            weight = sum(effective[k] for k in present) / len(present)
        else:
            weight = 0.1 / (1 - 0.9 ** min(FREQUENCIES[k] for k in present))
        p = sigmoid(v if y == 1 else -v)
        return -2 * weight * (1 - p) ** 2 * math.log(p)
    rate = (1 / n) / sum(1 / FREQUENCIES[k] for k in present) if present else math.inf
    weight = 0.1 + (1.0 if rate == math.inf else sigmoid(10 * (rate - 0.3)))
    v = v - 0.05 / 5 * math.log(IMAGES / n - 1)
    p = sigmoid(v) if y == 1 else sigmoid(-5 * v)
    focus = 2 * (1 - p) ** 2 if name == 'db_focal' else 1
    return -weight / (1 if y == 1 else 5) * focus * math.log(p)


@pytest.mark.parametrize('name', LOSSES)
def test_losses_equal_their_formulas(example, name):
    logits, targets = example
    expected = [
        [by_hand(name, v, row, c) for c, v in enumerate(values)]
        for values, row in zip(logits.tolist(), targets.tolist(), strict=True)
    ]
    torch.testing.assert_close(LOSSES[name](logits, targets), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize('name', LOSSES)
def test_gradients_are_the_derivatives(example, name):
    logits, targets = example
    assert torch.autograd.gradcheck(lambda v: LOSSES[name](v, targets), logits)
    assert torch.autograd.gradgradcheck(lambda v: LOSSES[name](v, targets), logits)


@pytest.mark.parametrize('name', LOSSES)
def test_unknown_labels_change_nothing(example, name):
    logits, targets = example
    unknown = targets < 0
    values = LOSSES[name](logits, targets)
    other = LOSSES[name](torch.where(unknown, 50.0, logits), targets)
    assert (values[unknown] == 0).all()
    torch.testing.assert_close(other, values)
    # An unknown label is no positive: known labels weigh what they weigh next to a negative.
    torch.testing.assert_close(LOSSES[name](logits, targets.clamp(min=0))[~unknown], values[~unknown])


@pytest.mark.parametrize('name', LOSSES)
def test_callers_tensors_are_left_alone(example, name):
    logits, targets = example
    counts = COUNTS.clone()
    before = logits.detach().clone(), targets.clone()
    LOSSES[name](logits, targets).sum().backward()
    assert torch.equal(logits.detach(), before[0])
    assert torch.equal(targets, before[1])
    assert torch.equal(counts, COUNTS)


@pytest.mark.parametrize('name', [name for name in WITHOUT_IMAGE_WEIGHTS if name != 'ldam'])
def test_soft_targets_mix_the_two_terms(example, name):
    logits, _ = example
    soft = torch.full_like(logits, 0.25)
    one, zero = (LOSSES[name](logits, torch.full_like(logits, label)) for label in (1, 0))
    torch.testing.assert_close(LOSSES[name](logits, soft), 0.25 * one + 0.75 * zero)


def test_soft_targets_count_by_their_share():
    targets = torch.tensor([[0.5, 0.0, 0.25, 0.0, 0.0]], dtype=torch.float64)
    drawn = 0.5 / FREQUENCIES[0] + 0.25 / FREQUENCIES[2]
    expected = [0.1 + sigmoid(10 * (1 / n / drawn - 0.3)) for n in FREQUENCIES]
    torch.testing.assert_close(W.rebalancing_weights(targets, COUNTS)[0], torch.tensor(expected, dtype=torch.float64))
    average = (0.5 * FREQUENCIES[0] + 0.25 * FREQUENCIES[2]) / 0.75
    weight = W.class_balanced_weights(targets, COUNTS, mode='average_n')
    assert weight.item() == pytest.approx(0.1 / (1 - 0.9**average))


@pytest.mark.parametrize('name', LOSSES)
@pytest.mark.parametrize('dtype', [torch.bool, torch.int64, torch.float32])
def test_targets_of_any_dtype(example, name, dtype):
    logits, targets = example
    targets = targets.clamp(min=0)
    torch.testing.assert_close(LOSSES[name](logits, targets.to(dtype)), LOSSES[name](logits, targets))


def test_images_without_positives_have_the_limits():
    empty = torch.zeros(2, 5, dtype=torch.float64)
    assert (W.rebalancing_weights(empty, COUNTS, alpha=0.1) == 1.1).all()
    for mode in ('average_n', 'average_w', 'min_n'):
        weights = W.class_balanced_weights(empty, COUNTS, beta=0.99, mode=mode)
        assert weights.tolist() == [[pytest.approx(0.01)], [pytest.approx(0.01)]]
    assert W.rebalancing_weights(empty, COUNTS, beta=0.0).tolist() == [[0.6] * 5] * 2


def test_absent_classes_count_as_one_image():
    absent, once = torch.tensor([0.0, 10.0]), torch.tensor([1.0, 10.0])
    targets = torch.tensor([[1.0, 0.0]])
    for weigh in (
        lambda n: W.reweighting(n, 20.0),
        lambda n: W.class_balanced_weights(targets, n, mode='min_n'),
        lambda n: W.rebalancing_weights(targets, n),
        lambda n: W.ldam_margins(n),
    ):
        assert torch.equal(weigh(absent), weigh(once))
        assert weigh(absent).isfinite().all()


@pytest.mark.parametrize('counts', [[0.0, 20.0], [20.0, 20.0], [0.0, 1.0]])
def test_classes_in_no_or_in_every_image_stay_finite(counts):
    counts = torch.tensor(counts)
    assert W.frequency_bias(counts, 20.0).isfinite().all()
    for weights in W.frequency_balanced_weights(counts, 20.0):
        assert weights.isfinite().all()
        assert (weights > 0).all()


@pytest.mark.parametrize('beta', [0.0, 0.9, 0.9999, 1 - 1e-7])
def test_class_balanced_weights_keep_their_digits_in_float32(beta):
    counts = torch.tensor([1.0, 2.0, 50.0, 1e6])
    weights = W.class_balanced_weights(torch.zeros(1, 4), counts, beta).squeeze(0)
    exact = [(1 - beta) / -math.expm1(n * math.log(beta)) if beta else 1.0 for n in counts.tolist()]
    torch.testing.assert_close(weights, torch.tensor(exact), rtol=1e-5, atol=0)


def test_balanced_weights_balance():
    of_positives, of_negatives = W.frequency_balanced_weights(COUNTS, IMAGES, smoothing=0.3)
    torch.testing.assert_close(of_positives * COUNTS, of_negatives * (IMAGES - COUNTS))
    assert of_negatives.mean().item() == pytest.approx(1)
    torch.testing.assert_close(of_negatives[0] / of_negatives[1], torch.tensor((12 / 3) ** -0.3, dtype=torch.float64))


def test_margins_reach_their_maximum_at_the_rarest_class():
    margins = W.ldam_margins(COUNTS, max_margin=0.7)
    assert margins.argmax() == COUNTS.argmin()
    assert margins.max().item() == pytest.approx(0.7)
    torch.testing.assert_close(margins**4 * COUNTS, torch.full((5,), 3 * 0.7**4, dtype=torch.float64))


def test_weights_do_not_follow_autocast():
    counts = torch.tensor([45174.0, 151.0, 9.0])
    targets = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    expected = W.rebalancing_weights(targets, counts), W.class_balanced_weights(targets, counts, mode='average_n')
    with torch.autocast('cpu', torch.bfloat16):
        actual = W.rebalancing_weights(targets, counts), W.class_balanced_weights(targets, counts, mode='average_n')
    for computed, reference in zip(actual, expected, strict=True):
        assert computed.dtype == torch.float32
        assert torch.equal(computed, reference)


@pytest.mark.parametrize('inner', [bce_negative, bce_positive, asymmetric_negative, hill_negative])
def test_slopes_are_the_derivatives_of_the_terms(inner):
    logits = torch.linspace(-9, 9, 37, dtype=torch.float64, requires_grad=True)
    term = F.Stretched(inner, 3.0)
    values = term(logits)
    (derivative,) = torch.autograd.grad(values.sum(), logits)
    value, slope = term.value_and_slope(logits.detach())
    torch.testing.assert_close(value, values.detach())
    torch.testing.assert_close(slope, derivative)


def test_stretched_terms_take_any_function():
    logits, targets = torch.randn(3, 4), torch.zeros(3, 4)
    term = F.Stretched(as_term(lambda x: x.square()), 4.0)
    torch.testing.assert_close(pair_loss(logits, targets, bce_positive, term), 4 * logits.square())


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (
            lambda: W.reweighting(COUNTS, IMAGES, 'sqrt'),
            r"mode must be one of 'inverse', 'inverse_sqrt', got 'sqrt'",
        ),
        (
            lambda: W.class_balanced_weights(torch.zeros(1, 5), COUNTS, mode='max_n'),
            r"mode must be one of .*got 'max_n'",
        ),
        (lambda: W.class_balanced_weights(torch.zeros(1, 5), COUNTS, beta=1.0), r'beta must be in \[0, 1\), got 1.0'),
    ],
)
def test_bad_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()

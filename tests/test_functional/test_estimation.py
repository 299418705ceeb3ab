"""EM, APL, EPR and ROLE as functions, against the authors' figures and loops."""

import pytest
import torch

from mmml_losses.functional import bce_negative, bce_positive, entropy_negative
from mmml_losses.functional.estimation import (
    em_apl_loss,
    em_loss,
    epr_loss,
    expected_positive_regularizer,
    lowest_per_class,
    pseudo_negative_counts,
    role_loss,
)
from tests.helpers.figures import figures

EPSILON = 1e-5  # what the authors' codes add inside their logarithms


def tensor(values, **kwargs):
    return torch.tensor(values, dtype=torch.float64, **kwargs)


def tensors(case):
    return tensor(case['logits'], requires_grad=True), tensor(case['targets'])


def assert_equal(loss, logits, case, rtol=1e-6, atol=1e-12):
    torch.testing.assert_close(loss.detach(), tensor(case['loss']), rtol=rtol, atol=atol)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, tensor(case['grad']), rtol=rtol, atol=atol)


def assert_close_but_for_epsilon(loss, with_epsilon, logits, case):
    assert_equal(loss, logits, case, rtol=1e-3, atol=1e-4)
    assert_equal(with_epsilon, logits, case)


def cost(p):
    return -(p + EPSILON).log()


def entropy_with_epsilon(p, alpha):
    return -alpha * (p * cost(p) + (1 - p) * cost(1 - p))


@pytest.mark.parametrize('case', figures('em'))
def test_em_equals_the_authors_code_but_for_its_epsilon(case):
    logits, targets = tensors(case)
    alpha, p = case['params']['alpha'], logits.sigmoid()
    with_epsilon = torch.where(targets == 1, cost(p), entropy_with_epsilon(p, alpha)).mean()
    assert_close_but_for_epsilon(em_loss(logits, targets, alpha).mean(), with_epsilon, logits, case)


@pytest.mark.parametrize('case', figures('em_apl'))
def test_em_apl_equals_the_authors_code_but_for_its_epsilon(case):
    logits, targets = tensors(case)
    alpha, beta, p = case['params']['alpha'], case['params']['beta'], logits.sigmoid()
    pseudo_negatives = torch.where(targets < 0, -targets, -1)
    soft = pseudo_negatives.clamp(min=0)
    with_epsilon = torch.where(targets == 1, cost(p), entropy_with_epsilon(p, alpha))
    with_epsilon = torch.where(targets < 0, beta * (soft * cost(p) + (1 - soft) * cost(1 - p)), with_epsilon).mean()
    values = em_apl_loss(logits, targets.clamp(min=0), pseudo_negatives, alpha, beta)
    assert_close_but_for_epsilon(values.mean(), with_epsilon, logits, case)


@pytest.mark.parametrize('case', figures('epr'))
def test_epr_equals_the_authors_code_but_for_its_epsilon(case):
    logits, targets = tensors(case)
    k, p = case['params']['expected_num_pos'], logits.sigmoid()
    values, regularizer = epr_loss(logits, targets, k)
    with_epsilon = (targets * cost(p)).mean() + ((p.sum(1).mean() - k) / logits.size(1)) ** 2
    assert_close_but_for_epsilon(values.mean() + regularizer, with_epsilon, logits, case)


@pytest.mark.parametrize('case', figures('role'))
def test_role_equals_the_authors_code_but_for_its_epsilon(case):
    logits, targets = tensors(case)
    k, p = case['params']['expected_num_pos'], logits.sigmoid()
    estimated = tensor(case['params']['estimated_labels'])
    values, regularizer = role_loss(logits, targets, estimated.logit(), k)

    def half(own, given):
        values = targets * cost(own) + given * cost(own) + (1 - given) * cost(1 - own)
        return values.mean() + ((own.sum(1).mean() - k) / logits.size(1)) ** 2

    with_epsilon = (half(p, estimated) + half(estimated, p.detach())) / 2
    assert_close_but_for_epsilon(values.mean() + regularizer, with_epsilon, logits, case)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    targets = (torch.rand(6, 5, generator=generator) < 0.3).double()
    targets[1, 2] = targets[3, :2] = -1
    return logits.requires_grad_(), targets


def test_em_is_bce_for_positives_and_entropy_for_the_rest(batch):
    logits, targets = batch
    expected = torch.where(targets == 1, bce_positive(logits), entropy_negative(logits, 0.3))
    torch.testing.assert_close(em_loss(*batch, alpha=0.3), expected.masked_fill(targets < 0, 0))


def test_em_apl_without_pseudo_negatives_is_em(batch):
    torch.testing.assert_close(em_apl_loss(*batch, torch.full_like(batch[1], -1)), em_loss(*batch))


def test_pseudo_negatives_are_read_at_unobserved_labels_only(batch):
    logits, targets = batch
    values = em_apl_loss(*batch, torch.full_like(targets, 0.25), beta=0.5)
    expected = 0.5 * (0.25 * bce_positive(logits) + 0.75 * bce_negative(logits))
    torch.testing.assert_close(values, torch.where(targets == 0, expected, em_loss(*batch)))


@pytest.mark.parametrize('warmup_epochs', [0, 3])
def test_the_schedule_adds_evenly_and_ends_at_the_share(warmup_epochs):
    unobserved = torch.tensor([100, 10, 0])
    counts = [pseudo_negative_counts(unobserved, 0.8, epoch, warmup_epochs, 8) for epoch in range(9)]
    assert all(not count.any() for count in counts[:warmup_epochs])
    assert counts[7].tolist() == counts[8].tolist() == [80, 8, 0]
    steps = torch.stack(counts[warmup_epochs:8]).diff(dim=0)
    assert set(steps[:, 0].tolist()) == {80 // (8 - warmup_epochs)}


def test_the_lowest_of_each_class_are_those_of_a_sort():
    generator = torch.Generator().manual_seed(0)
    log_odds = torch.randn(20, 4, generator=generator).half()
    candidates = torch.rand(20, 4, generator=generator) < 0.6
    counts = torch.tensor([3, 0, 5, 99])
    picked = lowest_per_class(log_odds, candidates, counts)
    for label in range(4):
        order = sorted((row for row in range(20) if candidates[row, label]), key=lambda row: log_odds[row, label])
        assert set(picked[:, label].nonzero().squeeze(1).tolist()) == set(order[: counts[label]])


def test_ties_go_to_the_smaller_index():
    picked = lowest_per_class(torch.zeros(4, 1), torch.tensor([[True], [False], [True], [True]]), torch.tensor([2]))
    assert picked.squeeze(1).tolist() == [True, False, True, False]


def test_the_regularizer_is_the_formula():
    p = torch.tensor([[0.5, 0.1, 0.4], [1.0, 1.0, 0.0]])
    assert expected_positive_regularizer(p, 1.2).item() == pytest.approx(((1.5 - 1.2) / 3) ** 2)
    assert expected_positive_regularizer(p, 1.5).item() == pytest.approx(0)
    torch.testing.assert_close(
        expected_positive_regularizer(p, 1.2, torch.zeros(2, 3)), expected_positive_regularizer(p, 1.2)
    )


def test_the_regularizer_counts_no_unknown_labels_and_samples():
    p = torch.rand(4, 3, dtype=torch.float64)
    targets = torch.zeros(4, 3, dtype=torch.float64)
    targets[:, 1], targets[2] = -1, -1
    expected = expected_positive_regularizer(p[[0, 1, 3]][:, [0, 2]], 1.2)
    torch.testing.assert_close(expected_positive_regularizer(p, 1.2, targets), expected)


@pytest.mark.parametrize('targets', [None, torch.zeros(0, 3), torch.full((2, 3), -1)])
def test_nothing_known_costs_nothing(targets):
    p = torch.rand(0 if targets is None else len(targets), 3, requires_grad=True)
    value = expected_positive_regularizer(p, 2.0, targets)
    assert value == 0
    assert not torch.autograd.grad(value, p)[0].any()


def test_gradients_are_the_derivatives(batch):
    logits, targets = batch
    pseudo_negatives = torch.full_like(targets, 0.1)
    estimates = torch.randn_like(logits).detach().requires_grad_()
    check = torch.autograd.gradcheck
    assert check(lambda x: em_apl_loss(x, targets, pseudo_negatives), logits)
    assert check(lambda x: epr_loss(x, targets, 1.5), logits)
    assert check(lambda x: expected_positive_regularizer(x.sigmoid(), 1.5, targets), logits)
    assert torch.autograd.gradgradcheck(lambda x: epr_loss(x, targets, 1.5), logits)
    # The halves of ROLE take each other as constants, so the derivative of one is that of its half.
    values, regularizer = role_loss(logits, targets, estimates, 1.5)
    gradients = torch.autograd.grad(values.sum() + regularizer, (logits, estimates))
    for own, given, gradient in ((logits, estimates, gradients[0]), (estimates, logits, gradients[1])):
        p, q = own.sigmoid(), given.sigmoid().detach()
        known = (targets >= 0).double()
        alone = targets.clamp(min=0) * -p.log() - known * (q * p.log() + (1 - q) * (1 - p).log())
        total = (alone.sum() + expected_positive_regularizer(p, 1.5, targets)) / 2
        torch.testing.assert_close(gradient, torch.autograd.grad(total, own)[0])


def test_unobserved_labels_of_epr_cost_nothing_themselves():
    logits = torch.tensor([[-1e4, 0.0, 1e4]], requires_grad=True)
    values, _ = epr_loss(logits, torch.zeros(1, 3), 1.0)
    assert not values.any()
    assert not torch.autograd.grad(values.sum(), logits)[0].any()

"""Large losses of unobserved labels, against the authors' figures and a sort."""

import math

import pytest
import torch

from mmml_losses.functional import asymmetric_negative, bce_negative, bce_positive, hill_negative
from mmml_losses.functional.large_loss import (
    clean_rate_of,
    large_loss_correction,
    large_loss_permanent_correction,
    large_loss_rejection,
    large_losses,
)
from tests.helpers.figures import figures


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(7, 6, generator=generator, dtype=torch.float64)
    targets = (torch.rand(7, 6, generator=generator) < 0.3).double()
    targets[1, 2] = targets[3, :2] = -1
    return logits, targets


def values_of(case, logits, targets):
    clean_rate, relative_increase = case['params']['clean_rate'], case['params']['delta_rel']
    if case['name'] == 'll_r':
        return large_loss_rejection(logits, targets, clean_rate)
    if case['name'] == 'll_ct':
        return large_loss_correction(logits, targets, clean_rate)
    return large_loss_permanent_correction(logits, targets, relative_increase)[0]


@pytest.mark.parametrize('case', figures('ll_r', 'll_ct', 'll_cp'))
def test_equals_the_authors_code(case):
    logits = torch.tensor(case['logits'], dtype=torch.float64, requires_grad=True)
    loss = values_of(case, logits, torch.tensor(case['targets'], dtype=torch.float64)).mean()
    assert loss.item() == pytest.approx(case['loss'])
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.tensor(case['grad'], dtype=torch.float64), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize('share', [0, 0.01, 0.1, 0.5, 0.9, 1])
@pytest.mark.parametrize('negative', [bce_negative, hill_negative])
def test_the_largest_are_those_of_a_sort(batch, share, negative):
    logits, targets = batch
    losses = negative(logits)
    unobserved = [(row, label) for row in range(7) for label in range(6) if targets[row, label] == 0]
    unobserved.sort(key=lambda place: -losses[place])
    expected = torch.zeros(7, 6, dtype=torch.bool)
    for place in unobserved[: math.ceil((targets >= 0).sum().item() * share)]:
        expected[place] = True
    assert torch.equal(large_losses(logits, targets, share, negative), expected)


@pytest.mark.parametrize('share', [0.0001, 0.01, 0.3])
@pytest.mark.parametrize('sorted_logits', [False, True])
def test_large_batches_take_a_shortcut_to_the_same(share, sorted_logits):
    logits = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    logits = logits.sort().values if sorted_logits else logits
    logits[::64] = -9  # of which the sample knows nothing
    found = large_losses(logits.view(100, 1000), torch.zeros(100, 1000), share)
    expected = logits >= logits.sort(descending=True).values[math.ceil(100_000 * share) - 1]
    assert torch.equal(found.flatten(), expected)


def test_a_share_is_not_rounded_up_for_its_last_binary_digit():
    logits = torch.arange(1000.0).view(1, 1000)
    assert large_losses(logits, torch.zeros(1, 1000), 1 - clean_rate_of(1, 0.002)).sum() == 2


def test_ties_at_the_last_place_are_all_large():
    logits = torch.tensor([[3.0, 1.0, 1.0, 0.0]])
    assert large_losses(logits, torch.zeros(1, 4), 0.5).tolist() == [[True, True, True, False]]


def test_what_costs_nothing_is_not_large():
    logits = torch.tensor([[0.0, -9.0, -9.0, -9.0]])  # below the margin of ASL the loss is 0
    assert large_losses(logits, torch.zeros(1, 4), 1.0, asymmetric_negative).tolist() == [[True, False, False, False]]


@pytest.mark.parametrize('fill', [1, -1, 0.5])
def test_without_unobserved_labels_nothing_is_large(fill):
    assert not large_losses(torch.randn(3, 4), torch.full((3, 4), fill), 1.0).any()


@pytest.mark.parametrize('shape', [(0, 4), (3, 0), (1, 1)])
def test_small_batches(shape):
    logits = torch.zeros(shape)
    assert large_losses(logits, torch.zeros(shape), 0.5).shape == shape


def test_clean_rate_falls_from_one_to_zero():
    assert [clean_rate_of(epoch, 0.25) for epoch in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]


def test_observed_labels_are_never_touched(batch):
    logits, targets = batch
    positives = targets == 1
    expected = bce_positive(logits)[positives]
    for values in (
        large_loss_rejection(logits, targets, 0.0),
        large_loss_correction(logits, targets, 0.0),
        large_loss_permanent_correction(logits, targets, 1.0)[0],
    ):
        torch.testing.assert_close(values[positives], expected)
        assert (values[targets == -1] == 0).all()


def test_rejection_drops_and_correction_flips(batch):
    logits, targets = batch
    large = large_losses(logits, targets, 0.2)
    rejected, corrected = (function(logits, targets, 0.8) for function in (large_loss_rejection, large_loss_correction))
    assert (rejected[large] == 0).all()
    torch.testing.assert_close(corrected[large], bce_positive(logits)[large])
    torch.testing.assert_close(rejected[~large], corrected[~large])


def test_a_permanent_correction_stays_and_leaves_room_for_more(batch):
    logits, targets = batch
    first = large_losses(logits, targets, 0.1)
    values, corrected = large_loss_permanent_correction(logits, targets, 0.1)
    assert torch.equal(corrected, first)
    # In the next batch the label is easy, yet it stays positive, and the next ones follow.
    _, corrected = large_loss_permanent_correction(-logits, targets, 0.1, corrected)
    assert corrected[first].all()
    assert corrected.sum() == 2 * math.ceil((targets >= 0).sum().item() * 0.1)
    values, kept = large_loss_permanent_correction(logits, targets, 0.0, corrected)
    assert torch.equal(kept, corrected)
    torch.testing.assert_close(values[corrected], bce_positive(logits)[corrected])


def test_a_correction_of_an_observed_label_is_ignored(batch):
    logits, targets = batch
    _, corrected = large_loss_permanent_correction(logits, targets, 0.0, torch.ones(7, 6, dtype=torch.bool))
    assert torch.equal(corrected, targets == 0)


def test_labels_of_any_type_and_callers_tensors(batch):
    logits, targets = batch
    hard = targets.clamp(min=0).to(torch.uint8)
    before = hard.clone()
    torch.testing.assert_close(
        large_loss_rejection(logits, hard, 0.5), large_loss_rejection(logits, hard.double(), 0.5)
    )
    assert torch.equal(hard, before)

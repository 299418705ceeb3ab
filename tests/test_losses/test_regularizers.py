"""LPR in blocks, and consistency between views."""

import itertools

import pytest
import torch

from benchmarks.losses import measure_memory
from mmml_losses import functional as F
from mmml_losses.functional import regularizers
from mmml_losses.losses import BCELoss, ConsistencyRegularizer, LabelPairRegularizer, SPALink, SPALoss, SumLoss


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(9, 40, generator=generator, dtype=torch.float64)
    targets = (torch.rand(9, 40, generator=generator) < 0.1).double()
    targets[2, :5] = -1
    return logits.requires_grad_(), targets


@pytest.mark.parametrize('block', [1, 40, 85, 10**6])
def test_blocks_of_pairs_give_all_pairs(batch, block, monkeypatch):
    logits, targets = batch
    expected = regularizers._label_pairs(logits, targets)
    monkeypatch.setattr(regularizers, 'BLOCK', block)
    totals = regularizers._LabelPairs.apply(logits, targets)
    torch.testing.assert_close(totals, expected)
    weights = torch.rand(9, dtype=torch.float64)
    torch.testing.assert_close(
        *(torch.autograd.grad((weights * value).sum(), logits)[0] for value in (totals, expected))
    )


def test_lpr_of_thousands_of_classes_needs_no_matrix_of_pairs():
    logits = torch.randn(4, 20_000, requires_grad=True)
    targets = torch.zeros(4, 20_000)
    targets[:, :50] = 1  # four million pairs
    needed = measure_memory(LabelPairRegularizer(), logits, targets)
    assert needed < 5 * logits.numel() * logits.element_size()
    assert needed < 0.1 * measure_memory(lambda *batch: regularizers._label_pairs(*batch).mean(), logits, targets)


def test_lpr_is_least_where_positives_lead():
    targets = torch.tensor([[1.0, 0, 0, 1]])
    better = LabelPairRegularizer()(torch.tensor([[4.0, -4, -4, 4]]), targets)
    worse = LabelPairRegularizer()(torch.tensor([[-4.0, 4, 4, -4]]), targets)
    assert better < 0.01 < worse


@pytest.mark.parametrize('views', [1, 2])
def test_consistency_is_the_distance_between_probabilities(batch, views):
    logits, targets = batch
    others = [logits.detach() + shift for shift in (0.5, -1.0)[:views]]
    values = ConsistencyRegularizer(reduction='none')(logits, targets, views=others)
    outputs = [x.sigmoid() for x in (logits, *others)]
    for row, value in enumerate(values):
        known = targets[row] >= 0
        pairs = itertools.combinations(outputs, 2)
        expected = sum((one[row] - other[row])[known].square().sum() for one, other in pairs)
        torch.testing.assert_close(value, expected)


def test_gradients_reach_every_view(batch):
    logits, targets = batch
    view = (logits.detach() + 1).requires_grad_()
    ConsistencyRegularizer()(logits, targets, views=[view]).backward()
    torch.testing.assert_close(view.grad, -logits.grad * _slope(view) / _slope(logits), rtol=1e-6, atol=1e-12)


def _slope(logits):
    p = logits.detach().sigmoid()
    return p * (1 - p)


def test_consistency_reads_through_the_link_of_its_sum(batch):
    logits, targets = batch
    view = logits.detach() + 1
    loss = SumLoss(dict(spa=SPALoss(), consistency=ConsistencyRegularizer(loss_weight=0.7)))
    parts = loss.parts(logits, targets, views=[view])
    link = SPALink()
    expected = F.consistency_regularizer([link(logits), link(view)], targets).mean()
    torch.testing.assert_close(parts['consistency'], 0.7 * expected)


def test_half_precision_views_are_promoted(batch):
    logits, targets = batch
    view = logits.detach().half()
    loss = ConsistencyRegularizer()(logits.detach().half(), targets, views=[view])
    assert loss.dtype == torch.float32
    assert loss == 0


@pytest.mark.parametrize(
    ('views', 'message'),
    [
        (None, r'views must be the logits of one or two more views of the images, got None'),
        ([], 'views must be the logits'),
        ([torch.zeros(9, 3)], r'views must be of the shape of cls_score, \(9, 40\), got \(9, 3\)'),
    ],
)
def test_bad_views_are_rejected(batch, views, message):
    with pytest.raises(ValueError, match=message):
        ConsistencyRegularizer()(*batch, views=views)


def test_losses_that_need_no_views_do_not_mind_them(batch):
    torch.testing.assert_close(BCELoss()(*batch, views=[batch[0]]), BCELoss()(*batch))

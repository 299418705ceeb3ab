"""What is particular to single losses."""

import copy
import itertools

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from mmml_losses.losses import (
    AsymmetricLoss,
    BCELoss,
    FocalLoss,
    HillLoss,
    LabelPairRegularizer,
    LASLoss,
    PairLoss,
    PhiLink,
    SigmoidLink,
    SPALink,
    SPALoss,
    SumLoss,
)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(7, 6, generator=generator, dtype=torch.float64)
    return logits, (torch.rand(7, 6, generator=generator) < 0.4).double()


def test_bce_equals_torch(batch):
    torch.testing.assert_close(BCELoss()(*batch), binary_cross_entropy_with_logits(*batch))


def test_asl_without_focusing_and_margin_is_bce(batch):
    loss = AsymmetricLoss(gamma_positive=0, gamma_negative=0, margin=0)
    torch.testing.assert_close(loss(*batch), BCELoss()(*batch))


def test_spa_with_unit_parameters_is_bce(batch):
    loss = SPALoss(negative_scale=1, negative_slope=1, negative_shift=0)
    torch.testing.assert_close(loss(*batch), BCELoss()(*batch))
    torch.testing.assert_close(loss.probabilities(batch[0]), batch[0].sigmoid())


@pytest.mark.parametrize('link', [SigmoidLink(), SPALink()])
def test_lpr_equals_a_double_loop(batch, link):
    logits, targets = batch
    targets = targets.clone()
    targets[2, 1] = targets[3, :2] = -1
    odds = link.logit_probabilities(logits)
    for row, value in enumerate(LabelPairRegularizer(link=link, reduction='none')(logits, targets)):
        labels = [label for label in range(6) if targets[row, label] >= 0]
        pairs = [(a, b) for a, b in itertools.permutations(labels, 2) if targets[row, a] == 1 and targets[row, b] == 0]
        total = sum(softplus(odds[row, b] - odds[row, a]).item() for a, b in pairs)
        assert value.item() == pytest.approx(2 * total / (len(labels) * (len(labels) - 1)))


def test_sum_is_the_sum_of_its_parts(batch):
    spa, lpr = SPALoss(), LabelPairRegularizer(loss_weight=0.3)
    loss = SumLoss(dict(spa=spa, lpr=lpr), loss_weight=2.0)
    parts = loss.parts(*batch)
    assert list(parts) == ['spa', 'lpr']
    torch.testing.assert_close(loss(*batch), parts['spa'] + parts['lpr'])
    torch.testing.assert_close(parts['spa'], 2 * SPALoss()(*batch))
    torch.testing.assert_close(parts['lpr'], 2 * 0.3 * LabelPairRegularizer(link=SPALink())(*batch))


def test_sum_reads_through_its_first_pointwise_part(batch):
    logits, _ = batch
    for losses in (
        dict(spa=SPALoss(), lpr=LabelPairRegularizer()),
        dict(lpr=LabelPairRegularizer(), spa=SPALoss(), bce=BCELoss()),
    ):
        loss = SumLoss(losses)
        torch.testing.assert_close(loss.probabilities(logits), SPALoss().probabilities(logits))
        assert loss.losses['lpr'].link is loss.link


def test_sum_and_its_parts_keep_the_links_they_are_given(batch):
    logits, _ = batch
    own = SigmoidLink()
    loss = SumLoss(dict(spa=SPALoss(), lpr=LabelPairRegularizer(link=own)))
    assert loss.losses['lpr'].link is own
    loss = SumLoss(dict(spa=SPALoss(), lpr=LabelPairRegularizer()), link=dict(type='SigmoidLink'))
    torch.testing.assert_close(loss.probabilities(logits), logits.sigmoid())


def test_nested_regularisers_read_through_the_loss_next_to_them(batch):
    nested = dict(type='SumLoss', losses=dict(lpr=dict(type='LabelPairRegularizer')))
    expected = SumLoss(dict(spa=SPALoss(), lpr=LabelPairRegularizer()))
    for losses in (dict(spa=SPALoss(), more=nested), dict(more=nested, spa=SPALoss())):
        loss = SumLoss(losses)
        torch.testing.assert_close(loss(*batch), expected(*batch))
        torch.testing.assert_close(loss.probabilities(batch[0]), SPALoss().probabilities(batch[0]))
    told = SumLoss(dict(more=nested, spa=SPALoss()), link=SigmoidLink())
    assert told.losses['more'].losses['lpr'].link is told.link


def test_a_regularisers_own_link_is_not_the_sums(batch):
    loss = SumLoss(dict(lpr=LabelPairRegularizer(link=SigmoidLink()), spa=SPALoss()))
    torch.testing.assert_close(loss.probabilities(batch[0]), SPALoss().probabilities(batch[0]))


@pytest.mark.parametrize(
    ('losses', 'error', 'message'),
    [
        ({}, ValueError, 'at least one part'),
        ([BCELoss()], TypeError, 'losses must be a dict of losses by name, got list'),
        ({'bce_loss': BCELoss()}, ValueError, "names without 'loss'.*'bce_loss'"),
        ({'bce': torch.nn.BCELoss()}, TypeError, 'losses of mmml_losses'),
        ({'bce': BCELoss(reduction='none')}, ValueError, "a mean or 'sum' in a part of SumLoss, got 'none' in 'bce'"),
    ],
)
def test_bad_sums_are_rejected(losses, error, message):
    with pytest.raises(error, match=message):
        SumLoss(losses)


def test_a_sum_switches_the_checks_of_its_parts_off(batch):
    logits, targets = batch
    bad = logits.masked_fill(logits > 1, torch.inf)
    with pytest.raises(ValueError, match='cls_score must be finite'):
        SumLoss(dict(bce=BCELoss(), lpr=LabelPairRegularizer()))(bad, targets)
    SumLoss(dict(bce=BCELoss(), lpr=LabelPairRegularizer()), check_inputs=False)(bad, targets)


def test_a_sum_compiles_its_parts(batch, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, 'compile', lambda self, **settings: compiled.append(type(self).__name__))
    loss = SumLoss(dict(spa=dict(type='SPALoss'), bce=BCELoss()), compile=True)
    assert compiled == ['SPALoss', 'BCELoss']
    copy.deepcopy(loss)
    assert compiled == ['SPALoss', 'BCELoss'] * 2


def test_a_pair_of_spa_terms_reads_through_their_link(batch):
    logits, _ = batch
    torch.testing.assert_close(PairLoss('spa', 'spa').probabilities(logits), SPALoss().probabilities(logits))
    negative = dict(type='spa', scale=2.0, slope=1.5)
    expected = SPALoss(negative_scale=2.0, negative_slope=1.5).probabilities(logits)
    torch.testing.assert_close(PairLoss('spa', negative).probabilities(logits), expected)
    torch.testing.assert_close(PairLoss('bce', 'spa').probabilities(logits), logits.sigmoid())


def test_sum_rejects_reduction_none(batch):
    with pytest.raises(ValueError, match="reduction_override must be a mean or 'sum' for SumLoss"):
        SumLoss(dict(bce=BCELoss()))(*batch, reduction_override='none')


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: BCELoss(reduction='avg'), r"reduction must be one of .* got 'avg'"),
        (lambda: SPALoss(use_sigmoid=False), 'use_sigmoid must be True, got False: SPALoss scores every class'),
        (lambda: AsymmetricLoss(gamma_negative=-1), 'gamma_negative must be at least 0, got -1'),
        (lambda: AsymmetricLoss(margin=1.0), r'margin must be in \[0, 1\), got 1.0'),
        (lambda: SPALoss(negative_scale=0), 'negative_scale must be above 0, got 0'),
        (lambda: LASLoss(gamma_positive=-1), 'gamma_positive must be at least 0, got -1'),
        (lambda: LASLoss(negative_leverage=-1), 'negative_leverage must be at least 0, got -1'),
    ],
)
def test_bad_hyper_parameters_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: BCELoss(link='phi'), "link must be a link of mmml_losses, its config or None .* got 'phi'"),
        (lambda: BCELoss()(torch.zeros(2, 3), [0, 1]), 'target must be a tensor, got list'),
        (lambda: BCELoss(loss_weight='1'), "loss_weight must be a number, got '1'"),
        (
            lambda: HillLoss(gama=2),
            r'HillLoss takes lamb, margin, gamma, reduction, loss_weight, .*, got gama \(.* add _delete_=True\)',
        ),
    ],
)
def test_wrong_types_are_rejected(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_flags_are_no_class_indices():
    with pytest.raises(ValueError, match=r'target must be of the shape of cls_score.*torch\.bool'):
        BCELoss()(torch.zeros(2, 3), torch.tensor([True, False]))


@pytest.mark.parametrize('loss', [AsymmetricLoss, FocalLoss])
def test_phi_is_the_link_of_the_same_constants(batch, loss):
    logits, _ = batch
    arguments = dict(gamma_positive=1.0, gamma_negative=3.0)
    expected = PhiLink(**arguments, margin=0.05 if loss is AsymmetricLoss else 0.0)(logits)
    torch.testing.assert_close(loss(**arguments, link='phi').probabilities(logits), expected)
    with pytest.raises(TypeError, match=r"link must be a link of mmml_losses, its config or None .* got 'psi'"):
        loss(link='psi')


@pytest.mark.parametrize('loss', [AsymmetricLoss, FocalLoss])
def test_phi_has_the_same_constants_for_constant_focusing_weights(batch, loss):
    logits, _ = batch
    with_gradient, without = (loss(gamma_positive=1.0, detach_weight=each, link='phi') for each in (False, True))
    assert torch.equal(with_gradient.probabilities(logits), without.probabilities(logits))


@pytest.mark.parametrize('alpha', [0.0, 1.0])
def test_phi_needs_both_terms(alpha):
    with pytest.raises(ValueError, match=rf'alpha must be in \(0, 1\), got {alpha}'):
        FocalLoss(alpha=alpha, link='phi')

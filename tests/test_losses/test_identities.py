"""Losses that the papers prove equal, or that are one formula by two names."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from mmml_losses import functional as F
from mmml_losses.losses import (
    AsymmetricLoss,
    BCELoss,
    DRLoss,
    EMLoss,
    FocalLoss,
    FocalMarginLoss,
    HillLoss,
    LargeLossCorrection,
    LargeLossRejection,
    LASDLoss,
    LASLoss,
    LSEPLoss,
    MSENegativeLoss,
    MultiSimilarityLoss,
    PairLoss,
    SoftmaxLoss,
    SPALoss,
    SPLCLoss,
    TwoWayLoss,
    WANLoss,
    ZLPRLoss,
)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(8, 6, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), (torch.rand(8, 6, generator=generator) < 0.4).double()


def assert_same(one, other, batch, **context):
    logits, targets = batch
    losses = [loss(logits, targets, **context) for loss in (one, other)]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in losses))


@pytest.mark.parametrize('threshold', [0.6, 0.9])
def test_lasd_with_unit_leverages_is_splc_without_shift(batch, threshold):
    lasd = LASDLoss(positive_leverage=1.0, negative_leverage=1.0, threshold=threshold)
    splc = SPLCLoss(positive='bce', negative=dict(type='asymmetric', margin=0.0), threshold=threshold)
    assert_same(lasd, splc, batch, epoch=1)


def test_lasd_without_pseudo_positives_is_asl_without_shift(batch):
    lasd = LASDLoss(positive_leverage=1.0, negative_leverage=1.0, threshold=1.0)
    assert_same(lasd, AsymmetricLoss(margin=0.0), batch)


def test_lasd_without_pseudo_positives_is_las(batch):
    assert_same(LASDLoss(negative_leverage=0.3, threshold=1.0), LASLoss(negative_leverage=0.3), batch)


def test_lasd_without_focusing_and_pseudo_positives_is_wan(batch):
    lasd = LASDLoss(negative_leverage=0.2, threshold=1.0, gamma_negative=0.0)
    assert_same(lasd, WANLoss(negative_weight=0.2), batch)


def test_las_without_focusing_for_one_expected_positive_is_wan(batch):
    assert_same(LASLoss(gamma_negative=0.0), WANLoss(), batch)


def test_splc_before_its_first_epoch_is_its_pair(batch):
    assert_same(SPLCLoss(change_epoch=3), FocalMarginLoss(), batch, epoch=2)
    assert_same(SPLCLoss(positive='bce', negative='bce'), BCELoss(), batch, epoch=0)


def test_both_readings_of_splc_agree_without_a_margin(batch):
    pair = dict(positive='focal', negative='focal')
    assert_same(SPLCLoss(**pair), SPLCLoss(**pair, margin_for_pseudo=True), batch, epoch=1)


def test_readings_of_splc_differ_by_the_margin_of_corrected_labels(batch):
    logits, targets = batch
    code, equation = (SPLCLoss(margin_for_pseudo=value, reduction='none') for value in (False, True))
    corrected = code.corrected_targets(logits, targets, epoch=1)
    pseudo = corrected != targets
    assert pseudo.any()
    difference = code(logits, targets, epoch=1) != equation(logits, targets, epoch=1)
    assert torch.equal(difference, pseudo)
    focal = F.asymmetric_positive(logits, gamma=2.0)
    torch.testing.assert_close(code(logits, targets, epoch=1)[pseudo], focal[pseudo])


def test_large_losses_of_the_first_epoch_are_bce(batch):
    assert_same(LargeLossRejection(), BCELoss(), batch, epoch=0)
    assert_same(LargeLossCorrection(), BCELoss(), batch, epoch=0)


def test_zlpr_is_multi_similarity(batch):
    for way in ('sample', 'class', 'both', 'joint'):
        assert_same(ZLPRLoss(way=way), MultiSimilarityLoss(way=way, positive_temperature=1.0), batch)


@pytest.mark.parametrize('temperature', [1.0, 4.0])
def test_two_way_with_one_positive_is_softmax(batch, temperature):
    logits, _ = batch
    labels = torch.tensor([0, 5, 2, 2, 1, 3, 4, 0])
    two_way = TwoWayLoss(way='sample', positive_temperature=temperature)
    assert_same(two_way, SoftmaxLoss(way='sample'), (logits, labels))
    torch.testing.assert_close(two_way(logits, labels), cross_entropy(logits, labels))


def test_dr_without_constraint_is_class_wise_lsep(batch):
    assert_same(DRLoss(pair_scale=5.0, constraint=None), LSEPLoss(way='class', gamma=5.0), batch)


def test_two_way_with_unit_temperatures_is_lsep_but_for_its_count(batch):
    logits, targets = batch
    lsep = LSEPLoss(way='class')(logits, targets, reduction_override='sum')
    two_way = TwoWayLoss(way='class', positive_temperature=1.0)(logits, targets, reduction_override='sum')
    torch.testing.assert_close(two_way, lsep)


def test_spa_with_unit_parameters_is_bce(batch):
    unit = SPALoss(negative_scale=1, negative_slope=1, negative_shift=0)
    assert_same(unit, BCELoss(), batch)
    torch.testing.assert_close(unit.probabilities(batch[0]), batch[0].sigmoid())


@pytest.mark.parametrize(
    ('positive', 'negative', 'loss'),
    [
        ('bce', 'bce', BCELoss()),
        ('bce', dict(type='bce', weight=0.2), WANLoss(negative_weight=0.2)),
        ('focal', 'focal', FocalLoss()),
        (dict(type='focal', weight=0.25), dict(type='focal', weight=0.75), FocalLoss(alpha=0.25)),
        ('bce', 'asymmetric', AsymmetricLoss()),
        ('focal_margin', 'focal', FocalMarginLoss()),
        ('bce', 'mse', MSENegativeLoss()),
        ('focal_margin', 'hill', HillLoss()),
        (dict(type='focal_margin', margin=0.0), 'bce', PairLoss('focal', 'bce')),
        ('spa', 'spa', SPALoss()),
        ('bce', dict(type='entropy', alpha=0.2), EMLoss()),
    ],
)
def test_ablations_are_pairs_by_name(batch, positive, negative, loss):
    assert_same(PairLoss(positive=positive, negative=negative), loss, batch)


def test_focal_without_focusing_is_bce(batch):
    assert_same(FocalLoss(gamma=0.0), BCELoss(), batch)
    assert_same(AsymmetricLoss(gamma_positive=0, gamma_negative=0, margin=0), BCELoss(), batch)

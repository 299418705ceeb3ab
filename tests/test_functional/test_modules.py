"""Every loss function against the registered loss of its name, with settings that are not the defaults."""

import pytest
import torch

from mmml_losses import functional as F
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES
from tests.helpers.losses_table import example

COUNTS = [12.0, 3.0, 700.0, 55.0, 240.0]
FREQUENT = dict(class_frequencies=COUNTS, num_samples=1000)
SPA = dict(
    positive_scale=1.3,
    positive_slope=0.7,
    positive_shift=0.4,
    negative_scale=2.5,
    negative_slope=1.7,
    negative_shift=-0.6,
)
DB = dict(alpha=0.3, beta=4.0, mu=0.6, negative_scale=2.0, kappa=0.2)
TERMS = dict(positive=F.focal_margin_positive, negative=F.hill_negative)
TEMPERATURES = dict(positive_temperature=3.0, negative_temperature=0.5, logit_bias=0.7)

# A function by its name, the registered loss, and settings that both take.
SAME_SETTINGS = [
    ('bce_loss', 'BCELoss', {}),
    ('label_smoothing_bce_loss', 'LabelSmoothingBCELoss', dict(epsilon=0.2)),
    ('label_smoothing_bce_loss', 'LabelSmoothingBCELoss', dict(epsilon=0.3, reading='paper')),
    ('wan_loss', 'WANLoss', {}),
    ('wan_loss', 'WANLoss', dict(negative_weight=0.3)),
    ('focal_loss', 'FocalLoss', dict(gamma_positive=1.5, gamma_negative=3.0)),
    ('focal_loss', 'FocalLoss', dict(gamma_positive=0.5, gamma_negative=2.5, alpha=0.3)),
    ('focal_loss', 'FocalLoss', dict(gamma_positive=3.0, gamma_negative=0.5, detach_weight=True)),
    ('asymmetric_loss', 'AsymmetricLoss', dict(gamma_positive=1.0, gamma_negative=3.0, margin=0.1)),
    ('asymmetric_loss', 'AsymmetricLoss', dict(gamma_positive=2.0, gamma_negative=0.5, margin=0.2, detach_weight=True)),
    ('focal_margin_loss', 'FocalMarginLoss', dict(margin=0.4, gamma=3.0)),
    ('mse_negative_loss', 'MSENegativeLoss', {}),
    ('hill_loss', 'HillLoss', dict(lamb=1.8, margin=0.6, gamma=3.0)),
    ('spa_loss', 'SPALoss', SPA),
    ('las_loss', 'LASLoss', dict(negative_leverage=0.3, gamma_positive=1.0, gamma_negative=2.5)),
    ('las_loss', 'LASLoss', dict(expected_positives=1.7, gamma_positive=2.0, gamma_negative=0.5)),
    ('pair_loss', 'PairLoss', TERMS),
    ('em_loss', 'EMLoss', dict(alpha=0.7)),
    ('weighted_bce_loss', 'WeightedBCELoss', dict(smoothing=0.4, **TERMS, **FREQUENT)),
    ('reweighted_bce_loss', 'ReweightedBCELoss', dict(mode='inverse', **TERMS, **FREQUENT)),
    ('cb_focal_loss', 'CBFocalLoss', dict(class_frequencies=COUNTS, beta=0.99, mode='min_n', gamma=1.5, balance=3.0)),
    ('cb_focal_loss', 'CBFocalLoss', dict(class_frequencies=COUNTS, beta=0.5, gamma=0.5)),
    ('db_loss', 'DBLoss', dict(**DB, **TERMS, **FREQUENT)),
    ('db_focal_loss', 'DBFocalLoss', dict(**DB, gamma=1.5, balance=3.0, **FREQUENT)),
    ('ldam_loss', 'LDAMLoss', dict(class_frequencies=COUNTS, max_margin=0.9, scale=2.0)),
    ('lsep_loss', 'LSEPLoss', dict(way='class', gamma=2.0, logit_bias=0.7)),
    ('lsep_loss', 'LSEPLoss', dict(way='joint', gamma=0.5, bucket_size=4)),
    ('zlpr_loss', 'ZLPRLoss', dict(way='class', logit_bias=0.7, bucket_size=4)),
    ('multi_similarity_loss', 'MultiSimilarityLoss', dict(way='class', bucket_size=4, **TEMPERATURES)),
    ('two_way_loss', 'TwoWayLoss', dict(way='both', bucket_size=4, **TEMPERATURES)),
    ('softmax_loss', 'SoftmaxLoss', dict(way='class', temperature=2.0, logit_bias=0.7, bucket_size=4)),
    ('circle_loss', 'CircleLoss', dict(way='class', gamma=5.0, margin=0.1, similarity='logit', bucket_size=4)),
    ('circle_loss', 'CircleLoss', dict(gamma=3.0, margin=0.3)),
    ('dr_loss', 'DRLoss', dict(way='sample', pair_scale=2.0, constraint_scale=3.0, constraint='both', logit_bias=0.7)),
    ('dr_loss', 'DRLoss', dict(pair_scale=0.5, constraint_scale=3.0, constraint='positive', bucket_size=4)),
    ('label_pair_regularizer', 'LabelPairRegularizer', {}),
]


def of_splc(logits, targets):
    settings = dict(**TERMS, threshold=0.7)
    loss = LOSSES.build(dict(type='SPLCLoss', reduction='sum', change_epoch=2, **settings))
    spared = F.splc_loss(logits, targets, **settings, spared_margin=1.0).sum()
    before = F.pair_loss(logits, targets, **TERMS).sum()
    return loss(logits, targets, epoch=2) + 2 * loss(logits, targets, epoch=1), spared + 2 * before


def of_splc_by_another_link(logits, targets):
    terms = dict(positive=F.spa_positive, negative=F.spa_negative)
    loss = LOSSES.build(dict(type='SPLCLoss', reduction='sum', margin_for_pseudo=True, **terms))
    log_odds = F.spa_logit_probabilities(logits)
    return loss(logits, targets, epoch=1), F.splc_loss(logits, targets, **terms, logit_probabilities=log_odds).sum()


def of_lasd(logits, targets):
    settings = dict(positive_leverage=0.4, threshold=0.7, gamma_positive=1.0, gamma_negative=2.5)
    loss = LOSSES.build(dict(type='LASDLoss', reduction='sum', negative_leverage=0.3, **settings))
    balanced = LOSSES.build(dict(type='LASDLoss', reduction='sum', expected_positives=1.7, **settings))
    expected = F.lasd_loss(logits, targets, negative_leverage=0.3, **settings)
    leverage = F.balanced_leverage(0.4, 1.7, logits.size(1))
    expected_balanced = F.lasd_loss(logits, targets, negative_leverage=leverage, **settings)
    return loss(logits, targets) + 2 * balanced(logits, targets), expected.sum() + 2 * expected_balanced.sum()


def of_rejection(logits, targets):
    loss = LOSSES.build(dict(type='LargeLossRejection', reduction='sum', relative_increase=0.05, **TERMS))
    return loss(logits, targets, epoch=3), F.large_loss_rejection(logits, targets, 0.85, **TERMS).sum()


def of_correction(logits, targets):
    loss = LOSSES.build(dict(type='LargeLossCorrection', reduction='sum', clean_rate=0.7, **TERMS))
    return loss(logits, targets), F.large_loss_correction(logits, targets, 0.7, **TERMS).sum()


def of_permanent_correction(logits, targets):
    settings = dict(relative_increase=0.1, **TERMS)
    loss = LOSSES.build(dict(type='LargeLossCorrection', reduction='sum', permanent=True, **settings))
    samples = torch.arange(len(logits))
    found = [loss(logits * sign, targets, epoch=1, sample_idx=samples) for sign in (1, -1)]
    first, corrected = F.large_loss_permanent_correction(logits, targets, **settings)
    second, _ = F.large_loss_permanent_correction(-logits, targets, corrected=corrected, **settings)
    return found[0] + 2 * found[1], first.sum() + 2 * second.sum()


def of_em_apl(logits, targets):
    loss = LOSSES.build(
        dict(type='EMAPLLoss', reduction='sum', alpha=0.7, beta=0.3, warmup_epochs=1, max_epochs=3, negative_share=0.5)
    )
    context = dict(sample_idx=torch.arange(len(logits)))
    loss(logits, targets, epoch=0, **context)
    found = loss(logits, targets, epoch=1, **context)
    soft = loss.corrected_targets(logits, targets, **context)
    assert ((targets == 0) & (soft > 0)).any()
    pseudo_negatives = torch.where(targets == 0, soft, -1)
    return found, F.em_apl_loss(logits, targets, pseudo_negatives, alpha=0.7, beta=0.3).sum()


def of_epr(logits, targets):
    loss = LOSSES.build(dict(type='EPRLoss', expected_positives=1.7, regularizer_weight=0.6))
    values, penalty = F.epr_loss(logits, targets, 1.7)
    return loss(logits, targets), values.sum() / (targets >= 0).sum() + 0.6 * penalty


def of_role(logits, targets):
    sizes = dict(num_samples=len(logits), num_classes=logits.size(1))
    loss = LOSSES.build(dict(type='ROLELoss', expected_positives=1.7, regularizer_weight=0.6, seed=3, **sizes))
    samples = torch.arange(len(logits))
    loss.see_training_labels(targets, samples)
    estimates = loss.label_estimator.detach().to(logits)
    values, penalty = F.role_loss(logits, targets, estimates, 1.7)
    return loss(logits, targets, sample_idx=samples), values.sum() / (targets >= 0).sum() + 0.6 * penalty


def of_expected_positives(logits, targets):
    loss = LOSSES.build(dict(type='ExpectedPositiveRegularizer', expected_positives=1.7))
    return loss(logits, targets), F.expected_positive_regularizer(logits.sigmoid(), 1.7, targets)


def of_consistency(logits, targets):
    views = [logits.detach().flip(0), 0.5 * logits.detach()]
    outputs = [each.sigmoid() for each in (logits, *views)]
    loss = LOSSES.build(dict(type='ConsistencyRegularizer', reduction='sum'))
    return loss(logits, targets, views=views), F.consistency_regularizer(outputs, targets).sum()


# Functions whose arguments are not the settings of the loss: the loss and what the function gives.
OWN_CALLS = {
    ('splc_loss', 'SPLCLoss'): (of_splc, of_splc_by_another_link),
    ('lasd_loss', 'LASDLoss'): (of_lasd,),
    ('large_loss_rejection', 'LargeLossRejection'): (of_rejection,),
    ('large_loss_correction', 'LargeLossCorrection'): (of_correction,),
    ('large_loss_permanent_correction', 'LargeLossCorrection'): (of_permanent_correction,),
    ('em_apl_loss', 'EMAPLLoss'): (of_em_apl,),
    ('epr_loss', 'EPRLoss'): (of_epr,),
    ('role_loss', 'ROLELoss'): (of_role,),
    ('expected_positive_regularizer', 'ExpectedPositiveRegularizer'): (of_expected_positives,),
    ('consistency_regularizer', 'ConsistencyRegularizer'): (of_consistency,),
}


def batch():
    logits, targets = example()
    targets[2, 3] = targets[4, 0] = -1
    return logits, targets


def assert_same(found, expected, logits):
    torch.testing.assert_close(found, expected)
    slopes = (torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (found, expected))
    torch.testing.assert_close(*slopes)


def test_every_loss_function_is_compared():
    functions = {name for name, *_ in SAME_SETTINGS} | {name for name, _ in OWN_CALLS}
    kinds = ('_loss', '_rejection', '_correction', '_regularizer')
    assert functions == {name for name in F.__all__ if name.endswith(kinds)}


def test_every_registered_loss_is_compared():
    compared = {kind for _, kind, _ in SAME_SETTINGS} | {kind for _, kind in OWN_CALLS}
    registered = {key for key, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss)}
    assert compared == registered - {'SumLoss'}


@pytest.mark.parametrize(('function', 'kind', 'settings'), SAME_SETTINGS)
def test_a_loss_is_its_function(function, kind, settings):
    logits, targets = batch()
    loss = LOSSES.build(dict(type=kind, reduction='sum', **settings))
    values = getattr(F, function)(logits, targets, **settings)
    expected = sum(part.sum() for part in (values if isinstance(values, tuple) else (values,)))
    assert_same(loss(logits, targets), expected, logits)


@pytest.mark.parametrize('call', [call for calls in OWN_CALLS.values() for call in calls])
def test_a_loss_with_other_arguments_is_its_function(call):
    logits, targets = batch()
    assert_same(*call(logits, targets), logits)

"""Every registered loss and its function against a formula in plain torch, with settings that are not the defaults."""

import pytest
import torch

from mmml_losses import functional as F
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES
from tests.helpers import formulas
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


# The formula of each function in plain torch, with the same settings.
FORMULAS = {
    'bce_loss': formulas.bce,
    'label_smoothing_bce_loss': formulas.label_smoothing,
    'wan_loss': formulas.wan,
    'focal_loss': formulas.focal,
    'asymmetric_loss': formulas.asl,
    'focal_margin_loss': formulas.focal_margin,
    'mse_negative_loss': formulas.mse_negative,
    'hill_loss': formulas.hill,
    'spa_loss': formulas.spa,
    'las_loss': formulas.las,
    'pair_loss': formulas.pair,
    'em_loss': formulas.em,
    'weighted_bce_loss': formulas.weighted_bce,
    'reweighted_bce_loss': formulas.reweighted_bce,
    'cb_focal_loss': formulas.cb_focal,
    'db_loss': formulas.db,
    'db_focal_loss': formulas.db_focal,
    'ldam_loss': formulas.ldam,
    'lsep_loss': formulas.lsep,
    'zlpr_loss': formulas.multi_similarity,
    'multi_similarity_loss': formulas.multi_similarity,
    'two_way_loss': formulas.two_way,
    'softmax_loss': formulas.softmax,
    'circle_loss': formulas.circle,
    'dr_loss': formulas.dr,
    'label_pair_regularizer': formulas.label_pairs,
}
PLAIN_TERMS = dict(positive=formulas.focal_margin_positive, negative=formulas.hill_negative)


# Each of the following returns the loss of the module, of the function and of the formula.


def of_splc(logits, targets):
    settings = dict(**TERMS, threshold=0.7)
    loss = LOSSES.build(dict(type='SPLCLoss', reduction='sum', change_epoch=2, **settings))
    spared = F.splc_loss(logits, targets, **settings, spared_margin=1.0).sum()
    before = F.pair_loss(logits, targets, **TERMS).sum()
    formula = formulas.splc(logits, targets, **PLAIN_TERMS, threshold=0.7, margin=1.0).sum()
    plain = formulas.pair(logits, targets, **PLAIN_TERMS).sum()
    found = loss(logits, targets, epoch=2) + 2 * loss(logits, targets, epoch=1)
    return found, spared + 2 * before, formula + 2 * plain


def of_splc_by_another_link(logits, targets):
    terms = dict(positive=F.spa_positive, negative=F.spa_negative)
    loss = LOSSES.build(dict(type='SPLCLoss', reduction='sum', margin_for_pseudo=True, threshold=0.7, **terms))
    log_odds = F.spa_logit_probabilities(logits)
    expected = F.splc_loss(logits, targets, **terms, threshold=0.7, logit_probabilities=log_odds).sum()
    terms = dict(positive=formulas.spa_positive, negative=formulas.spa_negative)
    formula = formulas.splc(logits, targets, **terms, threshold=0.7, probabilities=log_odds.sigmoid()).sum()
    return loss(logits, targets, epoch=1), expected, formula


def of_lasd(logits, targets):
    settings = dict(positive_leverage=0.4, threshold=0.7, gamma_positive=1.0, gamma_negative=2.5)
    leverages = 0.3, (1 + 0.4 * (1.7 - 1)) / (logits.size(1) - 1.7)
    loss = LOSSES.build(dict(type='LASDLoss', reduction='sum', negative_leverage=0.3, **settings))
    balanced = LOSSES.build(dict(type='LASDLoss', reduction='sum', expected_positives=1.7, **settings))
    expected, formula = (
        [function(logits, targets, negative_leverage=leverage, **settings).sum() for leverage in leverages]
        for function in (F.lasd_loss, formulas.lasd)
    )
    found = loss(logits, targets) + 2 * balanced(logits, targets)
    return found, expected[0] + 2 * expected[1], formula[0] + 2 * formula[1]


def of_rejection(logits, targets):
    loss = LOSSES.build(dict(type='LargeLossRejection', reduction='sum', relative_increase=0.05, **TERMS))
    expected = F.large_loss_rejection(logits, targets, 0.85, **TERMS).sum()
    return loss(logits, targets, epoch=3), expected, formulas.rejection(logits, targets, 0.85, **PLAIN_TERMS).sum()


def of_correction(logits, targets):
    loss = LOSSES.build(dict(type='LargeLossCorrection', reduction='sum', clean_rate=0.7, **TERMS))
    expected = F.large_loss_correction(logits, targets, 0.7, **TERMS).sum()
    return loss(logits, targets), expected, formulas.correction(logits, targets, 0.7, **PLAIN_TERMS).sum()


def of_permanent_correction(logits, targets):
    settings = dict(relative_increase=0.1, **TERMS)
    loss = LOSSES.build(dict(type='LargeLossCorrection', reduction='sum', permanent=True, **settings))
    samples = torch.arange(len(logits))
    found = [loss(logits * sign, targets, epoch=1, sample_idx=samples) for sign in (1, -1)]
    first, corrected = F.large_loss_permanent_correction(logits, targets, **settings)
    second, _ = F.large_loss_permanent_correction(-logits, targets, corrected=corrected, **settings)
    kept = targets.masked_fill(formulas.large(formulas.hill_negative(logits), targets, 0.1), 1)
    formula = formulas.correction(logits, targets, 0.9, **PLAIN_TERMS).sum()
    formula = formula + 2 * formulas.correction(-logits, kept, 0.9, **PLAIN_TERMS).sum()
    return found[0] + 2 * found[1], first.sum() + 2 * second.sum(), formula


def of_em_apl(logits, targets):
    loss = LOSSES.build(
        dict(type='EMAPLLoss', reduction='sum', alpha=0.7, beta=0.3, warmup_epochs=1, max_epochs=3, negative_share=0.5)
    )
    context = dict(sample_idx=torch.arange(len(logits)))
    loss(logits, targets, epoch=0, **context)
    found = loss(logits, targets, epoch=1, **context)
    # In the first of two epochs, half of the half of the unobserved labels of each class: those of lowest logit.
    pseudo_negatives = torch.full_like(targets, -1)
    for label, column in enumerate(logits.detach().T):
        unobserved = [row for row in column.argsort().tolist() if targets[row, label] == 0]
        for row in unobserved[: round(len(unobserved) / 4)]:
            pseudo_negatives[row, label] = column[row].half().to(column).sigmoid()
    assert (pseudo_negatives > 0).any()
    settings = dict(alpha=0.7, beta=0.3)
    expected, formula = (
        function(logits, targets, pseudo_negatives, **settings).sum() for function in (F.em_apl_loss, formulas.em_apl)
    )
    return found, expected, formula


def of_epr(logits, targets):
    loss = LOSSES.build(dict(type='EPRLoss', expected_positives=1.7, regularizer_weight=0.6))
    values, penalty = F.epr_loss(logits, targets, 1.7)
    expected = values.sum() / (targets >= 0).sum() + 0.6 * penalty
    return loss(logits, targets), expected, formulas.epr(logits, targets, 1.7, 0.6)


def of_role(logits, targets):
    sizes = dict(num_samples=len(logits), num_classes=logits.size(1))
    loss = LOSSES.build(dict(type='ROLELoss', expected_positives=1.7, regularizer_weight=0.6, seed=3, **sizes))
    samples = torch.arange(len(logits))
    loss.see_training_labels(targets, samples)
    estimates = loss.label_estimator.detach().to(logits)
    values, penalty = F.role_loss(logits, targets, estimates, 1.7)
    expected = values.sum() / (targets >= 0).sum() + 0.6 * penalty
    return loss(logits, targets, sample_idx=samples), expected, formulas.role(logits, targets, estimates, 1.7, 0.6)


def of_expected_positives(logits, targets):
    loss = LOSSES.build(dict(type='ExpectedPositiveRegularizer', expected_positives=1.7))
    expected = F.expected_positive_regularizer(logits.sigmoid(), 1.7, targets)
    return loss(logits, targets), expected, formulas.expected_positives(logits.sigmoid(), targets, 1.7)


def of_consistency(logits, targets):
    views = [logits.detach().flip(0), 0.5 * logits.detach()]
    outputs = [each.sigmoid() for each in (logits, *views)]
    loss = LOSSES.build(dict(type='ConsistencyRegularizer', reduction='sum'))
    expected = F.consistency_regularizer(outputs, targets).sum()
    return loss(logits, targets, views=views), expected, formulas.consistency(outputs, targets)


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


def assert_same(logits, of_module, of_function, of_formula):
    (expected,) = torch.autograd.grad(of_formula, logits, retain_graph=True)
    assert expected.isfinite().all()
    for loss in (of_module, of_function):
        torch.testing.assert_close(loss, of_formula)
        torch.testing.assert_close(torch.autograd.grad(loss, logits, retain_graph=True)[0], expected)


def test_every_loss_function_is_compared():
    functions = {name for name, *_ in SAME_SETTINGS} | {name for name, _ in OWN_CALLS}
    kinds = ('_loss', '_rejection', '_correction', '_regularizer')
    assert functions == {name for name in F.__all__ if name.endswith(kinds)}


def test_every_registered_loss_is_compared():
    compared = {kind for _, kind, _ in SAME_SETTINGS} | {kind for _, kind in OWN_CALLS}
    registered = {key for key, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss)}
    assert compared == registered - {'SumLoss'}


@pytest.mark.parametrize(('function', 'kind', 'settings'), SAME_SETTINGS)
def test_a_loss_and_its_function_are_the_formula(function, kind, settings):
    logits, targets = batch()
    loss = LOSSES.build(dict(type=kind, reduction='sum', **settings))
    values = getattr(F, function)(logits, targets, **settings)
    of_function = sum(part.sum() for part in (values if isinstance(values, tuple) else (values,)))
    plain = settings | PLAIN_TERMS if 'positive' in settings else settings
    of_formula = FORMULAS[function](logits, targets, **plain).sum()
    assert_same(logits, loss(logits, targets), of_function, of_formula)


@pytest.mark.parametrize('call', [call for calls in OWN_CALLS.values() for call in calls])
def test_a_loss_with_other_arguments_and_its_function_are_the_formula(call):
    logits, targets = batch()
    assert_same(logits, *call(logits, targets))

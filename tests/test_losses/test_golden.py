"""The losses against figures of the authors' code and of the papers' equations (see tests/data/README.md).

The set-wise losses, the weighted ones and those that estimate labels have theirs in the files named after them.
"""

from importlib import import_module

import pytest
import torch

from mmml_losses.losses import (
    AsymmetricLoss,
    BCELoss,
    EMLoss,
    EPRLoss,
    HillLoss,
    LabelPairRegularizer,
    LabelSmoothingBCELoss,
    LargeLossCorrection,
    LargeLossRejection,
    LASDLoss,
    PairLoss,
    ROLELoss,
    SPALink,
    SPALoss,
    SPLCLoss,
    WANLoss,
)
from tests.helpers.figures import COMPARED, figures, read_figures

SPA_NAMES = {
    'zp': 'positive_scale',
    'kp': 'positive_slope',
    'bp': 'positive_shift',
    'zn': 'negative_scale',
    'kn': 'negative_slope',
    'bn': 'negative_shift',
}


def tensors(case):
    logits = torch.tensor(case['logits'], dtype=torch.float64, requires_grad=True)
    return logits, torch.tensor(case['targets'], dtype=torch.float64), torch.tensor(case['loss'], dtype=torch.float64)


def spa_parameters(case):
    return {SPA_NAMES[key]: value for key, value in case['params'].items() if key in SPA_NAMES}


def assert_equal(actual, expected, tolerance=1e-6):
    torch.testing.assert_close(actual.detach(), expected, rtol=tolerance, atol=1e-12)


def assert_gradient(logits, loss, case, rtol=1e-6, atol=1e-12):
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(gradient, torch.tensor(case['grad'], dtype=torch.float64), rtol=rtol, atol=atol)


@pytest.mark.parametrize('case', figures('asl'))
def test_asl_equals_the_authors_code(case):
    params = case['params']
    logits, targets, expected = tensors(case)
    loss = AsymmetricLoss(
        gamma_positive=params['gamma_pos'],
        gamma_negative=params['gamma_neg'],
        margin=params['clip'],
        detach_weight=params['detach_focal_weight'],
        reduction='sum',
    )(logits, targets)
    assert_equal(loss, expected)
    assert_gradient(logits, loss, case)


@pytest.mark.parametrize('case', figures('hill'))
def test_hill_equals_the_authors_code(case):
    logits, targets, expected = tensors(case)
    loss = HillLoss(**{key: case['params'][key] for key in ('lamb', 'margin', 'gamma')}, reduction='sum')(
        logits, targets
    )
    assert_equal(loss, expected)
    assert_gradient(logits, loss, case)


@pytest.mark.parametrize('case', figures('splc_focal_margin'))
def test_splc_equals_the_authors_code(case):
    params = case['params']
    logits, targets, expected = tensors(case)
    loss = SPLCLoss(
        positive=dict(type='focal_margin', margin=params['margin'], gamma=params['gamma']),
        negative=dict(type='focal', gamma=params['gamma']),
        threshold=params['tau'],
        change_epoch=params['change_epoch'],
        reduction='sum',
    )(logits, targets, epoch=params['epoch'])
    assert_equal(loss, expected)
    assert_gradient(logits, loss, case)


# The authors of these put 1e-5 inside the logarithms: with it the figures agree to the last digits, and ours come near.
def with_epsilon(logits, targets, positive_weight, negative_weight):
    p = logits.sigmoid()
    return -(positive_weight * targets * (p + 1e-5).log() + negative_weight * (1 - targets) * (1 - p + 1e-5).log())


SINGLE_POSITIVE = {
    'an': (BCELoss, lambda x, y: with_epsilon(x, y, 1, 1)),
    'an_ls': (LabelSmoothingBCELoss, lambda x, y: with_epsilon(x, 0.1 + 0.8 * y, 1, 1)),
    'wan': (WANLoss, lambda x, y: with_epsilon(x, y, 1, 1 / (x.size(1) - 1))),
}


@pytest.mark.parametrize('case', figures(*SINGLE_POSITIVE))
def test_assumed_negatives_equal_the_authors_code_but_for_its_epsilon(case):
    logits, targets, expected = tensors(case)
    kind, reference = SINGLE_POSITIVE[case['name']]
    loss = kind()(logits, targets)
    assert_equal(loss, expected, tolerance=1e-3)
    assert_gradient(logits, loss, case, rtol=1e-3, atol=1e-4)
    exact = reference(logits, targets).mean()
    assert_equal(exact, expected)
    assert_gradient(logits, exact, case)


@pytest.mark.parametrize('case', figures('lasd'))
def test_lasd_equals_the_equation(case):
    params = case['params']
    logits, targets, expected = tensors(case)
    arguments = dict(
        positive_leverage=params['lambda_pos'],
        threshold=params['tau'],
        gamma_positive=params['gamma_pos'],
        gamma_negative=params['gamma_neg'],
        reduction='none',
    )
    for leverage in (
        dict(expected_positives=params['expected_positives']),
        dict(negative_leverage=params['lambda_neg']),
    ):
        assert_equal(LASDLoss(**arguments, **leverage)(logits, targets), expected)


BELIEFS = {
    'll_r': lambda case: (LargeLossRejection(clean_rate=case['params']['clean_rate']), {}),
    'll_ct': lambda case: (LargeLossCorrection(clean_rate=case['params']['clean_rate']), {}),
    'll_cp': lambda case: (
        LargeLossCorrection(permanent=True, relative_increase=case['params']['delta_rel']),
        dict(epoch=1, sample_idx=torch.arange(len(case['targets']))),
    ),
    'em': lambda case: (EMLoss(alpha=case['params']['alpha']), {}),
    'epr': lambda case: (EPRLoss(case['params']['expected_num_pos']), {}),
    'role': lambda case: (role_with(case), dict(sample_idx=torch.arange(len(case['targets'])))),
}


def role_with(case):
    """ROLE with the estimates of the case in its parameter."""
    estimates = torch.tensor(case['params']['estimated_labels'], dtype=torch.float64)
    loss = ROLELoss(*estimates.shape, case['params']['expected_num_pos']).double()
    loss.see_training_labels(torch.tensor(case['targets']), torch.arange(len(estimates)))
    with torch.no_grad():
        loss.label_estimator.copy_(estimates.logit())
    return loss


@pytest.mark.parametrize('case', figures(*BELIEFS))
def test_corrected_labels_equal_the_authors_code_but_for_its_epsilon(case):
    logits, targets, expected = tensors(case)
    module, context = BELIEFS[case['name']](case)
    loss = module(logits, targets, **context)
    exact = case['name'].startswith('ll_')
    assert_equal(loss, expected, tolerance=1e-6 if exact else 1e-3)
    assert_gradient(logits, loss, case, **({} if exact else dict(rtol=1e-3, atol=1e-4)))


PAIRS = {
    'focal_margin_pos_bce_neg': lambda params: dict(
        positive=dict(type='focal_margin', margin=params['margin'], gamma=params['gamma']), negative='bce'
    ),
    'bce_pos_mse_neg': lambda params: dict(positive='bce', negative='mse'),
    'bce_pos_hill_neg': lambda params: dict(positive='bce', negative=dict(type='hill', lamb=params['lamb'])),
}


@pytest.mark.parametrize('case', figures(*PAIRS))
def test_pairs_equal_the_equations(case):
    logits, targets, expected = tensors(case)
    assert_equal(PairLoss(**PAIRS[case['name']](case['params']), reduction='none')(logits, targets), expected)


@pytest.mark.parametrize('case', figures('spa'))
def test_spa_equals_the_equation(case):
    logits, targets, expected = tensors(case)
    assert_equal(SPALoss(**spa_parameters(case), reduction='none')(logits, targets), expected)


@pytest.mark.parametrize('case', figures('spa_link'))
def test_spa_probabilities_equal_the_equation(case):
    logits, _, expected = tensors(case)
    assert_equal(SPALoss(**spa_parameters(case)).probabilities(logits), expected)


@pytest.mark.parametrize('case', figures('lpr_on_spa', 'lpr_on_sigmoid'))
def test_lpr_equals_the_equation(case):
    logits, targets, expected = tensors(case)
    link = SPALink() if case['name'] == 'lpr_on_spa' else None
    assert_equal(LabelPairRegularizer(link=link, reduction='none')(logits, targets), expected)


def test_every_figure_is_compared():
    # What these modules compare is known once they are imported.
    for subject in ('losses.test_setwise', 'losses.test_reweighted', 'functional.test_links'):
        import_module(f'tests.test_{subject}')
    import_module('tests.test_functional.test_estimation')
    assert read_figures().keys() == COMPARED
    assert len(COMPARED) == 130

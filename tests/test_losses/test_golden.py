"""The losses against figures of the authors' code and of the papers' equations (see tests/data/README.md)."""

import json
from pathlib import Path

import pytest
import torch

from mmml_losses.losses import AsymmetricLoss, BCELoss, LabelPairRegularizer, SPALink, SPALoss

DATA = Path(__file__).resolve().parents[1] / 'data'
SPA_NAMES = {
    'zp': 'positive_scale',
    'kp': 'positive_slope',
    'bp': 'positive_shift',
    'zn': 'negative_scale',
    'kn': 'negative_slope',
    'bn': 'negative_shift',
}


def cases(*names):
    return [
        pytest.param(case, id=f'{file}-{number}-{case["name"]}')
        for file in ('official_losses', 'paper_equations')
        for number, case in enumerate(json.loads((DATA / f'{file}.json').read_text()))
        if case['name'] in names
    ]


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


@pytest.mark.parametrize('case', cases('asl'))
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


@pytest.mark.parametrize('case', cases('an'))
def test_bce_equals_assume_negative_but_for_its_epsilon(case):
    logits, targets, expected = tensors(case)
    loss = BCELoss()(logits, targets)
    assert_equal(loss, expected, tolerance=1e-3)
    assert_gradient(logits, loss, case, rtol=1e-3, atol=1e-4)
    # With that code's 1e-5 inside the logarithms the figures agree to the last digits.
    p = logits.sigmoid()
    with_epsilon = -(targets * (p + 1e-5).log() + (1 - targets) * (1 - p + 1e-5).log()).mean()
    assert_equal(with_epsilon, expected)
    assert_gradient(logits, with_epsilon, case)


@pytest.mark.parametrize('case', cases('spa'))
def test_spa_equals_the_equation(case):
    logits, targets, expected = tensors(case)
    assert_equal(SPALoss(**spa_parameters(case), reduction='none')(logits, targets), expected)


@pytest.mark.parametrize('case', cases('spa_link'))
def test_spa_probabilities_equal_the_equation(case):
    logits, _, expected = tensors(case)
    assert_equal(SPALoss(**spa_parameters(case)).probabilities(logits), expected)


@pytest.mark.parametrize('case', cases('lpr_on_spa', 'lpr_on_sigmoid'))
def test_lpr_equals_the_equation(case):
    logits, targets, expected = tensors(case)
    link = SPALink() if case['name'] == 'lpr_on_spa' else None
    assert_equal(LabelPairRegularizer(link=link, reduction='none')(logits, targets), expected)


def test_the_figures_cover_every_loss_above():
    assert len(cases('asl')) == 10
    assert len(cases('an')) == 2
    assert len(cases('spa', 'spa_link', 'lpr_on_spa', 'lpr_on_sigmoid')) == 16

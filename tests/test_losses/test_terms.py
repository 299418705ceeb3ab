"""Partial losses by name, as configs write them."""

import copy
from functools import partial

import pytest
import torch
from mmengine.config import ConfigDict

from mmml_losses import functional as F
from mmml_losses.functional.terms import NEGATIVE_TERMS, POSITIVE_TERMS, build_negative, build_positive
from mmml_losses.losses import PairLoss
from mmml_losses.registry import LOSSES


@pytest.mark.parametrize(('names', 'build'), [(POSITIVE_TERMS, build_positive), (NEGATIVE_TERMS, build_negative)])
def test_every_name_is_a_term(names, build):
    logits = torch.linspace(-3, 3, 7)
    for name in names:
        plain = build(name)(logits)
        assert plain.shape == logits.shape
        torch.testing.assert_close(build(dict(type=name, weight=0.3))(logits), 0.3 * plain)


def test_arguments_reach_the_term():
    logits = torch.linspace(-3, 3, 7)
    term = build_negative(ConfigDict(type='asymmetric', gamma=3.0, margin=0.1))
    torch.testing.assert_close(term(logits), F.asymmetric_negative(logits, gamma=3.0, margin=0.1))
    term = build_positive(dict(type='focal', gamma=5.0))
    torch.testing.assert_close(term(logits), F.asymmetric_positive(logits, gamma=5.0))


def test_functions_are_taken_as_they_are():
    assert build_positive(torch.abs).function is torch.abs


def test_a_loss_shows_its_terms():
    shown = repr(PairLoss(positive=dict(type='focal_margin', margin=0.5), negative=dict(type='hill', weight=2.0)))
    assert 'positive=FocalMarginPositive(margin=0.5, gamma=2.0)' in shown
    assert 'negative=Scaled(term=HillNegative(lamb=1.5), factor=2.0)' in shown


def test_a_config_is_left_alone():
    config = dict(type='hill', lamb=1.2, weight=0.5)
    PairLoss(negative=config)
    assert config == dict(type='hill', lamb=1.2, weight=0.5)


@pytest.mark.parametrize(
    ('arguments', 'error', 'message'),
    [
        (dict(positive='mse'), ValueError, "positive must be one of bce, focal, .*, got 'mse'"),
        (dict(negative=dict(lamb=1.0)), ValueError, 'negative must be one of bce, .*, got None'),
        (dict(negative=dict(type='hill', lambda_=1.0)), ValueError, "'hill' takes weight, lamb, got 'lambda_'"),
        (
            dict(positive=dict(type='focal', gamma=-1)),
            ValueError,
            "gamma of the positive term 'focal' must be at least 0",
        ),
        (dict(negative=dict(type='hill', lamb='a')), TypeError, "lamb of the negative term 'hill' must be a number"),
        (dict(negative=3), TypeError, 'negative must be a function, a name or a dict with a type, got 3'),
    ],
)
def test_bad_terms_are_rejected(arguments, error, message):
    with pytest.raises(error, match=message):
        PairLoss(**arguments)


@pytest.mark.parametrize(
    ('term', 'shift'),
    [
        ('bce', 0.0),
        ('focal', 0.0),
        ('focal_margin', 1.0),
        (dict(type='focal_margin', margin=0.25), 0.25),
        (dict(type='focal_margin', gamma=1.0), 1.0),
        (dict(type='focal_margin', margin=0.25, weight=3.0), 0.25),
        (partial(F.focal_margin_positive, margin=2.0), 2.0),
    ],
)
def test_logit_shift_of_a_term(term, shift):
    assert build_positive(term).logit_shift == shift


@pytest.mark.parametrize(
    'config',
    [
        dict(type='PairLoss'),
        dict(type='SPLCLoss', change_epoch=0),
        dict(type='LargeLossRejection', clean_rate=1.0),
        dict(type='DBLoss', class_frequencies=[1.0] * 20, num_samples=30),
        dict(type='WeightedBCELoss', class_frequencies=[1.0] * 20, num_samples=30),
    ],
)
def test_a_term_may_have_a_factor_for_each_class(config):
    logits, targets = torch.randn(4, 20), torch.zeros(4, 20)
    ones = torch.ones(20)
    plain = LOSSES.build(dict(config, positive='bce', negative='bce'))(logits, targets, epoch=0)
    for negative in (lambda x: F.bce_negative(x) * ones, F.Scaled(F.bce_negative, ones)):
        loss = LOSSES.build(dict(config, positive='bce', negative=negative))
        torch.testing.assert_close(loss(logits, targets, epoch=0), plain)


def test_a_module_as_a_term_is_trained_and_saved():
    loss = PairLoss(negative=torch.nn.Linear(3, 3))
    assert list(loss.state_dict()) == ['negative.weight', 'negative.bias']
    loss(torch.randn(2, 3), torch.zeros(2, 3)).backward()
    assert loss.negative.weight.grad.any()
    copied = copy.deepcopy(loss)
    assert copied.settings['negative'].function is copied.negative is not loss.negative

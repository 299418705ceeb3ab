"""Tests of terms, values and derivatives against the plain formula, and of how two terms are joined."""

import pickle
import re
import warnings
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch.nn.functional import logsigmoid

from mmml_losses import functional as F
from mmml_losses.functional.terms import as_term

TERMS = {
    'bce+': F.bce_positive,
    'bce-': F.bce_negative,
    'smoothed': F.SmoothedBCE(0.9),
    'smoothed to 0': F.SmoothedBCE(0.0),
    **{f'asymmetric+ {gamma}': partial(F.asymmetric_positive, gamma=gamma) for gamma in (0, 0.5, 1, 2, 3.5)},
    **{
        f'asymmetric- {gamma} {margin}': partial(F.asymmetric_negative, gamma=gamma, margin=margin)
        for gamma in (0, 0.5, 1, 1.5, 2, 3, 4, 5)
        for margin in (0.0, 0.05, 0.3)
    },
    'focal margin+': F.focal_margin_positive,
    'focal margin+ 0.5': partial(F.focal_margin_positive, margin=0.5, gamma=3.0),
    'mse-': F.mse_negative,
    'hill-': F.hill_negative,
    'hill- 2': partial(F.hill_negative, lamb=2.0),
    'spa+': F.spa_positive,
    'spa-': F.spa_negative,
    'spa- steep': partial(F.spa_negative, scale=2.0, slope=4.0, shift=-1.0),
    'entropy-': F.entropy_negative,
    'scaled': F.Scaled(F.HillNegative(1.2), 0.3),
    'stretched': F.Stretched(F.HillNegative(1.2), 3.0),
}


@pytest.fixture(params=TERMS)
def term(request):
    return TERMS[request.param]


def test_value_and_slope_are_those_of_the_formula(term):
    logits = torch.cat([torch.linspace(-40, 40, 401), torch.tensor([-1e4, -700.0, 700.0, 1e4])]).double()
    logits.requires_grad_()
    expected = term(logits)
    value, slope = as_term(term).value_and_slope(logits.detach())
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-15)
    # Differentiated by torch, 1 - p has lost its last digits.
    torch.testing.assert_close(slope, torch.autograd.grad(expected.sum(), logits)[0], rtol=1e-11, atol=1e-14)


def test_float32_is_as_good_as_it_can_be(term):
    logits = torch.cat([torch.linspace(-80, 80, 321), torch.tensor([-1e4, 1e4])])
    precise = as_term(term).value_and_slope(logits.double())
    for actual, expected in zip(as_term(term).value_and_slope(logits), precise, strict=True):
        assert actual.dtype == torch.float32
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=2 * torch.finfo(torch.float32).eps)


@pytest.mark.parametrize(
    ('term', 'sign'),
    [(F.bce_positive, 1), (F.bce_negative, -1), (F.spa_negative, -1), (TERMS['asymmetric- 2 0.0'], -1)],
)
def test_easy_labels_keep_their_digits(term, sign):
    logits = sign * torch.linspace(20, 40, 41)  # probabilities next to 0 and 1, which are rounded there
    for actual, expected in zip(
        as_term(term).value_and_slope(logits), as_term(term).value_and_slope(logits.double()), strict=True
    ):
        assert (expected != 0).all()
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-38)


def test_detached_weights_are_constants():
    logits = torch.linspace(-5, 5, 21, dtype=torch.float64, requires_grad=True)
    for margin in (0.0, 0.05):
        term = partial(F.asymmetric_negative, gamma=3.0, margin=margin, detach_weight=True)
        slope = as_term(term).value_and_slope(logits.detach())[1]
        torch.testing.assert_close(slope, torch.autograd.grad(term(logits).sum(), logits)[0])


@pytest.mark.parametrize('share', [0.0, 0.01, 0.6])
@pytest.mark.parametrize('unknown', [False, True])
@pytest.mark.parametrize('size', [(7, 9), (300, 700)])
def test_blocks_and_shortcuts_give_what_the_terms_give(share, unknown, size):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_()
    targets = (torch.rand(size, generator=generator) < share).double()
    targets[-1, :3] = torch.tensor([0.25, 0.5, 1.0])
    if unknown:
        targets[torch.rand(size, generator=generator) < 0.02] = -1
    expected = F.pair.compose_pair(logits, targets, F.focal_margin_positive, F.hill_negative)
    values = F.pair_loss(logits, targets, F.focal_margin_positive, F.hill_negative)
    torch.testing.assert_close(values, expected)
    weights = torch.randn(size, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(*(torch.autograd.grad((weights * loss).sum(), logits)[0] for loss in (values, expected)))


def test_terms_without_a_derivative_are_differentiated():
    def cubic(logits):
        return logits**3

    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1.0, 0, -1], [0, 0, 0], [0.5, 1, 1], [-1, -1, -1]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: F.pair_loss(x, targets, cubic, F.bce_negative), logits)
    scaled_cubic = F.Scaled(as_term(cubic), 2.0)
    assert not scaled_cubic.has_slope
    torch.testing.assert_close(F.pair_loss(logits, torch.ones(4, 3), scaled_cubic, cubic), 2 * logits**3)


def test_a_user_can_declare_a_derivative():
    def linear(logits, slope=2.0):
        return slope * logits

    with pytest.warns(DeprecationWarning, match='subclasses of Term'):
        declare = F.value_and_slope_of(linear)

    @declare
    def _linear(logits, slope=2.0):
        return slope * logits, torch.full_like(logits, slope)

    logits = torch.randn(3, 4, requires_grad=True)
    F.pair_loss(logits, torch.zeros(3, 4), F.bce_positive, partial(linear, slope=3.0)).sum().backward()
    assert (logits.grad == 3).all()


@dataclass(frozen=True)
class Itself(F.Term):
    def value(self, logits):
        return logits * 1.0

    def value_and_slope(self, logits):
        return logits, torch.ones_like(logits)


@dataclass(frozen=True)
class Exponential(F.Term):
    def value(self, logits):
        return logits.exp()

    def value_and_slope(self, logits):
        value = logits.exp()
        return value, value


def test_a_careless_term_changes_nothing_of_the_callers():
    for size in ((3, 4), (300, 700)):
        logits = torch.randn(size, dtype=torch.float64)
        before = logits.clone()
        targets = (torch.rand(size) < 0.01).double()
        values = F.pair_loss(logits, targets, Exponential(), Itself(), torch.full(size, 2.0, dtype=torch.float64))
        assert torch.equal(logits, before)
        torch.testing.assert_close(values, 2 * torch.where(targets == 1, before.exp(), before))


def test_settings_of_a_term_can_be_given_in_three_ways():
    logits = torch.linspace(-3, 3, 7)
    expected = F.AsymmetricNegative(gamma=2.0, margin=0.1)(logits)
    assert torch.equal(F.asymmetric_negative(logits, gamma=2.0, margin=0.1), expected)
    assert torch.equal(F.asymmetric_negative(logits, 2.0, 0.1), expected)
    assert as_term(partial(F.asymmetric_negative, gamma=2.0, margin=0.1)) == F.AsymmetricNegative(2.0, 0.1)
    with pytest.raises(TypeError, match='lamb'):
        F.asymmetric_negative(logits, lamb=2.0)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda logits: F.hill_negative(logits, 1.5, 9.0), 'too many positional arguments'),
        (lambda logits: F.hill_negative(logits, 1.5, lamb=9.0), "multiple values for argument 'lamb'"),
        (
            lambda logits: F.pair_loss(logits, logits, negative=F.HillNegative),
            r'such as HillNegative\(\), got the class',
        ),
    ],
)
def test_bad_settings_of_a_term_are_rejected(make, message):
    with pytest.raises(TypeError, match=message):
        make(torch.zeros(2, 3))


class ZeroHill(F.HillNegative):
    def value(self, logits):
        return 0 * logits


def test_a_new_formula_does_not_inherit_the_slope_of_the_old_one():
    assert F.HillNegative().has_slope
    assert F.Scaled(F.HillNegative(), 2.0).has_slope
    for term in (ZeroHill(), F.Scaled(ZeroHill(), 2.0)):
        assert not term.has_slope
        logits = torch.randn(3, 4, requires_grad=True)
        F.pair_loss(logits, torch.zeros(3, 4), negative=term).sum().backward()
        assert not logits.grad.any()


def test_terms_of_terms_take_any_function():
    logits = torch.randn(3, 4)
    for term in (lambda x: x.square(), partial(F.asymmetric_negative, gamma=2.0)):
        torch.testing.assert_close(F.Scaled(term, 2.0)(logits), 2 * term(logits))


def test_terms_are_plain_values():
    assert F.HillNegative() == F.hill_negative != F.HillNegative(2.0)
    assert pickle.loads(pickle.dumps(F.Scaled(F.spa_negative, 0.5))).term == F.SPANegative()


@pytest.mark.parametrize('size', [(3, 4), (300, 700)])
def test_a_factor_for_each_class_reaches_its_class(size):
    logits = torch.randn(size, dtype=torch.float64)
    targets = (torch.rand(size) < 0.01).double()
    factors = torch.rand(size[1], dtype=torch.float64)
    values = F.pair_loss(logits, targets, F.bce_positive, F.Stretched(F.Scaled(F.bce_negative, factors), 2.0))
    negatives = factors * F.bce_negative(2 * logits) / 2
    torch.testing.assert_close(values, torch.where(targets == 1, F.bce_positive(logits), negatives))


def test_gradients_reach_soft_targets():
    logits = torch.randn(3, 4, dtype=torch.float64)
    targets = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    loss = F.pair_loss(logits, targets, F.bce_positive, F.bce_negative).sum()
    torch.testing.assert_close(torch.autograd.grad(loss, targets)[0], logsigmoid(-logits) - logsigmoid(logits))


def test_a_backward_pass_can_be_repeated():
    logits = torch.randn(3, 4, requires_grad=True)
    loss = F.hill_loss(logits, torch.ones(3, 4)).sum()
    first, second = (torch.autograd.grad(loss, logits, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ('former', 'settings', 'term'),
    [
        ('scaled', dict(term=F.hill_negative, factor=0.3), F.Scaled(F.hill_negative, 0.3)),
        ('stretched', dict(term=F.hill_negative, slope=3.0), F.Stretched(F.hill_negative, 3.0)),
        ('smoothed_bce', dict(label=0.9), F.SmoothedBCE(0.9)),
    ],
)
def test_a_former_function_of_a_term_works_with_one_warning(monkeypatch, former, settings, term):
    monkeypatch.delitem(vars(F), former, raising=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        exec(f'from mmml_losses.functional import {former}')
        function = partial(getattr(F, former), **settings)
    assert [str(each.message) for each in caught] == [
        f'mmml_losses.functional.{former} is superseded by the term {type(term).__name__}'
    ]
    logits, targets = torch.randn(3, 4), torch.zeros(3, 4)
    torch.testing.assert_close(function(logits), term(logits))
    torch.testing.assert_close(F.pair_loss(logits, targets, negative=function), term(logits))


@pytest.mark.parametrize('former', F.FORMER_PAIRS)
def test_a_former_pair_of_terms_names_its_classes(former):
    with pytest.raises(AttributeError, match=rf'no attribute {former!r}; use the terms \w+') as error:
        getattr(F, former)
    named = [name for name in re.findall(r'[A-Z]\w+', str(error.value))]
    assert named
    assert set(named) <= set(F.__all__)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match=r"'mmml_losses\.functional' has no attribute 'hill_term'$"):
        _ = F.hill_term

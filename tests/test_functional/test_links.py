"""Links: probabilities, log-odds that stay exact in the tails, and their inverses."""

from functools import partial

import mpmath
import pytest
import torch

from mmml_losses.functional import links as F
from tests.helpers.figures import figures

SPA = [
    {},
    dict(negative_scale=1.0, negative_slope=1.0, negative_shift=0.0),
    dict(positive_scale=2.0, positive_slope=1.5, positive_shift=-0.5, negative_scale=3.0, negative_slope=2.0),
    dict(positive_shift=6.0, negative_shift=-6.0),  # a plateau between the shifts
]
PHI = [
    dict(gamma_positive=2.0, gamma_negative=2.0, margin=0.0),
    dict(gamma_positive=1.0, gamma_negative=4.0, margin=0.0),
    dict(gamma_positive=0.0, gamma_negative=4.0, margin=0.0),
    dict(gamma_positive=3.0, gamma_negative=0.0, margin=0.0),
    dict(gamma_positive=0.5, gamma_negative=0.2, margin=0.0),
    dict(gamma_positive=2.0, gamma_negative=2.0, margin=0.0, alpha=0.25),
]
PHI_WITH_MARGIN = [
    {},
    dict(gamma_positive=1.0, gamma_negative=3.0, margin=0.1),
    dict(gamma_positive=0.0, gamma_negative=0.5, margin=0.05),
    dict(gamma_positive=1.0, gamma_negative=0.0, margin=0.2),
    dict(gamma_positive=1.0, gamma_negative=3.0, margin=0.1, alpha=0.8),
]
BIJECTIONS = [(name, parameters) for name, family in (('spa', SPA), ('phi', PHI)) for parameters in family]
LOG_ODDS = [
    *(partial(F.spa_logit_probabilities, **parameters) for parameters in SPA),
    *(partial(F.phi_logit_probabilities, **parameters) for parameters in PHI + PHI_WITH_MARGIN),
]


def exact_phi_log_odds(logit, gamma_positive, gamma_negative, margin, alpha=0.5):
    """Eq. 14 and 15 as printed, weighed by alpha, with more digits than a logit of 500 can use up."""

    def h(z, gamma):
        return (z**gamma - gamma * z ** (gamma - 1) * (1 - z) * mpmath.log(1 - z)) / (1 - z)

    with mpmath.workdps(600):
        z = 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))
        shifted = max(z - mpmath.mpf(margin), mpmath.mpf(0))
        return float(mpmath.log((1 - alpha) * h(shifted, gamma_negative) / (alpha * h(1 - z, gamma_positive))))


@pytest.mark.parametrize(('name', 'parameters'), BIJECTIONS)
def test_bijective_links_grow_with_the_logit(name, parameters):
    link = getattr(F, f'{name}_link')
    probabilities = link(torch.linspace(-8, 8, 401, dtype=torch.float64), **parameters)
    assert (probabilities.diff() > 0).all()
    log_odds = getattr(F, f'{name}_logit_probabilities')
    assert (log_odds(torch.linspace(-500, 500, 4001), **parameters).diff() > 0).all()


@pytest.mark.parametrize(('name', 'parameters'), BIJECTIONS)
def test_inverse_links_go_back(name, parameters):
    link, inverse = getattr(F, f'{name}_link'), getattr(F, f'{name}_inverse_link')
    probabilities = torch.tensor([1e-12, 1e-4, 0.03, 0.5, 0.77, 0.999, 1 - 1e-12], dtype=torch.float64)
    torch.testing.assert_close(
        link(inverse(probabilities, **parameters), **parameters), probabilities, rtol=1e-9, atol=0
    )
    assert inverse(probabilities[:6].float(), **parameters).dtype == torch.float32
    # In log-odds it goes on where probabilities end.
    logits = torch.tensor([-300.0, -20.0, 0.3, 300.0], dtype=torch.float64)
    log_odds = getattr(F, f'{name}_logit_probabilities')(logits, **parameters)
    back = getattr(F, f'{name}_inverse_logit_probabilities')(log_odds, **parameters)
    torch.testing.assert_close(back, logits)


@pytest.mark.parametrize('value', [0.0, 1.0, 1.5, float('nan')])
@pytest.mark.parametrize('inverse', [F.spa_inverse_link, partial(F.phi_inverse_link, margin=0.0)])
def test_inverse_rejects_what_no_logit_reads_as(inverse, value):
    with pytest.raises(ValueError, match=r'probabilities must be inside \(0, 1\)'):
        inverse(torch.tensor([0.5, value]))


def test_phi_has_no_inverse_with_a_margin():
    with pytest.raises(ValueError, match=r'margin must be 0, got 0\.05'):
        F.phi_inverse_link(torch.tensor([0.5]))


def test_spa_log_odds_stay_exact_where_the_probability_is_rounded():
    logits = torch.tensor([-500.0, 500.0])
    assert F.spa_link(logits).tolist() == [0.0, 1.0]
    slow, fast = F.spa_logit_probabilities(logits.double()).tolist()
    assert slow == pytest.approx(3 * (-500 - 1) + torch.tensor(0.6).log().item())
    assert fast == pytest.approx(500 + torch.tensor(0.6).log().item())
    torch.testing.assert_close(F.spa_logit_probabilities(logits).double(), F.spa_logit_probabilities(logits.double()))


@pytest.mark.parametrize('parameters', PHI)
@pytest.mark.parametrize(('dtype', 'tolerance'), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_phi_log_odds_are_exact_in_the_tails(parameters, dtype, tolerance):
    logits = [-500.0, -104.0, -37.0, -36.0, -16.0, -15.0, -1.5, 0.25, 1.5, 15.0, 16.0, 36.0, 37.0, 104.0, 500.0]
    log_odds = F.phi_logit_probabilities(torch.tensor(logits, dtype=dtype), **parameters).tolist()
    expected = [exact_phi_log_odds(logit, **parameters) for logit in logits]
    assert log_odds == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(
    'parameters', [dict(gamma_positive=1.0, gamma_negative=3.0, margin=0.1), dict(gamma_positive=2.0, margin=0.05)]
)
def test_phi_log_odds_with_a_margin_equal_the_equation(parameters):
    logits = [-2.0, -1.0, 0.0, 3.0, 20.0, 500.0]
    log_odds = F.phi_logit_probabilities(torch.tensor(logits, dtype=torch.float64), **parameters).tolist()
    assert log_odds == pytest.approx(
        [exact_phi_log_odds(logit, **{'gamma_negative': 4.0, **parameters}) for logit in logits], rel=1e-12
    )


@pytest.mark.parametrize('case', figures('phi'))
def test_phi_equals_the_equation(case):
    names = dict(gamma_pos='gamma_positive', gamma_neg='gamma_negative', margin='margin')
    parameters = {names[key]: value for key, value in case['params'].items() if key in names}
    probabilities = F.phi_link(torch.tensor(case['logits'], dtype=torch.float64), **parameters)
    torch.testing.assert_close(probabilities, torch.tensor(case['loss'], dtype=torch.float64), rtol=1e-9, atol=1e-300)


def test_phi_without_focusing_is_the_sigmoid():
    logits = torch.linspace(-100, 100, 81)
    torch.testing.assert_close(F.phi_logit_probabilities(logits, 0.0, 0.0, 0.0), logits)


@pytest.mark.parametrize('parameters', PHI_WITH_MARGIN)
def test_phi_with_a_margin_never_falls(parameters):
    assert (F.phi_logit_probabilities(torch.linspace(-50, 50, 4001), **parameters).diff() >= 0).all()


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
@pytest.mark.parametrize('gamma_negative', [0.5, 1.0, 4.0, 10.0])
def test_below_the_margin_phi_is_zero_and_flat(gamma_negative, dtype):
    logits = torch.tensor([-1e4, -30.0, -3.0], dtype=dtype, requires_grad=True)
    log_odds = F.phi_logit_probabilities(logits, gamma_negative=gamma_negative)
    assert log_odds.tolist() == [torch.tensor(torch.finfo(dtype).tiny, dtype=dtype).log().item()] * 3
    log_odds.sum().backward()
    assert logits.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize('log_odds', LOG_ODDS)
def test_log_odds_and_gradients_are_finite(log_odds):
    logits = torch.tensor([-1e4, -500, -104, -88, -20, -2.9444, -1, 0, 1, 20, 88, 104, 500, 1e4], requires_grad=True)
    values = log_odds(logits)
    values.sum().backward()
    assert values.isfinite().all()
    assert logits.grad.isfinite().all()
    assert (logits.grad >= 0).all()


@pytest.mark.parametrize('log_odds', LOG_ODDS)
def test_gradients_are_right(log_odds):
    logits = torch.linspace(-2.5, 5, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_odds, (logits,))


@pytest.mark.parametrize('log_odds', LOG_ODDS)
def test_a_compiled_graph_is_not_broken(log_odds):
    torch.compiler.reset()  # torch limits how often one function is compiled
    logits = torch.linspace(-5, 5, 12)
    compiled = torch.compile(log_odds, fullgraph=True, backend='eager')
    torch.testing.assert_close(compiled(logits), log_odds(logits))


def test_scaling_equals_its_formula():
    log_odds = torch.tensor([[-3.0, 0.5], [1000.0, 2.0]])
    assert F.temperature_scaling(log_odds, 2.0).tolist() == [[-1.5, 0.25], [500.0, 1.0]]
    assert F.platt_scaling(log_odds, 2.0, -1.0).tolist() == [[-7.0, 0.0], [1999.0, 3.0]]
    scaled = F.vector_scaling(log_odds, torch.tensor([2.0, 4.0]), torch.tensor([-1.0, 1.0]))
    assert scaled.tolist() == [[-7.0, 3.0], [1999.0, 9.0]]


def test_vector_scaling_wants_one_value_for_each_class():
    with pytest.raises(ValueError, match=r'one entry for each of the 2 classes, got the shapes \(3,\) and \(2,\)'):
        F.vector_scaling(torch.zeros(4, 2), torch.ones(3), torch.zeros(2))

"""Links: probabilities, log-odds that stay exact in the tails, and their inverses."""

import pytest
import torch

from mmml_losses import functional as F

PARAMETERS = [
    {},
    dict(negative_scale=1.0, negative_slope=1.0, negative_shift=0.0),
    dict(positive_scale=2.0, positive_slope=1.5, positive_shift=-0.5, negative_scale=3.0, negative_slope=2.0),
    dict(positive_shift=6.0, negative_shift=-6.0),  # a plateau between the shifts
]


@pytest.mark.parametrize('parameters', PARAMETERS)
def test_spa_link_grows_with_the_logit(parameters):
    probabilities = F.spa_link(torch.linspace(-20, 20, 401, dtype=torch.float64), **parameters)
    assert (probabilities.diff() > 0).all()


@pytest.mark.parametrize('parameters', PARAMETERS)
def test_spa_inverse_link_goes_back(parameters):
    probabilities = torch.tensor([1e-12, 1e-4, 0.03, 0.5, 0.77, 0.999, 1 - 1e-12], dtype=torch.float64)
    back = F.spa_link(F.spa_inverse_link(probabilities, **parameters), **parameters)
    torch.testing.assert_close(back, probabilities, rtol=1e-9, atol=0)


def test_log_odds_stay_exact_where_the_probability_is_rounded():
    logits = torch.tensor([-500.0, 500.0])
    assert F.spa_link(logits).tolist() == [0.0, 1.0]
    slow, fast = F.spa_logit_probabilities(logits.double()).tolist()
    assert slow == pytest.approx(3 * (-500 - 1) + torch.tensor(0.6).log().item())
    assert fast == pytest.approx(500 + torch.tensor(0.6).log().item())
    torch.testing.assert_close(F.spa_logit_probabilities(logits).double(), F.spa_logit_probabilities(logits.double()))


@pytest.mark.parametrize('value', [0.0, 1.0, 1.5, float('nan')])
def test_inverse_refuses_what_no_logit_reads_as(value):
    with pytest.raises(ValueError, match=r'probabilities must be inside \(0, 1\)'):
        F.spa_inverse_link(torch.tensor([0.5, value]))

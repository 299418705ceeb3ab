"""Strict properness: the risk of SPA is least where its link reads the true probability; the risk of ASL is not."""

import pytest
import torch
from scipy.optimize import brentq, minimize_scalar

from mmml_losses.losses import AsymmetricLoss, BCELoss, FocalLoss, PairLoss, SPALoss

ETAS = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]


def risk_minimiser(loss: PairLoss, eta: float) -> float:
    """Find the logit with the least conditional risk, eta * l+(v) + (1 - eta) * l-(v)."""

    def risk(logit: float) -> float:
        return loss(torch.tensor([[logit]], dtype=torch.float64), torch.tensor([[eta]], dtype=torch.float64)).item()

    grid = torch.linspace(-15, 15, 3001, dtype=torch.float64)
    values = loss(grid.unsqueeze(1), torch.full((3001, 1), eta, dtype=torch.float64), reduction_override='none')
    best = grid[values.argmin()].item()
    return minimize_scalar(risk, bounds=(best - 0.02, best + 0.02), method='bounded', options={'xatol': 1e-9}).x


def read(loss: PairLoss, logit: float) -> float:
    return loss.probabilities(torch.tensor([logit], dtype=torch.float64)).item()


@pytest.mark.parametrize('eta', ETAS)
@pytest.mark.parametrize(
    'loss',
    [
        BCELoss(),
        SPALoss(),
        SPALoss(positive_scale=2, positive_slope=1.5, positive_shift=-0.5, negative_scale=3, negative_slope=2),
        SPALoss(positive_scale=0.5, positive_shift=1.0, negative_scale=9, negative_slope=0.7, negative_shift=-1.0),
        FocalLoss(link='phi'),
        FocalLoss(gamma_positive=1, gamma_negative=3, link='phi'),
        FocalLoss(alpha=0.25, link='phi'),  # as detectors have it
    ],
)
def test_proper_losses_are_minimised_at_the_true_probability(loss, eta):
    logit = risk_minimiser(loss, eta)
    assert read(loss, logit) == pytest.approx(eta, abs=1e-4)
    assert loss.link.inverse(torch.tensor(eta, dtype=torch.float64)).item() == pytest.approx(logit, abs=1e-4)


@pytest.mark.parametrize('powers', [(2.0, 2.0), (1.0, 4.0), (0.5, 3.0)])
def test_focal_read_by_the_sigmoid_is_not_proper(powers):
    """Corollary 1 of the SPA paper, for equal and for different powers; phi makes the same logits exact (Theorem 2)."""
    by_sigmoid, by_phi = (
        FocalLoss(gamma_positive=powers[0], gamma_negative=powers[1], link=link) for link in (None, 'phi')
    )
    logits = [risk_minimiser(by_sigmoid, eta) for eta in ETAS]
    misread = [abs(read(by_sigmoid, logit) - eta) for logit, eta in zip(logits, ETAS, strict=True)]
    assert max(misread) > 0.1
    assert sum(error > 0.02 for error in misread) >= len(ETAS) - 2
    assert [read(by_phi, logit) for logit in logits] == pytest.approx(ETAS, abs=1e-4)


def logit_at_rest(loss: PairLoss, eta: float) -> float:
    """Find the logit where the expected gradient is 0: with constant weights it is not where the risk is least."""

    def expected_gradient(logit: float) -> float:
        logits = torch.tensor([[logit]], dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(loss(logits, torch.tensor([[eta]], dtype=torch.float64)), logits)
        return slope.item()

    return brentq(expected_gradient, -15, 15)


def test_phi_removes_a_part_of_the_bias_of_asl_with_constant_weights():
    """The SPA paper reads the released ASL through phi, although Theorem 2 is about the gradient of the formula."""
    released = AsymmetricLoss(detach_weight=True, link='phi')
    for eta in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7):
        logit, gradient_form = logit_at_rest(released, eta), risk_minimiser(AsymmetricLoss(), eta)
        by_sigmoid, by_phi = read(AsymmetricLoss(), logit), read(released, logit)
        assert by_sigmoid > read(AsymmetricLoss(), gradient_form)
        assert eta + 0.01 < by_phi < by_sigmoid - 0.02


def test_asl_is_not_proper():
    misread = [abs(read(AsymmetricLoss(), risk_minimiser(AsymmetricLoss(), eta)) - eta) for eta in ETAS]
    assert max(misread) > 0.3
    assert sum(error > 0.05 for error in misread) >= len(ETAS) // 2


def test_the_link_as_printed_in_the_paper_would_not_be_proper():
    loss = SPALoss()
    logits = torch.tensor([risk_minimiser(loss, eta) for eta in ETAS], dtype=torch.float64)
    a, b = 3 / 5 * (-3 * (logits - 1)).sigmoid(), logits.sigmoid()  # Eq. 17, with its signs
    printed = (a / (a + b)).tolist()
    assert printed == sorted(printed, reverse=True)
    assert max(abs(value - eta) for value, eta in zip(printed, ETAS, strict=True)) > 0.5

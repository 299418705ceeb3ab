r"""Links, the maps from a logit :math:`v` to a probability :math:`\eta`, and their inverses.

``*_logit_probabilities`` is the log-odds :math:`\log\frac{\eta}{1 - \eta}`. It is computed without the probability, so
that it stays exact where :math:`\eta` rounds to 0 or 1. ``*_link`` is its sigmoid, and ``*_inverse_link`` the inverse
of that.
``*_scaling`` corrects log-odds after training; it is a link on top of another.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..utils.arguments import check_above_0, check_at_least_0
from .terms import AsymmetricNegative, AsymmetricPositive, SPANegative, SPAPositive

__all__ = [
    'phi_inverse_link',
    'phi_inverse_logit_probabilities',
    'phi_link',
    'phi_logit_probabilities',
    'platt_scaling',
    'sigmoid_link',
    'spa_inverse_link',
    'spa_inverse_logit_probabilities',
    'spa_link',
    'spa_logit_probabilities',
    'temperature_scaling',
    'vector_scaling',
]


def sigmoid_link(logits: Tensor) -> Tensor:
    r"""Compute the logistic link, :math:`\eta = \sigma(v)`, whose log-odds are the logits themselves."""
    return logits.sigmoid()


def spa_logit_probabilities(
    logits: Tensor,
    positive_scale: float = SPAPositive.scale,
    positive_slope: float = SPAPositive.slope,
    positive_shift: float = SPAPositive.shift,
    negative_scale: float = SPANegative.scale,
    negative_slope: float = SPANegative.slope,
    negative_shift: float = SPANegative.shift,
) -> Tensor:
    r"""Compute the log-odds of the SPA link, :math:`\log a - \log b` with :math:`a, b` as in :func:`spa_link`.

    Args:
        logits: Any shape.
        positive_scale: :math:`\zeta^+`.
        positive_slope: :math:`k^+`.
        positive_shift: :math:`b^+`.
        negative_scale: :math:`\zeta^-`.
        negative_slope: :math:`k^-`.
        negative_shift: :math:`b^-`.
    """
    check_above_0(positive_scale=positive_scale, positive_slope=positive_slope)
    check_above_0(negative_scale=negative_scale, negative_slope=negative_slope)
    log_ratio = math.log(negative_slope / negative_scale) - math.log(positive_slope / positive_scale)
    log_a = logsigmoid(negative_slope * (logits - negative_shift))
    log_b = logsigmoid(-positive_slope * (logits - positive_shift))
    return log_ratio + log_a - log_b


def spa_link(logits: Tensor, **parameters: float) -> Tensor:
    r"""Compute the link that makes SPA strictly proper: its conditional risk is minimal at the true probability.

    .. math::
        \eta(v) = \frac{a}{a + b},\qquad
        a = \frac{k^-}{\zeta^-}\,\sigma(k^-(v - b^-)),\qquad
        b = \frac{k^+}{\zeta^+}\,\sigma(-k^+(v - b^+))

    Setting the derivative of :math:`\eta\,\ell_+(v) + (1 - \eta)\,\ell_-(v)` to zero gives this form. Eq. 17 of the
    paper prints the signs inside both sigmoids the other way round, which would fall as the logit grows.

    Args:
        logits: Any shape.
        **parameters: The scales, slopes and shifts of :func:`spa_logit_probabilities`.
    """
    return spa_logit_probabilities(logits, **parameters).sigmoid()


def spa_inverse_link(probabilities: Tensor, **parameters: float) -> Tensor:
    r"""Compute the logits whose :func:`spa_link` is ``probabilities``.

    Args:
        probabilities: Any shape, inside (0, 1).
        **parameters: The scales, slopes and shifts of :func:`spa_logit_probabilities`.
    """
    logits = spa_inverse_logit_probabilities(probabilities.double().logit(), **parameters)
    return logits.to(probabilities.dtype)


def spa_inverse_logit_probabilities(log_odds: Tensor, **parameters: float) -> Tensor:
    """Invert :func:`spa_logit_probabilities`, with the same parameters."""
    return _invert(lambda logits: spa_logit_probabilities(logits, **parameters), log_odds)


def phi_logit_probabilities(
    logits: Tensor,
    gamma_positive: float = AsymmetricPositive.gamma,
    gamma_negative: float = AsymmetricNegative.gamma,
    margin: float = AsymmetricNegative.margin,
    alpha: float = 0.5,
) -> Tensor:
    r"""Compute the log-odds of :func:`phi_link`, :math:`\log h((z - m)_+; \gamma^-) - \log h(1 - z; \gamma^+)`.

    Weights of the two terms add :math:`\log((1 - \alpha)/\alpha)`.

    Without a margin, :math:`\log h(\sigma(v); \gamma) = (\gamma - 1)\log\sigma(v) + \log(e^v + \gamma\log(1 + e^v))`
    for logits :math:`v` of any size.

    With a margin, all logits with :math:`\sigma(v) \le m` read as probability 0, because no negative costs anything
    there. Their log-odds, and any lower ones, are the logarithm of the smallest normal number of the dtype, with zero
    gradient.

    Args:
        logits: Any shape.
        gamma_positive: Focusing power :math:`\gamma^+` of the positives.
        gamma_negative: Focusing power :math:`\gamma^-` of the negatives.
        margin: Probability shift :math:`m` of the negatives.
        alpha: Weight :math:`\alpha` of the positives beside :math:`1 - \alpha` of the negatives.
    """
    check_at_least_0(gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    if not 0 <= margin < 1:
        raise ValueError(f'margin must be in [0, 1), got {margin}')
    if not 0 < alpha < 1:
        raise ValueError(f'alpha must be in (0, 1), got {alpha}')
    # What a positive costs relative to a negative, taken off both forms below.
    log_h_positive = _log_h(-logits, gamma_positive) + math.log(alpha / (1 - alpha))
    if margin == 0:
        return _log_h(logits, gamma_negative) - log_h_positive
    tiny = torch.finfo(logits.dtype).tiny
    shifted = logits.sigmoid() - margin
    kept = shifted.clamp(min=tiny)
    log_rest = torch.log1p(-kept)
    if gamma_negative == 0:
        log_h = -log_rest
    else:
        log_h = (gamma_negative - 1) * kept.log() + (kept / (1 - kept) - gamma_negative * log_rest).log()
    floor = math.log(tiny)
    return (log_h - log_h_positive).clamp(min=floor).masked_fill(shifted <= 0, floor)


def phi_link(logits: Tensor, **parameters: float) -> Tensor:
    r"""Compute the probability of a logit that Focal or ASL has trained (Cheng and Vasconcelos, Eq. 13 to 15).

    .. math::
        \phi(z) = \frac{h((z - m)_+; \gamma^-)}{h((z - m)_+; \gamma^-) + h(1 - z; \gamma^+)},\qquad
        h(z; \gamma) = \frac{z^\gamma - \gamma z^{\gamma - 1}(1 - z)\log(1 - z)}{1 - z},\qquad z = \sigma(v)

    Neither loss is proper: the sigmoid of a logit with the least risk is not the probability of the label, and
    :math:`\phi` of that sigmoid is. It keeps the order of the logits if and only if :math:`m = 0`. It belongs to the
    losses with the gradient of their focusing weights (``detach_weight=False``), without any weights of classes.
    Where the terms are weighed by :math:`\alpha` and :math:`1 - \alpha`, so are the two :math:`h`.

    Args:
        logits: Any shape.
        **parameters: The focusing powers, the margin and alpha of :func:`phi_logit_probabilities`.
    """
    return phi_logit_probabilities(logits, **parameters).sigmoid()


def phi_inverse_link(probabilities: Tensor, **parameters: float) -> Tensor:
    r"""Compute the logits whose :func:`phi_link` is ``probabilities``; without a margin there is one for each.

    Args:
        probabilities: Any shape, inside (0, 1).
        **parameters: The focusing powers and alpha of :func:`phi_logit_probabilities`, and ``margin=0``.
    """
    logits = phi_inverse_logit_probabilities(probabilities.double().logit(), **parameters)
    return logits.to(probabilities.dtype)


def phi_inverse_logit_probabilities(
    log_odds: Tensor, margin: float = AsymmetricNegative.margin, **parameters: float
) -> Tensor:
    """Invert :func:`phi_logit_probabilities`, with the same parameters."""
    if margin != 0:
        raise ValueError(f'margin must be 0, got {margin}: with a margin, many logits read as the probability 0')
    return _invert(lambda logits: phi_logit_probabilities(logits, margin=margin, **parameters), log_odds)


def temperature_scaling(log_odds: Tensor, temperature: float | Tensor) -> Tensor:
    r"""Apply temperature scaling (Guo et al., 2017), :math:`u / T`.

    Args:
        log_odds: Any shape.
        temperature: Above 1 it moves probabilities towards 0.5, below 1 away from it.
    """
    return log_odds / temperature


def platt_scaling(log_odds: Tensor, scale: float | Tensor, bias: float | Tensor) -> Tensor:
    r"""Apply Platt scaling (Platt, 1999), :math:`a u + b`.

    Args:
        log_odds: Any shape.
        scale: :math:`a`, above 0.
        bias: :math:`b`.
    """
    return scale * log_odds + bias


def vector_scaling(log_odds: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    r"""Apply vector scaling (Guo et al., 2017), Platt scaling for each class by itself: :math:`a_c u_c + b_c`.

    Args:
        log_odds: (..., C).
        scale: (C,), above 0.
        bias: (C,).
    """
    classes = log_odds.shape[-1:]
    if scale.shape != classes or bias.shape != classes:
        raise ValueError(
            f'scale and bias must have one entry for each of the {classes[0]} classes, '
            f'got the shapes {tuple(scale.shape)} and {tuple(bias.shape)}'
        )
    return platt_scaling(log_odds, scale, bias)


def _log_h(logits: Tensor, gamma: float) -> Tensor:
    r"""Compute :math:`\log h(\sigma(v); \gamma)` of :func:`phi_link`."""
    if gamma == 0:
        return -logsigmoid(-logits)
    log_cost = _log_softplus(logits)
    return (gamma - 1) * logsigmoid(logits) + torch.logaddexp(logits, log_cost + math.log(gamma))


def _log_softplus(logits: Tensor) -> Tensor:
    r"""Compute :math:`\log\log(1 + e^v)`, also where :math:`e^v` underflows."""
    small = math.log(torch.finfo(logits.dtype).eps)  # from here down, log(1 + e^v) is e^v to the last bit
    return torch.where(logits < small, logits, (-logsigmoid(-logits.clamp(min=small))).log())


def _invert(logit_probabilities: Callable[[Tensor], Tensor], log_odds: Tensor) -> Tensor:
    """Find the logits of given log-odds by bisection. There is one root: the log-odds grow with the logit.

    Args:
        logit_probabilities: Log-odds of logits.
        log_odds: Any shape, finite.
    """
    wanted = log_odds.double()
    if not wanted.isfinite().all():
        raise ValueError('probabilities must be inside (0, 1), where the log-odds are finite')
    low, high = torch.full_like(wanted, -1.0), torch.full_like(wanted, 1.0)
    while (too_high := logit_probabilities(low) > wanted).any():
        low = torch.where(too_high, 2 * low, low)
    while (too_low := logit_probabilities(high) < wanted).any():
        high = torch.where(too_low, 2 * high, high)
    for _ in range(64):  # as many halvings as the float64 bracket has bits
        middle = (low + high) / 2
        below = logit_probabilities(middle) < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return ((low + high) / 2).to(log_odds.dtype)

r"""Links, which map a logit :math:`v` to a probability :math:`\eta` of the label, and their inverses.

``*_link`` returns :math:`\eta`. ``*_logit_probabilities`` returns its log-odds :math:`\log\frac{\eta}{1 - \eta}`, which
stay exact where :math:`\eta` rounds to 0 or 1. ``*_inverse_link`` and ``*_inverse_logit_probabilities`` return logits
for probabilities and log-odds. ``*_scaling`` corrects log-odds after training; it can follow any link.
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
    r"""Return the probabilities :math:`\eta = \sigma(v)` of logits :math:`v`: the usual link."""
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
    r"""Compute the log-odds of the label from a logit :math:`v` that SPA has trained (see :func:`spa_link`).

    :math:`\log\sigma(k^-(v - b^-)) - \log\sigma(-k^+(v - b^+)) + \log\frac{k^-}{\zeta^-} - \log\frac{k^+}{\zeta^+}`

    Args:
        logits: Logits :math:`v` of any shape. The log-odds have this shape.
        positive_scale: Divisor :math:`\zeta^+` of the positive term, above 0.
        positive_slope: Slope :math:`k^+` of the positive term, above 0.
        positive_shift: Shift :math:`b^+` of the logit in the positive term.
        negative_scale: Divisor :math:`\zeta^-` of the negative term, above 0.
        negative_slope: Slope :math:`k^-` of the negative term, above 0.
        negative_shift: Shift :math:`b^-` of the logit in the negative term.
    """
    check_above_0(positive_scale=positive_scale, positive_slope=positive_slope)
    check_above_0(negative_scale=negative_scale, negative_slope=negative_slope)
    log_ratio = math.log(negative_slope / negative_scale) - math.log(positive_slope / positive_scale)
    log_a = logsigmoid(negative_slope * (logits - negative_shift))
    log_b = logsigmoid(-positive_slope * (logits - positive_shift))
    return log_ratio + log_a - log_b


def spa_link(logits: Tensor, **parameters: float) -> Tensor:
    r"""Compute the probability :math:`\eta` for which a logit :math:`v` has the least expected SPA loss.

    .. math::
        \eta(v) = \frac{a}{a + b},\qquad
        a = \frac{k^-}{\zeta^-}\,\sigma(k^-(v - b^-)),\qquad
        b = \frac{k^+}{\zeta^+}\,\sigma(-k^+(v - b^+))

    For this :math:`\eta`, the expected loss :math:`\eta\,\ell_+(v) + (1 - \eta)\,\ell_-(v)` has derivative 0 at
    :math:`v`: SPA is strictly proper. Eq. 17 of the paper has the opposite signs in both sigmoids, and falls with v.

    Args:
        logits: Logits :math:`v` of any shape. The probabilities have this shape.
        **parameters: Scales, slopes and shifts of the SPA loss, named as in :func:`spa_logit_probabilities`.
    """
    return spa_logit_probabilities(logits, **parameters).sigmoid()


def spa_inverse_link(probabilities: Tensor, **parameters: float) -> Tensor:
    """Compute the logits whose probability by :func:`spa_link` is ``probabilities``, in its shape and dtype.

    Args:
        probabilities: Any shape, inside (0, 1); others raise a ValueError. The logits have no gradient.
        **parameters: Scales, slopes and shifts of the SPA loss, named as in :func:`spa_logit_probabilities`.
    """
    logits = spa_inverse_logit_probabilities(probabilities.double().logit(), **parameters)
    return logits.to(probabilities.dtype)


def spa_inverse_logit_probabilities(log_odds: Tensor, **parameters: float) -> Tensor:
    """Compute the logits whose :func:`spa_logit_probabilities` (with the same ``parameters``) are ``log_odds``."""
    return _invert(lambda logits: spa_logit_probabilities(logits, **parameters), log_odds)


def phi_logit_probabilities(
    logits: Tensor,
    gamma_positive: float = AsymmetricPositive.gamma,
    gamma_negative: float = AsymmetricNegative.gamma,
    margin: float = AsymmetricNegative.margin,
    alpha: float = 0.5,
) -> Tensor:
    r"""Compute the log-odds of the label from a logit that Focal or ASL has trained (see :func:`phi_link`).

    With :math:`z = \sigma(v)` and the :math:`h` of :func:`phi_link`, they are
    :math:`\log h((z - m)_+; \gamma^-) - \log h(1 - z; \gamma^+) + \log((1 - \alpha)/\alpha)`. Without a margin they are
    exact for logits :math:`v` of any size, by
    :math:`\log h(\sigma(v); \gamma) = (\gamma - 1)\log\sigma(v) + \log(e^v + \gamma\log(1 + e^v))`.
    With a margin, logits with :math:`\sigma(v) \le m` stand for probability 0, because their negative term is 0. Their
    log-odds are set to the logarithm of the dtype's smallest normal number, without gradient; no log-odds are lower.

    Args:
        logits: Logits :math:`v` of any shape. The log-odds have this shape.
        gamma_positive: Focusing power :math:`\gamma^+` of the positives in training, at least 0.
        gamma_negative: Focusing power :math:`\gamma^-` of the negatives in training, at least 0.
        margin: Probability shift :math:`m` of the negatives in training, in [0, 1).
        alpha: Weight :math:`\alpha` of the positives in training, in (0, 1), with :math:`1 - \alpha` for the negatives.
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

    Focal and ASL are not proper: at the least expected loss, the probability of the label is not :math:`\sigma(v)` but
    :math:`\phi(\sigma(v))`. The link keeps the order of the logits if and only if :math:`m = 0`. If alpha weighs the
    terms, :math:`h(1 - z)` has the factor :math:`\alpha` and :math:`h((z - m)_+)` the factor :math:`1 - \alpha`.

    That holds for losses without class weights whose focusing weights have a gradient (``detach_weight=False``). With
    constant weights a training ends elsewhere, in the case of ASL farther from the probability of the label, and
    :math:`\phi` removes only a part of the bias. The paper applies it to the released ASL, whose weights are constant.

    Args:
        logits: Logits :math:`v` of any shape. The probabilities have this shape.
        **parameters: Focusing powers, margin and alpha of the loss, named as in :func:`phi_logit_probabilities`.
    """
    return phi_logit_probabilities(logits, **parameters).sigmoid()


def phi_inverse_link(probabilities: Tensor, **parameters: float) -> Tensor:
    """Compute the logits whose probability by :func:`phi_link` is ``probabilities``, in its shape and dtype.

    Args:
        probabilities: Any shape, inside (0, 1); others raise a ValueError. The logits have no gradient.
        **parameters: Focusing powers and alpha, named as in :func:`phi_logit_probabilities`. The caller must pass
            ``margin=0``, too: any other margin raises a ValueError, also the default of 0.05.
    """
    logits = phi_inverse_logit_probabilities(probabilities.double().logit(), **parameters)
    return logits.to(probabilities.dtype)


def phi_inverse_logit_probabilities(
    log_odds: Tensor, margin: float = AsymmetricNegative.margin, **parameters: float
) -> Tensor:
    """Compute the logits of a model trained with Focal or ASL from log-odds; invert :func:`phi_logit_probabilities`.

    Args:
        log_odds: Log-odds of the labels, of any shape. The logits have this shape.
        margin: Must be 0, so pass it: any other value, also the default, raises a ValueError, because with a margin
            many logits have the same probability, 0.
        **parameters: ``gamma_positive``, ``gamma_negative`` and ``alpha`` of the training loss.
    """
    if margin != 0:
        raise ValueError(f'margin must be 0, got {margin}: with a margin, many logits read as the probability 0')
    return _invert(lambda logits: phi_logit_probabilities(logits, margin=margin, **parameters), log_odds)


def temperature_scaling(log_odds: Tensor, temperature: float | Tensor) -> Tensor:
    """Return log-odds :math:`u` after temperature scaling (Guo et al., 2017), :math:`u / T`.

    Args:
        log_odds: Log-odds :math:`u` of any shape.
        temperature: :math:`T`, above 0. Above 1 it moves probabilities towards 0.5, below 1 away from 0.5.
    """
    return log_odds / temperature


def platt_scaling(log_odds: Tensor, scale: float | Tensor, bias: float | Tensor) -> Tensor:
    """Return log-odds :math:`u` after Platt scaling (Platt, 1999), :math:`a u + b`.

    Args:
        log_odds: Log-odds :math:`u` of any shape.
        scale: Factor :math:`a`, above 0.
        bias: Number :math:`b` that is added.
    """
    return scale * log_odds + bias


def vector_scaling(log_odds: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Return log-odds after vector scaling (Guo et al., 2017), a Platt scaling for each class: :math:`a_c u_c + b_c`.

    Args:
        log_odds: Log-odds :math:`u`, (..., C).
        scale: (C,), factors :math:`a_c`, above 0.
        bias: (C,), numbers :math:`b_c` that are added.
    """
    classes = log_odds.shape[-1:]
    if scale.shape != classes or bias.shape != classes:
        raise ValueError(
            f'scale and bias must have one entry for each of the {classes[0]} classes, '
            f'got the shapes {tuple(scale.shape)} and {tuple(bias.shape)}'
        )
    return platt_scaling(log_odds, scale, bias)


def _log_h(logits: Tensor, gamma: float) -> Tensor:
    r"""Compute :math:`\log h(\sigma(v); \gamma)` for logits :math:`v`, with :math:`h` of :func:`phi_link`."""
    if gamma == 0:
        return -logsigmoid(-logits)
    log_cost = _log_softplus(logits)
    return (gamma - 1) * logsigmoid(logits) + torch.logaddexp(logits, log_cost + math.log(gamma))


def _log_softplus(logits: Tensor) -> Tensor:
    r"""Compute :math:`\log\log(1 + e^v)`, also where :math:`e^v` underflows."""
    small = math.log(torch.finfo(logits.dtype).eps)  # from here down, log(1 + e^v) is e^v to the last bit
    return torch.where(logits < small, logits, (-logsigmoid(-logits.clamp(min=small))).log())


def _invert(logit_probabilities: Callable[[Tensor], Tensor], log_odds: Tensor) -> Tensor:
    """Return the logits of given log-odds, in their shape and dtype, by bisection, without gradient.

    Args:
        logit_probabilities: Increasing function from logits to log-odds.
        log_odds: Log-odds to be reached, any shape; a ValueError is raised unless they are finite.
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

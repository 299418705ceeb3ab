r"""Partial losses of one logit: the cost of a positive label, :math:`\ell_+(v)`, and of a negative, :math:`\ell_-(v)`.

Every term is written with :func:`torch.nn.functional.logsigmoid` instead of the logarithm of a probability: it stays
exact, and keeps its gradient, for logits of any size. Below each term stands its value with its derivative, which is
what training uses (see :mod:`mmml_losses.functional.pair`); tests hold the two against each other.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from .pair import Term, find_value_and_slope, value_and_slope_of


def bce_positive(logits: Tensor) -> Tensor:
    r"""Positive term of the binary cross-entropy, :math:`-\log\sigma(v)`."""
    return -logsigmoid(logits)


@value_and_slope_of(bce_positive)
def _bce_positive(logits: Tensor) -> tuple[Tensor, Tensor]:
    return _mirrored_bce(-logits)


def bce_negative(logits: Tensor) -> Tensor:
    r"""Negative term of the binary cross-entropy, :math:`-\log(1 - \sigma(v))`."""
    return -logsigmoid(-logits)


@value_and_slope_of(bce_negative)
def _bce_negative(logits: Tensor) -> tuple[Tensor, Tensor]:
    return exact_softplus(logits), logits.sigmoid()


def _mirrored_bce(mirrored: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`bce_positive` of the logits ``-mirrored``, whose memory it takes for the slope."""
    return exact_softplus(mirrored), mirrored.sigmoid_().neg_()


def exact_softplus(logits: Tensor) -> Tensor:
    """``-logsigmoid(-logits)`` in one operation. Above the threshold, log(1 + e^v) is v in float64 too."""
    return softplus(logits, threshold=50)


def smoothed_bce(logits: Tensor, label: float) -> Tensor:
    r"""BCE towards a fixed soft label :math:`t`, :math:`-t\log\sigma(v) - (1 - t)\log(1 - \sigma(v))`.

    Args:
        logits: Any shape.
        label: :math:`t`, in [0, 1].
    """
    return -label * logsigmoid(logits) - (1 - label) * logsigmoid(-logits)


@value_and_slope_of(smoothed_bce)
def _smoothed_bce(logits: Tensor, label: float) -> tuple[Tensor, Tensor]:
    # Both logarithms of one exponential: log(1 + e^v) = max(v, 0) + log(1 + e^-|v|).
    hinge = (1 - label) * logits.clamp(min=0) - label * logits.clamp(max=0)
    return hinge.add_(exact_softplus(-logits.abs())), logits.sigmoid() - label


def asymmetric_positive(logits: Tensor, gamma: float = 0.0, detach_weight: bool = False) -> Tensor:
    r"""Positive term of Focal and ASL, :math:`-(1 - p)^{\gamma}\log p` with :math:`p = \sigma(v)`.

    Args:
        logits: Any shape.
        gamma: Focusing power: how fast the weight of an easy positive falls.
        detach_weight: Whether the focusing weight is a constant for the gradient. ASL's authors publish both variants.
    """
    return asymmetric_negative(-logits, gamma, 0.0, detach_weight)


@value_and_slope_of(asymmetric_positive)
def _asymmetric_positive(logits: Tensor, gamma: float = 0.0, detach_weight: bool = False) -> tuple[Tensor, Tensor]:
    return _mirrored_focal(-logits, gamma, detach_weight)


def asymmetric_negative(
    logits: Tensor, gamma: float = 4.0, margin: float = 0.05, detach_weight: bool = False
) -> Tensor:
    r"""Negative term of Focal and ASL, :math:`-p_m^{\gamma}\log(1 - p_m)` with :math:`p_m = \max(\sigma(v) - m, 0)`.

    Args:
        logits: Any shape.
        gamma: Focusing power: how fast the weight of an easy negative falls.
        margin: Probability shift :math:`m`; a negative below it costs nothing. 0 gives the (asymmetric) focal loss.
        detach_weight: Whether the focusing weight is a constant for the gradient.
    """
    if margin == 0:
        # As an exponential, the weight has a finite gradient also where the probability underflows.
        weight = (gamma * logsigmoid(logits)).exp()
        return (weight.detach() if detach_weight else weight) * bce_negative(logits)
    # The smallest normal number instead of 0 keeps the gradient of the power finite for every gamma; the clamp
    # already cuts that gradient off, and the term itself underflows to 0.
    shifted = (logits.sigmoid() - margin).clamp(min=torch.finfo(logits.dtype).tiny)
    weight = shifted.pow(gamma)
    return -(weight.detach() if detach_weight else weight) * torch.log1p(-shifted)


@value_and_slope_of(asymmetric_negative)
def _asymmetric_negative(
    logits: Tensor, gamma: float = 4.0, margin: float = 0.05, detach_weight: bool = False
) -> tuple[Tensor, Tensor]:
    if margin == 0:
        return _focused(exact_softplus(logits), logits.sigmoid(), gamma, detach_weight)
    # With the shifted probability s and c = -log(1 - s), the value is s^g c and its derivative
    # p (1 - p) s^(g - 1) (s / (1 - s) + g c). Where that is not 0, 1 - s is 1 - p + m, whose digits do not cancel.
    p, rest = logits.sigmoid(), torch.sigmoid(-logits)
    shifted = (p - margin).clamp_(min=0)
    p.mul_(rest)
    rise = shifted / rest.add_(margin)
    del rest  # one tensor less while the others are made
    cost = (-shifted).log1p_().neg_()
    if not detach_weight:
        rise.add_(cost, alpha=gamma)
    rise.mul_(p)
    if gamma < 1:
        # The power of 0 is infinite, but below the margin the cost does not rise.
        rise = rise * (shifted > 0)
        shifted = shifted.clamp(min=torch.finfo(logits.dtype).tiny)
    weight = _power(shifted, gamma - 1)
    return cost.mul_(weight).mul_(shifted), rise.mul_(weight)


def _mirrored_focal(mirrored: Tensor, gamma: float, detach_weight: bool = False) -> tuple[Tensor, Tensor]:
    """:func:`asymmetric_positive` of the logits ``-mirrored``, whose memory it takes for the slope."""
    value, slope = _focused(exact_softplus(mirrored), mirrored.sigmoid_(), gamma, detach_weight)
    return value, slope.neg_()


def _focused(cost: Tensor, p: Tensor, gamma: float, detach_weight: bool) -> tuple[Tensor, Tensor]:
    """With c = -log(1 - p), whose derivative is p: value p^g c, derivative p^g (g (1 - p) c + p). Both change."""
    if gamma == 0:
        return cost, p
    weight = _power(p, gamma)
    if detach_weight:
        return cost.mul_(weight), p.mul_(weight)
    slope = p.addcmul_(1 - p, cost, value=gamma)
    return cost.mul_(weight), slope.mul_(weight)


def _power(base: Tensor, exponent: float) -> Tensor:
    """A power; torch multiplies for exponents from 0 to 3 and takes ten times as long for 4."""
    return base.square().square_() if exponent == 4 else base.pow(exponent)


def focal_margin_positive(logits: Tensor, margin: float = 1.0, gamma: float = 2.0) -> Tensor:
    r"""Focal margin, :math:`-(1 - p_m)^{\gamma}\log p_m` with :math:`p_m = \sigma(v - m)` (Zhang et al., Eq. 11).

    Args:
        logits: Any shape.
        margin: Shift :math:`m` of the logit. Between 0.5 and 1 it moves the weight from hard positives to semi-hard
            ones; 0 gives the focal loss.
        gamma: Focusing power.
    """
    return asymmetric_positive(logits - margin, gamma)


@value_and_slope_of(focal_margin_positive)
def _focal_margin_positive(logits: Tensor, margin: float = 1.0, gamma: float = 2.0) -> tuple[Tensor, Tensor]:
    return _mirrored_focal(margin - logits, gamma)


def mse_negative(logits: Tensor) -> Tensor:
    r"""Negative term of the squared error, :math:`p^2` with :math:`p = \sigma(v)` (Zhang et al., Sec. III-C)."""
    return logits.sigmoid().square()


@value_and_slope_of(mse_negative)
def _mse_negative(logits: Tensor) -> tuple[Tensor, Tensor]:
    p = logits.sigmoid()
    square = p.square()
    return square, torch.addcmul(square, square, p, value=-1).mul_(2)


def hill_negative(logits: Tensor, lamb: float = 1.5) -> Tensor:
    r"""Negative term of Hill, :math:`(\lambda - p)\,p^2` with :math:`p = \sigma(v)` (Zhang et al., Eq. 5).

    The factor :math:`\lambda - p` turns the gradient of the squared error down where a negative looks like a missed
    positive.

    Args:
        logits: Any shape.
        lamb: :math:`\lambda`; 1.5 puts the summit of the gradient at :math:`p = 0.5`.
    """
    p = logits.sigmoid()
    return (lamb - p) * p.square()


@value_and_slope_of(hill_negative)
def _hill_negative(logits: Tensor, lamb: float = 1.5) -> tuple[Tensor, Tensor]:
    p = logits.sigmoid()
    square = p.square()
    value = (lamb - p).mul_(square)
    # d/dp = (2 lamb - 3 p) p, and dp/dv = p (1 - p).
    return value, square.mul_(1 - p).mul_(p.mul_(-3).add_(2 * lamb))


def spa_positive(logits: Tensor, scale: float = 1.0, slope: float = 1.0, shift: float = 0.0) -> Tensor:
    r"""Positive term of SPA, :math:`-\frac{1}{\zeta^+}\log\sigma(k^+(v - b^+))` (Cheng and Vasconcelos, Eq. 16).

    Args:
        logits: Any shape.
        scale: :math:`\zeta^+`; a larger one lowers the weight of the positives.
        slope: :math:`k^+`.
        shift: :math:`b^+`.
    """
    return bce_positive(slope * (logits - shift)) / scale


@value_and_slope_of(spa_positive)
def _spa_positive(logits: Tensor, scale: float = 1.0, slope: float = 1.0, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    value, derivative = _mirrored_bce((shift - logits).mul_(slope))
    return value.div_(scale), derivative.mul_(slope / scale)


def spa_negative(logits: Tensor, scale: float = 5.0, slope: float = 3.0, shift: float = 1.0) -> Tensor:
    r"""Negative term of SPA, :math:`-\frac{1}{\zeta^-}\log\sigma(-k^-(v - b^-))` (Cheng and Vasconcelos, Eq. 16).

    Args:
        logits: Any shape.
        scale: :math:`\zeta^-`; a larger one lowers the weight of the many negatives.
        slope: :math:`k^-`; how fast the cost of an easy negative falls.
        shift: :math:`b^-`; where the cost of a negative starts to grow.
    """
    return bce_negative(slope * (logits - shift)) / scale


@value_and_slope_of(spa_negative)
def _spa_negative(logits: Tensor, scale: float = 5.0, slope: float = 3.0, shift: float = 1.0) -> tuple[Tensor, Tensor]:
    moved = (logits - shift).mul_(slope)
    return exact_softplus(moved).div_(scale), moved.sigmoid_().mul_(slope / scale)


def entropy_negative(logits: Tensor, alpha: float = 0.2) -> Tensor:
    r"""Term of an unobserved label under entropy maximisation, :math:`\alpha(p\log p + (1 - p)\log(1 - p))`.

    Its gradient vanishes where the model is sure, and where it knows nothing. The term is negative (Zhou et al., 2022).

    Args:
        logits: Any shape.
        alpha: Weight of the entropy.
    """
    p = logits.sigmoid()
    return alpha * (p * logsigmoid(logits) + (1 - p) * logsigmoid(-logits))


@value_and_slope_of(entropy_negative)
def _entropy_negative(logits: Tensor, alpha: float = 0.2) -> tuple[Tensor, Tensor]:
    # -H = v p - softplus(v), of which the derivative is v p (1 - p). By |v| there is no difference of large numbers.
    size = logits.abs()
    rest = torch.sigmoid(-size)
    value = exact_softplus(-size).addcmul_(size, rest).mul_(-alpha)
    return value, torch.addcmul(rest, rest, rest, value=-1).mul_(logits).mul_(alpha)


def scaled(logits: Tensor, term: Term, factor: float | Tensor) -> Tensor:
    """A term times a constant; ``partial(scaled, term=bce_negative, factor=0.1)`` is a term again."""
    return factor * term(logits)


@value_and_slope_of(scaled)
def _scaled(logits: Tensor, term: Term, factor: float | Tensor) -> tuple[Tensor, Tensor]:
    value, slope = find_value_and_slope(term)(logits)
    return value.mul_(factor), slope.mul_(factor)


def nothing(logits: Tensor) -> Tensor:
    """The term of labels that cost nothing."""
    return torch.zeros_like(logits)


@value_and_slope_of(nothing)
def _nothing(logits: Tensor) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(logits), torch.zeros_like(logits)


def stretched(logits: Tensor, term: Term, slope: float) -> Tensor:
    r"""A term of steeper logits, :math:`\frac{1}{\lambda}\,\ell(\lambda v)`: its gradient is as high and falls sooner.

    Args:
        logits: Any shape.
        term: :math:`\ell`.
        slope: :math:`\lambda`.
    """
    return term(slope * logits) / slope


@value_and_slope_of(stretched)
def _stretched(logits: Tensor, term: Term, slope: float) -> tuple[Tensor, Tensor]:
    value, derivative = find_value_and_slope(term)(slope * logits)
    return value.div_(slope), derivative

r"""Partial losses of one logit: the cost of a positive label, :math:`\ell_+(v)`, and of a negative, :math:`\ell_-(v)`.

Every term is written with :func:`torch.nn.functional.logsigmoid` instead of the logarithm of a probability: it stays
exact, and keeps its gradient, for logits of any size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

Term = Callable[[Tensor], Tensor]


def pair_loss(logits: Tensor, targets: Tensor, positive: Term, negative: Term) -> Tensor:
    r"""Join two partial losses, :math:`y\,\ell_+(v) + (1 - y)\,\ell_-(v)`.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``; 1, 0, or a soft value between them.
        positive: The term of positive labels.
        negative: The term of negative labels.

    Returns:
        One value per entry, not reduced.
    """
    targets = targets.to(logits.dtype)
    return targets * positive(logits) + (1 - targets) * negative(logits)


def bce_positive(logits: Tensor) -> Tensor:
    r"""Positive term of the binary cross-entropy, :math:`-\log\sigma(v)`."""
    return -logsigmoid(logits)


def bce_negative(logits: Tensor) -> Tensor:
    r"""Negative term of the binary cross-entropy, :math:`-\log(1 - \sigma(v))`."""
    return -logsigmoid(-logits)


def asymmetric_positive(logits: Tensor, gamma: float = 0.0, detach_weight: bool = False) -> Tensor:
    r"""Positive term of ASL, :math:`-(1 - p)^{\gamma}\log p` with :math:`p = \sigma(v)` (Ridnik et al., 2021).

    Args:
        logits: Any shape.
        gamma: Focusing power: how fast the weight of an easy positive falls.
        detach_weight: Whether the focusing weight is a constant for the gradient. The authors publish both variants.
    """
    weight = _focusing_weight(-logits, gamma, detach_weight)
    return weight * bce_positive(logits)


def asymmetric_negative(
    logits: Tensor, gamma: float = 4.0, margin: float = 0.05, detach_weight: bool = False
) -> Tensor:
    r"""Negative term of ASL, :math:`-p_m^{\gamma}\log(1 - p_m)` with :math:`p_m = \max(\sigma(v) - m, 0)`.

    Args:
        logits: Any shape.
        gamma: Focusing power: how fast the weight of an easy negative falls.
        margin: Probability shift :math:`m`; a negative below it costs nothing. 0 gives the asymmetric focal loss.
        detach_weight: Whether the focusing weight is a constant for the gradient.
    """
    if margin == 0:
        return _focusing_weight(logits, gamma, detach_weight) * bce_negative(logits)
    # The smallest normal number instead of 0 keeps the gradient of the power finite for every gamma; the clamp
    # already cuts that gradient off, and the term itself underflows to 0.
    shifted = (logits.sigmoid() - margin).clamp(min=torch.finfo(logits.dtype).tiny)
    weight = shifted.pow(gamma)
    return -(weight.detach() if detach_weight else weight) * torch.log1p(-shifted)


def _focusing_weight(logits: Tensor, gamma: float, detach: bool) -> Tensor:
    r""":math:`\sigma(v)^\gamma` as an exponential, whose gradient stays finite where the probability underflows."""
    weight = (gamma * logsigmoid(logits)).exp()
    return weight.detach() if detach else weight


def spa_positive(logits: Tensor, scale: float = 1.0, slope: float = 1.0, shift: float = 0.0) -> Tensor:
    r"""Positive term of SPA, :math:`-\frac{1}{\zeta^+}\log\sigma(k^+(v - b^+))` (Cheng and Vasconcelos, Eq. 16).

    Args:
        logits: Any shape.
        scale: :math:`\zeta^+`; a larger one lowers the weight of the positives.
        slope: :math:`k^+`.
        shift: :math:`b^+`.
    """
    return bce_positive(slope * (logits - shift)) / scale


def spa_negative(logits: Tensor, scale: float = 5.0, slope: float = 3.0, shift: float = 1.0) -> Tensor:
    r"""Negative term of SPA, :math:`-\frac{1}{\zeta^-}\log\sigma(-k^-(v - b^-))` (Cheng and Vasconcelos, Eq. 16).

    Args:
        logits: Any shape.
        scale: :math:`\zeta^-`; a larger one lowers the weight of the many negatives.
        slope: :math:`k^-`; how fast the cost of an easy negative falls.
        shift: :math:`b^-`; where the cost of a negative starts to grow.
    """
    return bce_negative(slope * (logits - shift)) / scale

"""Pointwise losses that are a positive and a negative term, and nothing else.

Each maps logits and targets of any one shape to unreduced values of that shape. Targets are 1, 0, -1 for unknown (the
value is 0 there), or between 0 and 1: all these losses are linear in the target.
"""

from torch import Tensor

from ..utils.arguments import check_above_0, check_at_least_0, check_choice, check_ratio
from .pair import pair_loss
from .terms import (
    AsymmetricNegative,
    AsymmetricPositive,
    FocalMarginPositive,
    FocalNegative,
    FocalPositive,
    HillNegative,
    Scaled,
    SmoothedBCE,
    SPANegative,
    SPAPositive,
    Term,
    bce_negative,
    bce_positive,
    mse_negative,
)

__all__ = [
    'asymmetric_loss',
    'balanced_leverage',
    'bce_loss',
    'focal_loss',
    'focal_margin_loss',
    'hill_loss',
    'label_smoothing_bce_loss',
    'las_loss',
    'mse_negative_loss',
    'spa_loss',
    'wan_loss',
]


def bce_loss(logits: Tensor, targets: Tensor) -> Tensor:
    r"""Compute BCE, :math:`-y\log p - (1 - y)\log(1 - p)`; AN where unobserved labels are given as 0."""
    return pair_loss(logits, targets, bce_positive, bce_negative)


def label_smoothing_bce_loss(logits: Tensor, targets: Tensor, epsilon: float = 0.1, reading: str = 'code') -> Tensor:
    r"""Compute BCE towards softened labels (BCE-LS, AN-LS).

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        epsilon: How much of a label is given away.
        reading: ``'code'``: a positive becomes :math:`1 - \epsilon`, a negative :math:`\epsilon`, as in the code of
            Cole et al. (2021). ``'paper'``: :math:`1 - \epsilon/2` and :math:`\epsilon/2`, as in their text.
    """
    check_ratio('epsilon', epsilon)
    check_choice('reading', reading, ('code', 'paper'))
    given_away = epsilon if reading == 'code' else epsilon / 2
    return pair_loss(logits, targets, SmoothedBCE(1 - given_away), SmoothedBCE(given_away))


def wan_loss(logits: Tensor, targets: Tensor, negative_weight: float | None = None) -> Tensor:
    r"""Compute the weak assume-negative loss, :math:`-y\log p - \lambda(1 - y)\log(1 - p)` (Cole et al., 2021).

    Args:
        logits: (N, C).
        targets: (N, C).
        negative_weight: :math:`\lambda`; by default :math:`1/(C - 1)`.
    """
    if negative_weight is None:
        negative_weight = 1 / max(logits.size(-1) - 1, 1)
    else:
        check_at_least_0(negative_weight=negative_weight)
    return pair_loss(logits, targets, bce_positive, Scaled(bce_negative, negative_weight))


def focal_loss(
    logits: Tensor,
    targets: Tensor,
    gamma_positive: float = FocalPositive.gamma,
    gamma_negative: float = FocalNegative.gamma,
    alpha: float | None = None,
) -> Tensor:
    r"""Compute the focal loss.

    .. math::
        -\alpha\,y(1 - p)^{\gamma^+}\log p - (1 - \alpha)(1 - y)\,p^{\gamma^-}\log(1 - p)

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        gamma_positive: :math:`\gamma^+`.
        gamma_negative: :math:`\gamma^-`.
        alpha: :math:`\alpha`; without it both factors are 1.
    """
    check_at_least_0(gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    positive: Term = FocalPositive(gamma_positive)
    negative: Term = FocalNegative(gamma_negative)
    if alpha is not None:
        check_ratio('alpha', alpha)
        positive, negative = Scaled(positive, alpha), Scaled(negative, 1 - alpha)
    return pair_loss(logits, targets, positive, negative)


def asymmetric_loss(
    logits: Tensor,
    targets: Tensor,
    gamma_positive: float = AsymmetricPositive.gamma,
    gamma_negative: float = AsymmetricNegative.gamma,
    margin: float = AsymmetricNegative.margin,
    detach_weight: bool = False,
) -> Tensor:
    r"""Compute ASL, :math:`-y(1 - p)^{\gamma^+}\log p - (1 - y)\,p_m^{\gamma^-}\log(1 - p_m)` (Ridnik et al., 2021).

    The authors' code clamps probabilities at 1e-8, which is NaN in float16 and takes the gradient from a confidently
    wrong positive; here nothing is clamped. It adds over batch and classes.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        gamma_positive: :math:`\gamma^+`. The default of the authors' class is 1; they trained with 0.
        gamma_negative: :math:`\gamma^-`.
        margin: The shift :math:`m` in :math:`p_m = \max(p - m, 0)`; 0 is ASL without probability shift.
        detach_weight: Whether the focusing weights are constants for the gradient. The authors publish both variants.
    """
    check_at_least_0(gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    if not 0 <= margin < 1:
        raise ValueError(f'margin must be in [0, 1), got {margin}')
    positive = AsymmetricPositive(gamma_positive, detach_weight)
    return pair_loss(logits, targets, positive, AsymmetricNegative(gamma_negative, margin, detach_weight))


def focal_margin_loss(
    logits: Tensor,
    targets: Tensor,
    margin: float = FocalMarginPositive.margin,
    gamma: float = FocalMarginPositive.gamma,
) -> Tensor:
    r"""Compute focal margin, :math:`-y(1 - p_m)^{\gamma}\log p_m - (1 - y)\,p^{\gamma}\log(1 - p)` (Eq. 11).

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        margin: The shift in :math:`p_m = \sigma(v - m)`.
        gamma: :math:`\gamma`.
    """
    check_at_least_0(gamma=gamma)
    return pair_loss(logits, targets, FocalMarginPositive(margin, gamma), FocalNegative(gamma))


def mse_negative_loss(logits: Tensor, targets: Tensor) -> Tensor:
    r"""Compute BCE for positives, squared error for negatives: :math:`-y\log p + (1 - y)\,p^2` (MSE-, Zhang et al.)."""
    return pair_loss(logits, targets, bce_positive, mse_negative)


def hill_loss(
    logits: Tensor,
    targets: Tensor,
    lamb: float = HillNegative.lamb,
    margin: float = FocalMarginPositive.margin,
    gamma: float = FocalMarginPositive.gamma,
) -> Tensor:
    r"""Compute Hill, :math:`-y(1 - p_m)^{\gamma}\log p_m + (1 - y)(\lambda - p)\,p^2` (Zhang et al., Eq. 5 and 11).

    The authors' code takes the logarithm of a sigmoid, which is NaN on a row of negatives in low precision; it adds
    over batch and classes.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        lamb: :math:`\lambda`; 1.5 puts the summit of the negative gradient at :math:`p = 0.5`.
        margin: The shift in :math:`p_m = \sigma(v - m)`.
        gamma: :math:`\gamma`.
    """
    check_at_least_0(gamma=gamma)
    return pair_loss(logits, targets, FocalMarginPositive(margin, gamma), HillNegative(lamb))


def spa_loss(
    logits: Tensor,
    targets: Tensor,
    positive_scale: float = SPAPositive.scale,
    positive_slope: float = SPAPositive.slope,
    positive_shift: float = SPAPositive.shift,
    negative_scale: float = SPANegative.scale,
    negative_slope: float = SPANegative.slope,
    negative_shift: float = SPANegative.shift,
) -> Tensor:
    r"""Compute SPA, the strictly proper asymmetric loss (Cheng and Vasconcelos, Eq. 16).

    .. math::
        -\frac{y}{\zeta^+}\log\sigma(k^+(v - b^+)) - \frac{1 - y}{\zeta^-}\log\sigma(-k^-(v - b^-))

    The loss acts on the logit. The probability that it estimates is :func:`spa_link` of the logit.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        positive_scale: :math:`\zeta^+`, divides the cost of positives.
        positive_slope: :math:`k^+`.
        positive_shift: :math:`b^+`.
        negative_scale: :math:`\zeta^-`, divides the cost of the many negatives.
        negative_slope: :math:`k^-`, how fast the cost of an easy negative falls.
        negative_shift: :math:`b^-`, where the cost of a negative starts to grow.
    """
    check_above_0(positive_scale=positive_scale, positive_slope=positive_slope)
    check_above_0(negative_scale=negative_scale, negative_slope=negative_slope)
    positive = SPAPositive(positive_scale, positive_slope, positive_shift)
    return pair_loss(logits, targets, positive, SPANegative(negative_scale, negative_slope, negative_shift))


def las_loss(
    logits: Tensor,
    targets: Tensor,
    negative_leverage: float | None = None,
    expected_positives: float = 1.0,
    gamma_positive: float = AsymmetricPositive.gamma,
    gamma_negative: float = AsymmetricNegative.gamma,
) -> Tensor:
    r"""Compute LAS, :math:`-y(1 - p)^{\gamma^+}\log p - \lambda(1 - y)\,p^{\gamma^-}\log(1 - p)`.

    Eq. 5 of the paper of LASD.

    Args:
        logits: (N, C).
        targets: (N, C).
        negative_leverage: :math:`\lambda`; by default :math:`1/(C - n)`, the balance of Theorem 5.4 for
            :math:`\lambda^+ = 0`.
        expected_positives: :math:`n`, positive labels of an image on average.
        gamma_positive: :math:`\gamma^+`.
        gamma_negative: :math:`\gamma^-`.
    """
    check_at_least_0(gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    if negative_leverage is None:
        negative_leverage = balanced_leverage(0.0, expected_positives, logits.size(-1))
    else:
        check_at_least_0(negative_leverage=negative_leverage)
    negative = Scaled(AsymmetricNegative(gamma_negative, margin=0.0), negative_leverage)
    return pair_loss(logits, targets, AsymmetricPositive(gamma_positive), negative)


def balanced_leverage(positive_leverage: float, expected_positives: float, num_classes: int) -> float:
    r"""Return the leverage of unobserved labels by Theorem 5.4 of LASD, :math:`\frac{1 + \lambda^+(n - 1)}{K - n}`.

    With it the loss weighs the :math:`n` positives of an image like its :math:`K - n` negatives. A single class has
    nothing to balance: 1.
    """
    if num_classes == 1:
        return 1.0
    if not 0 < expected_positives < num_classes:
        raise ValueError(
            f'expected_positives must be above 0 and below the number of classes, {num_classes}, '
            f'got {expected_positives}'
        )
    return (1 + positive_leverage * (expected_positives - 1)) / (num_classes - expected_positives)

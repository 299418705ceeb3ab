"""Pointwise losses: the loss of a label depends on its own logit, by a positive and a negative term.

Each function maps logits and targets of one shape to losses of that shape, not reduced. Targets are 1, 0, -1 (unknown,
the loss is 0), or soft labels between 0 and 1: all these losses are linear in the target.
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
    r"""Compute BCE, :math:`-y\log p - (1 - y)\log(1 - p)`, per label, in the shape of ``logits``.

    If unobserved labels have target 0, this is AN, the assume-negative loss. Unknown labels (-1) cost 0.
    """
    return pair_loss(logits, targets, bce_positive, bce_negative)


def label_smoothing_bce_loss(logits: Tensor, targets: Tensor, epsilon: float = 0.1, reading: str = 'code') -> Tensor:
    r"""Compute BCE per label after label smoothing of the targets: BCE-LS, or AN-LS if unobserved labels are 0.

    Args:
        logits: Logits of any shape. The loss has this shape, with 0 for unknown labels.
        targets: Labels in the shape of ``logits``; 1 positive, 0 negative, -1 unknown, or a soft label.
        epsilon: Amount :math:`\epsilon` of smoothing, in [0, 1].
        reading: ``'code'`` turns 1 into :math:`1 - \epsilon` and 0 into :math:`\epsilon`, as in the code of Cole et al.
            (2021). ``'paper'`` turns 1 into :math:`1 - \epsilon/2` and 0 into :math:`\epsilon/2`, as in their paper.
    """
    check_ratio('epsilon', epsilon)
    check_choice('reading', reading, ('code', 'paper'))
    given_away = epsilon if reading == 'code' else epsilon / 2
    return pair_loss(logits, targets, SmoothedBCE(1 - given_away), SmoothedBCE(given_away))


def wan_loss(logits: Tensor, targets: Tensor, negative_weight: float | None = None) -> Tensor:
    r"""Compute WAN, BCE with weighted negatives, :math:`-y\log p - \lambda(1 - y)\log(1 - p)` (Cole et al., 2021).

    Args:
        logits: (N, C) logits, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: (N, C) labels :math:`y`; 1 positive, 0 negative or unobserved, -1 unknown, or a soft label.
        negative_weight: Weight :math:`\lambda` of the negatives; None for :math:`1/(C - 1)` with :math:`C` classes.
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
    detach_weight: bool = FocalPositive.detach_weight,
) -> Tensor:
    r"""Compute the focal loss per label: cross-entropy with less weight for labels that are already predicted well.

    .. math::
        -\alpha\,y(1 - p)^{\gamma^+}\log p - (1 - \alpha)(1 - y)\,p^{\gamma^-}\log(1 - p)

    Args:
        logits: Logits of any shape, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: Labels :math:`y` in the shape of ``logits``; 1 positive, 0 negative, -1 unknown, or a soft label.
        gamma_positive: Focusing power :math:`\gamma^+` of the positives, at least 0.
        gamma_negative: Focusing power :math:`\gamma^-` of the negatives, at least 0.
        alpha: Weight :math:`\alpha` of the positives, in [0, 1]; None replaces both weights by 1.
        detach_weight: Whether the factors with powers are constants for the gradient, as in the code of Hill's authors.
    """
    check_at_least_0(gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    positive: Term = FocalPositive(gamma_positive, detach_weight)
    negative: Term = FocalNegative(gamma_negative, detach_weight=detach_weight)
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
    detach_weight: bool = AsymmetricNegative.detach_weight,
) -> Tensor:
    r"""Compute ASL, :math:`-y(1 - p)^{\gamma^+}\log p - (1 - y)\,p_m^{\gamma^-}\log(1 - p_m)` (Ridnik et al., 2021).

    The logarithms are exact. The authors' code clamps their arguments at 1e-8, which is NaN in float16 and removes the
    gradient of a confidently wrong positive. The authors sum over batch and classes.

    Args:
        logits: Logits of any shape, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: Labels :math:`y` in the shape of ``logits``; 1 positive, 0 negative, -1 unknown, or a soft label.
        gamma_positive: Focusing power :math:`\gamma^+` of positives. The authors' class has 1, they trained with 0.
        gamma_negative: Focusing power :math:`\gamma^-` of negatives.
        margin: Probability shift :math:`m`, in [0, 1), of negatives: :math:`p_m = \max(p - m, 0)`.
        detach_weight: Whether the factors with powers are constants for the gradient. The authors' code offers both;
            they train with constants.
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
    r"""Compute focal margin, :math:`-y(1 - p_m)^{\gamma}\log p_m - (1 - y)\,p^{\gamma}\log(1 - p)` (Hill, Eq. 11).

    Args:
        logits: Logits :math:`v` of any shape, :math:`p = \sigma(v)`. The loss has this shape, 0 for unknown labels.
        targets: Labels :math:`y` in the shape of ``logits``; 1 positive, 0 negative, -1 unknown, or a soft label.
        margin: Shift :math:`m` of the logits of positives, :math:`p_m = \sigma(v - m)`.
        gamma: Focusing power :math:`\gamma`, at least 0.
    """
    check_at_least_0(gamma=gamma)
    return pair_loss(logits, targets, FocalMarginPositive(margin, gamma), FocalNegative(gamma))


def mse_negative_loss(logits: Tensor, targets: Tensor) -> Tensor:
    r"""Compute MSE- per label, BCE for positives, squared error for negatives: :math:`-y\log p + (1 - y)\,p^2`."""
    return pair_loss(logits, targets, bce_positive, mse_negative)


def hill_loss(
    logits: Tensor,
    targets: Tensor,
    lamb: float = HillNegative.lamb,
    margin: float = FocalMarginPositive.margin,
    gamma: float = FocalMarginPositive.gamma,
) -> Tensor:
    r"""Compute Hill, :math:`-y(1 - p_m)^{\gamma}\log p_m + (1 - y)(\lambda - p)\,p^2` (Zhang et al., Eq. 5 and 11).

    The authors' code takes the logarithm of a sigmoid, which makes the loss NaN for very negative logits in low
    precision. The authors sum over batch and classes.

    Args:
        logits: Logits :math:`v` of any shape, :math:`p = \sigma(v)`. The loss has this shape, 0 for unknown labels.
        targets: Labels :math:`y` in the shape of ``logits``; 1 positive, 0 negative, -1 unknown, or a soft label.
        lamb: Parameter :math:`\lambda` of the negative term; 1.5 puts the maximum of its gradient at :math:`p = 0.5`.
        margin: Shift :math:`m` of the logits of positives, :math:`p_m = \sigma(v - m)`.
        gamma: Focusing power :math:`\gamma` of the positives, at least 0.
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
    r"""Compute SPA, the strictly proper asymmetric loss, for each label (Cheng and Vasconcelos, Eq. 16).

    .. math::
        -\frac{y}{\zeta^+}\log\sigma(k^+(v - b^+)) - \frac{1 - y}{\zeta^-}\log\sigma(-k^-(v - b^-))

    The estimated probability of a label is :func:`spa_link` of its logit, not the sigmoid.

    Args:
        logits: Logits :math:`v` of any shape. The loss has this shape, with 0 for unknown labels.
        targets: Labels :math:`y` in the shape of ``logits``; 1 positive, 0 negative, -1 unknown, or a soft label.
        positive_scale: :math:`\zeta^+`, divides the cost of positives.
        positive_slope: :math:`k^+`, slope of the logit of positives.
        positive_shift: :math:`b^+`, shift of the logit of positives.
        negative_scale: :math:`\zeta^-`, divides the cost of the many negatives.
        negative_slope: :math:`k^-`, how fast the cost of an easy negative falls.
        negative_shift: :math:`b^-`, logit at which the cost of a negative starts to grow.
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
    r"""Compute LAS per label, the leveraged asymmetric loss for single positive labels (paper of LASD, Eq. 5).

    :math:`-y(1 - p)^{\gamma^+}\log p - \lambda(1 - y)\,p^{\gamma^-}\log(1 - p)`

    Args:
        logits: (N, C) logits, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: (N, C) labels :math:`y`; 1 positive, 0 unobserved, -1 unknown, or a soft label.
        negative_leverage: Weight :math:`\lambda` of unobserved labels; None for :math:`1/(C - n)`, by Theorem 5.4 with
            weight 0 for pseudo-positives.
        expected_positives: :math:`n`, mean number of positive labels of an image; used if the leverage is None.
        gamma_positive: Focusing power :math:`\gamma^+` of positives, at least 0.
        gamma_negative: Focusing power :math:`\gamma^-` of unobserved labels, at least 0.
    """
    check_at_least_0(gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    if negative_leverage is None:
        negative_leverage = balanced_leverage(0.0, expected_positives, logits.size(-1))
    else:
        check_at_least_0(negative_leverage=negative_leverage)
    negative = Scaled(AsymmetricNegative(gamma_negative, margin=0.0), negative_leverage)
    return pair_loss(logits, targets, AsymmetricPositive(gamma_positive), negative)


def balanced_leverage(positive_leverage: float, expected_positives: float, num_classes: int) -> float:
    r"""Return the weight of unobserved labels in LASD by Theorem 5.4, :math:`\frac{1 + \lambda^+(n - 1)}{K - n}`.

    It balances the :math:`n` expected positives of an image and its :math:`K - n` negatives, for :math:`K` classes and
    a weight :math:`\lambda^+` of pseudo-positives. With one class it is 1; else raise ValueError unless 0 < n < K.
    """
    if num_classes == 1:
        return 1.0
    if not 0 < expected_positives < num_classes:
        raise ValueError(
            f'expected_positives must be above 0 and below the number of classes, {num_classes}, '
            f'got {expected_positives}'
        )
    return (1 + positive_leverage * (expected_positives - 1)) / (num_classes - expected_positives)

r"""Losses of one label at a time: pairs of the partial losses in :mod:`mmml_losses.functional.terms`.

Every loss here maps logits and targets of any one shape to unreduced values of that shape. Targets are 1, 0, -1 for
unknown (the value is 0 there), or between 0 and 1: all these losses are linear in the target. ``*_terms`` gives the
pair itself.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from .pair import Term, pair_loss
from .terms import (
    asymmetric_negative,
    asymmetric_positive,
    bce_negative,
    bce_positive,
    focal_margin_positive,
    hill_negative,
    mse_negative,
    scaled,
    smoothed_bce,
    spa_negative,
    spa_positive,
)

Terms = tuple[Term, Term]


def bce_loss(logits: Tensor, targets: Tensor) -> Tensor:
    r"""Binary cross-entropy, :math:`-y\log p - (1 - y)\log(1 - p)`; AN where unobserved labels are given as 0."""
    return pair_loss(logits, targets, bce_positive, bce_negative)


def label_smoothing_terms(epsilon: float = 0.1, reading: str = 'code') -> Terms:
    """The terms of :func:`label_smoothing_bce_loss`."""
    if not 0 <= epsilon <= 1:
        raise ValueError(f'epsilon must be in [0, 1], got {epsilon}')
    if reading not in ('code', 'paper'):
        raise ValueError(f"reading must be 'code' or 'paper', got {reading!r}")
    given_away = epsilon if reading == 'code' else epsilon / 2
    return partial(smoothed_bce, label=1 - given_away), partial(smoothed_bce, label=given_away)


def label_smoothing_bce_loss(logits: Tensor, targets: Tensor, epsilon: float = 0.1, reading: str = 'code') -> Tensor:
    r"""BCE towards softened labels (BCE-LS, AN-LS).

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        epsilon: How much of a label is given away.
        reading: ``'code'``: a positive becomes :math:`1 - \epsilon`, a negative :math:`\epsilon`, as in the code of
            Cole et al. (2021). ``'paper'``: :math:`1 - \epsilon/2` and :math:`\epsilon/2`, as in their text.
    """
    return pair_loss(logits, targets, *label_smoothing_terms(epsilon, reading))


def wan_loss(logits: Tensor, targets: Tensor, negative_weight: float | None = None) -> Tensor:
    r"""Weak assume-negative loss, :math:`-y\log p - \lambda(1 - y)\log(1 - p)` (Cole et al., 2021).

    Args:
        logits: (N, C).
        targets: (N, C).
        negative_weight: :math:`\lambda`; by default :math:`1/(C - 1)`.
    """
    if negative_weight is None:
        negative_weight = 1 / max(logits.size(-1) - 1, 1)
    return pair_loss(logits, targets, bce_positive, partial(scaled, term=bce_negative, factor=negative_weight))


def focal_terms(gamma_positive: float = 2.0, gamma_negative: float = 2.0, alpha: float | None = None) -> Terms:
    """The terms of :func:`focal_loss`."""
    positive, negative = asymmetric_terms(gamma_positive, gamma_negative, margin=0.0)
    if alpha is None:
        return positive, negative
    if not 0 <= alpha <= 1:
        raise ValueError(f'alpha must be in [0, 1], got {alpha}')
    return partial(scaled, term=positive, factor=alpha), partial(scaled, term=negative, factor=1 - alpha)


def focal_loss(
    logits: Tensor,
    targets: Tensor,
    gamma_positive: float = 2.0,
    gamma_negative: float = 2.0,
    alpha: float | None = None,
) -> Tensor:
    r"""Focal loss, :math:`-\alpha\,y(1 - p)^{\gamma^+}\log p - (1 - \alpha)(1 - y)\,p^{\gamma^-}\log(1 - p)`.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        gamma_positive: :math:`\gamma^+`.
        gamma_negative: :math:`\gamma^-`.
        alpha: :math:`\alpha`; without it both factors are 1.
    """
    return pair_loss(logits, targets, *focal_terms(gamma_positive, gamma_negative, alpha))


def asymmetric_terms(
    gamma_positive: float = 0.0, gamma_negative: float = 4.0, margin: float = 0.05, detach_weight: bool = False
) -> Terms:
    """The terms of :func:`asymmetric_loss`."""
    if gamma_positive < 0 or gamma_negative < 0:
        raise ValueError(
            f'gamma_positive and gamma_negative must be at least 0, got {gamma_positive} and {gamma_negative}'
        )
    if not 0 <= margin < 1:
        raise ValueError(f'margin must be in [0, 1), got {margin}')
    return (
        partial(asymmetric_positive, gamma=gamma_positive, detach_weight=detach_weight),
        partial(asymmetric_negative, gamma=gamma_negative, margin=margin, detach_weight=detach_weight),
    )


def asymmetric_loss(
    logits: Tensor,
    targets: Tensor,
    gamma_positive: float = 0.0,
    gamma_negative: float = 4.0,
    margin: float = 0.05,
    detach_weight: bool = False,
) -> Tensor:
    r"""ASL, :math:`-y(1 - p)^{\gamma^+}\log p - (1 - y)\,p_m^{\gamma^-}\log(1 - p_m)` (Ridnik et al., 2021).

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
    return pair_loss(logits, targets, *asymmetric_terms(gamma_positive, gamma_negative, margin, detach_weight))


def focal_margin_terms(margin: float = 1.0, gamma: float = 2.0) -> Terms:
    """The terms of :func:`focal_margin_loss`."""
    if gamma < 0:
        raise ValueError(f'gamma must be at least 0, got {gamma}')
    return (
        partial(focal_margin_positive, margin=margin, gamma=gamma),
        partial(asymmetric_negative, gamma=gamma, margin=0.0),
    )


def focal_margin_loss(logits: Tensor, targets: Tensor, margin: float = 1.0, gamma: float = 2.0) -> Tensor:
    r"""Focal margin, :math:`-y(1 - p_m)^{\gamma}\log p_m - (1 - y)\,p^{\gamma}\log(1 - p)` (Zhang et al., Eq. 11).

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        margin: The shift in :math:`p_m = \sigma(v - m)`.
        gamma: :math:`\gamma`.
    """
    return pair_loss(logits, targets, *focal_margin_terms(margin, gamma))


def mse_negative_loss(logits: Tensor, targets: Tensor) -> Tensor:
    r"""BCE for positives and squared error for negatives, :math:`-y\log p + (1 - y)\,p^2` (Zhang et al., Table VI)."""
    return pair_loss(logits, targets, bce_positive, mse_negative)


def hill_terms(lamb: float = 1.5, margin: float = 1.0, gamma: float = 2.0) -> Terms:
    """The terms of :func:`hill_loss`."""
    return focal_margin_terms(margin, gamma)[0], partial(hill_negative, lamb=lamb)


def hill_loss(logits: Tensor, targets: Tensor, lamb: float = 1.5, margin: float = 1.0, gamma: float = 2.0) -> Tensor:
    r"""Hill, :math:`-y(1 - p_m)^{\gamma}\log p_m + (1 - y)(\lambda - p)\,p^2` (Zhang et al., Eq. 5 and 11).

    The authors' code takes the logarithm of a sigmoid, which is NaN on a row of negatives in low precision; it adds
    over batch and classes.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``.
        lamb: :math:`\lambda`; 1.5 puts the summit of the negative gradient at :math:`p = 0.5`.
        margin: The shift in :math:`p_m = \sigma(v - m)`.
        gamma: :math:`\gamma`.
    """
    return pair_loss(logits, targets, *hill_terms(lamb, margin, gamma))


def spa_terms(
    positive_scale: float = 1.0,
    positive_slope: float = 1.0,
    positive_shift: float = 0.0,
    negative_scale: float = 5.0,
    negative_slope: float = 3.0,
    negative_shift: float = 1.0,
) -> Terms:
    """The terms of :func:`spa_loss`."""
    if min(positive_scale, positive_slope, negative_scale, negative_slope) <= 0:
        raise ValueError(
            'positive_scale, positive_slope, negative_scale and negative_slope must be above 0, got '
            f'{positive_scale}, {positive_slope}, {negative_scale} and {negative_slope}'
        )
    return (
        partial(spa_positive, scale=positive_scale, slope=positive_slope, shift=positive_shift),
        partial(spa_negative, scale=negative_scale, slope=negative_slope, shift=negative_shift),
    )


def spa_loss(
    logits: Tensor,
    targets: Tensor,
    positive_scale: float = 1.0,
    positive_slope: float = 1.0,
    positive_shift: float = 0.0,
    negative_scale: float = 5.0,
    negative_slope: float = 3.0,
    negative_shift: float = 1.0,
) -> Tensor:
    r"""Strictly proper asymmetric loss (Cheng and Vasconcelos, Eq. 16).

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
    terms = spa_terms(positive_scale, positive_slope, positive_shift, negative_scale, negative_slope, negative_shift)
    return pair_loss(logits, targets, *terms)


def las_loss(
    logits: Tensor,
    targets: Tensor,
    negative_leverage: float | None = None,
    expected_positives: float = 1.0,
    gamma_positive: float = 0.0,
    gamma_negative: float = 4.0,
) -> Tensor:
    r"""Leveraged asymmetric loss, :math:`-y(1 - p)^{\gamma^+}\log p - \lambda(1 - y)\,p^{\gamma^-}\log(1 - p)`.

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
    if negative_leverage is None:
        negative_leverage = balanced_leverage(0.0, expected_positives, logits.size(-1))
    positive, negative = asymmetric_terms(gamma_positive, gamma_negative, margin=0.0)
    return pair_loss(logits, targets, positive, partial(scaled, term=negative, factor=negative_leverage))


def balanced_leverage(positive_leverage: float, expected_positives: float, num_classes: int) -> float:
    r"""The leverage of unobserved negatives in Theorem 5.4 of LASD, :math:`\frac{1 + \lambda^+(n - 1)}{K - n}`.

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

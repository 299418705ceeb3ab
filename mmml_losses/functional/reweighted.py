"""Losses weighted by class frequencies, with the weights of :mod:`mmml_losses.functional.weights`."""

import torch
from torch import Tensor

from ..utils.arguments import check_above_0, check_at_least_0
from .pair import pair_loss
from .terms import AnyTerm, FocalNegative, FocalPositive, Scaled, Stretched, as_term, bce_negative, bce_positive
from .weights import (
    BALANCE,
    CB_BETA,
    DB_ALPHA,
    DB_BETA,
    DB_KAPPA,
    DB_MU,
    DB_NEGATIVE_SCALE,
    LDAM_MAX_MARGIN,
    SMOOTHING,
    class_balanced_weights,
    frequency_balanced_weights,
    frequency_bias,
    ldam_margins,
    rebalancing_weights,
    reweighting,
)

__all__ = ['cb_focal_loss', 'db_focal_loss', 'db_loss', 'ldam_loss', 'reweighted_bce_loss', 'weighted_bce_loss']


def weighted_bce_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    smoothing: float = SMOOTHING,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> Tensor:
    r"""Compute BCE weighted by class frequencies, :math:`w^+_c\,y\,\ell_+(v) + w^-_c(1 - y)\,\ell_-(v)`.

    The baseline of that name in the paper of the two-way loss, which refers to Pham et al. (2021) and prints no
    weights; :func:`frequency_balanced_weights` has those of this package.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        num_samples: Training images.
        smoothing: How mildly the inverse frequency weighs the classes against each other.
        positive: The term of positive labels, BCE by default.
        negative: The term of negative labels, BCE by default.
    """
    check_at_least_0(smoothing=smoothing)
    class_frequencies = torch.as_tensor(class_frequencies).to(logits)
    weights = frequency_balanced_weights(class_frequencies, num_samples, smoothing)
    return pair_loss(logits, targets, Scaled(as_term(positive), weights[0]), Scaled(as_term(negative), weights[1]))


def reweighted_bce_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    mode: str = 'inverse_sqrt',
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> Tensor:
    r"""Compute RW: every label of class :math:`c` weighs :math:`\sqrt{N / n_c}`, or :math:`N / n_c`.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        num_samples: Training images.
        mode: As in :func:`reweighting`.
        positive: The term of positive labels, BCE by default.
        negative: The term of negative labels, BCE by default.
    """
    weights = reweighting(torch.as_tensor(class_frequencies).to(logits), num_samples, mode)
    return pair_loss(logits, targets, positive, negative, weights)


def cb_focal_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    beta: float = CB_BETA,
    mode: str = 'by_class',
    gamma: float = FocalPositive.gamma,
    balance: float = BALANCE,
) -> Tensor:
    r"""Compute CB-Focal, the focal loss times ``balance`` and the weights of :func:`class_balanced_weights`.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        beta: :math:`\beta` of the effective number of samples.
        mode: As in :func:`class_balanced_weights`.
        gamma: Focusing power; 0 is CB over BCE.
        balance: Factor of the whole loss in the code of DB.
    """
    check_at_least_0(gamma=gamma)
    class_frequencies = torch.as_tensor(class_frequencies).to(logits)
    weights = balance * class_balanced_weights(targets.to(logits.dtype), class_frequencies, beta, mode)
    return pair_loss(logits, targets, FocalPositive(gamma), FocalNegative(gamma), weights)


def db_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    alpha: float = DB_ALPHA,
    beta: float = DB_BETA,
    mu: float = DB_MU,
    negative_scale: float = DB_NEGATIVE_SCALE,
    kappa: float = DB_KAPPA,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> Tensor:
    r"""Compute the distribution-balanced loss, DB (Wu et al., 2020).

    .. math::
        w_{ic}\Big(y\,\ell_+(v + b_c) + \frac{1 - y}{\lambda}\,\ell_-\big(\lambda(v + b_c)\big)\Big)

    with the weights :math:`w` of :func:`rebalancing_weights` and the bias :math:`b` of :func:`frequency_bias`. The
    stretched negative logits let the gradient of an easy negative vanish early (negative-tolerant regularisation). The
    published code adds the bias to the model's own logits in place; here they are left alone.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        num_samples: Training images.
        alpha: :math:`\alpha` of the weights.
        beta: :math:`\beta` of the weights.
        mu: :math:`\mu` of the weights; 0.3 for VOC-LT, 0.2 for COCO-LT.
        negative_scale: :math:`\lambda`; 5 for VOC-LT, 2 for COCO-LT.
        kappa: :math:`\kappa` of the bias.
        positive: The term of positive labels, BCE by default.
        negative: The term of negative labels, BCE by default.
    """
    check_above_0(negative_scale=negative_scale)
    class_frequencies, targets = torch.as_tensor(class_frequencies).to(logits), targets.to(logits.dtype)
    weights = rebalancing_weights(targets, class_frequencies, alpha, beta, mu)
    bias = frequency_bias(class_frequencies, num_samples, kappa, negative_scale)
    return pair_loss(logits + bias, targets, positive, Stretched(as_term(negative), negative_scale), weights)


def db_focal_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    alpha: float = DB_ALPHA,
    beta: float = DB_BETA,
    mu: float = DB_MU,
    negative_scale: float = DB_NEGATIVE_SCALE,
    kappa: float = DB_KAPPA,
    gamma: float = FocalPositive.gamma,
    balance: float = BALANCE,
) -> Tensor:
    r"""Compute DB-Focal, :func:`db_loss` with the terms of the focal loss.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        num_samples: Training images.
        alpha: :math:`\alpha` of the weights.
        beta: :math:`\beta` of the weights.
        mu: :math:`\mu` of the weights; 0.3 for VOC-LT, 0.2 for COCO-LT.
        negative_scale: :math:`\lambda`; 5 for VOC-LT, 2 for COCO-LT.
        kappa: :math:`\kappa` of the bias.
        gamma: Focusing power.
        balance: Factor of the whole loss in the authors' code.
    """
    check_at_least_0(gamma=gamma)
    positive, negative = Scaled(FocalPositive(gamma), balance), Scaled(FocalNegative(gamma), balance)
    return db_loss(
        logits, targets, class_frequencies, num_samples, alpha, beta, mu, negative_scale, kappa, positive, negative
    )


def ldam_loss(
    logits: Tensor, targets: Tensor, class_frequencies: Tensor, max_margin: float = LDAM_MAX_MARGIN, scale: float = 1.0
) -> Tensor:
    r"""Compute LDAM for multi-label data, :math:`-y\log\sigma(s(v - \Delta_c)) - (1 - y)\log\sigma(-s v)`.

    LDAM (Cao et al., 2019) lowers the logit of the one true class before a softmax; over a BCE it lowers that of every
    positive label, by the margins of :func:`ldam_margins`.

    Args:
        logits: (N, C).
        targets: (N, C); 1, 0 or -1, since the margin makes the loss not linear in them.
        class_frequencies: (C,).
        max_margin: Margin of the rarest class.
        scale: :math:`s`. LDAM takes 30 for the cosines of a normalised classifier; logits need none.
    """
    check_at_least_0(max_margin=max_margin)
    check_above_0(scale=scale)
    margins = ldam_margins(torch.as_tensor(class_frequencies).to(logits), scale * max_margin)
    scaled_logits = logits if scale == 1 else scale * logits
    lowered = scaled_logits - margins * targets.to(logits.dtype).clamp(min=0)
    return pair_loss(lowered, targets, bce_positive, bce_negative)

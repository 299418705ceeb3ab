"""Losses weighted by class frequencies, with the weights of :mod:`mmml_losses.functional.weights`."""

import torch
from torch import Tensor

from ..utils.arguments import check_above_0, check_at_least_0
from .pair import pair_loss
from .terms import AnyTerm, FocalNegative, FocalPositive, Scaled, Stretched, as_term, bce_negative, bce_positive
from .weights import (
    BALANCE,
    BY_CLASS,
    CB_BETA,
    DB_ALPHA,
    DB_BETA,
    DB_KAPPA,
    DB_MU,
    DB_NEGATIVE_SCALE,
    INVERSE_SQRT,
    LDAM_MAX_MARGIN,
    LDAM_SCALE,
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
    r"""Compute BCE weighted by class frequencies, :math:`w^+_c\,y\,\ell_+(v) + w^-_c(1 - y)\,\ell_-(v)`, (N, C).

    It is the baseline of this name in the paper of the two-way loss, which cites Pham et al. (2021) and gives no
    weights; here they are those of :func:`frequency_balanced_weights`.

    Args:
        logits: (N, C) logits :math:`v`.
        targets: (N, C) labels :math:`y`; 1 positive, 0 negative, -1 unknown (the loss is 0), or a soft label.
        class_frequencies: (C,), number of training images with each class.
        num_samples: Number of training images.
        smoothing: Power of the inverse class frequency in the weights; 0 weighs classes alike, 1 by inverse frequency.
        positive: Cost :math:`\ell_+` of a positive label as a function of its logit, BCE by default.
        negative: Cost :math:`\ell_-` of a negative label as a function of its logit, BCE by default.
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
    mode: str = INVERSE_SQRT,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> Tensor:
    r"""Compute RW, reweighted BCE, (N, C): labels of class :math:`c` weigh :math:`\sqrt{M / n_c}` or :math:`M / n_c`.

    Args:
        logits: (N, C) logits.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown (the loss is 0), or a soft label.
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        num_samples: Number :math:`M` of training images.
        mode: ``'inverse_sqrt'`` for the square root, or ``'inverse'``.
        positive: Cost of a positive label as a function of its logit, BCE by default.
        negative: Cost of a negative label as a function of its logit, BCE by default.
    """
    weights = reweighting(torch.as_tensor(class_frequencies).to(logits), num_samples, mode)
    return pair_loss(logits, targets, positive, negative, weights)


def cb_focal_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    beta: float = CB_BETA,
    mode: str = BY_CLASS,
    gamma: float = FocalPositive.gamma,
    balance: float = BALANCE,
) -> Tensor:
    """Compute CB-Focal: the focal loss per label, (N, C), times ``balance`` and :func:`class_balanced_weights`.

    Args:
        logits: (N, C) logits.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown (the loss is 0), or a soft label.
        class_frequencies: (C,), number of training images with each class.
        beta: In [0, 1); 0 weighs all classes alike, towards 1 the weights become the inverse frequency.
        mode: ``'by_class'``: one weight per class. Others: one weight per image, by the mean frequency of its positive
            classes (``'average_n'``), their mean weight (``'average_w'``) or the rarest of them (``'min_n'``).
        gamma: Focusing power; 0 turns the focal loss into BCE.
        balance: Factor of the whole loss, 2 in the code of DB.
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
    r"""Compute the distribution-balanced loss, DB, for each label, (N, C) (Wu et al., 2020).

    .. math::
        w_{ic}\Big(y\,\ell_+(v + b_c) + \frac{1 - y}{\lambda}\,\ell_-\big(\lambda(v + b_c)\big)\Big)

    with the weights :math:`w` of :func:`rebalancing_weights` and the bias :math:`b` of :func:`frequency_bias`. The
    factor :math:`\lambda` lets the gradient of an easy negative vanish early (negative-tolerant regularisation). The
    published code changes the model's logits in place by adding the bias; here they do not change.

    Args:
        logits: (N, C) logits :math:`v`.
        targets: (N, C) labels :math:`y`; 1 positive, 0 negative, -1 unknown (the loss is 0), or a soft label.
        class_frequencies: (C,), number of training images with each class.
        num_samples: Number of training images.
        alpha: Number added to all weights, to keep them above 0.
        beta: Slope of the step from low to high weights.
        mu: Position of the step; 0.3 for VOC-LT, 0.2 for COCO-LT.
        negative_scale: Factor :math:`\lambda` of the logits of negatives; 5 for VOC-LT, 2 for COCO-LT.
        kappa: Factor of the bias; 0 means no bias.
        positive: Cost :math:`\ell_+` of a positive label as a function of its logit, BCE by default.
        negative: Cost :math:`\ell_-` of a negative label as a function of its logit, BCE by default.
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
    """Compute DB-Focal for each label, (N, C): ``balance`` times :func:`db_loss` with the focal loss in place of BCE.

    Args:
        logits: (N, C) logits.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown (the loss is 0), or a soft label.
        class_frequencies: (C,), number of training images with each class.
        num_samples: Number of training images.
        alpha: Number added to all weights, to keep them above 0.
        beta: Slope of the step from low to high weights.
        mu: Position of the step; 0.3 for VOC-LT, 0.2 for COCO-LT.
        negative_scale: Factor of the logits of negatives; 5 for VOC-LT, 2 for COCO-LT.
        kappa: Factor of the bias of the logits; 0 means no bias.
        gamma: Focusing power of the focal loss.
        balance: Factor of the whole loss, 2 in the authors' code.
    """
    check_at_least_0(gamma=gamma)
    positive, negative = Scaled(FocalPositive(gamma), balance), Scaled(FocalNegative(gamma), balance)
    return db_loss(
        logits, targets, class_frequencies, num_samples, alpha, beta, mu, negative_scale, kappa, positive, negative
    )


def ldam_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    max_margin: float = LDAM_MAX_MARGIN,
    scale: float = LDAM_SCALE,
) -> Tensor:
    r"""Compute multi-label LDAM, :math:`-y\log\sigma(s(v - \Delta_c)) - (1 - y)\log\sigma(-s v)`, per label, (N, C).

    LDAM (Cao et al., 2019) lowers the logit of the one true class before a softmax. This multi-label form of it lowers
    the logit of every positive label before a sigmoid, by the margin of the class (:func:`ldam_margins`).

    Args:
        logits: (N, C) logits :math:`v`. The loss has this shape, with 0 for unknown labels.
        targets: (N, C) labels :math:`y`; 1 positive, 0 negative, -1 unknown. Not soft: the loss is not linear in them.
        class_frequencies: (C,), number of training images with each class; rare classes have large margins.
        max_margin: Margin :math:`\Delta_c` of the rarest class, at least 0.
        scale: Factor :math:`s` of the logits. LDAM uses 30 for cosines of a normalised classifier; logits need 1.
    """
    check_at_least_0(max_margin=max_margin)
    check_above_0(scale=scale)
    margins = ldam_margins(torch.as_tensor(class_frequencies).to(logits), scale * max_margin)
    scaled_logits = logits if scale == 1 else scale * logits
    lowered = scaled_logits - margins * targets.to(logits.dtype).clamp(min=0)
    return pair_loss(lowered, targets, bce_positive, bce_negative)

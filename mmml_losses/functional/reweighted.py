"""Losses weighted by class frequencies: :mod:`mmml_losses.functional.weights` over pairs of partial losses."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .pair import Term, pair_loss
from .pointwise import focal_terms
from .terms import bce_negative, bce_positive, scaled, stretched
from .weights import (
    class_balanced_weights,
    frequency_balanced_weights,
    frequency_bias,
    ldam_margins,
    rebalancing_weights,
    reweighting,
)


def weighted_bce_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    smoothing: float = 0.1,
    positive: Term = bce_positive,
    negative: Term = bce_negative,
) -> Tensor:
    r"""BCE weighted by class frequencies, :math:`w^+_c\,y\,\ell_+(v) + w^-_c(1 - y)\,\ell_-(v)`.

    The baseline of that name in the paper of the two-way loss, which refers to Pham et al. (2021) and prints no
    weights; :func:`frequency_balanced_weights` is the reading of this package.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        num_samples: Training images.
        smoothing: How mildly the inverse frequency weighs the classes against each other.
        positive: The term of positive labels, BCE by default.
        negative: The term of negative labels, BCE by default.
    """
    class_frequencies = torch.as_tensor(class_frequencies).to(logits)
    of_positive, of_negative = frequency_balanced_weights(class_frequencies, num_samples, smoothing)
    return pair_loss(
        logits,
        targets,
        partial(scaled, term=positive, factor=of_positive),
        partial(scaled, term=negative, factor=of_negative),
    )


def reweighted_bce_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    mode: str = 'inverse_sqrt',
    positive: Term = bce_positive,
    negative: Term = bce_negative,
) -> Tensor:
    r"""RW: every label of class :math:`c` weighs :math:`\sqrt{N / n_c}`, or :math:`N / n_c`.

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
    beta: float = 0.9,
    mode: str = 'by_class',
    gamma: float = 2.0,
    balance: float = 2.0,
) -> Tensor:
    r"""CB-Focal, the focal loss times ``balance`` and the weights of :func:`class_balanced_weights`.

    Args:
        logits: (N, C).
        targets: (N, C).
        class_frequencies: (C,).
        beta: :math:`\beta` of the effective number of samples.
        mode: As in :func:`class_balanced_weights`.
        gamma: Focusing power; 0 is CB over BCE.
        balance: Factor of the whole loss in the code of DB.
    """
    class_frequencies = torch.as_tensor(class_frequencies).to(logits)
    weights = balance * class_balanced_weights(targets.to(logits.dtype), class_frequencies, beta, mode)
    return pair_loss(logits, targets, *focal_terms(gamma, gamma), weights)


def db_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    alpha: float = 0.1,
    beta: float = 10.0,
    mu: float = 0.3,
    negative_scale: float = 5.0,
    kappa: float = 0.05,
    positive: Term = bce_positive,
    negative: Term = bce_negative,
) -> Tensor:
    r"""Distribution-balanced loss, DB (Wu et al., 2020).

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
    class_frequencies, targets = torch.as_tensor(class_frequencies).to(logits), targets.to(logits.dtype)
    weights = rebalancing_weights(targets, class_frequencies, alpha, beta, mu)
    bias = frequency_bias(class_frequencies, num_samples, kappa, negative_scale)
    tolerant = partial(stretched, term=negative, slope=negative_scale)
    return pair_loss(logits + bias, targets, positive, tolerant, weights)


def db_focal_loss(
    logits: Tensor,
    targets: Tensor,
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    alpha: float = 0.1,
    beta: float = 10.0,
    mu: float = 0.3,
    negative_scale: float = 5.0,
    kappa: float = 0.05,
    gamma: float = 2.0,
    balance: float = 2.0,
) -> Tensor:
    r"""DB-Focal: :func:`db_loss` over the terms of the focal loss, which see the shifted and stretched logits.

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
    positive, negative = (partial(scaled, term=term, factor=balance) for term in focal_terms(gamma, gamma))
    return db_loss(
        logits, targets, class_frequencies, num_samples, alpha, beta, mu, negative_scale, kappa, positive, negative
    )


def ldam_loss(
    logits: Tensor, targets: Tensor, class_frequencies: Tensor, max_margin: float = 0.5, scale: float = 1.0
) -> Tensor:
    r"""LDAM for multi-label data, :math:`-y\log\sigma(s(v - \Delta_c)) - (1 - y)\log\sigma(-s v)`.

    LDAM (Cao et al., 2019) lowers the logit of the one true class before a softmax; over a BCE it lowers that of every
    positive label, by the margins of :func:`ldam_margins`.

    Args:
        logits: (N, C).
        targets: (N, C); 1, 0 or -1, since the margin makes the loss not linear in them.
        class_frequencies: (C,).
        max_margin: Margin of the rarest class.
        scale: :math:`s`. LDAM takes 30 for the cosines of a normalised classifier; logits need none.
    """
    margins = ldam_margins(torch.as_tensor(class_frequencies).to(logits), scale * max_margin)
    scaled_logits = logits if scale == 1 else scale * logits
    lowered = scaled_logits - margins * targets.to(logits.dtype).clamp(min=0)
    return pair_loss(lowered, targets, bce_positive, bce_negative)

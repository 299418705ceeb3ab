"""Weights, margins and biases from class frequencies.

In all functions, :math:`n_c` is the number of training images with class :math:`c` (``class_frequencies``, (C,)) and
:math:`M` the number of training images (``num_samples``). To keep results finite, a class without images counts as one
with one image, and a class in all :math:`M` images as one with :math:`M - 1`. An unknown label (-1) does not count as
positive, a soft label counts by its value. Gradients do not flow through targets.

:func:`frequency_bias` and :func:`frequency_balanced_weights` compare positives with negatives. Where labels are
unknown, their ``num_samples`` is (C,), the number of images whose label of each class is known: an unknown label is no
negative. The other functions need the positives alone, and :math:`M` at most as a factor of all weights.

RW, CB and DB follow the published code of DB (Wu et al., 2020). The paper of DR (``dr_loss``) compares with these, too.
"""

import math

import torch
from torch import Tensor

from ..utils.arguments import check_choice

__all__ = [
    'class_balanced_weights',
    'frequency_balanced_weights',
    'frequency_bias',
    'ldam_margins',
    'rebalancing_weights',
    'reweighting',
]

# Defaults, of the weights and of the losses that use them.
SMOOTHING = 0.1  # of the inverse frequency in weighted BCE
CB_BETA = 0.9
DB_ALPHA, DB_BETA, DB_MU, DB_KAPPA, DB_NEGATIVE_SCALE = 0.1, 10.0, 0.3, 0.05, 5.0
BALANCE = 2.0  # the factor of the focal losses in DB's code
LDAM_MAX_MARGIN, LDAM_SCALE = 0.5, 1.0
INVERSE_SQRT, BY_CLASS = 'inverse_sqrt', 'by_class'

REWEIGHTING_MODES = ('inverse', INVERSE_SQRT)
CLASS_BALANCED_MODES = (BY_CLASS, 'average_n', 'average_w', 'min_n')


def reweighting(class_frequencies: Tensor, num_samples: float | Tensor, mode: str = INVERSE_SQRT) -> Tensor:
    r"""Return the class weights of RW (reweighting), (C,): :math:`\sqrt{M / n_c}` or :math:`M / n_c`.

    Args:
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        num_samples: Number :math:`M` of training images.
        mode: ``'inverse_sqrt'`` for the square root, the RW of the paper of DR; or ``'inverse'``.
    """
    check_choice('mode', mode, REWEIGHTING_MODES)
    ratio = num_samples / class_frequencies.clamp(min=1)
    return _once(ratio.sqrt() if mode == INVERSE_SQRT else ratio)


def class_balanced_weights(
    targets: Tensor, class_frequencies: Tensor, beta: float = CB_BETA, mode: str = BY_CLASS
) -> Tensor:
    r"""Return the class-balanced weights, CB, :math:`w(n) = \frac{1 - \beta}{1 - \beta^n}`, of classes or of images.

    This is the inverse of the effective number of :math:`n` samples (Cui et al., 2019). The paper scales the weights to
    a mean of 1; the code of DB and this function do not.

    Args:
        targets: (N, C) labels of the batch; 1 positive, 0 negative, -1 unknown. Used by all modes but ``'by_class'``.
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        beta: :math:`\beta` in [0, 1). 0 weighs all alike, towards 1 the weight becomes the inverse frequency.
        mode: ``'by_class'`` returns :math:`w(n_c)` for each class. The others return one weight for each image:
            ``'average_n'`` is :math:`w` of the mean :math:`n_c` of its positive classes, ``'average_w'`` the mean
            :math:`w(n_c)` of its positive classes, ``'min_n'`` :math:`w` of the smallest :math:`n_c` of its positive
            classes. An image without positives has :math:`1 - \beta`, as for :math:`n = \infty` (NaN in DB's code).

    Returns:
        (1, C) for ``'by_class'``, otherwise (N, 1).
    """
    check_choice('mode', mode, CLASS_BALANCED_MODES)
    if not 0 <= beta < 1:
        raise ValueError(f'beta must be in [0, 1), got {beta}')
    counts = class_frequencies.clamp(min=1).unsqueeze(0)
    if mode == BY_CLASS:
        return _once(_class_balanced_weight(counts, beta))
    share = targets.detach().clamp(min=0)
    if mode == 'min_n':
        rarest = torch.where(share > 0, counts, math.inf).amin(dim=1, keepdim=True)
        return _class_balanced_weight(rarest, beta)
    positives = share.sum(dim=1, keepdim=True)
    of_class = counts if mode == 'average_n' else _class_balanced_weight(counts, beta)
    average = (share * of_class).sum(dim=1, keepdim=True) / torch.where(positives > 0, positives, 1)
    if mode == 'average_n':
        return _class_balanced_weight(torch.where(positives > 0, average, math.inf), beta)
    return torch.where(positives > 0, average, 1 - beta)


def _class_balanced_weight(counts: Tensor, beta: float) -> Tensor:
    # 1 - beta^n by expm1: next to beta = 1 the plain difference would lose its digits.
    log_beta = math.log(beta) if beta > 0 else -math.inf
    return (1 - beta) / -torch.expm1(counts * log_beta)


def rebalancing_weights(
    targets: Tensor, class_frequencies: Tensor, alpha: float = DB_ALPHA, beta: float = DB_BETA, mu: float = DB_MU
) -> Tensor:
    r"""Return the weights of the labels in DB, (N, C): :math:`\alpha + \sigma(\beta(r - \mu))` (Wu et al., 2020).

    :math:`r_{ic} = \frac{1}{n_c} \big/ \sum_{c':\,y_{ic'} = 1} \frac{1}{n_{c'}}` is a ratio: how often image :math:`i`
    should be sampled for class :math:`c`, to how often class-aware sampling takes it for all its classes. An image
    without positives has :math:`r = \infty`, and the weight :math:`\alpha + 1`.

    Args:
        targets: (N, C) labels :math:`y` of the batch; 1 positive, 0 negative, -1 unknown, or soft.
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        alpha: Number :math:`\alpha` added to all weights, to keep them above 0.
        beta: Slope :math:`\beta` of the step from low to high weights.
        mu: Value :math:`\mu` of :math:`r` at the middle of the step; 0.3 for VOC-LT, 0.2 for COCO-LT.
    """
    inverse = 1 / class_frequencies.clamp(min=1)
    # A product and a sum: a matrix product would run in half precision under autocast.
    drawn = (targets.detach().clamp(min=0) * inverse).sum(dim=1, keepdim=True)
    steps = (beta * inverse) / drawn.clamp(min=torch.finfo(drawn.dtype).tiny)
    return steps.sub_(beta * mu).sigmoid_().add_(alpha)


def frequency_bias(
    class_frequencies: Tensor,
    num_samples: float | Tensor,
    kappa: float = DB_KAPPA,
    negative_scale: float = DB_NEGATIVE_SCALE,
) -> Tensor:
    r"""Return the bias that DB adds to logits, (C,): :math:`-\frac{\kappa}{\lambda}\log\big(\frac{M}{n_c} - 1\big)`.

    It is a fraction of the log-odds of the class's frequency (prior). Only the loss adds it; predictions do not.

    Args:
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        num_samples: Number :math:`M` of training images; (C,) where labels are unknown, of images whose label is known.
        kappa: Factor :math:`\kappa` of the log-odds.
        negative_scale: Divisor :math:`\lambda`; in :func:`db_loss` also the factor of the logits of negatives.
    """
    positives, negatives = _positives_and_negatives(class_frequencies, num_samples)
    return _once(-kappa / negative_scale * (negatives / positives).log())


def ldam_margins(class_frequencies: Tensor, max_margin: float = LDAM_MAX_MARGIN) -> Tensor:
    """Return the LDAM margins of the classes, (C,): proportional to :math:`n_c^{-1/4}`, with maximum ``max_margin``.

    Args:
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        max_margin: Margin of the rarest class.
    """
    margins = class_frequencies.clamp(min=1) ** -0.25
    return _once(margins * (max_margin / margins.amax()))


def frequency_balanced_weights(
    class_frequencies: Tensor, num_samples: float | Tensor, smoothing: float = SMOOTHING
) -> tuple[Tensor, Tensor]:
    r"""Return (weights of positives, weights of negatives) for BCE weighted by class frequencies, both (C,).

    The negatives of class :math:`c` have the weight :math:`w_c \propto n_c^{-s}`, with mean 1 over the classes. The
    positives have :math:`w_c\,\frac{M - n_c}{n_c}`, so that in total they weigh as much as the negatives of the class.

    Args:
        class_frequencies: (C,), number :math:`n_c` of training images with each class.
        num_samples: Number :math:`M` of training images; (C,) where labels are unknown, of images whose label is known.
        smoothing: Power :math:`s`, at least 0. 0 gives all classes the same :math:`w_c`.
    """
    positives, negatives = _positives_and_negatives(class_frequencies, num_samples)
    weight = positives**-smoothing
    weight = weight / weight.mean()
    return _once(weight * (negatives / positives)), _once(weight)


def _positives_and_negatives(class_frequencies: Tensor, num_samples: float | Tensor) -> tuple[Tensor, Tensor]:
    return class_frequencies.clamp(min=1), (num_samples - class_frequencies).clamp(min=1)


def _once(vector: Tensor) -> Tensor:
    """Return class weights unchanged; compiled code stores a copy, and does not compute them again for every sample."""
    return _materialize(vector) if torch.compiler.is_compiling() else vector


@torch.library.custom_op('mmml_losses::materialize', mutates_args=())
def _materialize(vector: Tensor) -> Tensor:
    return vector.clone()


@_materialize.register_fake
def _(vector: Tensor) -> Tensor:
    return torch.empty_like(vector)

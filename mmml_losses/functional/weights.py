r"""Weights, margins and biases from class frequencies.

Throughout, :math:`n_c` is the number of training images that have class :math:`c` (``class_frequencies``, (C,)) and
:math:`N` the number of training images (``num_samples``). A class without an image counts as one with one image, and a
class in every image as one that is missing once, so that nothing here is infinite. An unknown label (-1) is nobody's
positive, and a soft label counts by its share. What depends on the targets is a constant for the gradient.

RW, CB and DB follow the published code of DB (Wu et al., 2020), which is also what the paper of DR compares with.
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
LDAM_MAX_MARGIN = 0.5

REWEIGHTING_MODES = ('inverse', 'inverse_sqrt')
CLASS_BALANCED_MODES = ('by_class', 'average_n', 'average_w', 'min_n')


def reweighting(class_frequencies: Tensor, num_samples: float | Tensor, mode: str = 'inverse_sqrt') -> Tensor:
    r"""Return the weights of the classes in RW, :math:`\sqrt{N / n_c}` or :math:`N / n_c`, (C,).

    Args:
        class_frequencies: (C,).
        num_samples: Training images.
        mode: ``'inverse_sqrt'``, which the paper of DR calls RW, or ``'inverse'``.
    """
    check_choice('mode', mode, REWEIGHTING_MODES)
    ratio = num_samples / class_frequencies.clamp(min=1)
    return _once(ratio.sqrt() if mode == 'inverse_sqrt' else ratio)


def class_balanced_weights(
    targets: Tensor, class_frequencies: Tensor, beta: float = CB_BETA, mode: str = 'by_class'
) -> Tensor:
    r"""Return the weights of CB, :math:`w(n) = \frac{1 - \beta}{1 - \beta^n}`.

    The inverse of the effective number of samples (Cui et al., 2019). That paper scales the weights to an average of 1;
    the code of DB does not, and neither does this function.

    Args:
        targets: (N, C).
        class_frequencies: (C,).
        beta: :math:`\beta` in [0, 1). 0 weighs all alike, towards 1 it becomes the inverse frequency.
        mode: What is one :math:`n`. ``'by_class'``: that of the class. The others give an image one weight:
            ``'average_n'`` that of the average :math:`n` of its positives, ``'average_w'`` the average weight of its
            positives, ``'min_n'`` that of its rarest positive. An image without positives has the weight
            :math:`1 - \beta` of an endless class, where the code of DB has NaN (in ``'min_n'`` nearly the same).

    Returns:
        (1, C) for ``'by_class'``, otherwise (N, 1).
    """
    check_choice('mode', mode, CLASS_BALANCED_MODES)
    if not 0 <= beta < 1:
        raise ValueError(f'beta must be in [0, 1), got {beta}')
    counts = class_frequencies.clamp(min=1).unsqueeze(0)
    if mode == 'by_class':
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
    r"""Return the weights of DB, :math:`\alpha + \sigma(\beta(r - \mu))` (Wu et al., 2020), (N, C).

    With :math:`r_{ic} = \frac{1}{n_c} \big/ \sum_{c':\,y_{ic'} = 1} \frac{1}{n_{c'}}`: how often class :math:`c` should
    have drawn image :math:`i`, against how often class-aware sampling draws it for any of its labels. An image without
    positives has the limit :math:`r \to \infty`, the weight :math:`\alpha + 1`.

    Args:
        targets: (N, C).
        class_frequencies: (C,).
        alpha: :math:`\alpha`, lifts the weights away from 0.
        beta: :math:`\beta`, slope of the smooth step.
        mu: :math:`\mu`, where the step is; 0.3 for VOC-LT, 0.2 for COCO-LT.
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
    r"""Return the bias of the logits in DB, :math:`-\frac{\kappa}{\lambda}\log\big(\frac{N}{n_c} - 1\big)`, (C,).

    It starts the classes at their prior. The loss alone adds it: predictions read the logits without.

    Args:
        class_frequencies: (C,).
        num_samples: Training images.
        kappa: :math:`\kappa`, how much of the prior's log-odds.
        negative_scale: :math:`\lambda` of :func:`db_loss`.
    """
    positives, negatives = _positives_and_negatives(class_frequencies, num_samples)
    return _once(-kappa / negative_scale * (negatives / positives).log())


def ldam_margins(class_frequencies: Tensor, max_margin: float = LDAM_MAX_MARGIN) -> Tensor:
    r"""Return the margins of LDAM, (C,): :math:`\Delta_c \propto n_c^{-1/4}`, at most ``max_margin``.

    Args:
        class_frequencies: (C,).
        max_margin: Margin of the rarest class.
    """
    margins = class_frequencies.clamp(min=1) ** -0.25
    return _once(margins * (max_margin / margins.amax()))


def frequency_balanced_weights(
    class_frequencies: Tensor, num_samples: float | Tensor, smoothing: float = SMOOTHING
) -> tuple[Tensor, Tensor]:
    r"""Return the weights of positives and of negatives in BCE weighted by class frequencies, two of (C,).

    The negatives of class :math:`c` have the weight :math:`w_c \propto n_c^{-s}`, which is 1 on average over the
    classes; its positives have :math:`w_c\,\frac{N - n_c}{n_c}`, so that together they weigh as much as the negatives.

    Args:
        class_frequencies: (C,).
        num_samples: Training images.
        smoothing: The power :math:`s`. 0 weighs the classes alike, and only balances positives against negatives.
    """
    positives, negatives = _positives_and_negatives(class_frequencies, num_samples)
    weight = positives**-smoothing
    weight = weight / weight.mean()
    return _once(weight * (negatives / positives)), _once(weight)


def _positives_and_negatives(class_frequencies: Tensor, num_samples: float | Tensor) -> tuple[Tensor, Tensor]:
    return class_frequencies.clamp(min=1), (num_samples - class_frequencies).clamp(min=1)


def _once(vector: Tensor) -> Tensor:
    """Return a vector (C,) such that compiled code computes it once, and not for every sample."""
    return _materialize(vector) if torch.compiler.is_compiling() else vector


@torch.library.custom_op('mmml_losses::materialize', mutates_args=())
def _materialize(vector: Tensor) -> Tensor:
    return vector.clone()


@_materialize.register_fake
def _(vector: Tensor) -> Tensor:
    return torch.empty_like(vector)

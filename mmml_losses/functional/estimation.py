r"""Losses that treat unobserved labels as unknown: entropy (EM), pseudo-negatives (APL), estimates (EPR, ROLE).

EM and APL are of Zhou et al. (ECCV 2022), EPR and ROLE of Cole et al. (CVPR 2021). The authors' codes add 1e-5 inside
their logarithms, which costs a confidently wrong label its gradient; here the logarithms are exact.
"""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from .pair import pair_loss
from .regularizers import expected_positive_regularizer
from .terms import EntropyNegative, bce_positive, nothing

__all__ = ['em_apl_loss', 'em_loss', 'epr_loss', 'role_loss']


def em_loss(logits: Tensor, targets: Tensor, alpha: float = EntropyNegative.alpha) -> Tensor:
    r"""Compute entropy maximisation, EM (Zhou et al., 2022).

    Positives pay :math:`-\log p`; unobserved labels pay minus their entropy times :math:`\alpha`, which pulls them
    towards doubt and lets go where the model is sure (:class:`EntropyNegative`). The loss may be negative.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        alpha: Weight of the entropy.

    Returns:
        One value per label, (N, C), not reduced. The authors take the mean over all labels.
    """
    return pair_loss(logits, targets, bce_positive, EntropyNegative(alpha))


def em_apl_loss(
    logits: Tensor,
    targets: Tensor,
    pseudo_negatives: Tensor,
    alpha: float = EntropyNegative.alpha,
    beta: float = 0.4,
) -> Tensor:
    r"""Compute EM with asymmetric pseudo-labelling, EM + APL (Zhou et al., 2022).

    As :func:`em_loss`, but an unobserved label that was found to be a pseudo-negative pays the cross-entropy with its
    soft label :math:`s`, :math:`-\beta\,(s\log p + (1 - s)\log(1 - p))`.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        pseudo_negatives: (N, C), the soft label in [0, 1] of each pseudo-negative, and -1 where there is none. Read
            only where a label is unobserved. (The authors' code writes :math:`-s` into the targets instead, which
            here means unknown.)
        alpha: Weight of the entropy.
        beta: Weight of the pseudo-negatives.

    Returns:
        One value per label, (N, C), not reduced.
    """
    targets = targets.to(logits.dtype)
    found = (targets == 0) & (pseudo_negatives >= 0)
    soft_labels, weight = pseudo_negatives.to(logits.dtype).clamp(min=0), beta * found.to(logits.dtype)
    pseudo = binary_cross_entropy_with_logits(logits, soft_labels, weight, reduction='none')
    return em_loss(logits, targets.masked_fill(found, -1), alpha) + pseudo


def pseudo_negative_counts(
    unobserved: Tensor, negative_share: float, epoch: int, warmup_epochs: int, max_epochs: int
) -> Tensor:
    r"""Return the number of pseudo-negatives of each class from an epoch on, by the self-paced schedule of APL.

    With :math:`n_c` unobserved labels of class :math:`c`, share :math:`\theta`, :math:`w` warm-up epochs and :math:`E`
    epochs in all, every epoch after the warm-up adds the same number, and the last one completes the share:

    .. math::
        \theta\,n_c\,\frac{t - w + 1}{E - w}\qquad\text{in epoch } t = w, \dots, E - 1

    Args:
        unobserved: (C,), the :math:`n_c`.
        negative_share: :math:`\theta`.
        epoch: :math:`t`, counted from 0.
        warmup_epochs: :math:`w`.
        max_epochs: :math:`E`.

    Returns:
        (C,), rounded to integers.
    """
    progress = min(max(epoch - warmup_epochs + 1, 0) / (max_epochs - warmup_epochs), 1.0)
    return (unobserved.double() * (negative_share * progress)).round().long()


def lowest_per_class(log_odds: Tensor, candidates: Tensor, counts: Tensor) -> Tensor:
    """Mark the candidates of lowest probability in each class, which APL takes as pseudo-negatives.

    Args:
        log_odds: (M, C), over the training set.
        candidates: A boolean (M, C), among which to pick.
        counts: (C,), how many to pick in each class; fewer where there are fewer candidates. Ties go to the smaller
            index, so that every process picks the same.

    Returns:
        A boolean (M, C).
    """
    picked = torch.zeros_like(candidates)
    # One class at a time: the indices of a sort of everything would be eight times the memory of the labels.
    for label, count in enumerate(counts.tolist()):
        rows = candidates[:, label].nonzero().squeeze(1)
        order = log_odds[rows, label].float().argsort(stable=True)
        picked[rows[order[:count]], label] = True
    return picked


def epr_values(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute the values of :func:`epr_loss` for each label, without the regulariser."""
    return pair_loss(logits, targets, bce_positive, nothing)


def epr_loss(logits: Tensor, targets: Tensor, expected_positives: float) -> tuple[Tensor, Tensor]:
    r"""Compute expected positive regularisation, EPR (Cole et al., 2021).

    Observed positives pay :math:`-\log p`, unobserved labels pay nothing but the
    :func:`expected_positive_regularizer`. The authors' code takes the mean of the former over all labels of the batch
    and adds the latter; the paper's formula sums the former over the labels of a sample instead.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        expected_positives: :math:`k`, the expected number of positive labels of a sample.

    Returns:
        One value per label, (N, C), not reduced; and the regulariser, one value for the batch.
    """
    return epr_values(logits, targets), expected_positive_regularizer(logits.sigmoid(), expected_positives, targets)


def role_values(logits: Tensor, targets: Tensor, estimated_logits: Tensor) -> Tensor:
    """Compute the values of :func:`role_loss` for each label, without the regulariser."""
    own = _half_of_role(logits, estimated_logits, targets)
    return (own + _half_of_role(estimated_logits, logits, targets)) / 2


def role_loss(
    logits: Tensor, targets: Tensor, estimated_logits: Tensor, expected_positives: float
) -> tuple[Tensor, Tensor]:
    r"""Compute regularised online label estimation, ROLE (Cole et al., 2021).

    Predictions :math:`p` and estimates :math:`q` of the labels of the training set train each other. Each half takes
    the other as given (:math:`\mathrm{sg}` stops the gradient), pays for observed positives and is regularised:

    .. math::
        \tfrac12\left[L(p \mid \mathrm{sg}(q)) + L(q \mid \mathrm{sg}(p))\right],\qquad
        L(p \mid q) = \mathrm{BCE}(p, q) - \sum_{y = 1}\log p + R_k(p)

    The sums over labels are means over the labels of the batch in the authors' code.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        estimated_logits: (N, C), the log-odds of the estimates of these samples.
        expected_positives: :math:`k`, the expected number of positive labels of a sample.

    Returns:
        One value per label, (N, C), not reduced; and the mean of both regularisers, one value for the batch.
    """
    own, estimated = (
        expected_positive_regularizer(x.sigmoid(), expected_positives, targets) for x in (logits, estimated_logits)
    )
    return role_values(logits, targets, estimated_logits), (own + estimated) / 2


def _half_of_role(logits: Tensor, given_logits: Tensor, targets: Tensor) -> Tensor:
    # BCE(p, q) - y log p in one pass: a positive counts twice, with the mean of its labels q and 1.
    observed = targets.to(logits.dtype).clamp(min=0)
    weight = 1 + observed
    labels = (given_logits.detach().sigmoid() + observed) / weight
    weight = weight.masked_fill(targets < 0, 0)
    return binary_cross_entropy_with_logits(logits, labels, weight, reduction='none')

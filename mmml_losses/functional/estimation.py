"""Losses that treat unobserved labels as unknown: entropy (EM), pseudo-negatives (APL), estimates (EPR, ROLE).

EM and APL are by Zhou et al. (ECCV 2022), EPR and ROLE by Cole et al. (CVPR 2021). The authors add 1e-5 inside their
logarithms, which removes the gradient of a confidently wrong label; here the logarithms are exact.
"""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from .pair import pair_loss
from .regularizers import expected_positive_regularizer
from .terms import EntropyNegative, bce_positive, nothing

__all__ = ['em_apl_loss', 'em_loss', 'epr_loss', 'role_loss']


def em_loss(logits: Tensor, targets: Tensor, alpha: float = EntropyNegative.alpha) -> Tensor:
    r"""Compute the entropy maximisation loss, EM (Zhou et al., 2022), :math:`-y\log p - \alpha(1 - y)H(p)`.

    :math:`H(p)` is the entropy of the predicted probability. It pulls unobserved labels towards :math:`p = 0.5`, with
    a vanishing gradient where the model is sure (:class:`EntropyNegative`). The loss may be negative. The authors take
    its mean over all labels.

    Args:
        logits: (N, C) logits, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: (N, C) labels :math:`y`; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        alpha: Weight :math:`\alpha` of the entropy.
    """
    return pair_loss(logits, targets, bce_positive, EntropyNegative(alpha))


def em_apl_loss(
    logits: Tensor, targets: Tensor, pseudo_negatives: Tensor, alpha: float = EntropyNegative.alpha, beta: float = 0.4
) -> Tensor:
    r"""Compute EM + APL, entropy maximisation with asymmetric pseudo-labelling (Zhou et al., 2022).

    A pseudo-negative is an unobserved label that is probably negative. With its soft label :math:`s` it costs
    :math:`-\beta\,(s\log p + (1 - s)\log(1 - p))`. All other labels cost as in :func:`em_loss`.

    Args:
        logits: (N, C) logits, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: (N, C) labels; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        pseudo_negatives: (N, C) soft labels :math:`s` in [0, 1] of the pseudo-negatives, -1 for all other labels. Used
            only where ``targets`` is 0. (The authors write :math:`-s` into ``targets``; here, do not: -1 is unknown.)
        alpha: Weight of the entropy of unobserved labels.
        beta: Weight :math:`\beta` of the pseudo-negatives.
    """
    targets = targets.to(logits.dtype)
    found = (targets == 0) & (pseudo_negatives >= 0)
    soft_labels, weight = pseudo_negatives.to(logits.dtype).clamp(min=0), beta * found.to(logits.dtype)
    pseudo = binary_cross_entropy_with_logits(logits, soft_labels, weight, reduction='none')
    return em_loss(logits, targets.masked_fill(found, -1), alpha) + pseudo


def pseudo_negative_counts(
    unobserved: Tensor, negative_share: float, epoch: int, warmup_epochs: int, max_epochs: int
) -> Tensor:
    r"""Return the number of pseudo-negatives of each class in epoch :math:`t` by the schedule of APL, (C,), as int64.

    It is 0 in the :math:`w` warm-up epochs. Afterwards it grows by the same number each epoch, and in the last of all
    :math:`E` epochs it reaches the fraction :math:`\theta` of the :math:`n_c` unobserved labels of class :math:`c`:

    .. math::
        \theta\,n_c\,\frac{t - w + 1}{E - w}\qquad\text{in epoch } t = w, \dots, E - 1

    Args:
        unobserved: (C,), number :math:`n_c` of unobserved labels of each class in the training set.
        negative_share: Fraction :math:`\theta` of the unobserved labels that are pseudo-negatives in the end.
        epoch: Current epoch :math:`t`, counted from 0.
        warmup_epochs: Number :math:`w` of epochs without pseudo-negatives.
        max_epochs: Number :math:`E` of all epochs, above :math:`w`.
    """
    progress = min(max(epoch - warmup_epochs + 1, 0) / (max_epochs - warmup_epochs), 1.0)
    return (unobserved.double() * (negative_share * progress)).round().long()


def lowest_per_class(log_odds: Tensor, candidates: Tensor, counts: Tensor) -> Tensor:
    """Mark the candidates with the lowest probabilities in each class, which APL takes as pseudo-negatives.

    Args:
        log_odds: (M, C), log-odds predicted for the M samples of the training set.
        candidates: Boolean (M, C), True for labels that may be marked.
        counts: (C,), how many labels to mark in each class; all candidates if there are fewer. Of equal log-odds the
            sample with the smaller index is marked first, so that every process marks the same labels.

    Returns:
        Boolean (M, C), True for marked labels.
    """
    picked = torch.zeros_like(candidates)
    # One class at a time: the indices of a sort of everything would be eight times the memory of the labels.
    for label, count in enumerate(counts.tolist()):
        rows = candidates[:, label].nonzero().squeeze(1)
        order = log_odds[rows, label].float().argsort(stable=True)
        picked[rows[order[:count]], label] = True
    return picked


def epr_values(logits: Tensor, targets: Tensor) -> Tensor:
    r"""Return the (N, C) costs of :func:`epr_loss` without regulariser: :math:`-y\log p`, 0 for unknown labels."""
    return pair_loss(logits, targets, bce_positive, nothing)


def epr_loss(logits: Tensor, targets: Tensor, expected_positives: float) -> tuple[Tensor, Tensor]:
    r"""Compute expected positive regularisation, EPR (Cole et al., 2021): label costs and a regulariser.

    Observed positives cost :math:`-\log p`, unobserved labels 0. :func:`expected_positive_regularizer` keeps the mean
    number of predicted positives near :math:`k`. The authors' code adds it to the mean cost over all labels; the
    paper's formula sums the costs over the labels of a sample instead.

    Args:
        logits: (N, C) logits, :math:`p` is their sigmoid.
        targets: (N, C) labels; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        expected_positives: :math:`k`, the expected number of positive labels of a sample.

    Returns:
        A tuple (costs, regulariser): (N, C), one value per label, 0 for unknown labels; and a scalar tensor.
    """
    return epr_values(logits, targets), expected_positive_regularizer(logits.sigmoid(), expected_positives, targets)


def role_values(logits: Tensor, targets: Tensor, estimated_logits: Tensor) -> Tensor:
    """Return the (N, C) costs of :func:`role_loss`, without regulariser, from logits of predictions and estimates."""
    own = _half_of_role(logits, estimated_logits, targets)
    return (own + _half_of_role(estimated_logits, logits, targets)) / 2


def role_loss(
    logits: Tensor, targets: Tensor, estimated_logits: Tensor, expected_positives: float
) -> tuple[Tensor, Tensor]:
    r"""Compute regularised online label estimation, ROLE (Cole et al., 2021): label costs and a regulariser.

    Predictions :math:`p` and learned estimates :math:`q` of the same labels train each other. In each half, the other
    one is constant (:math:`\mathrm{sg}` stops the gradient), and :math:`R_k` regularises the number of positives:

    .. math::
        \tfrac12\left[L(p \mid \mathrm{sg}(q)) + L(q \mid \mathrm{sg}(p))\right],\qquad
        L(p \mid q) = \mathrm{BCE}(p, q) - \sum_{y = 1}\log p + R_k(p)

    The authors' code takes means over the labels of the batch in place of the sums over labels.

    Args:
        logits: (N, C), logits of the predictions :math:`p`.
        targets: (N, C) labels :math:`y`; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        estimated_logits: (N, C), logits of the estimates :math:`q` for these samples.
        expected_positives: :math:`k`, the expected number of positive labels of a sample.

    Returns:
        A tuple (costs, regulariser): (N, C), the formula without :math:`R_k` for each label, 0 for unknown labels; and
        the mean of :math:`R_k(p)` and :math:`R_k(q)` of the batch, a scalar tensor.
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

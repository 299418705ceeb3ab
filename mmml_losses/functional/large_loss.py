r"""Large losses of unobserved labels: reject them, or correct their labels (Kim et al., CVPR 2022).

A network learns clean labels first, so among the unobserved labels, which are taken as negatives, those of the largest
loss are most likely missed positives. In every batch of :math:`B` samples and :math:`C` labels the

.. math::
    k = \lceil B\,C\,(1 - R)\rceil

unobserved labels of the largest loss are rejected (LL-R) or taken as positive (LL-Ct). The clean rate :math:`R` starts
at 1 and falls by a constant each epoch (:func:`clean_rate_of`). LL-Cp corrects permanently: every batch after the
first epoch adds :math:`\lceil B\,C\,\Delta_{rel}\rceil` corrections, which stay.

As in the authors' code, :math:`k` counts all labels of the batch and ties at the :math:`k`-th largest loss are
included. However large :math:`k` becomes, observed labels never take part, and a label that costs nothing (a negative
below the margin of ASL) has no large loss.
"""

import math

import torch
from torch import Tensor

from .pair import BLOCK, pair_loss, visits_values
from .terms import AnyTerm, bce_negative, bce_positive

__all__ = [
    'clean_rate_of',
    'large_loss_correction',
    'large_loss_permanent_correction',
    'large_loss_rejection',
    'large_losses',
]

SAMPLE_STEP = 64
ROUNDING = 1e-6  # 1 - 0.998 is a little more than 0.002, and a thousand times that is not three labels


def clean_rate_of(epoch: int, relative_increase: float) -> float:
    r"""Return the clean rate :math:`R = \max(1 - \Delta_{rel}\,t, 0)` of epoch :math:`t`, counted from 0.

    Args:
        epoch: The epoch, from 0, of which the losses are left alone.
        relative_increase: :math:`\Delta_{rel}`, by how much the share of large losses grows each epoch.
    """
    return max(1 - relative_increase * epoch, 0.0)


def large_losses(logits: Tensor, targets: Tensor, share: float, negative: AnyTerm = bce_negative) -> Tensor:
    r"""Mark the unobserved labels with the largest losses.

    Args:
        logits: (N, C).
        targets: (N, C). Where it is 0 the label is unobserved and competes.
        share: :math:`1 - R`: the number of large losses relative to all known labels, rounded up.
        negative: The term by which unobserved labels compete.

    Returns:
        A boolean (N, C). At most all of the unobserved labels.
    """
    most = min(math.ceil(targets.numel() * share - ROUNDING), targets.numel())
    if most == 0:
        return torch.zeros_like(targets, dtype=torch.bool)
    losses = negative(logits.detach())
    competing = torch.where((targets == 0) & (losses != 0), losses, -math.inf)
    largest = _largest(competing.flatten(), most)
    # Where labels are unknown there are fewer places: by an index, so that the shapes do not depend on the data.
    places = (share * (targets >= 0).sum(dtype=torch.float64) - ROUNDING).ceil().long()
    threshold = largest.index_select(0, (places - 1).clamp(0, most - 1).reshape(1))
    # With fewer competitors than places the threshold is minus infinity, which all others have.
    return (competing >= threshold.clamp(min=torch.finfo(losses.dtype).min)) & (places > 0)


def _largest(values: Tensor, count: int) -> Tensor:
    """Return the largest values, in falling order."""
    if visits_values(values) and values.numel() > BLOCK:
        # Whatever a sample is too low a bound for need not be sorted; if the sample misleads, all of it is.
        sample = values[::SAMPLE_STEP]
        bound = sample.topk(min(2 * count // SAMPLE_STEP + SAMPLE_STEP, len(sample))).values[-1]
        above = values[values >= bound]
        values = above if len(above) >= count else values
    return values.topk(count).values


def large_loss_rejection(
    logits: Tensor,
    targets: Tensor,
    clean_rate: float,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> Tensor:
    """Compute large loss rejection, LL-R: large losses of unobserved labels count as 0.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        clean_rate: The share of labels that is trusted (:func:`clean_rate_of`); 1 rejects nothing.
        positive: The term of positive labels.
        negative: The term of unobserved labels.

    Returns:
        One value per label, (N, C), not reduced. The authors' mean is over all labels, the rejected ones included.
    """
    targets = targets.to(logits.dtype)
    rejected = large_losses(logits, targets, 1 - clean_rate, negative)
    return pair_loss(logits, targets.masked_fill(rejected, -1), positive, negative)


def large_loss_correction(
    logits: Tensor,
    targets: Tensor,
    clean_rate: float,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> Tensor:
    """Compute temporary large loss correction, LL-Ct: large losses become positive labels in this batch.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        clean_rate: The share of labels that is trusted (:func:`clean_rate_of`); 1 corrects nothing.
        positive: The term of positive and of corrected labels.
        negative: The term of unobserved labels.

    Returns:
        One value per label, (N, C), not reduced.
    """
    targets = targets.to(logits.dtype)
    corrected = large_losses(logits, targets, 1 - clean_rate, negative)
    return pair_loss(logits, targets.masked_fill(corrected, 1), positive, negative)


def large_loss_permanent_correction(
    logits: Tensor,
    targets: Tensor,
    relative_increase: float,
    corrected: Tensor | None = None,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
) -> tuple[Tensor, Tensor]:
    r"""Compute permanent large loss correction, LL-Cp: a label that was corrected once stays positive.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 unobserved, -1 unknown, or soft.
        relative_increase: :math:`\Delta_{rel}`, the share of labels that this batch corrects anew. The authors leave
            the first epoch alone; 0 does.
        corrected: A boolean (N, C), which unobserved labels of these samples earlier batches corrected; None for none.
        positive: The term of positive and of corrected labels.
        negative: The term of unobserved labels.

    Returns:
        One value per label, (N, C), not reduced; and ``corrected`` with this batch's corrections, to be kept.
    """
    targets = targets.to(logits.dtype)
    if corrected is not None:
        corrected = corrected & (targets == 0)
        targets = targets.masked_fill(corrected, 1)
    anew = large_losses(logits, targets, relative_increase, negative)
    values = pair_loss(logits, targets.masked_fill(anew, 1), positive, negative)
    return values, anew if corrected is None else anew | corrected

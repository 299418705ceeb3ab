r"""Large losses of unobserved labels: reject them, or correct their labels (Kim et al., CVPR 2022).

Unobserved labels are taken as negatives. A network learns clean labels first, so the unobserved labels with the largest
loss are most likely missed positives. In every batch of :math:`B` samples and :math:`C` labels the

.. math::
    k = \lceil B\,C\,(1 - R)\rceil

unobserved labels with the largest loss are rejected (LL-R) or taken as positive (LL-Ct). The clean rate :math:`R`
is 1 in the first epoch and falls by a constant each epoch (:func:`clean_rate_of`). LL-Cp corrects permanently: every
batch after the first epoch adds :math:`\lceil B\,C\,\Delta_{rel}\rceil` corrections, which stay.

As in the authors' code, observed labels count in :math:`B\,C`, and ties at the :math:`k`-th largest loss are included.
Unknown labels do not count. Only unobserved labels are rejected or corrected, however large :math:`k` is, and only if
their loss is not 0 (as it is for negatives below the margin of ASL).
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
ROUNDING = 1e-6  # 1 - 0.998 is slightly above 0.002 in floats; of 1000 labels it must give 2, not 3


def clean_rate_of(epoch: int, relative_increase: float) -> float:
    r"""Return the clean rate :math:`R = \max(1 - \Delta_{rel}\,t, 0)`, the fraction of trusted labels in an epoch.

    Args:
        epoch: Epoch :math:`t`, counted from 0. In epoch 0 all labels are trusted.
        relative_increase: :math:`\Delta_{rel}`, the fraction of labels that is no longer trusted after each epoch.
    """
    return max(1 - relative_increase * epoch, 0.0)


def large_losses(logits: Tensor, targets: Tensor, share: float, negative: AnyTerm = bce_negative) -> Tensor:
    """Mark the unobserved labels with the largest losses. Labels with a loss of 0 are never marked.

    Args:
        logits: (N, C) logits.
        targets: (N, C) labels; only labels with 0 (unobserved) may be marked, -1 is unknown.
        share: Fraction of the known labels to mark, such as 1 - :func:`clean_rate_of`. Their number is rounded up.
        negative: Function from logits to the losses that are compared.

    Returns:
        Boolean (N, C), True for marked labels. Ties at the smallest marked loss are all marked.
    """
    most = min(math.ceil(targets.numel() * share - ROUNDING), targets.numel())
    if most == 0:
        return torch.zeros_like(targets, dtype=torch.bool)
    losses = negative(logits.detach())
    competing = torch.where((targets == 0) & (losses != 0), losses, -math.inf)
    largest = _largest(competing.flatten(), most)
    # Unknown labels reduce the number to mark. An index instead of a slice: no shape depends on the data.
    places = (share * (targets >= 0).sum(dtype=torch.float64) - ROUNDING).ceil().long()
    threshold = largest.index_select(0, (places - 1).clamp(0, most - 1).reshape(1))
    # If fewer labels compete than are to be marked, the threshold is minus infinity, as for labels not competing.
    return (competing >= threshold.clamp(min=torch.finfo(losses.dtype).min)) & (places > 0)


def _largest(values: Tensor, count: int) -> Tensor:
    """Return the ``count`` largest values of a flat tensor, which has at least so many, in descending order."""
    if visits_values(values) and values.numel() > BLOCK:
        # Every 64th value gives a bound, and only values above it are sorted; if these are too few, all are.
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
    """Compute large loss rejection, LL-R: unobserved labels of large loss cost 0 in this batch.

    Args:
        logits: (N, C) logits.
        targets: (N, C) labels; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        clean_rate: Trusted fraction :math:`R` of known labels (:func:`clean_rate_of`); :math:`1 - R` are rejected.
        positive: Cost of a positive label as a function of its logit.
        negative: Cost of an unobserved label as a function of its logit.

    Returns:
        (N, C), one value per label, not reduced. The authors' mean is over all labels, the rejected ones included.
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
    """Compute temporary large loss correction, LL-Ct: unobserved labels of large loss are positive in this batch.

    Args:
        logits: (N, C) logits. The loss has this shape, with 0 for unknown labels.
        targets: (N, C) labels; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        clean_rate: Trusted fraction :math:`R` of known labels (:func:`clean_rate_of`); :math:`1 - R` are corrected.
        positive: Cost of a positive or corrected label as a function of its logit.
        negative: Cost of an unobserved label as a function of its logit.
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
    r"""Compute permanent large loss correction, LL-Cp: unobserved labels of large loss become positive and stay so.

    Args:
        logits: (N, C) logits.
        targets: (N, C) labels; 1 positive, 0 unobserved, -1 unknown, or a soft label between 0 and 1.
        relative_increase: :math:`\Delta_{rel}`, fraction of known labels to correct anew in this batch. Pass 0 in the
            first epoch, in which the authors correct nothing.
        corrected: Boolean (N, C), corrections of these samples so far, not changed in place; None if there are none.
        positive: Cost of a positive or corrected label as a function of its logit.
        negative: Cost of an unobserved label as a function of its logit.

    Returns:
        A tuple (values, corrected): (N, C), one value per label; and a new boolean (N, C), True for unobserved labels
        (target 0) that were corrected earlier or in this batch.
    """
    targets = targets.to(logits.dtype)
    if corrected is not None:
        corrected = corrected & (targets == 0)
        targets = targets.masked_fill(corrected, 1)
    anew = large_losses(logits, targets, relative_increase, negative)
    values = pair_loss(logits, targets.masked_fill(anew, 1), positive, negative)
    return values, anew if corrected is None else anew | corrected

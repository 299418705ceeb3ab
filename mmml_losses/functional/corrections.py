"""Losses that correct unobserved labels by what the model already believes: SPLC and LASD."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from .pair import Term, pair_loss
from .pointwise import asymmetric_terms
from .terms import asymmetric_negative, focal_margin_positive, scaled

FOCAL_NEGATIVE: Term = partial(asymmetric_negative, gamma=2.0, margin=0.0)


def believed_positives(logit_probabilities: Tensor, targets: Tensor, threshold: float) -> Tensor:
    """Unobserved labels whose probability exceeds a threshold, as a mask.

    Args:
        logit_probabilities: Log-odds of the probabilities; the logits themselves where the link is the sigmoid.
        targets: The same shape; unobserved labels are 0.
        threshold: In (0, 1], where 1 believes none.
    """
    log_odds = math.inf if threshold == 1 else math.log(threshold / (1 - threshold))
    return (targets == 0) & (logit_probabilities.detach() > log_odds)


def splc_loss(
    logits: Tensor,
    targets: Tensor,
    positive: Term = focal_margin_positive,
    negative: Term = FOCAL_NEGATIVE,
    threshold: float = 0.6,
    spared_margin: float = 0.0,
    logit_probabilities: Tensor | None = None,
) -> Tensor:
    r"""Self-paced loss correction over any pair of terms (Zhang et al., Eq. 10).

    A pseudo-positive, an unobserved label with :math:`p > \tau`, takes the positive term. The correction is meant for
    trainings that have begun to work: the authors start it after the first epoch, and add over batch and classes.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``; 1, 0 for negative or unobserved, -1 for unknown.
        positive: The positive term; focal margin by default, as in the paper's best row.
        negative: The negative term; focal by default.
        threshold: :math:`\tau`; 1 corrects nothing.
        spared_margin: The margin of the positive term that pseudo-positives are spared. Eq. 10 gives observed and
            pseudo-positives the same loss, 0; the authors' code shifts the logits of the observed ones only, which is
            the margin of the term.
        logit_probabilities: Log-odds of the probabilities, where they are not the logits.
    """
    log_odds = logits if logit_probabilities is None else logit_probabilities
    pseudo_positives = believed_positives(log_odds, targets, threshold).to(logits.dtype)
    if spared_margin:
        logits = torch.add(logits, pseudo_positives, alpha=spared_margin)
    return pair_loss(logits, targets + pseudo_positives, positive, negative)


def lasd_loss(
    logits: Tensor,
    targets: Tensor,
    positive_leverage: float,
    negative_leverage: float | Tensor,
    threshold: float,
    gamma_positive: float = 0.0,
    gamma_negative: float = 4.0,
) -> Tensor:
    r"""Leveraged asymmetric loss with disambiguation (paper of LASD, Eq. 6).

    .. math::
        \mathbf{1}_{y = 1}\,L_{\gamma^+} + \mathbf{1}_{y = 0}\left(
        \lambda^+\,\mathbf{1}_{p > \tau}\,L_{\gamma^+} + \lambda^-\,\mathbf{1}_{p \le \tau}\,L_{\gamma^-}\right)

    Args:
        logits: Any shape.
        targets: The shape of ``logits``; 1 observed, 0 unobserved, -1 unknown.
        positive_leverage: :math:`\lambda^+`, the weight of pseudo-positives.
        negative_leverage: :math:`\lambda^-`, the weight of the other unobserved labels;
            :func:`balanced_leverage` has the one of Theorem 5.4.
        threshold: :math:`\tau`.
        gamma_positive: :math:`\gamma^+`.
        gamma_negative: :math:`\gamma^-`.

    With both leverages 1 it is SPLC over the focal pair; with :math:`\tau = 1` as well, ASL without probability shift.
    The paper adds over the classes.
    """
    pseudo_positives = believed_positives(logits, targets, threshold).to(logits.dtype)
    positive, negative = asymmetric_terms(gamma_positive, gamma_negative, margin=0.0)
    return pair_loss(
        logits,
        targets + pseudo_positives,
        positive,
        partial(scaled, term=negative, factor=negative_leverage),
        # 1 for all but the pseudo-positives. Without `where`, of which compiled code would store the mask, and slowly.
        pseudo_positives.mul(positive_leverage - 1).add_(1),
    )

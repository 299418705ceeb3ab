"""Losses that correct unobserved labels by the probabilities of the model: SPLC and LASD."""

import math

import torch
from torch import Tensor

from ..utils.arguments import check_at_least_0
from .pair import pair_loss
from .terms import AnyTerm, AsymmetricNegative, AsymmetricPositive, Scaled, focal_margin_positive, focal_negative

__all__ = ['believed_positives', 'lasd_loss', 'splc_loss']


def believed_positives(logit_probabilities: Tensor, targets: Tensor, threshold: float) -> Tensor:
    """Return the mask of pseudo-positives: unobserved labels whose probability exceeds a threshold.

    Args:
        logit_probabilities: Log-odds of the probabilities; the logits themselves where the link is the sigmoid.
        targets: The same shape; unobserved labels are 0.
        threshold: In (0, 1]; with 1 there is no pseudo-positive.
    """
    check_threshold(threshold)
    log_odds = math.inf if threshold == 1 else math.log(threshold / (1 - threshold))
    return (targets == 0) & (logit_probabilities.detach() > log_odds)


def check_threshold(threshold: float) -> float:
    """Raise a ValueError for a threshold of probabilities that is not in (0, 1], and return it otherwise."""
    if not 0 < threshold <= 1:
        raise ValueError(f'threshold must be in (0, 1], got {threshold}')
    return threshold


def splc_loss(
    logits: Tensor,
    targets: Tensor,
    positive: AnyTerm = focal_margin_positive,
    negative: AnyTerm = focal_negative,
    threshold: float = 0.6,
    spared_margin: float = 0.0,
    logit_probabilities: Tensor | None = None,
) -> Tensor:
    r"""Compute SPLC, self-paced loss correction over any pair of terms (Zhang et al., Eq. 10).

    A pseudo-positive, an unobserved label with :math:`p > \tau`, takes the positive term. The correction is meant for
    trainings that have begun to work: the authors start it after the first epoch, and add over batch and classes.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``; 1, 0 for negative or unobserved, -1 for unknown.
        positive: The positive term; focal margin by default, as in the paper's best row.
        negative: The negative term; focal by default.
        threshold: :math:`\tau`; 1 corrects nothing.
        spared_margin: The part of the margin of the positive term that is not applied to pseudo-positives. With 0,
            observed and pseudo-positives have the same loss, as in Eq. 10. With the margin of the term, only the logits
            of observed positives are shifted, as in the authors' code.
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
    gamma_positive: float = AsymmetricPositive.gamma,
    gamma_negative: float = AsymmetricNegative.gamma,
) -> Tensor:
    r"""Compute LASD, the leveraged asymmetric loss with disambiguation (paper of LASD, Eq. 6).

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
    check_at_least_0(positive_leverage=positive_leverage, gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    pseudo_positives = believed_positives(logits, targets, threshold).to(logits.dtype)
    return pair_loss(
        logits,
        targets + pseudo_positives,
        AsymmetricPositive(gamma_positive),
        Scaled(AsymmetricNegative(gamma_negative, margin=0.0), negative_leverage),
        # 1 for all but the pseudo-positives. Without `where`, of which compiled code would store the mask, and slowly.
        pseudo_positives.mul(positive_leverage - 1).add_(1),
    )

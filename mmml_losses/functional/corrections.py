"""Losses that count an unobserved label as positive where the model gives it a high probability: SPLC and LASD."""

import math

import torch
from torch import Tensor

from ..utils.arguments import check_at_least_0
from .pair import pair_loss
from .terms import AnyTerm, AsymmetricNegative, AsymmetricPositive, Scaled, focal_margin_positive, focal_negative

__all__ = ['believed_positives', 'lasd_loss', 'splc_loss']


def believed_positives(logit_probabilities: Tensor, targets: Tensor, threshold: float) -> Tensor:
    """Return a boolean mask of the pseudo-positives: unobserved labels whose probability exceeds a threshold.

    Args:
        logit_probabilities: Log-odds of the predicted probabilities; with a sigmoid, these are the logits. Any shape.
        targets: Labels in the shape of ``logit_probabilities``; 0 is unobserved. Other labels are not marked.
        threshold: Probability in (0, 1] that a pseudo-positive exceeds; with 1 there is none.
    """
    check_threshold(threshold)
    log_odds = math.inf if threshold == 1 else math.log(threshold / (1 - threshold))
    return (targets == 0) & (logit_probabilities.detach() > log_odds)


def check_threshold(threshold: float) -> float:
    """Return a threshold of probabilities unchanged; raise a ValueError unless it is in (0, 1]."""
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
    r"""Compute SPLC, self-paced loss correction: pseudo-positives cost as much as positives (Zhang et al., Eq. 10).

    A pseudo-positive is an unobserved label with :math:`p > \tau`. It costs the positive term, not the negative one.
    Use SPLC after a warm-up: the authors start it after the first epoch. They sum over batch and classes.

    Args:
        logits: Logits of any shape. The loss has this shape: one value per label, 0 for unknown labels.
        targets: Labels in the shape of ``logits``; 1 positive, 0 negative or unobserved, -1 unknown.
        positive: Cost of a positive label as a function of its logit; focal margin by default, the paper's best.
        negative: Cost of a negative label as a function of its logit; focal by default.
        threshold: Probability :math:`\tau` in (0, 1]; 1 corrects nothing.
        spared_margin: Number added to the logits of pseudo-positives. With 0, they cost as much as observed positives,
            as in Eq. 10. With the margin of ``positive``, this margin is cancelled: only observed positives have it,
            as in the authors' code.
        logit_probabilities: Log-odds of the probabilities :math:`p`; None if they are the logits (sigmoid).
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
    r"""Compute LASD, the leveraged asymmetric loss with disambiguation, for each label (paper of LASD, Eq. 6).

    .. math::
        \mathbf{1}_{y = 1}\,L_{\gamma^+} + \mathbf{1}_{y = 0}\left(
        \lambda^+\,\mathbf{1}_{p > \tau}\,L_{\gamma^+} + \lambda^-\,\mathbf{1}_{p \le \tau}\,L_{\gamma^-}\right)

    Args:
        logits: Logits of any shape, :math:`p` is their sigmoid. The loss has this shape, with 0 for unknown labels.
        targets: Labels :math:`y` in the shape of ``logits``; 1 observed positive, 0 unobserved, -1 unknown.
        positive_leverage: :math:`\lambda^+`, weight of pseudo-positives: unobserved labels with :math:`p > \tau`.
        negative_leverage: :math:`\lambda^-`, weight of the other unobserved labels, a scalar or (C,).
        threshold: Probability :math:`\tau` in (0, 1]; 1 means no pseudo-positives.
        gamma_positive: Power :math:`\gamma^+`, at least 0, in :math:`L_{\gamma^+} = -(1 - p)^{\gamma^+}\log p`.
        gamma_negative: Power :math:`\gamma^-`, at least 0, in :math:`L_{\gamma^-} = -p^{\gamma^-}\log(1 - p)`.

    With both leverages 1, LASD is SPLC with focal terms; with :math:`\tau = 1` as well, ASL without probability shift.
    The paper sums over the classes. :func:`balanced_leverage` derives :math:`\lambda^-` from :math:`\lambda^+`.
    """
    check_at_least_0(positive_leverage=positive_leverage, gamma_positive=gamma_positive, gamma_negative=gamma_negative)
    pseudo_positives = believed_positives(logits, targets, threshold).to(logits.dtype)
    return pair_loss(
        logits,
        targets + pseudo_positives,
        AsymmetricPositive(gamma_positive),
        Scaled(AsymmetricNegative(gamma_negative, margin=0.0), negative_leverage),
        # Weight 1 except for pseudo-positives. Compiled code would store the mask of a `where`, which is slow.
        pseudo_positives.mul(positive_leverage - 1).add_(1),
    )

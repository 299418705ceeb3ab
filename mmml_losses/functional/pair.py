"""Compute a loss from a positive and a negative term, in one pass over the logits, with 0 for unknown labels (-1).

Every pointwise loss calls :func:`pair_loss`, except ROLE and the pseudo-negatives of APL, which use PyTorch's BCE. If
both terms provide their derivatives, these are computed together with the values, and stored for the backward pass.
"""

import numpy as np
import torch
from torch import Tensor

from .terms import AnyTerm, Term, as_term, bce_negative, bce_positive

__all__ = ['pair_loss']

# Elements per block on a CPU: the temporaries of a block stay in the second-level cache, and the fixed cost of an
# operation does not show yet.
BLOCK = 1 << 16
# Below, picking the positives out costs more than computing both terms everywhere.
SMALL = 1 << 14
# Up to this share of labels that are not 0, picking them out is cheaper than computing both terms everywhere.
SPARSE_SHARE = 1 / 8


def pair_loss(
    logits: Tensor,
    targets: Tensor,
    positive: AnyTerm = bce_positive,
    negative: AnyTerm = bce_negative,
    weight: Tensor | None = None,
) -> Tensor:
    r"""Compute the loss of each label from two terms, :math:`w\,(y\,\ell_+(v) + (1 - y)\,\ell_-(v))`.

    Args:
        logits: Logits :math:`v` of any shape.
        targets: Labels :math:`y` in the shape of ``logits``; 1, 0, a soft label between them, or -1 for unknown.
        positive: Cost :math:`\ell_+` of a positive label: a :class:`Term`, or any function from logits to costs.
        negative: Cost :math:`\ell_-` of a negative label: a :class:`Term`, or any function from logits to costs.
        weight: Factors :math:`w`, broadcast to the shape of ``logits``; None for 1.

    Returns:
        One value per label in the shape of ``logits``, not reduced; 0 for unknown labels.
    """
    if targets.shape != logits.shape:
        raise ValueError(f'targets must be of the shape of logits, {tuple(logits.shape)}, got {tuple(targets.shape)}')
    targets = targets.to(logits.dtype)
    terms = as_term(positive), as_term(negative)
    constant = not targets.requires_grad and (weight is None or not weight.requires_grad)
    if have_slopes(*terms) and constant:
        return _PairLoss.apply(logits, targets, weight, *terms)
    return compose_pair(logits, targets, *terms, weight)


def have_slopes(positive: Term, negative: Term) -> bool:
    return positive.has_slope and negative.has_slope


def compose_pair(
    logits: Tensor, targets: Tensor, positive: Term, negative: Term, weight: Tensor | None = None
) -> Tensor:
    """Compute :func:`pair_loss` by operations that autograd differentiates; ``targets`` have the logits' dtype."""
    share = targets.clamp(min=0)
    values = (share * positive.value(logits) + (1 - share) * negative.value(logits)).masked_fill(targets < 0, 0)
    return values if weight is None else values * weight


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, targets: Tensor, weight: Tensor | None, positive: Term, negative: Term) -> Tensor:
        compute = _at_once
        if logits.numel() > SMALL and visits_values(targets):
            compute = _in_row_blocks if positive.per_class or negative.per_class else _in_blocks
        values, slopes = compute(logits, targets, positive, negative)
        if weight is not None:
            values, slopes = values.mul_(weight), slopes.mul_(weight)
        ctx.save_for_backward(slopes, logits, targets, weight)
        ctx.terms = positive, negative
        return values

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        slopes, logits, targets, weight = ctx.saved_tensors
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return gradient * slopes, None, None, None, None
        # The gradient itself is to be differentiated: the stored slopes are constants, so go through the terms.
        values = compose_pair(logits, targets, ctx.terms[0], ctx.terms[1], weight)
        return torch.autograd.grad(values, logits, gradient, create_graph=True)[0], None, None, None, None


def _at_once(logits: Tensor, targets: Tensor, positive: Term, negative: Term) -> tuple[Tensor, Tensor]:
    """Compute both terms at every label, in shapes fixed for compiled code. Return (losses, derivatives by logits)."""
    all_known = visits_values(targets) and targets.numel() and targets.amin().item() >= 0
    negative_value, negative_slope = _own(negative, logits)
    positive_value, positive_slope = _own(positive, logits)
    if all_known:
        return negative_value.lerp_(positive_value, targets), negative_slope.lerp_(positive_slope, targets)
    # A product instead of a mask, which compiled code would store, and slowly.
    known = (targets >= 0).to(logits.dtype)
    share = targets.clamp(min=0)
    values = negative_value.lerp_(positive_value, share).mul_(known)
    return values, negative_slope.lerp_(positive_slope, share).mul_(known)


def _own(term: Term, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return (costs, derivatives) of a term as two new tensors, which may be overwritten without harm to the logits."""
    value, slope = term.value_and_slope(logits)
    if value is logits or slope is logits or value is slope:
        return value.clone(), slope.clone()
    return value, slope


def visits_values(tensor: Tensor) -> bool:
    """Return whether code may branch on the values of a tensor: True on a CPU outside of compiled code."""
    return tensor.device.type == 'cpu' and not torch.compiler.is_compiling()


def _in_blocks(logits: Tensor, targets: Tensor, positive: Term, negative: Term) -> tuple[Tensor, Tensor]:
    flat_logits, flat_targets = logits.reshape(-1), targets.reshape(-1)
    values, slopes = torch.empty_like(flat_logits), torch.empty_like(flat_logits)
    for start in range(0, flat_logits.numel(), BLOCK):
        part = slice(start, start + BLOCK)
        values[part], slopes[part] = _block(flat_logits[part], flat_targets[part], positive, negative)
    return values.view(logits.shape), slopes.view(logits.shape)


def _in_row_blocks(logits: Tensor, targets: Tensor, positive: Term, negative: Term) -> tuple[Tensor, Tensor]:
    values, slopes = torch.empty_like(logits), torch.empty_like(logits)
    step = max(1, BLOCK // logits.size(-1))
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        values[rows], slopes[rows] = _at_once(logits[rows], targets[rows], positive, negative)
    return values, slopes


def _block(logits: Tensor, targets: Tensor, positive: Term, negative: Term) -> tuple[Tensor, Tensor]:
    """Return :func:`_at_once` of flat logits; if at least 7/8 of the targets are 0, skip the positive term of these."""
    # numpy finds the labels that are not 0 in half the time.
    marked = torch.from_numpy(np.flatnonzero((targets != 0).numpy()))
    if len(marked) > SPARSE_SHARE * len(targets):
        return _at_once(logits, targets, positive, negative)
    outputs = _own(negative, logits)
    if len(marked):
        labels, at_marked = targets[marked], logits[marked]
        all_positive = labels.amin().item() == 1
        corrected = (
            positive.value_and_slope(at_marked) if all_positive else _at_once(at_marked, labels, positive, negative)
        )
        for output, replacement in zip(outputs, corrected, strict=True):
            output[marked] = replacement
    return outputs

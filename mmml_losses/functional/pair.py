r"""Joining a positive and a negative partial loss, in one pass over the logits.

A term maps logits to costs. Where its derivative is known (:func:`value_and_slope_of`), value and derivative are
computed together and only the derivative is kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

Term = Callable[[Tensor], Tensor]
ValueAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]

# Elements per block on a CPU: the temporaries of a block stay in the second-level cache, and the fixed cost of an
# operation does not show yet.
BLOCK = 1 << 16
# Below, picking the positives out costs more than computing both terms everywhere.
SMALL = 1 << 14
# Up to this share of labels that are not 0, picking them out is cheaper than computing both terms everywhere.
SPARSE_SHARE = 1 / 8

_value_and_slope: dict[Callable, Callable] = {}


def value_and_slope_of(term: Callable) -> Callable[[Callable], Callable]:
    """Declare a function that returns the value of a term and its derivative; it takes the arguments of the term.

    Both must be new tensors, with memory of their own: what follows changes them in place.
    """

    def declare(function: Callable) -> Callable:
        _value_and_slope[term] = function
        return function

    return declare


def find_value_and_slope(term: Term) -> ValueAndSlope | None:
    """What :func:`value_and_slope_of` declared for a term, also through ``functools.partial``; None for others."""
    if not isinstance(term, partial):
        return _value_and_slope.get(term)
    function = find_value_and_slope(term.func)
    inner = term.keywords.get('term')  # a term of a term is as good as the inner one
    if function is None or (inner is not None and find_value_and_slope(inner) is None):
        return None
    return partial(function, *term.args, **term.keywords)


def pair_loss(logits: Tensor, targets: Tensor, positive: Term, negative: Term, weight: Tensor | None = None) -> Tensor:
    r"""Join two partial losses, :math:`w\,(y\,\ell_+(v) + (1 - y)\,\ell_-(v))`.

    Args:
        logits: Any shape.
        targets: The shape of ``logits``; 1, 0, a soft value between them, or -1 for unknown.
        positive: The term of positive labels.
        negative: The term of negative labels.
        weight: Factors :math:`w` that broadcast against the logits; 1 without.

    Returns:
        One value per entry, not reduced; 0 at unknown labels.
    """
    if targets.shape != logits.shape:
        raise ValueError(f'targets must be of the shape of logits, {tuple(logits.shape)}, got {tuple(targets.shape)}')
    targets = targets.to(logits.dtype)
    with_slopes = find_value_and_slope(positive), find_value_and_slope(negative)
    constant = not targets.requires_grad and (weight is None or not weight.requires_grad)
    if None in with_slopes or not constant:
        return compose_pair(logits, targets, positive, negative, weight)
    return _PairLoss.apply(logits, targets, weight, (positive, negative), with_slopes)


def compose_pair(
    logits: Tensor, targets: Tensor, positive: Term, negative: Term, weight: Tensor | None = None
) -> Tensor:
    """:func:`pair_loss` for any terms, as plain differentiable operations."""
    share = targets.clamp(min=0)
    values = (share * positive(logits) + (1 - share) * negative(logits)).masked_fill(targets < 0, 0)
    return values if weight is None else values * weight


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        logits: Tensor,
        targets: Tensor,
        weight: Tensor | None,
        terms: tuple[Term, Term],
        with_slopes: tuple[ValueAndSlope, ValueAndSlope],
    ) -> Tensor:
        way = _at_once
        if logits.numel() > SMALL and visits_values(targets):
            way = _in_row_blocks if any(map(_differs_by_class, terms)) else _in_blocks
        values, slopes = way(logits, targets, *with_slopes)
        if weight is not None:
            values, slopes = values.mul_(weight), slopes.mul_(weight)
        ctx.save_for_backward(slopes, logits, targets, weight)
        ctx.terms = terms
        return values

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        slopes, logits, targets, weight = ctx.saved_tensors
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return gradient * slopes, None, None, None, None
        # The gradient itself is to be differentiated: the stored slopes are constants, so go through the terms.
        values = compose_pair(logits, targets, *ctx.terms, weight)
        return torch.autograd.grad(values, logits, gradient, create_graph=True)[0], None, None, None, None


def _at_once(
    logits: Tensor, targets: Tensor, positive: ValueAndSlope, negative: ValueAndSlope
) -> tuple[Tensor, Tensor]:
    """Both terms everywhere. No data-dependent shapes: this is what is compiled, and what a GPU runs."""
    all_known = visits_values(targets) and targets.numel() and targets.amin().item() >= 0
    outputs = zip(_own(negative(logits), logits), _own(positive(logits), logits), strict=True)
    if all_known:
        return tuple(of_negative.lerp_(of_positive, targets) for of_negative, of_positive in outputs)
    # A product instead of a mask, which compiled code would store, and slowly.
    known = (targets >= 0).to(logits.dtype)
    share = targets.clamp(min=0)
    return tuple(of_negative.lerp_(of_positive, share).mul_(known) for of_negative, of_positive in outputs)


def _own(outputs: tuple[Tensor, Tensor], logits: Tensor) -> tuple[Tensor, Tensor]:
    """Keep a careless term, whose value is its slope or the logits themselves, from having those changed in place."""
    value, slope = outputs
    if value is logits or slope is logits or value is slope:
        return value.clone(), slope.clone()
    return outputs


def visits_values(tensor: Tensor) -> bool:
    """Whether code may depend on values: not while it is compiled, and not where it would have to wait for a GPU."""
    return tensor.device.type == 'cpu' and not torch.compiler.is_compiling()


def _in_blocks(
    logits: Tensor, targets: Tensor, positive: ValueAndSlope, negative: ValueAndSlope
) -> tuple[Tensor, Tensor]:
    flat_logits, flat_targets = logits.reshape(-1), targets.reshape(-1)
    values, slopes = torch.empty_like(flat_logits), torch.empty_like(flat_logits)
    for start in range(0, flat_logits.numel(), BLOCK):
        part = slice(start, start + BLOCK)
        values[part], slopes[part] = _block(flat_logits[part], flat_targets[part], positive, negative)
    return values.view(logits.shape), slopes.view(logits.shape)


def _differs_by_class(term: Term) -> bool:
    """Whether a term has an argument for each class, so that it takes whole rows."""
    arguments = term.keywords.values() if isinstance(term, partial) else ()
    return any(each.dim() > 0 if isinstance(each, Tensor) else _differs_by_class(each) for each in arguments)


def _in_row_blocks(
    logits: Tensor, targets: Tensor, positive: ValueAndSlope, negative: ValueAndSlope
) -> tuple[Tensor, Tensor]:
    values, slopes = torch.empty_like(logits), torch.empty_like(logits)
    step = max(1, BLOCK // logits.size(-1))
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        values[rows], slopes[rows] = _at_once(logits[rows], targets[rows], positive, negative)
    return values, slopes


def _block(logits: Tensor, targets: Tensor, positive: ValueAndSlope, negative: ValueAndSlope) -> tuple[Tensor, Tensor]:
    """The negative term everywhere, then the labels that are not 0: positive, soft or unknown."""
    # numpy finds them in half the time.
    marked = torch.from_numpy(np.flatnonzero((targets != 0).numpy()))
    if len(marked) > SPARSE_SHARE * len(targets):
        return _at_once(logits, targets, positive, negative)
    outputs = _own(negative(logits), logits)
    if len(marked):
        labels, at_marked = targets[marked], logits[marked]
        all_positive = labels.amin().item() == 1
        corrected = positive(at_marked) if all_positive else _at_once(at_marked, labels, positive, negative)
        for output, replacement in zip(outputs, corrected, strict=True):
            output[marked] = replacement
    return outputs

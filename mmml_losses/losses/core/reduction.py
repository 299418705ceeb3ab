"""Weigh and reduce the values of a loss. The values of unknown labels are 0 already."""

import operator
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from .inputs import count_known

REDUCTIONS = ('none', 'mean', 'sum', 'batchmean', 'labelmean')


class Values(NamedTuple):
    """Unreduced values of a loss, and the divisor of their mean.

    Args:
        values: One value per label (N, C), or per set of compared labels, such as (N,) or (C,).
        count: The number that ``'mean'`` divides the sum by: known labels, or sets with a known (or positive) one.
    """

    values: Tensor
    count: Tensor | int  # type: ignore[assignment]  # tuple has a method of this name


def weight_matrix(weight: Tensor, target: Tensor) -> Tensor:
    """Return the weight as (N, 1) if it is (N,), or as (N, C) if it is (N, C) or flat (N * C,).

    ``target`` (N, C) gives N and C. Any other shape raises a ValueError.
    """
    samples, classes = target.shape
    if weight.shape == (samples,):
        return weight.unsqueeze(1)
    if weight.shape not in ((samples, classes), (samples * classes,)):
        raise ValueError(
            f'weight must be of shape ({samples},), ({samples}, {classes}) or ({samples * classes},), '
            f'got {tuple(weight.shape)}'
        )
    return weight.reshape(samples, classes)


def weigh_samples(weight: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Convert weights of labels to weights of samples, for a loss that compares the labels of a sample.

    Such a loss cannot weigh single labels. A label of weight 0 in (N, C) becomes unknown, so that no comparison
    includes it. The other weights of a sample must be equal; otherwise a ValueError is raised.

    Args:
        weight: Weights of samples, (N, 1), or of labels, (N, C).
        target: Labels, (N, C).

    Returns:
        (weight, target): weights of samples, (N,), and labels (N, C), with -1 where a weight of shape (N, C) was 0.
    """
    if weight.size(1) == 1 and target.size(1) != 1:
        return weight.squeeze(1), target
    if weight.numel() == 0:
        return weight.new_ones(len(weight)), target
    row_weight = weight.amax(dim=1)
    agree = ((weight == row_weight.unsqueeze(1)) | (weight == 0)).all()
    if not torch.compiler.is_compiling() and not agree:
        raise ValueError('weight must be the same for all labels of a sample, or 0, in a loss that compares labels')
    return row_weight, target.masked_fill(weight == 0, -1)


def reduce_values(parts: list[Values], reduction: str, avg_factor: float | Tensor | None) -> Tensor:
    """Reduce each part of a loss and return the sum of the results, a scalar.

    Args:
        parts: The weighted values. There must be one part for ``'none'``, which returns its values unreduced.
        reduction: ``'none'``, ``'sum'`` or a mean. Every mean is ``'mean'`` here; :func:`rescaling` has the factor.
        avg_factor: Divisor of the sum of all values under a mean; None: their counts. An error for ``'sum'``.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f'reduction_override must be one of {REDUCTIONS}, got {reduction!r}')
    if reduction == 'none':
        if len(parts) != 1:
            raise ValueError(f"reduction 'none' is not defined for a sum of {len(parts)} parts, whose shapes differ")
        return parts[0].values
    if reduction == 'sum':
        reject_divisor(avg_factor)
        return _add(part.values.sum() for part in parts)
    if avg_factor is None:
        return _add(part.values.sum() / _at_least_one(part.count) for part in parts)
    return _add(part.values.sum() for part in parts) / _divisor(avg_factor)


def reject_divisor(avg_factor: float | Tensor | None) -> None:
    """Raise a ValueError if ``reduction='sum'`` gets a divisor."""
    if avg_factor is not None:
        raise ValueError(
            "avg_factor cannot be used with reduction='sum'. Heads of MMPretrain and MMDetection pass one: use "
            "reduction='mean', which is the sum divided by it, with loss_weight, or, to classify, "
            'mmml_losses.MultiLabelHead'
        )


def rescaling(before: str, after: str, pointwise: bool, target: Tensor) -> float | Tensor:
    """Return the factor that turns a loss reduced by ``before`` into one of the scale of ``after``.

    ``'batchmean'`` divides a sum by the samples, ``'labelmean'`` by the labels; ``'mean'`` divides by the labels if the
    loss has one value per label (``pointwise``), else by the samples. Labels and samples without one that is known in
    ``target`` (N, C) do not count.
    """
    labels = count_known(target)
    samples = len(target) if isinstance(labels, int) else (target >= 0).any(dim=1).sum()
    divisors = dict(sum=1, batchmean=samples, labelmean=labels, mean=labels if pointwise else samples)
    return divisors[before] / _at_least_one(divisors[after])


def _add(values: Iterable[Tensor]) -> Tensor:
    return reduce(operator.add, values)  # the builtin would start with 0, one more step of the graph


def _at_least_one(count: Tensor | int) -> Tensor | int:
    return count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1)


def _divisor(avg_factor: float | Tensor) -> float | Tensor:
    # Detectors send avg_factor=0 for a batch without positives: 0 / 0 must stay 0. The bound is MMDetection's.
    smallest = torch.finfo(torch.float32).eps
    if isinstance(avg_factor, Tensor):
        return avg_factor.reshape(()).clamp(min=smallest)
    if avg_factor < 0:
        raise ValueError(f'avg_factor must be at least 0, got {avg_factor}')
    return max(avg_factor, smallest)

"""From unreduced values to one number, with the caller's weights and divisor."""

from __future__ import annotations

import torch
from torch import Tensor

REDUCTIONS = ('none', 'mean', 'sum')


def align_weight(weight: Tensor, target: Tensor, pointwise: bool) -> tuple[Tensor, Tensor]:
    """Bring the weight to the shape of the values: (N, C) or (N, 1) for a pointwise loss, (N,) for the others.

    A loss with one value a sample cannot weigh single labels. There a label of weight 0 becomes unknown, which takes
    it out of every sum over labels, and the other weights of a row must agree.

    Returns:
        The weight, and the target to compute on.
    """
    samples, classes = target.shape
    if weight.shape == (samples,):
        return (weight.unsqueeze(1) if pointwise else weight), target
    if weight.shape not in ((samples, classes), (samples * classes,)):
        raise ValueError(
            f'weight must be of shape ({samples},), ({samples}, {classes}) or ({samples * classes},), '
            f'got {tuple(weight.shape)}'
        )
    weight = weight.reshape(samples, classes)
    if pointwise:
        return weight, target
    if weight.numel() == 0:
        return weight.new_ones(samples), target
    row_weight = weight.amax(dim=1)
    if not ((weight == row_weight.unsqueeze(1)) | (weight == 0)).all():
        raise ValueError('weight must be the same for all labels of a sample, or 0, in a loss that compares labels')
    return row_weight, target.masked_fill(weight == 0, -1)


def reduce_values(
    values: Tensor, counted: Tensor, weight: Tensor | None, reduction: str, avg_factor: float | Tensor | None
) -> Tensor:
    """Weigh and reduce.

    Args:
        values: The unreduced loss.
        counted: Which values count for the mean, a mask of their shape.
        weight: Factors that broadcast against the values.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        avg_factor: Divisor that replaces the count of the mean.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f'reduction_override must be one of {REDUCTIONS}, got {reduction!r}')
    if weight is not None:
        values = values * weight
    if reduction == 'none':
        return values
    if reduction == 'sum':
        if avg_factor is not None:
            raise ValueError(
                "avg_factor cannot be used with reduction='sum'. MMPretrain's heads always pass one: use "
                "mmml_losses.MultiLabelHead, or reduction='mean' with loss_weight, where the mean is the sum divided "
                'by the batch size'
            )
        return values.sum()
    if avg_factor is None:
        return values.sum() / counted.sum().clamp(min=1)
    # Detectors send avg_factor=0 for a batch without positives: 0 / 0 must stay 0. The bound is MMDetection's.
    smallest = torch.finfo(torch.float32).eps
    if isinstance(avg_factor, Tensor):
        return values.sum() / avg_factor.reshape(()).clamp(min=smallest)
    if avg_factor < 0:
        raise ValueError(f'avg_factor must be at least 0, got {avg_factor}')
    return values.sum() / max(avg_factor, smallest)

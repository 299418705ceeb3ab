"""Convert and check logits and targets. Unknown labels (-1) are valid here; the losses leave them out."""

import math

import torch
from torch import Tensor

from ...functional.sets import promote_half


def promote(logits: Tensor) -> Tensor:
    """Convert half precision to float32; return float32 and float64 unchanged. Raise a TypeError for integers."""
    if not logits.is_floating_point():
        raise TypeError(f'cls_score must be a floating-point tensor, got {logits.dtype}')
    return promote_half(logits)


def one_hot_targets(target: Tensor, logits: Tensor) -> Tensor:
    """Return targets (N, C) in the dtype of ``logits``, (N, C). ``target`` has this shape, or is class indices (N,).

    Index C (background) becomes a row of zeros, -1 (unknown) a row of -1. Other indices or shapes raise a ValueError.
    """
    if not isinstance(target, Tensor):
        raise TypeError(f'target must be a tensor, got {type(target).__name__}')
    if logits.dim() != 2:
        raise ValueError(f'cls_score must be of shape (N, C), got {tuple(logits.shape)}')
    if target.shape == logits.shape:
        return target.to(logits.dtype)
    may_be_indices = target.dim() == 1 and not target.is_floating_point() and target.dtype != torch.bool
    if not may_be_indices or len(target) != len(logits):
        raise ValueError(
            f'target must be of the shape of cls_score, {tuple(logits.shape)}, or {len(logits)} integer class '
            f'indices, got {target.dtype} of shape {tuple(target.shape)}'
        )
    classes = logits.size(1)
    checked = target.numel() and not torch.compiler.is_compiling()
    if checked and not (target.min() >= -1 and target.max() <= classes):
        raise ValueError(
            f'target indices must be in [0, {classes}], where {classes} is background, or -1 for unknown, '
            f'got {target.min().item()} to {target.max().item()}'
        )
    indices = target.long().unsqueeze(1)
    one_hot = logits.new_zeros(len(target), classes + 1).scatter_(1, indices.clamp(min=0), 1)[:, :classes]
    return one_hot.masked_fill(indices < 0, -1)


def count_known(target: Tensor) -> Tensor | int:
    """Return the number of known labels (not -1): an int if all labels of a CPU tensor are known, else a tensor."""
    # On a CPU the minimum takes an eighth of the time of the count; on a GPU it would have to be waited for.
    cheap = target.device.type == 'cpu' and not torch.compiler.is_compiling() and target.numel()
    if cheap and target.amin().item() >= 0:
        return target.numel()
    return (target >= 0).sum()


def check_logits(logits: Tensor) -> None:
    """Raise a ValueError for logits (N, C) with NaN or infinity. The error names the first sample and class."""
    # One pass without a temporary: where an entry is not finite, the sum is not.
    if math.isfinite(logits.detach().sum().item()):
        return
    positions = (~logits.isfinite()).nonzero()
    if len(positions):  # otherwise it was the sum that overflowed
        row, column = positions[0].tolist()
        raise ValueError(
            f'cls_score must be finite, got {logits[row, column].item()} at sample {row}, class {column}, the first of '
            f'{len(positions)} such entries of {logits.numel()}'
        )


def check_targets(target: Tensor, soft: bool, loss_name: str) -> None:
    """Raise a ValueError for labels other than 1, 0, -1 or, only if ``soft``, values between 0 and 1."""
    if not target.numel():
        return
    low, high = (bound.item() for bound in target.aminmax())
    valid = low >= -1 and high <= 1
    if valid and low < 0:
        valid = bool(((target >= 0) | (target == -1)).all())
    if not valid:
        meaningful = ((target >= 0) & (target <= 1)) | (target == -1)
        row, column = (~meaningful).nonzero()[0].tolist()
        raise ValueError(
            f'target must be 1, 0, -1 for unknown, or between 0 and 1, got {target[row, column].item()} at sample '
            f'{row}, class {column}'
        )
    if not soft and not bool((target == target.round()).all()):
        raise ValueError(f'target of {loss_name} must be 1, 0 or -1: it is not defined for values between 0 and 1')

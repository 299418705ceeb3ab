"""Training epoch and sample indices, which some losses need besides logits and targets."""

from collections.abc import Sequence

import torch
from mmengine.logging import MessageHub
from torch import Tensor

REMEDIES = {
    'epoch': "call the loss with epoch=..., counted from 0, or train with MMEngine's Runner",
    'max_epochs': "set it in the config of the loss, or train with MMEngine's Runner by epochs",
}


def resolve(name: str, value: int | None, loss_name: str) -> int:
    """Return ``value`` or, if it is None, the Runner's ``name``, which is ``'epoch'`` (from 0) or ``'max_epochs'``.

    If the Runner has none either, raise a ValueError that names the loss by ``loss_name``.
    """
    value = runner_info(name) if value is None else value
    if value is None:
        raise ValueError(f'{name} must be known to {loss_name}, got None: {REMEDIES[name]}, which provides it')
    return value


def require_sample_idx(
    sample_idx: Tensor | Sequence[int] | None, loss_name: str, batch_size: int | None = None
) -> Tensor:
    """Return the indices of a batch's samples in the training set as an int64 tensor, (N,).

    Args:
        sample_idx: Indices that the loss was called with. None, or other than N integers, raises a ValueError.
        loss_name: Name of the loss, for the error.
        batch_size: The required N, or a ValueError is raised; None to accept any.
    """
    if sample_idx is None:
        raise ValueError(
            f"sample_idx must be given to {loss_name}, which remembers samples by it, got None: add 'sample_idx' to "
            'meta_keys of PackInputs in the training pipeline and use mmml_losses.MultiLabelHead, or call the loss '
            'with sample_idx=...'
        )
    sample_idx = torch.as_tensor(sample_idx)
    if sample_idx.dim() != 1 or (sample_idx.is_floating_point() and sample_idx.numel()):
        raise ValueError(
            f'sample_idx must be integers of shape (N,), got {sample_idx.dtype} of shape {tuple(sample_idx.shape)}'
        )
    if batch_size is not None and len(sample_idx) != batch_size:
        raise ValueError(f'sample_idx must name the {batch_size} samples of the batch, got {len(sample_idx)} indices')
    return sample_idx.long()


def runner_info(key: str) -> int | None:
    """Return ``'epoch'`` (counted from 0) or ``'max_epochs'`` of MMEngine's running Runner; None if it is not known."""
    return MessageHub.get_current_instance().get_info(key, None)

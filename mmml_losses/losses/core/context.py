"""What a loss needs besides logits and targets: the epoch and the indices of the samples."""

from collections.abc import Sequence

import torch
from mmengine.logging import MessageHub
from torch import Tensor


def resolve_epoch(epoch: int | None, loss_name: str) -> int:
    """Return the epoch, counted from 0: the one that was passed, or that of the running Runner.

    Args:
        epoch: The argument of the call.
        loss_name: Name of the loss, for the error.
    """
    if epoch is None:
        epoch = runner_info('epoch')
    if epoch is None:
        raise ValueError(
            f'epoch must be known to {loss_name}, got None: call the loss with epoch=..., counted from 0, or train '
            "with MMEngine's Runner, which provides it"
        )
    return epoch


def resolve_max_epochs(max_epochs: int | None, loss_name: str) -> int:
    """Return the length of the training in epochs: that of the config, or that of the running Runner."""
    if max_epochs is None:
        max_epochs = runner_info('max_epochs')
    if max_epochs is None:
        raise ValueError(
            f'max_epochs must be known to {loss_name}, got None: set it in the config of the loss, or train with '
            "MMEngine's Runner by epochs, which provides it"
        )
    return max_epochs


def require_sample_idx(
    sample_idx: Tensor | Sequence[int] | None, loss_name: str, batch_size: int | None = None
) -> Tensor:
    """Return the indices of the samples as an int64 tensor, (N,).

    Args:
        sample_idx: The argument of the call.
        loss_name: Name of the loss, for the error.
        batch_size: The number of indices that there must be, if it is known.
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
    """Return a fact of the running Runner: ``epoch`` (counted from 0) or ``max_epochs``; None without a Runner."""
    return MessageHub.get_current_instance().get_info(key, None)

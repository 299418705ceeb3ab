"""Join the batches of all processes of a distributed training into one."""

import torch
from mmengine.dist import all_gather, all_reduce, get_rank, get_world_size
from torch import Tensor


@torch.compiler.disable  # compiled code continues after the exchange
def join_batches(*batches: Tensor | None) -> list[Tensor | None]:
    """Join the samples of all processes, in the order of their ranks. Every process must call this.

    A loss of the joined batch is the same on all processes, and trains as in one process with all samples. DDP averages
    the gradients; each process therefore returns the gradient of its own samples times the number of processes.

    Args:
        *batches: Tensors of this process; None on one process must be None on all. Processes may have different
            numbers of rows.
    """
    lengths = torch.tensor([0 if batch is None else len(batch) for batch in batches])
    sizes = torch.stack(all_gather(lengths), dim=1).tolist()
    return [None if batch is None else _Join.apply(batch, size) for batch, size in zip(batches, sizes, strict=True)]


def sum_over_ranks(number: float | Tensor) -> Tensor:
    """Add the numbers of all processes."""
    total = torch.as_tensor(number, dtype=torch.float32).detach().clone()
    all_reduce(total)
    return total


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx, batch: Tensor, sizes: list[int]) -> Tensor:
        # An exchange is of tensors of one shape.
        padded = batch.new_zeros(max(sizes), *batch.shape[1:])
        padded[: len(batch)] = batch
        first = sum(sizes[: get_rank()])
        ctx.own = slice(first, first + len(batch))
        return torch.cat([rows[:size] for rows, size in zip(all_gather(padded), sizes, strict=True)])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[ctx.own] * get_world_size(), None

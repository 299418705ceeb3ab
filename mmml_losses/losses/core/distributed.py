"""Join the batches of all processes of a distributed training into one."""

import torch
from mmengine.dist import all_gather, all_reduce, get_rank, get_world_size
from torch import Tensor


@torch.compiler.disable  # compiled code continues after the exchange
def join_batches(*batches: Tensor | None) -> list[Tensor | None]:
    """Concatenate each tensor over all processes in rank order; return the list. All processes must call this.

    The loss of the joined batch is equal on all processes. Its gradient is passed back to the process's own samples,
    times the number of processes: DDP averages gradients, so training is as in one process with all samples.

    Args:
        *batches: Tensors of this process. Their numbers of rows may differ between processes. A tensor that is None, on
            all processes, stays None.
    """
    lengths = torch.tensor([0 if batch is None else len(batch) for batch in batches])
    sizes = torch.stack(all_gather(lengths), dim=1).tolist()
    return [None if batch is None else _Join.apply(batch, size) for batch, size in zip(batches, sizes, strict=True)]


def sum_over_ranks(number: float | Tensor) -> Tensor:
    """Return the sum of ``number`` over all processes, a float32 tensor. All processes must call this."""
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

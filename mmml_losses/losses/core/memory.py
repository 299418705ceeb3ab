"""Store values for each sample of the training set, which a loss remembers from epoch to epoch."""

from collections.abc import Callable

import torch
from mmengine.dist import all_reduce, get_world_size
from torch import Tensor, nn

# Odd and of a long period under multiplication; any other such number would do.
_MULTIPLIER = 6364136223846793005
_SOFT_LABEL_STEPS = 1 << 20


def fingerprint_rows(target: Tensor) -> Tensor:
    """Return a hash of each row of labels (N, C), (N,) int64. All hashes are above 0."""
    digits = (target.float() * _SOFT_LABEL_STEPS).round().long()
    powers = torch.full((target.size(1),), _MULTIPLIER, device=target.device).cumprod(0)
    return ((digits * powers).sum(dim=1) & torch.iinfo(torch.int64).max) | 1


class SampleMemory(nn.Module):
    """Table with one row of C values per sample of the training set; the row number is the sample's index.

    The table grows to the largest index so far, is saved in the state dict and moves with the module. It is not a
    buffer: EMA copies and DDP's broadcast expect buffers of one size and content on all processes. If several values
    are written for the same sample and class, by any process in any order, the largest is kept.

    A hash of the labels of every sample is stored, too. A sample whose labels change raises an error: either two
    samples share the index, or the sample was mixed with another (mixup).

    Args:
        owner: Name of the loss, for errors.
        dtype: Dtype of the values.
        fill: The value before anything is written. No value that is written may be smaller.
    """

    def __init__(self, owner: str, dtype: torch.dtype = torch.uint8, fill: float = 0):
        super().__init__()
        self.owner = owner
        self.fill = fill
        self.size = 0  # one more than the largest index so far; the table may have spare rows
        self.table = torch.empty(0, 0, dtype=dtype)
        self.fingerprints = torch.empty(0, dtype=torch.int64)  # 0 for a sample that has not come yet
        self.epoch: int | None = None
        self.unshared = False  # whether anything was noted that other processes do not know

    def visit(self, sample_idx: Tensor, target: Tensor, epoch: int | None = None, remember: bool = True) -> bool:
        """Raise a ValueError if a sample had other labels before; store the hashes of new samples, and the epoch.

        Args:
            sample_idx: Indices of the samples from 0, (N,).
            target: Labels of the samples, (N, C).
            epoch: The epoch, or None. A new one is a RuntimeError if the processes did not :meth:`synchronize` before.
            remember: Whether to store hashes and epoch; False outside training.

        Returns:
            Whether this batch is the first of a new epoch; False without ``epoch`` or ``remember``.
        """
        if remember:
            self._reserve(sample_idx, target.size(1))
        indices = sample_idx.to(self.table.device)
        fingerprints = fingerprint_rows(target).to(indices.device)
        known = self._known_fingerprints(indices)
        if remember:
            self.fingerprints[indices] = torch.where(known == 0, fingerprints, known)
            known = self.fingerprints[indices]  # read again: two samples of this batch may claim one index
        differs = (known != fingerprints) & (known != 0)
        if differs.any():
            raise ValueError(
                f'sample_idx must name one sample for good, got other labels for {indices[differs][0].item()} than '
                f'before: {self.owner} remembers samples by their index. Indices repeat in a ConcatDataset and between '
                'training and validation sets, and augmentations that change labels (mixup, CutMix) cannot be used'
            )
        return self._note_epoch(epoch) if remember else False

    def read(self, sample_idx: Tensor, classes: int) -> Tensor:
        """Return a copy of the rows of samples, (N, ``classes``). Rows of new samples have the fill value."""
        indices = sample_idx.to(self.table.device)
        rows = self.table.new_full((len(indices), classes), self.fill)
        here = indices < self.size
        if here.any():
            rows[here] = self.table[indices[here]]
        return rows

    def write(self, sample_idx: Tensor, rows: Tensor) -> None:
        """Replace the values of samples by ``rows`` (N, C) where ``rows`` is larger.

        ``sample_idx`` (N,) are the indices of the samples, and may repeat an index.
        """
        self._reserve(sample_idx, rows.size(1))
        indices = sample_idx.to(self.table.device)
        rows = rows.detach().to(self.table)
        self.table.scatter_reduce_(0, indices.unsqueeze(1).expand_as(rows), rows, 'amax')
        self.unshared = True

    def rows(self) -> Tensor:
        """Return the rows of all indices up to the largest so far, (M, C), as a view of the table."""
        return self.table[: self.size]

    def clear(self) -> None:
        """Reset all values to the fill value. The size of the table and the hashes of the labels stay."""
        self.table.fill_(self.fill)

    def synchronize(self) -> None:
        """Merge the tables of all processes: the largest value is kept. Every process must call this."""
        if get_world_size() > 1:
            shape = torch.tensor([self.size, self.table.size(1)], device=self.table.device)
            all_reduce(shape, 'max')
            size, classes = shape.tolist()
            self._resize(size, classes)
            if self.rows().numel():
                all_reduce(self.rows(), 'max')
                all_reduce(self.fingerprints[:size], 'max')
        self.unshared = False

    def _known_fingerprints(self, indices: Tensor) -> Tensor:
        if not self.size:
            return torch.zeros_like(indices)
        known = self.fingerprints[indices.clamp(max=self.size - 1)]
        return known.masked_fill(indices >= self.size, 0)

    def _note_epoch(self, epoch: int | None) -> bool:
        starts = epoch is not None and epoch != self.epoch
        if starts and self.unshared and self.epoch is not None and get_world_size() > 1:
            raise RuntimeError(
                f'{self.owner} remembers samples, and its processes did not share what they remember after epoch '
                f"{self.epoch}: add dict(type='mmml_losses.TrainingSetHook') to custom_hooks, or call synchronize() of "
                'the loss in every process after each epoch'
            )
        if starts:
            self.epoch = epoch
        self.unshared = True
        return starts

    def _reserve(self, sample_idx: Tensor, classes: int) -> None:
        """Grow the table to the largest index. Raise a ValueError for one below 0 or a new number of ``classes``."""
        if sample_idx.numel():
            lowest, highest = (bound.item() for bound in sample_idx.aminmax())
            if lowest < 0:
                raise ValueError(f'sample_idx must be at least 0, got {lowest}')
            self._resize(max(int(highest) + 1, self.size), classes)
        else:
            self._resize(self.size, classes)

    def _resize(self, size: int, classes: int) -> None:
        present = self.table.size(1)
        if self.size and present and classes != present:
            raise ValueError(f'cls_score must have {present} classes, of which {self.owner} remembers, got {classes}')
        self.size = size
        missing = size - len(self.table)
        if missing <= 0 and classes == present:
            return
        # Twice the space whenever it runs out: the copies of a whole epoch cost no more than one of the table.
        rows = max(size, 2 * len(self.table)) if missing > 0 else len(self.table)
        with torch.inference_mode(False):  # a table made in inference could not be written to in training
            table = self.table.new_full((rows, classes), self.fill)
            fingerprints = self.fingerprints.new_zeros(rows)
            if present:
                table[: len(self.table)] = self.table
            fingerprints[: len(self.fingerprints)] = self.fingerprints
        self.table, self.fingerprints = table, fingerprints

    def _apply(self, fn: Callable[[Tensor], Tensor], *args, **kwargs) -> 'SampleMemory':
        super()._apply(fn, *args, **kwargs)
        device = fn(self.table.new_empty(0)).device  # the type of the values is the memory's own
        self.table, self.fingerprints = self.table.to(device), self.fingerprints.to(device)
        return self

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.size:  # copies, without the spare rows
            destination[prefix + 'table'] = self.rows().clone()
            destination[prefix + 'fingerprints'] = self.fingerprints[: self.size].clone()
            destination[prefix + 'epoch'] = torch.tensor(-1 if self.epoch is None else self.epoch)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args, **kwargs) -> None:
        saved = [state_dict.pop(prefix + name, None) for name in ('table', 'fingerprints', 'epoch')]
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self.unshared = False
        if saved[0] is None:  # saved before the first sample came
            self.size, self.epoch = 0, None
            self.table, self.fingerprints = self.table.new_empty(0, 0), self.fingerprints.new_empty(0)
            return
        table, fingerprints, epoch = saved
        self.size, self.epoch = len(table), epoch.item() if epoch >= 0 else None
        self.table = table.to(self.table, copy=True)
        self.fingerprints = fingerprints.to(self.fingerprints, copy=True)

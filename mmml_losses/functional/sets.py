"""Sets of labels that a loss compares: rows, columns or blocks of the label matrix. Stable sums over their scores."""

import math
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

WAYS = ('sample', 'class', 'both', 'joint')

SetValues = Tensor | tuple[Tensor, Tensor]

# From this number of labels on, skipping sets without a positive saves more time than finding them takes.
MANY_LABELS = 32_768


class Sets:
    """Split the labels of a batch into sets, and sum scores over the positives or negatives of each set.

    A loss written with this class works for all kinds of sets. The sums take (N, C) scores, one per label, and return
    one number per set in a flat tensor: rows, then columns (or the ``'joint'`` set) by bucket. Rows of unknown labels
    fill the last bucket; :meth:`split` drops them.

    Args:
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown. Unknown labels are in no set.
        way: What a set is. ``'sample'``: the labels of a sample, a row. ``'class'``: the labels of a class, a column.
            ``'both'``: each row and each column is a set. ``'joint'``: all labels of all samples are one set.
        bucket_size: Cuts the batch into buckets of so many consecutive samples; the last may be smaller. Columns and
            ``'joint'`` sets then stay within a bucket, rows do not change. None for one bucket, the whole batch.
        weight: (N,), how often each sample counts; None for once. The loss of a row is multiplied by it. In columns
            and ``'joint'`` sets, the sums count each label so often: weight 2 is the same as two equal samples.
            The labels of a sample with weight 0 are unknown.
    """

    def __init__(self, targets: Tensor, way: str, bucket_size: int | None = None, weight: Tensor | None = None):
        if way not in WAYS:
            raise ValueError(f'way must be one of {WAYS}, got {way!r}')
        if bucket_size is not None and (not isinstance(bucket_size, int) or bucket_size < 1):
            raise ValueError(f'bucket_size must be None or a whole number of at least 1, got {bucket_size!r}')
        targets = _weighed_targets(targets, weight)
        self.samples, classes = targets.shape
        # An empty batch is one bucket with one sample of which nothing is known.
        size = max(1, self.samples if bucket_size is None or way == 'sample' else min(bucket_size, self.samples))
        buckets = max(1, -(-self.samples // size))
        self.missing = buckets * size - self.samples
        self.size = size
        self.targets = self._padded(targets, -1)
        self.weight = None if weight is None else weight.unsqueeze(1)
        self.way = way
        # The shapes in which dimension 1 of the matrix is what is compared, without and with weights.
        self.rows: list[tuple[int, ...]] = [(buckets * size, classes)] if way in ('sample', 'both') else []
        columns: tuple[int, ...] = (buckets, size * classes) if way == 'joint' else (buckets, size, classes)
        self.blocks: list[tuple[int, ...]] = [] if way == 'sample' else [columns]
        self.class_shape = (classes,) if bucket_size is None else (buckets, classes)

    def opponents(
        self, positive_scores: Tensor, negative_scores: Tensor, positive_scale: float = 1.0, negative_scale: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Return (:meth:`positives` of the positive scores, :meth:`negatives` of the negative ones), to be added.

        To save time, the negatives of sets without positives may be skipped. The sum of the two numbers of such a set
        is a large negative number in any case. So use the method for losses that are 0 in sets without positives.
        """
        narrow = self._narrowed()
        if narrow is None:
            return self.positives(positive_scores, positive_scale), self.negatives(negative_scores, negative_scale)
        parts = [each.opponents(positive_scores, negative_scores, positive_scale, negative_scale) for each in narrow]
        positives, negatives = zip(*parts, strict=True)
        return torch.cat(positives), torch.cat(negatives)

    def positives(self, scores: Tensor, scale: float = 1.0) -> Tensor:
        """Return the log-sum-exp of ``scale * scores`` over the positives of each set, flat; very negative if empty."""
        return self._log_sum_exp(scores, scale, _positive)

    def negatives(self, scores: Tensor, scale: float = 1.0) -> Tensor:
        """Return the log-sum-exp of ``scale * scores`` over the negatives of each set, flat; very negative if empty."""
        return self._log_sum_exp(scores, scale, _negative)

    def known(self, scores: Tensor, scale: float = 1.0) -> Tensor:
        """Return the log-sum-exp of ``scale * scores`` over known labels of each set, flat; very negative if empty."""
        return self._log_sum_exp(scores, scale, _known)

    def positive_mean(self, scores: Tensor) -> Tensor:
        """Return the mean of the scores over the positives of each set, flat; 0 for a set without positives."""
        shares = self.targets.clamp(min=0)
        if self.weight is not None:  # which cancels in the rows
            shares = shares * self._padded(self.weight, 1)
        products = shares * self._padded(scores, 0)
        total, count = (
            torch.cat([matrix.reshape(view).sum(dim=1).flatten() for view in self.rows + self.blocks])
            for matrix in (products, shares)
        )
        return total / torch.where(count > 0, count, 1)

    def highest_target(self) -> Tensor:
        """Return the largest target of each set, flat: 1 for a positive, 0 for negatives only, -1 if none is known."""
        return torch.cat([self.targets.reshape(view).amax(dim=1).flatten() for view in self.rows + self.blocks])

    def split(self, values: Tensor) -> SetValues:
        """Reshape the flat values of all sets by kind of set, and multiply the values of rows by the sample weights.

        Returns:
            (N,) for ``'sample'``; (C,) for ``'class'``, or (buckets, C) with a bucket size; (buckets,) for ``'joint'``;
            for ``'both'`` a tuple of the results for ``'sample'`` and ``'class'``.
        """
        if self.way == 'joint':
            return values
        if self.way == 'class':
            return values.view(self.class_shape)
        of_samples = values[: self.samples]
        if self.weight is not None:
            of_samples = of_samples * self.weight.squeeze(1)
        if self.way == 'sample':
            return of_samples
        return of_samples, values[self.samples + self.missing :].view(self.class_shape)

    def _log_sum_exp(self, scores: Tensor, scale: float, side_of: Callable[[Tensor], Tensor]) -> Tensor:
        scores = promote_half(scores)
        matrix, targets = self._padded(scores, 0), self.targets.to(scores.dtype)
        if self.weight is None:
            found = _log_sum_exps(matrix, targets, side_of, scale, self.rows + self.blocks)
        else:  # a label of weight 0 is in no sum, and only needs a logarithm
            logarithms = self.weight.to(scores.dtype).clamp(min=_tiny(scores.dtype)).log()
            weighted = self._padded(scale * scores + logarithms, 0)
            of_rows = _log_sum_exps(matrix, targets, side_of, scale, self.rows)
            found = of_rows + _log_sum_exps(weighted, targets, side_of, 1.0, self.blocks)
        return torch.cat([values.flatten() for values in found])

    def _narrowed(self) -> 'list[_Narrowed] | None':
        """Select the rows, columns or both (by ``way``) with a positive label, as a list of :class:`_Narrowed`.

        Return None for ``'joint'``, on a GPU, in compiled code, below ``MANY_LABELS`` labels, or if most have one.
        """
        # A GPU would have to be waited for, and compiled code has no shapes that depend on the data.
        known = self.targets.device.type == 'cpu' and not torch.compiler.is_compiling()
        if self.way == 'joint' or not known or self.targets.numel() < MANY_LABELS:
            return None
        found = [_some_positive(self.targets, dim=1)] if self.rows else []
        found += [_some_positive(self.targets, dim=0)] if self.blocks else []
        if sum(len(chosen) / number for chosen, number in found) > len(found) / 2:
            return None
        targets = self.targets[: self.samples]
        narrow = []
        if self.rows:
            rows, number = found[0]
            narrow.append(_Narrowed(Sets(targets[rows], 'sample'), 0, rows, (number,)))
        if self.blocks:
            classes, number = found[-1]
            weight = None if self.weight is None else self.weight.squeeze(1)
            sets = Sets(targets[:, classes], 'class', self.size, weight)
            narrow.append(_Narrowed(sets, 1, classes, (len(self.targets) // self.size, number)))
        return narrow

    def _padded(self, matrix: Tensor, value: float) -> Tensor:
        """Append rows filled with ``value`` to an (N, C) or (N, 1) matrix, so that the last bucket is full."""
        return pad(matrix, (0, 0, 0, self.missing), value=value) if self.missing else matrix


class _Narrowed(NamedTuple):
    """The rows, or the columns, of a label matrix that have a positive label; computes their sums and skips all others.

    Args:
        sets: A :class:`Sets` object of the selected rows or columns alone.
        dim: 0 if rows are selected, 1 if columns are selected.
        chosen: 1-D indices of the selected rows or columns.
        shape: Shape with one number for each set, selected or not: (rows,) or (buckets, columns).
    """

    sets: Sets
    dim: int
    chosen: Tensor
    shape: tuple[int, ...]

    def opponents(
        self, positive_scores: Tensor, negative_scores: Tensor, positive_scale: float, negative_scale: float
    ) -> tuple[Tensor, Tensor]:
        """Return :meth:`Sets.opponents` for all rows, or for all columns, of the full (N, C) scores."""
        positives = negatives = positive_scores.index_select(self.dim, self.chosen)
        if negative_scores is not positive_scores:  # otherwise once, since the backward pass fills the whole matrix
            negatives = negative_scores.index_select(self.dim, self.chosen)
        return (
            self._spread(self.sets.positives(positives, positive_scale)),
            self._spread(self.sets.negatives(negatives, negative_scale)),
        )

    def _spread(self, values: Tensor) -> Tensor:
        """Return a flat tensor for all sets: ``values`` for the selected, a large negative number for the others."""
        everything = values.new_full(self.shape, -_limit(values.dtype) / 2)
        return everything.index_copy(-1, self.chosen, values.view(*self.shape[:-1], -1)).flatten()


def _some_positive(targets: Tensor, dim: int) -> tuple[Tensor, int]:
    """Return (1-D indices of the rows with a positive, number of all rows) for ``dim=1``; of columns for ``dim=0``.

    Index 0 is always included: without a positive anywhere, the loss must still be a function of some logits.
    """
    highest = targets.amax(dim=dim)
    highest[0] = 1
    return (highest > 0).nonzero().squeeze(1), len(highest)


def _weighed_targets(targets: Tensor, weight: Tensor | None) -> Tensor:
    """Return (N, C) targets, integers as float32, with -1 (unknown) for all labels of samples with weight 0."""
    targets = targets if targets.is_floating_point() else targets.float()
    return targets if weight is None else targets.masked_fill(weight.unsqueeze(1) == 0, -1)


# Which labels a sum includes: above 0 for these, below 0 for others. Not a mask: compiled code stores masks slowly.


def _positive(targets: Tensor) -> Tensor:
    return targets - 0.5


def _negative(targets: Tensor) -> Tensor:
    return targets.abs().neg_().add_(0.5)


def _known(targets: Tensor) -> Tensor:
    return targets + 0.5


def _log_sum_exps(
    scores: Tensor, targets: Tensor, side_of: Callable[[Tensor], Tensor], scale: float, views: list[tuple[int, ...]]
) -> tuple[Tensor, ...]:
    """Return log-sum-exps of ``scale * scores`` where ``side_of(targets) > 0``, over dim 1 of each view (a shape)."""
    return _LogSumExp.apply(scores, targets, side_of, scale, views) if views else ()


class _LogSumExp(torch.autograd.Function):
    """Autograd function of :func:`_log_sum_exps`, that keeps only its inputs and sums for the backward pass.

    The gradient is computed from the fraction of each term in the sum. ``torch.logsumexp`` computes the gradient from
    the logarithm, and loses digits for scores in the thousands. A sum over nothing has a large negative logarithm.
    """

    @staticmethod
    def forward(ctx, scores, targets, side_of, scale, views) -> tuple[Tensor, ...]:
        entries = _entries(scores, side_of(targets), scale)
        matrices = [entries.reshape(view) for view in views]
        # The bound is for sums of which every score overflowed.
        largest = [matrix.amax(dim=1, keepdim=True).clamp_(min=-2 * _limit(scores.dtype)) for matrix in matrices]
        totals = [_exp(m - top).sum(dim=1, keepdim=True) for m, top in zip(matrices, largest, strict=True)]
        ctx.save_for_backward(scores, targets, *largest, *totals)
        ctx.arguments = side_of, scale, views
        return tuple((total.log() + top).squeeze(1) for total, top in zip(totals, largest, strict=True))

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scores, targets, *rest = ctx.saved_tensors
        side_of, scale, views = ctx.arguments
        largest, totals = rest[: len(views)], rest[len(views) :]
        side = side_of(targets)
        entries = _entries(scores, side, scale)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # The gradient itself is to be differentiated: leave it to operations that can be.
            sums = [(entries.reshape(v) - top).exp().sum(dim=1) for v, top in zip(views, largest, strict=True)]
            slopes = torch.autograd.grad([s.log() for s in sums], scores, gradients, create_graph=True)[0]
        else:
            shares = [
                _exp(entries.reshape(view) - top).mul_(gradient.unsqueeze(1) * (2 * scale / total))
                for view, top, total, gradient in zip(views, largest, totals, gradients, strict=True)
            ]
            slopes = reduce(torch.add, [share.reshape(scores.shape) for share in shares]).mul_(side.clamp_(0, 0.5))
        return slopes, None, None, None, None


def _entries(scores: Tensor, side: Tensor, scale: float) -> Tensor:
    """Return ``scale * scores`` where ``side`` is positive, and a large negative number elsewhere."""
    return torch.minimum(scores if scale == 1 else scale * scores, _limit(scores.dtype) * side)


def _limit(dtype: torch.dtype) -> float:
    # Finite, so that an empty sum is a number; small enough that temperatures and sums of several do not overflow.
    return torch.finfo(dtype).max / 1024


def _exp(exponents: Tensor) -> Tensor:
    """Compute the exponential of numbers that are at most 0, in place; a lower bound avoids slow underflow."""
    # Where it underflows it takes a CPU ten times as long, and long before that it does not show in a sum.
    return exponents.clamp_(min=0.9 * math.log(_tiny(exponents.dtype))).exp_()


def _tiny(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny


def promote_half(logits: Tensor) -> Tensor:
    """Convert half precision to float32; return float32 and float64 unchanged."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def count_sets(
    targets: Tensor, way: str, bucket_size: int | None = None, weight: Tensor | None = None, with_positive: bool = False
) -> list[Tensor]:
    """Return the number of sets with a known label as scalar tensors: [number], or [rows, columns] for ``'both'``.

    Args:
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'``, ``'class'``, ``'both'`` or ``'joint'``; see :class:`Sets`.
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), sample weights; a weight of 0 makes labels unknown. None if no weight is 0.
        with_positive: Whether to count only sets with a positive label.
    """
    sets = Sets(_weighed_targets(targets, weight), way, bucket_size)
    counted = sets.split(sets.highest_target() >= (1 if with_positive else 0))
    return [part.sum() for part in (counted if isinstance(counted, tuple) else (counted,))]

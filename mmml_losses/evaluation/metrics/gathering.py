"""Keep rows of numbers batch by batch, and gather the rows of all ranks as tensors, not as pickled lists."""

import json
import logging
import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.dist import all_gather, broadcast, get_world_size, is_main_process
from mmengine.logging import print_log
from torch import Tensor

from ...utils.arrays import as_labels
from ..functional.predictions import Predictions

# Bytes of a block of rows. The C library maps an allocation above 32 MiB by itself: it takes memory only where it is
# written, and goes back to the system when it is freed. Thousands of small tensors would not.
BLOCK_BYTES = 40 << 20
# Bytes that one exchange may bring to each rank.
EXCHANGE_BYTES = 1 << 22
# The width of texts is rounded up to a multiple of it, so that a slightly longer text does not start a new block.
TEXT_STEP = 32


class RowStore:
    """Growing (n, w) matrix in blocks of rows: append rows batch by batch, then take rows out, which frees the blocks.

    Args:
        dtype: Type of the numbers.
        fill: Number that fills rows up to the width of the widest row. If None, all rows must have one width.
        name: Name of a row in the error about a wrong width.
    """

    def __init__(self, dtype: torch.dtype, fill: int | None = None, name: str = 'rows'):
        self.dtype, self.name, self.may_widen, self.fill = dtype, name, fill is not None, fill or 0
        self._blocks: deque[Tensor] = deque()
        self._open, self._filled = torch.empty(0, 0, dtype=dtype), 0  # the block being written, and its rows so far

    def __len__(self) -> int:
        return sum(map(len, self._blocks)) + self._filled

    @property
    def width(self) -> int:
        """Number of columns of the widest row; 0 without rows."""
        return max(block.shape[1] for block in (*self._blocks, self._open))

    def append(self, rows: Tensor) -> None:
        """Append a copy of ``rows`` (b, w). If ``fill`` is None, another width than before raises a ValueError."""
        if not self.may_widen and len(self) and rows.shape[1] != self.width:
            raise ValueError(f'{self.name} must have {self.width} entries like those before, got {rows.shape[1]}')
        while len(rows):
            if self._filled == len(self._open) or self._open.shape[1] < rows.shape[1]:
                width = max(rows.shape[1], self.width)
                self._close()
                num_rows = max(1, BLOCK_BYTES // max(1, width * self.dtype.itemsize))
                self._open = torch.empty(num_rows, width, dtype=self.dtype)
            target = self._open[self._filled : self._filled + len(rows)]
            target[:, : rows.shape[1]] = rows[: len(target)]
            target[:, rows.shape[1] :] = self.fill
            self._filled += len(target)
            rows = rows[len(target) :]

    def take_into(self, target: Tensor) -> None:
        """Move the first n rows into ``target`` (n, w); cells that the store lacks get ``fill``, or 0 for None."""
        self._close()
        start = 0
        while start < len(target) and self._blocks:
            rows = self._blocks.popleft()
            if len(rows) > len(target) - start:
                self._blocks.appendleft(rows[len(target) - start :])
                rows = rows[: len(target) - start]
            target[start : start + len(rows), : rows.shape[1]] = rows
            target[start : start + len(rows), rows.shape[1] :] = self.fill
            start += len(rows)
        target[start:] = self.fill

    def clear(self) -> None:
        """Remove all rows."""
        self._blocks.clear()
        self._open, self._filled = self._open.new_empty(0, 0), 0

    def _close(self) -> None:
        if self._filled:
            self._blocks.append(self._open[: self._filled])
        self._open, self._filled = self._open.new_empty(0, 0), 0


def gather_samples(stores: Mapping[str, RowStore], size: int) -> dict[str, Tensor] | None:
    """Gather the samples of all ranks on the main process, in the order of the dataset, and empty the stores.

    If the ``sample_idx`` of all ranks cover the dataset, samples are ordered by them, and repeated samples are dropped.
    Otherwise, samples have the order in which :func:`gather_rows` takes rows from the ranks.

    Args:
        stores: Dict from name to the rows of this rank, a row for each sample. ``sample_idx`` (n, 1) must be among the
            names: the index of each sample in the dataset, -1 if unknown.
        size: Number of samples in the dataset.

    Returns:
        Dict from name to a tensor (size, w), and ``sample_idx`` (size,), with fewer rows if fewer samples were found.
        None on processes other than the main one.
    """
    indices, places = gather_rows(stores['sample_idx']), None
    if indices is not None:
        indices = indices.reshape(-1)
        places = places_of(indices, size)
    gathered = {}
    for name, store in stores.items():
        if name != 'sample_idx' and (rows := gather_rows(store, size, places)) is not None:
            gathered[name] = rows
    if indices is None:
        return None
    return {**gathered, 'sample_idx': indices[:size] if places is None else torch.arange(size)}


def places_of(indices: Tensor, size: int) -> Tensor | None:
    """Return (n,) target positions that put n rows into dataset order; ``size``, past the end, for a repeated sample.

    Return None if the rows can stay as they are: ``indices`` (n,), the ``sample_idx`` of the rows, are in order or do
    not cover 0 to ``size`` - 1. Those of a ``ConcatDataset`` do not, since each of its datasets counts from 0.
    """
    is_known = len(indices) > 0 and indices.min() >= 0 and indices.max() < size
    if not is_known or torch.equal(indices[:size], torch.arange(size)):
        return None
    found, first = np.unique(indices.numpy(), return_index=True)
    if len(found) == size:
        places = torch.full_like(indices, size)
        places[first] = torch.arange(size)
        return places
    counts_from_zero = torch.cat([indices[:1] == 0, (indices[1:] == indices[:-1] + 1) | (indices[1:] == 0)])
    if len(found) < len(indices) and not counts_from_zero.all():
        print_log(
            f'sample_idx of {len(indices)} samples names {len(found)} of {size}, some of them twice: unless several '
            'datasets are joined and shuffled, the sampler repeats samples and leaves out others, and figures are of '
            'what it gave',
            logger='current',
            level=logging.WARNING,
        )
    return None


def gather_rows(store: RowStore, size: int | None = None, places: Tensor | None = None) -> Tensor | None:
    """Gather the rows of all ranks on the main process, in the order of the dataset, and empty the store.

    MMEngine's ``DefaultSampler`` gives item ``i`` to rank ``i % world_size``, and repeats the first items at the end so
    that every rank has equally many. Taking rows from the ranks in turn restores the order of the dataset, with the
    repeated items at the end, where ``size`` cuts them off. Ranks may hold different numbers of rows, or none.

    Args:
        store: The rows of this rank.
        size: Number of items in the dataset, the most rows to return; None returns all rows.
        places: Target position in the result of each row, on the main process. Row k is the k-th row taken from the
            ranks in turn; a position of ``size`` drops it. None leaves rows in the order in which they are taken.

    Returns:
        (size, w) tensor on the main process, with fewer rows if there are fewer; None on the other processes.
    """
    if get_world_size() == 1 and places is None:
        whole = torch.empty(len(store) if size is None else min(size, len(store)), store.width, dtype=store.dtype)
        store.take_into(whole)
        store.clear()
        return whole
    shapes = all_gather(torch.tensor([len(store), store.width]))
    lengths, widths = torch.stack(shapes).unbind(dim=1)
    if not store.may_widen and len(widths[lengths > 0].unique()) > 1:
        raise ValueError(f'{store.name} must have equally many entries on all processes, got {widths.tolist()}')
    longest, width, total = int(lengths.max()), int(widths.max()), int(lengths.sum())
    length = total if size is None else min(size, total)
    whole = torch.empty(length if is_main_process() else 0, width, dtype=store.dtype)
    places = torch.arange(total) if places is None else places
    step = max(1, EXCHANGE_BYTES // max(1, width * whole.element_size() * len(lengths)))
    taken = 0
    for start in range(0, longest, step):
        rounds = torch.arange(start, min(start + step, longest))
        own = whole.new_empty(len(rounds), width)
        store.take_into(own)
        received = all_gather(own)
        if is_main_process():
            dealt = torch.stack(received, dim=1)[rounds[:, None] < lengths]
            to = places[taken : taken + len(dealt)]
            whole[to[to < length]] = dealt[to < length]
            taken += len(dealt)
    return whole if is_main_process() else None


def broadcast_json(value: Any) -> Any:
    """Return the main process's ``value`` on every process; it is sent as JSON."""
    if get_world_size() == 1:
        return value
    text = encode_texts([json.dumps(value)])
    length = torch.tensor(text.shape[1])
    broadcast(length)
    if not is_main_process():
        text = torch.empty(1, int(length), dtype=torch.uint8)
    broadcast(text)
    return json.loads(decode_texts(text)[0])


def encode_texts(texts: Sequence[str]) -> Tensor:
    """Return a uint8 tensor (n, w) with the UTF-8 bytes of n strings in its rows, padded with zeros on the right."""
    # File names need not be valid Unicode; surrogateescape carries them through unchanged.
    encoded = [text.encode('utf-8', 'surrogateescape') for text in texts]
    width = -(-max(map(len, encoded), default=0) // TEXT_STEP) * TEXT_STEP
    flat = np.frombuffer(b''.join(line.ljust(width, b'\0') for line in encoded), dtype=np.uint8)
    return torch.from_numpy(flat.reshape(len(encoded), width).copy())


def decode_texts(rows: Tensor) -> list[str]:
    """Return the list of strings in ``rows`` (n, w) uint8, as :func:`encode_texts` wrote them."""
    return [bytes(row).rstrip(b'\0').decode('utf-8', 'surrogateescape') for row in rows.numpy()]


class Column(NamedTuple):
    """Kind of rows to keep: ``read`` turns n data samples into (n, w) rows for a RowStore of ``dtype`` and ``fill``."""

    read: Callable[[Sequence[dict]], Tensor]
    dtype: torch.dtype
    fill: int | None = None  # to the right of narrower rows, where rows may differ in width


def check_widths(data_samples: Sequence[dict], num_classes: int) -> None:
    """Raise a ValueError unless every ``pred_score`` is (num_classes,); 0 stands for the first sample's length."""
    for sample in data_samples:
        if 'pred_score' not in sample:
            raise ValueError(f'data samples must hold pred_score, got {sorted(sample)}')
        shape = tuple(torch.as_tensor(sample['pred_score']).shape)
        if len(shape) != 1 or shape[0] != (num_classes or shape[0]):
            raise ValueError(f'pred_score must have the shape ({num_classes or "classes"},), got {shape}')
        num_classes = shape[0]


def read_scores(data_samples: Sequence[dict]) -> Tensor:
    """Return the ``pred_score`` of n samples as (n, C) float32; raise a ValueError for NaN."""
    scores = torch.stack([torch.as_tensor(sample['pred_score']).detach() for sample in data_samples])
    scores = scores.to('cpu', torch.float32)
    if scores.isnan().any():
        row, column = scores.isnan().nonzero()[0].tolist()
        raise ValueError(f'pred_score must not hold NaN, got NaN for class {column} in sample {row} of a batch')
    return scores


def read_labels(data_samples: Sequence[dict]) -> Tensor:
    """Return labels (n, C) int8, 1, 0 or -1, from ``gt_score`` or, without it, from class indices in ``gt_label``."""
    labels = torch.stack([_labels_of(sample) for sample in data_samples])
    return torch.from_numpy(as_labels(labels, 'gt_score'))


def read_true_labels(data_samples: Sequence[dict]) -> Tensor:
    """Return ``true_label`` as (n, C) int8: a row of -1 for a sample without it, (n, 0) if all are without it."""
    if not any('true_label' in sample for sample in data_samples):
        return torch.empty(len(data_samples), 0, dtype=torch.int8)
    rows = [
        _row_of(sample, 'true_label') if 'true_label' in sample else torch.full((len(sample['pred_score']),), -1)
        for sample in data_samples
    ]
    return torch.from_numpy(as_labels(torch.stack(rows), 'true_label'))


def read_sample_idx(data_samples: Sequence[dict]) -> Tensor:
    """Return the ``sample_idx`` of n samples as (n, 1) int64; -1 where it is missing or not a whole number."""
    positions = []
    for sample in data_samples:
        value: Any = sample.get('sample_idx')
        try:
            positions.append(operator.index(value.item() if hasattr(value, 'item') else value))
        except (TypeError, ValueError, RuntimeError):
            positions.append(-1)
    return torch.tensor(positions, dtype=torch.int64).reshape(-1, 1)


def read_image_paths(data_samples: Sequence[dict]) -> Tensor:
    """Return the ``img_path`` of n samples as rows (n, w) of :func:`encode_texts`; '' where it is missing."""
    return encode_texts([os.fspath(sample.get('img_path') or '') for sample in data_samples])


# Gathered in this order: the largest comes last, when the stores of the others are already empty.
COLUMNS = {
    'labels': Column(read_labels, torch.int8),
    'image_paths': Column(read_image_paths, torch.uint8, fill=0),
    'sample_idx': Column(read_sample_idx, torch.int64),
    'true_labels': Column(read_true_labels, torch.int8, fill=-1),
    'scores': Column(read_scores, torch.float32),
}


class PredictionCollector:
    """Keep the predictions of this rank batch by batch, and gather the predictions of all ranks at the end.

    Args:
        columns: Attributes of :class:`Predictions` to keep: keys of :data:`COLUMNS`. ``sample_idx`` is always kept.
    """

    def __init__(self, columns: Iterable[str]):
        # Always in the same order: the ranks must exchange the same column at the same time.
        self.columns = tuple(name for name in COLUMNS if name in {*columns, 'sample_idx'})
        # All columns of a fixed width have the width of pred_score.
        self._stores = {name: RowStore(COLUMNS[name].dtype, COLUMNS[name].fill, 'pred_score') for name in self.columns}

    def __len__(self) -> int:
        return len(self._stores['scores'])

    def read(self, data_samples: Sequence[dict], num_classes: int = 0) -> dict[str, Tensor]:
        """Return a dict from column name to (n, w) rows of a batch, checked but not kept; an empty dict for no samples.

        An invalid batch raises a ValueError. If ``num_classes`` is 0, kept batches or the first sample define it.
        """
        if not data_samples:
            return {}
        check_widths(data_samples, num_classes or self._stores['scores'].width)
        return {name: COLUMNS[name].read(data_samples) for name in self.columns}

    def keep(self, batch: dict[str, Tensor]) -> None:
        """Keep ``batch``, a result of :meth:`read`."""
        for name, rows in batch.items():
            self._stores[name].append(rows)

    def gather(self, size: int, class_names: tuple[str, ...]) -> Predictions | None:
        """Return the predictions of all ranks on the main process, None on others, and empty the collector."""
        gathered = gather_samples(self._stores, size)
        if gathered is None:
            return None
        values: dict[str, Any] = {name: rows.numpy() for name, rows in gathered.items()}
        if 'image_paths' in gathered:
            values['image_paths'] = tuple(decode_texts(gathered['image_paths']))
        if 'true_labels' in gathered and not gathered['true_labels'].shape[1]:
            values['true_labels'] = None
        if not len(values['scores']):  # no sample defined the number of classes
            values |= {name: values[name].reshape(0, len(class_names)) for name in ('scores', 'labels')}
        return Predictions(**values, class_names=class_names)


def _labels_of(sample: dict) -> Tensor:
    if 'gt_score' in sample:
        return _row_of(sample, 'gt_score')
    if 'gt_label' not in sample:
        raise ValueError(f'data samples must hold gt_score or gt_label, got {sorted(sample)}')
    indices, num_classes = torch.as_tensor(sample['gt_label']).cpu().reshape(-1).long(), len(sample['pred_score'])
    if ((indices < 0) | (indices >= num_classes)).any():
        raise ValueError(f'gt_label must be class indices from 0 to {num_classes - 1}, got {indices.tolist()}')
    labels = torch.zeros(num_classes, dtype=torch.int8)
    labels[indices] = 1
    return labels


def _row_of(sample: dict, name: str) -> Tensor:
    row, width = torch.as_tensor(sample[name]).cpu(), len(sample['pred_score'])
    if row.shape != (width,):
        raise ValueError(f'{name} must have the shape of pred_score ({width},), got {tuple(row.shape)}')
    return row

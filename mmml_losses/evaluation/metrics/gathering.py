"""Keep rows as they come, and bring those of all ranks together as tensors.

MMEngine's ``collect_results`` pickles lists of Python objects. Rows of numbers travel faster as tensors, and nothing
that comes from another process is ever unpickled.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.dist import all_gather, broadcast, get_world_size, is_main_process
from torch import Tensor

# Bytes of a block of rows. The C library maps anything above 32 MiB by itself: only what is written takes memory, and
# a block that is freed goes back to the system. Thousands of small tensors would not.
BLOCK_BYTES = 40 << 20
# Bytes that one exchange may bring to each rank.
EXCHANGE_BYTES = 1 << 22
# Texts are filled up to multiples of it, so that a slightly longer one does not start a new block.
TEXT_STEP = 32


class RowStore:
    """Rows (n, w) that come in batches, in few large blocks that are given back one by one as they are taken out.

    Args:
        dtype: Of the entries.
        fill: What stands to the right of rows that are narrower than others.
    """

    def __init__(self, dtype: torch.dtype, fill: int = 0):
        self.dtype = dtype
        self.fill = fill
        self._blocks: deque[Tensor] = deque()  # full ones, and the written part of the last
        self._free = torch.empty(0, 0, dtype=dtype)  # the rest of the last one

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    @property
    def width(self) -> int:
        """The widest row so far."""
        return max((block.shape[1] for block in self._blocks), default=0)

    @property
    def num_blocks(self) -> int:
        """In how many blocks the rows lie."""
        return len(self._blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are kept."""
        return sum(block.numel() * block.element_size() for block in self._blocks)

    def append(self, rows: Tensor) -> None:
        """Copy the rows of a batch."""
        while len(rows):
            if not len(self._free) or self._free.shape[1] < rows.shape[1]:
                self._open_block(max(rows.shape[1], self.width))
            count, width = min(len(rows), len(self._free)), self._free.shape[1]
            self._free[:count, : rows.shape[1]] = rows[:count]
            self._free[:count, rows.shape[1] :] = self.fill
            # What was just written follows the written part in memory.
            written = self._blocks.pop()
            self._blocks.append(written.as_strided((len(written) + count, width), (width, 1)))
            self._free, rows = self._free[count:], rows[count:]

    def take(self, count: int) -> Tensor:
        """Remove and return the first rows: at most ``count``, and no more than lie in one block."""
        block = self._blocks.popleft()
        if len(block) > count:
            self._blocks.appendleft(block[count:])
        if not self._blocks:
            self._free = self._free.new_empty(0, 0)
        return block[:count]

    def take_into(self, target: Tensor) -> None:
        """Move as many of the first rows into ``target`` (n, w) as both have, and fill the rest of it up."""
        start = 0
        while start < len(target) and self._blocks:
            rows = self.take(len(target) - start)
            target[start : start + len(rows), : rows.shape[1]] = rows
            target[start : start + len(rows), rows.shape[1] :] = self.fill
            start += len(rows)
        target[start:] = self.fill

    def clear(self) -> None:
        """Forget all rows."""
        self._blocks.clear()
        self._free = self._free.new_empty(0, 0)

    def _open_block(self, width: int) -> None:
        length = max(1, BLOCK_BYTES // max(1, width * self._free.element_size()))
        self._free = torch.empty(length, width, dtype=self.dtype)
        self._blocks.append(self._free[:0])


def gather_rows(store: RowStore, size: int) -> Tensor | None:
    """Put the rows of all ranks in the order of the dataset, on the main process. The store is empty afterwards.

    MMEngine's ``DefaultSampler`` deals item ``i`` to rank ``i % world_size`` and starts over at the end to give every
    rank equally many. Taking rows from the ranks in turn restores the order of the dataset, with the surplus at the
    end, where ``size`` cuts it off. Ranks may hold different numbers of rows, or none.

    Beside the result there are never more than the rows that are still in the store, a block and an exchange.

    Args:
        store: The rows of this rank.
        size: Number of items in the dataset.

    Returns:
        (size, w) tensor on the main process, None on the others.
    """
    if get_world_size() == 1:
        return _join(store, size)
    shapes = all_gather(torch.tensor([len(store), store.width]))
    lengths, widths = torch.stack(shapes).unbind(dim=1)
    longest, width = int(lengths.max()), int(widths.max())
    whole = torch.empty(min(size, int(lengths.sum())) if is_main_process() else 0, width, dtype=store.dtype)
    step = max(1, EXCHANGE_BYTES // max(1, width * whole.element_size() * len(lengths)))
    filled = 0
    for start in range(0, longest, step):
        rounds = torch.arange(start, min(start + step, longest))
        own = whole.new_empty(len(rounds), width)
        store.take_into(own)
        received = all_gather(own)
        if is_main_process():
            dealt = torch.stack(received, dim=1)[rounds[:, None] < lengths][: len(whole) - filled]
            whole[filled : filled + len(dealt)] = dealt
            filled += len(dealt)
    return whole if is_main_process() else None


def broadcast_json(value: dict | list | None) -> dict | list:
    """Send plain numbers and strings in dicts and lists from the main process to all others, as text."""
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
    """Write strings as the rows of a uint8 tensor: UTF-8, filled up with zeros."""
    # File names need not be valid Unicode; surrogateescape carries them through unchanged.
    encoded = [text.encode('utf-8', 'surrogateescape') for text in texts]
    width = -(-max(map(len, encoded), default=0) // TEXT_STEP) * TEXT_STEP
    flat = np.frombuffer(b''.join(line.ljust(width, b'\0') for line in encoded), dtype=np.uint8)
    return torch.from_numpy(flat.reshape(len(encoded), width).copy())


def decode_texts(rows: Tensor) -> list[str]:
    """Read what :func:`encode_texts` wrote."""
    return [bytes(row).rstrip(b'\0').decode('utf-8', 'surrogateescape') for row in rows.numpy()]


def _join(store: RowStore, size: int) -> Tensor:
    length, width = min(size, len(store)), store.width
    if store.num_blocks == 1:
        rows = store.take(length)
    else:
        rows = torch.empty(length, width, dtype=store.dtype)
        store.take_into(rows)
    store.clear()
    return rows

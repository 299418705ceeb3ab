"""Bring rows from all ranks together as tensors.

MMEngine's ``collect_results`` pickles lists of Python objects. Rows of numbers travel faster as tensors, and nothing
that comes from another process is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.dist import all_gather, broadcast, get_world_size, is_main_process
from torch import Tensor

# Bytes that one exchange may bring to each rank.
EXCHANGE_BYTES = 1 << 26


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate (n, w) tensors along the rows, filling narrower ones up with zeros on the right."""
    width = max(part.shape[1] for part in parts)
    return torch.cat([_resized(part, len(part), width) for part in parts])


def gather_rows(rows: Tensor, size: int) -> Tensor | None:
    """Put the rows of all ranks in the order of the dataset, on the main process.

    MMEngine's ``DefaultSampler`` deals item ``i`` to rank ``i % world_size`` and starts over at the end to give every
    rank equally many. Taking rows from the ranks in turn restores the order of the dataset, with the surplus at the
    end, where ``size`` cuts it off. Ranks may hold different numbers of rows, or none.

    Args:
        rows: (n, w) tensor of this rank. Narrower rows are filled up with zeros on the right.
        size: Number of items in the dataset.

    Returns:
        (size, w) tensor on the main process, None on the others.
    """
    if get_world_size() == 1:
        return rows[:size]
    lengths, widths = torch.stack(all_gather(torch.tensor(rows.shape))).unbind(dim=1)
    longest, width = int(lengths.max()), int(widths.max())
    step = max(1, EXCHANGE_BYTES // max(1, width * rows.element_size() * len(lengths)))
    pieces = [rows.new_empty(0, width)]
    for start in range(0, longest, step):
        stop = min(start + step, longest)
        dealt = torch.stack(all_gather(_resized(rows[start:stop], stop - start, width)), dim=1)
        if is_main_process():
            pieces.append(dealt[torch.arange(start, stop)[:, None] < lengths])
    return torch.cat(pieces)[:size] if is_main_process() else None


def broadcast_json(value: dict | None) -> dict:
    """Send a dict of plain numbers and strings from the main process to all others, as text."""
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
    width = max(map(len, encoded), default=0)
    flat = np.frombuffer(b''.join(line.ljust(width, b'\0') for line in encoded), dtype=np.uint8)
    return torch.from_numpy(flat.reshape(len(encoded), width).copy())


def decode_texts(rows: Tensor) -> list[str]:
    """Read what :func:`encode_texts` wrote."""
    return [bytes(row).rstrip(b'\0').decode('utf-8', 'surrogateescape') for row in rows.numpy()]


def _resized(rows: Tensor, length: int, width: int) -> Tensor:
    if rows.shape == (length, width):
        return rows.contiguous()
    resized = rows.new_zeros(length, width)
    resized[: rows.shape[0], : rows.shape[1]] = rows
    return resized

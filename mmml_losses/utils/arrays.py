"""Check and convert arrays of scores and labels, without needless copies. ``name`` is for the error messages."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch

ArrayLike: TypeAlias = np.ndarray | torch.Tensor | Sequence
# Treatment of classes (samples) without a positive label in a mean: leave out, count as 0, reject.
Empty: TypeAlias = Literal['skip', 'zero', 'error']

# Entries of a block of a matrix: few compared with the matrix, many compared with the overhead of Python.
BLOCK_ENTRIES = 1 << 20
# Bytes that the processor reads from memory at a time.
CACHE_LINE = 64


def as_array(values: ArrayLike | float) -> np.ndarray:
    """Return an array, a tensor on any device or nested sequences as a numpy array, sharing memory if possible."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        # numpy has no bfloat16; float32 can hold all of its values.
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)


def as_scores(scores: ArrayLike, name: str = 'scores') -> np.ndarray:
    """Return scores as an (N, C) array of numbers; ValueError for NaN, text or another shape. Infinity is valid."""
    array = as_array(scores)
    if array.ndim != 2:
        raise ValueError(f'{name} must have the shape (samples, classes), got {array.shape}')
    if array.dtype.kind not in 'fiub':
        raise ValueError(f'{name} must be real numbers, got dtype {array.dtype}')
    for rows in row_blocks(*array.shape):
        if np.isnan(array[rows]).any():
            row, column = np.argwhere(np.isnan(array[rows]))[0]
            raise ValueError(f'{name} must not hold NaN, got NaN at ({rows.start + row}, {column})')
    return array


def as_probabilities(probabilities: ArrayLike, name: str = 'probabilities') -> np.ndarray:
    """Return probabilities as an (N, C) numpy array; raise a ValueError for NaN and numbers outside of [0, 1]."""
    array = as_scores(probabilities, name)
    if array.size:
        for extreme in (array.min(), array.max()):
            if not 0 <= extreme <= 1:
                raise ValueError(f'{name} must lie in [0, 1], got {extreme:g}')
    return array


def as_labels(labels: ArrayLike, name: str = 'labels') -> np.ndarray:
    """Return labels (or bools) as an int8 array of their shape; raise a ValueError unless 1, 0 or -1 (unknown)."""
    array = as_array(labels)
    if array.dtype.kind not in 'fiub':
        raise ValueError(f'{name} must be numbers, got dtype {array.dtype}')
    if not array.ndim:
        raise ValueError(f'{name} must be an array, got the number {array}')
    is_small = array.dtype in (np.int8, bool)
    small = array.view(np.int8) if is_small else np.empty(array.shape, np.int8)
    for rows in row_blocks(len(array), array[:1].size):
        if not is_small:
            with np.errstate(invalid='ignore'):
                small[rows] = array[rows]
        foreign = (small[rows] < -1) | (small[rows] > 1)
        if not is_small:
            # A soft label or NaN differs from its int8.
            foreign |= small[rows] != array[rows]
        if foreign.any():
            raise ValueError(
                f'{name} must be 1 (positive), 0 (negative) or -1 (unknown), got {array[rows][foreign][0]}'
            )
    return small


def as_labels_of(scores: np.ndarray, labels: ArrayLike, scores_name: str = 'scores') -> np.ndarray:
    """Return labels as :func:`as_labels` does, in int8; raise a ValueError for another shape than ``scores``."""
    array = as_array(labels)
    if array.shape != scores.shape:
        raise ValueError(f'labels must have the shape of {scores_name} {scores.shape}, got {array.shape}')
    return as_labels(array)


def checked_empty(empty: Empty, is_empty: np.ndarray, what: str) -> Empty:
    """Return ``empty``, how a mean treats classes or samples without a positive: ``'skip'``, ``'zero'`` or ``'error'``.

    Raise a ValueError for any other value. With ``'error'``, raise it if the mask ``is_empty`` has a True; it is True
    for each class or sample without a positive, and ``what`` names these in the message, such as ``'classes'``.
    """
    if empty not in ('skip', 'zero', 'error'):
        raise ValueError(f"empty must be 'skip', 'zero' or 'error', got {empty!r}")
    if empty == 'error' and is_empty.any():
        raise ValueError(
            f'{is_empty.sum()} of {is_empty.size} {what} have no positive label, the first at {is_empty.argmax()}; '
            "empty='skip' leaves them out, 'zero' counts them as 0"
        )
    return empty


def row_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Yield slices of consecutive rows that cut a matrix into blocks of about ``BLOCK_ENTRIES`` elements."""
    step = max(1, BLOCK_ENTRIES // max(1, num_columns))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def column_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Yield slices of consecutive columns that cut a row-major matrix into blocks, wide enough for fast memory access.

    A block has about ``BLOCK_ENTRIES`` elements. If that would be fewer than 64 columns (a cache line of int8 labels),
    the block has 64 columns, or as many as fit into 16 times ``BLOCK_ENTRIES`` elements.
    """
    step = BLOCK_ENTRIES // max(1, num_rows)
    step = max(1, step, min(CACHE_LINE, 16 * BLOCK_ENTRIES // max(1, num_rows)))
    for start in range(0, num_columns, step):
        yield slice(start, min(start + step, num_columns))

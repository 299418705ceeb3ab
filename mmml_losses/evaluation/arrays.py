"""What every measure asks of its input, checked in one place and without copying what is already right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch

ArrayLike: TypeAlias = np.ndarray | torch.Tensor | Sequence

# Measures work through the matrix in pieces of this many entries: small beside the matrix, large beside Python's cost.
BLOCK_ENTRIES = 1 << 20


def as_array(values: ArrayLike) -> np.ndarray:
    """Read an array, a tensor on any device or nested sequences as a numpy array, sharing memory where possible."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        # numpy has no bfloat16; float32 holds every one of its values.
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)


def as_scores(scores: ArrayLike, name: str = 'scores') -> np.ndarray:
    """Read scores as an (N, C) array of real numbers without NaN; infinities are scores like any other."""
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
    """Read probabilities as an (N, C) array of numbers in [0, 1]."""
    array = as_scores(probabilities, name)
    if array.size:
        for extreme in (array.min(), array.max()):
            if not 0 <= extreme <= 1:
                raise ValueError(f'{name} must lie in [0, 1], got {extreme:g}')
    return array


def as_labels(labels: ArrayLike, name: str = 'labels') -> np.ndarray:
    """Read labels as an int8 array of 1 (positive), 0 (negative) and -1 (unknown)."""
    array = as_array(labels)
    # A soft label or NaN does not survive the way to int8 and back.
    with np.errstate(invalid='ignore'):
        small = array.astype(np.int8, copy=False)
    foreign = (small < -1) | (small > 1)
    if small is not array:
        foreign |= small != array
    if foreign.any():
        raise ValueError(f'{name} must be 1 (positive), 0 (negative) or -1 (unknown), got {array[foreign][0]}')
    return small


def as_labels_of(scores: np.ndarray, labels: ArrayLike, scores_name: str = 'scores') -> np.ndarray:
    """Read labels that belong to scores of the same shape."""
    array = as_array(labels)
    if array.shape != scores.shape:
        raise ValueError(f'labels must have the shape of {scores_name} {scores.shape}, got {array.shape}')
    return as_labels(array)


def row_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks of about ``BLOCK_ENTRIES`` entries."""
    step = max(1, BLOCK_ENTRIES // max(1, num_columns))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))

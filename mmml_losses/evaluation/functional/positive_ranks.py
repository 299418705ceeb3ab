"""Rank the positives by score, as input for average precision and for the best F1.

The rank of a positive is the number of entries with at least its score, so tied entries count. It is found by binary
search in the sorted scores. For large matrices, if Numba is installed, a compiled kernel sorts only the scores of the
positives and counts the other scores between them.
"""

import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
import torch

from ...utils.arrays import column_blocks, row_blocks

By = Literal['class', 'sample']

# Columns copied at a time, so that both the rows and the columns of a tile stay in the processor's cache.
TILE = 256
# From this number of rows, one call of torch's batched search is faster than a call of numpy's for each row.
MANY_ROWS = 256
# Entries from which a matrix uses the compiled kernel: loading takes most of a second, compiling once even more.
LARGE = 1 << 20


class PositiveRanks(NamedTuple):
    """Ranks of the V positives in R rankings, ordered by ranking, and by ascending score within a ranking.

    Attributes:
        rows: (V,) index of the ranking of each positive.
        values: (V,) score of each positive.
        positives_above: (V,) number of positives in the ranking with at least this score, itself included.
        known_above: (V,) number of known entries (positive or negative) in the ranking with at least this score.
        num_positives: (R,) number of positives in each ranking.
    """

    rows: np.ndarray
    values: np.ndarray
    positives_above: np.ndarray
    known_above: np.ndarray
    num_positives: np.ndarray


def positive_ranks(scores: np.ndarray, labels: np.ndarray, by: By) -> Iterator[tuple[slice, PositiveRanks]]:
    """Rank the samples of each class (``by='class'``) or the classes of each sample (``by='sample'``), in blocks.

    Yield (slice, ranks): the classes (samples) of a block, and the ranks of their positives, whose ``rows`` count from
    the slice's start. Pass (N, C) arrays as from :func:`.arrays.as_scores` and :func:`.arrays.as_labels`.
    """
    compiled = load_compiled() if _is_large(scores) else None
    blocks = row_blocks(*scores.shape)
    if by == 'class':
        blocks = column_blocks(*scores.shape)
        scores, labels = scores.T, labels.T
    for block in blocks:
        block_scores, block_labels = _rankable(scores[block]), _row_major(labels[block], np.int8)
        if compiled:
            num_positives, num_known = compiled.count_labels(block_labels)
            has_unknown = num_known < scores.shape[1]
            values, known_above = compiled.rank_rows(block_scores, block_labels, num_positives, has_unknown)
        else:
            num_positives = np.count_nonzero(block_labels == 1, axis=1)
            num_known = np.count_nonzero(block_labels >= 0, axis=1)
            values, known_above = _sorted_counts(block_scores, block_labels, num_positives, num_known)
        yield block, _with_ties(values, known_above, num_positives)


def pooled_positive_ranks(scores: np.ndarray, labels: np.ndarray) -> PositiveRanks:
    """Rank all (sample, class) pairs with a known label in one ranking (R = 1), without copying whole matrices."""
    slices = list(row_blocks(*scores.shape))
    found = [_rankable(scores[rows])[labels[rows] == 1] for rows in slices]
    values = np.sort(np.concatenate(found)) if found else np.empty(0)
    blocks = ((_rankable(scores[rows]), _row_major(labels[rows], np.int8)) for rows in slices)
    compiled = load_compiled() if _is_large(scores) and len(values) else None
    if compiled:
        known_above = compiled.count_pooled(values, blocks)
    else:
        known_above = np.zeros(len(values), dtype=np.int64)
        for block_scores, block_labels in blocks:
            in_block = np.sort(block_scores[block_labels >= 0])
            known_above += in_block.size - np.searchsorted(in_block, values)
    return _with_ties(values, known_above, np.array([len(values)]))


@cache
def load_compiled() -> ModuleType | None:
    """Import the compiled kernels once. Return None if Numba is not installed, or, after a warning, if it is broken."""
    return import_compiled('ranking')


def _is_large(scores: np.ndarray) -> bool:
    return scores.dtype.kind == 'f' and scores.size >= LARGE


def _sorted_counts(
    scores: np.ndarray, labels: np.ndarray, num_positives: np.ndarray, num_known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, row by row, the ascending scores (V,) of the positives and the numbers (V,) of known entries >= each."""
    num_entries = scores.shape[1]
    rows = np.repeat(np.arange(len(scores)), num_positives)
    positives = scores[labels == 1]
    lowest = -np.inf if scores.dtype.kind == 'f' else np.iinfo(scores.dtype).min
    ascending = np.sort(np.where(labels < 0, lowest, scores) if num_known.sum() < scores.size else scores, axis=1)
    # Positives by row, and from the worst to the best within a row, by one sort of integers.
    row_keys = rows * (num_entries + 1)
    below = np.sort(row_keys + _count_below(ascending, positives, num_positives)) - row_keys
    # Unknown entries sit at the lowest score: a positive there ties with them, and has every known entry above it.
    known_above = np.minimum(num_entries - below, num_known[rows])
    return ascending[rows, below], known_above


def _with_ties(values: np.ndarray, known_above: np.ndarray, num_positives: np.ndarray) -> PositiveRanks:
    """Build :class:`PositiveRanks` (see there) from its other fields: compute ``rows`` and ``positives_above``.

    Positives of one ranking with equal ``known_above`` have equal scores. Each of them counts all of them as above.
    """
    rows = np.repeat(np.arange(len(num_positives)), num_positives)
    is_new = (np.diff(known_above, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
    first_tied = np.maximum.accumulate(np.where(is_new, np.arange(len(rows)), 0))
    positives_above = np.cumsum(num_positives)[rows] - first_tied
    return PositiveRanks(rows, values, positives_above, known_above, num_positives)


def _count_below(ascending: np.ndarray, values: np.ndarray, num_values: np.ndarray) -> np.ndarray:
    """Count, for each value, the entries of its row in ``ascending`` (R, E) that are below the value.

    ``values`` (V,) hold ``num_values[0]`` values of the first row, then those of the second row, and so on. Return (V,)
    counts, row by row. Within a row, they may be in another order than the values: the caller sorts them.
    """
    if len(ascending) < MANY_ROWS:
        values_of_rows = np.split(values, np.cumsum(num_values)[:-1])
        # Neighbouring values end in the same cache lines, so they are sorted first.
        counts = [np.searchsorted(row, np.sort(of_row)) for row, of_row in zip(ascending, values_of_rows, strict=True)]
        return np.concatenate(counts)
    is_value = np.arange(num_values.max(initial=0)) < num_values[:, None]
    padded = np.zeros(is_value.shape, dtype=values.dtype)
    padded[is_value] = values
    return torch.searchsorted(torch.from_numpy(ascending), torch.from_numpy(padded)).numpy()[is_value]


def _rankable(scores: np.ndarray) -> np.ndarray:
    """Return scores row-major, as float32, float64 or int64; only uint64 and long doubles may be rounded."""
    if scores.dtype.kind == 'f':
        return _row_major(scores, np.float64 if scores.dtype.itemsize > 4 else np.float32)
    return _row_major(scores, np.float64 if scores.dtype == np.uint64 else np.int64)


def _row_major(matrix: np.ndarray, dtype: type) -> np.ndarray:
    """Return the matrix in row-major order and with ``dtype``, copied only if necessary.

    Tiles make the copy several times faster. Numba would compile separate code for read-only matrices: copy them, too.
    """
    if matrix.dtype == dtype and matrix.flags.c_contiguous and matrix.flags.writeable:
        return matrix
    copy: np.ndarray = np.empty(matrix.shape, dtype)
    for start in range(0, matrix.shape[1], TILE):
        copy[:, start : start + TILE] = matrix[:, start : start + TILE]
    return copy


def import_compiled(what: str, *, required: bool = False) -> ModuleType | None:
    """Import the module of compiled kernels; return None if Numba is not installed.

    If the import fails, warn that ``what`` ('ranking') is slower and return None. If ``required``, raise an error
    instead of returning None.
    """
    if find_spec('numba') is None:
        if required:
            raise ValueError('use_numba must be False or None where numba is not installed, got True')
        return None
    try:
        return import_module(f'{__package__}.kernels')
    except (ImportError, OSError) as error:  # a numpy newer than Numba knows; a library of LLVM that does not load
        if required:
            raise
        warnings.warn(f'numba is installed and cannot be imported, so {what} is slower: {error}', stacklevel=3)
        return None

"""The counts of :mod:`.positive_ranks`, compiled by Numba: sort the positives alone, and count the rest between them.

Scores are compared as integers, which rank as they do: the bits of a float, turned round where it is negative. The
leading bits of an entry tell, through a table, between which positives it lies, up to a short binary search.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit, uint64

INTEGERS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
# With this many positives or fewer, comparing every entry with each of them, many at a time, beats the table.
FEW = 32
# Entries of the table for each positive, so that most entries have at most one positive to be compared with ...
SPREAD = 8
# ... and at most so many, so that the table stays in the processor's cache.
LARGEST_TABLE = 1 << 17


def compiled(function: Callable) -> Callable:
    """Compile a function when it is first called, and keep the result on disk for the next process."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # there is no directory that Numba may write to
        return njit(function)


def rank_rows(
    scores: np.ndarray, labels: np.ndarray, num_positives: np.ndarray, has_unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count the known entries at or above each positive of each row.

    Args:
        scores: (R, E) row-major float32 or float64.
        labels: (R, E) row-major int8.
        num_positives: (R,).
        has_unknown: (R,) whether any label of the row is unknown.

    Returns:
        The (V,) scores of the positives, row after row and ascending within one, and the (V,) counts.
    """
    starts = np.concatenate([[0], np.cumsum(num_positives)])
    bits = scores.view(INTEGERS[scores.dtype])
    positives = np.empty(starts[-1], bits.dtype)
    known_above = np.empty(starts[-1], np.int64)
    _read_positives(bits, labels, starts, positives)
    for row in np.flatnonzero(num_positives > FEW):
        positives[starts[row] : starts[row + 1]].sort()  # numpy sorts long rows several times faster than Numba
    _rank_rows(bits, labels, has_unknown, starts, positives, known_above)
    return as_scores(positives, scores.dtype), known_above


class PooledCounter:
    """Counts, block after block, the known entries at or above each of the given positives.

    Args:
        positives: (V,) ascending float32 or float64 scores, at least one.
    """

    def __init__(self, positives: np.ndarray):
        self.keys = as_keys(positives)
        self.table = np.empty(LARGEST_TABLE + 2, np.int32)
        self.shift = _fill_table(self.keys, self.table)
        self.counts = np.zeros(len(positives) + 1, np.int64)

    def add(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Count the known entries of a row-major block."""
        bits = scores.view(INTEGERS[scores.dtype]).ravel()
        _pool(bits, labels.ravel(), self.keys, self.table, self.shift, self.counts)

    def known_above(self) -> np.ndarray:
        """The (V,) counts."""
        return np.cumsum(self.counts[:0:-1])[::-1]


def as_keys(scores: np.ndarray) -> np.ndarray:
    """Integers that rank as the scores do; both zeros have the key 0."""
    bits = scores.view(INTEGERS[scores.dtype])
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


def as_scores(keys: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Undo :func:`as_keys`."""
    return np.where(keys < 0, np.iinfo(keys.dtype).min - keys, keys).view(dtype)


@compiled
def count_labels(labels):
    """Count the positives and the known entries of each row."""
    num_positives, num_known = np.empty(labels.shape[0], np.int64), np.empty(labels.shape[0], np.int64)
    for row in range(labels.shape[0]):
        positives, known = np.int32(0), np.int32(0)
        for entry in range(labels.shape[1]):
            positives += np.int32(labels[row, entry] == 1)
            known += np.int32(labels[row, entry] >= 0)
        num_positives[row], num_known[row] = positives, known
    return num_positives, num_known


@compiled
def _rank_rows(bits, labels, has_unknown, starts, positives, known_above):
    num_rows, num_entries = bits.shape
    table = np.empty(LARGEST_TABLE + 2, np.int32)
    of_parts, is_shared = np.empty(len(table), np.int32), np.empty(len(table), np.uint8)
    keys, near = np.empty(num_entries, bits.dtype), np.empty(num_entries + 1, bits.dtype)
    counts = np.empty(num_entries + 1, np.int64)
    for row in range(num_rows):
        start, stop = starts[row], starts[row + 1]
        if start == stop:
            continue
        num_known = _read_keys(bits[row], labels[row], has_unknown[row], keys)
        own = positives[start:stop]
        if stop - start <= FEW:
            for place in range(stop - start):
                known_above[start + place] = _count_from(keys, num_known, own[place])
        else:
            counts[: stop - start + 1] = 0
            _count_between(keys, num_known, own, table, _fill_table(own, table), counts, of_parts, is_shared, near)
            above = 0
            for place in range(stop - start, 0, -1):
                above += counts[place]
                known_above[start + place - 1] = above


@compiled
def _pool(bits, labels, positives, table, shift, counts):
    of_parts, is_shared = np.empty(len(table), np.int32), np.empty(len(table), np.uint8)
    keys, near = np.empty(len(bits), bits.dtype), np.empty(len(bits) + 1, bits.dtype)
    num_known = _read_keys(bits, labels, True, keys)
    _count_between(keys, num_known, positives, table, shift, counts, of_parts, is_shared, near)


@compiled
def _read_keys(bits, labels, has_unknown, keys):
    """Write the keys of the known entries to the front of ``keys``; returns how many they are."""
    lowest = np.iinfo(bits.dtype).min
    if not has_unknown:
        for entry in range(len(bits)):
            keys[entry] = bits[entry] if bits[entry] >= 0 else lowest - bits[entry]
        return len(bits)
    num_known = 0
    for entry in range(len(bits)):
        if labels[entry] >= 0:
            keys[num_known] = bits[entry] if bits[entry] >= 0 else lowest - bits[entry]
            num_known += 1
    return num_known


@compiled
def _read_positives(bits, labels, starts, positives):
    """Write the keys of the positives row after row, and in order where they are few."""
    lowest = np.iinfo(bits.dtype).min
    for row in range(bits.shape[0]):
        place = starts[row]
        for entry in range(bits.shape[1]):
            if labels[row, entry] == 1:
                positives[place] = bits[row, entry] if bits[row, entry] >= 0 else lowest - bits[row, entry]
                place += 1
        if place - starts[row] <= FEW:
            positives[starts[row] : place].sort()


@compiled
def _count_from(keys, num_keys, value):
    # A counter as narrow as the smaller keys lets the processor compare more of them at a time.
    count = np.int32(0)
    for entry in range(num_keys):
        count += np.int32(keys[entry] >= value)
    return count


@compiled
def _fill_table(positives, table):
    """Cut the range of the positives into equal parts and note the first positive of each; returns the part's bits.

    Part 0 is what lies below the positives. ``table[part]`` and ``table[part + 1]`` enclose the positives of a part.
    """
    num_positives = len(positives)
    num_parts = 64
    while num_parts < SPREAD * num_positives and num_parts < LARGEST_TABLE:
        num_parts *= 2
    # Unsigned, because the distance of two signed numbers may not fit into a signed one.
    lowest = uint64(positives[0])
    shift = uint64(0)
    while (uint64(positives[-1]) - lowest) >> shift >= uint64(num_parts):
        shift += uint64(1)
    table[0] = 0
    part = 1
    for place in range(num_positives):
        while part <= 1 + np.int64((uint64(positives[place]) - lowest) >> shift):
            table[part] = place
            part += 1
    table[part] = num_positives
    return shift


@compiled
def _part_of(key, first, last, shift):
    # Unsigned arithmetic and no branch: nothing could foretell one, and unsigned indices need no look at their sign.
    inside = (uint64(min(max(key, first), last)) - uint64(first)) >> shift
    return (inside + uint64(1)) * uint64(key >= first)


@compiled
def _count_between(keys, num_keys, positives, table, shift, counts, of_parts, is_shared, near):
    """Add the number of keys with exactly ``k`` positives at or below them to ``counts[k]``.

    Most keys lie in parts without a positive and are done with by counting the keys of the part. The few that share
    their part with a positive are put aside and compared.
    """
    first, last = positives[0], positives[-1]
    num_parts = np.int64(_part_of(last, first, last, shift)) + 1
    for part in range(num_parts):
        of_parts[part] = 0
        is_shared[part] = table[part] != table[part + 1]
    num_near = uint64(0)
    for entry in range(num_keys):
        key = keys[entry]
        part = _part_of(key, first, last, shift)
        of_parts[part] += 1
        near[num_near] = key
        num_near += uint64(is_shared[part])
    for part in range(num_parts):
        if not is_shared[part]:
            counts[table[part]] += of_parts[part]
    for entry in range(num_near):
        key = near[entry]
        part = _part_of(key, first, last, shift)
        below = np.int64(table[part])
        left = np.int64(table[part + uint64(1)]) - below
        while left > 0:
            half = left >> 1
            is_below = np.int64(positives[below + half] <= key)
            below += is_below * (half + 1)
            left = half - is_below * (2 * half + 1 - left)
        counts[below] += 1

"""Kernels for rankings, compiled by Numba, for :mod:`.positive_ranks` and :mod:`.retrieval`.

No ranking is sorted. Only the positives are, and the other entries are counted between them. Scores are compared as
integers that have the same order: the bits of a float, inverted where it is negative. A table maps the leading bits of
an entry to the positives that it lies between, up to a short binary search.

All compiled code is in this file, because Numba's cache is renewed for changes of the file that a function is in, but
not for changes of the files that it calls.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numba import njit, uint64

INTEGERS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
# With this many positives or fewer, comparing every entry with each of them, many at a time, beats the table.
FEW = 32
# The same for queries, whose keys are twice as large.
FEW_RELEVANT = 16
# Entries of the table for each positive, so that most entries are compared with at most one positive.
SPREAD = 8
# Most entries of the table, so that it stays in the processor's cache.
LARGEST_TABLE = 1 << 17


def compiled(function: Callable) -> Callable:
    """Compile a function when it is first called, and keep the result on disk for the next process.

    Compiled functions release the interpreter lock, so that threads run them at the same time.
    """
    try:
        return njit(cache=True, nogil=True, error_model='numpy')(function)
    except RuntimeError:  # there is no directory that Numba may write to
        return njit(nogil=True, error_model='numpy')(function)


def rank_rows(
    scores: np.ndarray, labels: np.ndarray, num_positives: np.ndarray, has_unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count the known entries at or above each positive of each row.

    Scores (R, E) are float32 or float64, labels (R, E) int8, both row-major. ``has_unknown`` (R,) is true where a label
    of the row is unknown. Returns the (V,) scores of the positives, row after row and ascending within one, and the
    (V,) counts.
    """
    starts = np.concatenate([[0], np.cumsum(num_positives)])
    bits = scores.view(INTEGERS[scores.dtype])
    positives = np.empty(starts[-1], bits.dtype)
    known_above = np.empty(starts[-1], np.int64)
    _read_positives(bits, labels, starts, positives)
    for row in np.flatnonzero(num_positives > FEW):
        positives[starts[row] : starts[row + 1]].sort()  # numpy sorts long rows several times faster than Numba
    _rank_rows(bits, labels, has_unknown, starts, positives, known_above)
    return _ordered(positives).view(scores.dtype), known_above


def count_pooled(positives: np.ndarray, blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Count the known entries at or above each of the (V,) ascending positives, in all blocks of scores and labels."""
    integer = INTEGERS[positives.dtype]
    keys, table = _ordered(positives.view(integer)), np.empty(LARGEST_TABLE + 2, np.int32)
    counts = np.zeros(len(positives) + 1, np.int64)
    shift = _fill_table(keys, table)
    for scores, labels in blocks:
        _pool(scores.view(integer).ravel(), labels.ravel(), keys, table, shift, counts)
    return np.cumsum(counts[:0:-1])[::-1]


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Turn the bits of floats into integers of the same order, or back; both zeros become 0."""
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


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
    keys, memory = np.empty(num_entries, bits.dtype), _memory(num_entries, bits)
    for row in range(num_rows):
        start, stop = starts[row], starts[row + 1]
        if start < stop:
            num_known = _read_keys(bits[row], labels[row], has_unknown[row], keys)
            if stop - start > FEW:
                _count_above(keys, num_known, positives[start:stop], FEW, memory, known_above[start:stop])
                continue
            for place in range(start, stop):  # here as well: a call takes longer than such a row
                known_above[place] = _count_from(keys, num_known, positives[place])


@compiled
def _memory(num_entries, bits):
    """Allocate the arrays that :func:`_count_above` overwrites."""
    table, of_parts = np.empty(LARGEST_TABLE + 2, np.int32), np.empty(LARGEST_TABLE + 2, np.int32)
    near, counts = np.empty(num_entries + 1, bits.dtype), np.empty(num_entries + 1, np.int64)
    return table, of_parts, np.empty(len(table), np.uint8), near, counts


@compiled
def _count_above(keys, num_keys, positives, few, memory, known_above):
    """Write to ``known_above`` how many keys are at or above each ascending positive; up to ``few`` one by one."""
    num_positives = len(positives)
    if num_positives <= few:
        for place in range(num_positives):
            known_above[place] = _count_from(keys, num_keys, positives[place])
        return
    table, of_parts, is_shared, near, counts = memory
    counts[: num_positives + 1] = 0
    shift = _fill_table(positives, table)
    _count_between(keys, num_keys, positives, table, shift, counts, of_parts, is_shared, near)
    above = 0
    for place in range(num_positives, 0, -1):
        above += counts[place]
        known_above[place - 1] = above


@compiled
def _pool(bits, labels, positives, table, shift, counts):
    of_parts, is_shared = np.empty(len(table), np.int32), np.empty(len(table), np.uint8)
    keys, near = np.empty(len(bits), bits.dtype), np.empty(len(bits) + 1, bits.dtype)
    num_known = _read_keys(bits, labels, True, keys)
    _count_between(keys, num_known, positives, table, shift, counts, of_parts, is_shared, near)


@compiled
def _read_keys(bits, labels, has_unknown, keys):
    """Write the known scores, as integers of the same order, to the front of ``keys`` and return their number."""
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
    """Write the scores of the positives, as integers of the same order, row after row; sort a row of up to ``FEW``."""
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
    """Cut the range of the ascending positives into equal parts of 2^s integers, fill ``table``, and return s.

    ``table[part]`` is the index of the first positive in a part or after it. Part 0 lies below all positives.
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
    # Unsigned arithmetic without a branch: a branch could not be predicted, and the sign of an index would be checked.
    inside = (uint64(min(max(key, first), last)) - uint64(first)) >> shift
    return (inside + uint64(1)) * uint64(key >= first)


@compiled
def _count_between(keys, num_keys, positives, table, shift, counts, of_parts, is_shared, near):
    """Add the number of keys with exactly ``k`` positives at or below them to ``counts[k]``.

    Most keys lie in parts without a positive, where the keys of the part are counted. The few keys that share their
    part with a positive are collected and compared.
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


@compiled
def evaluate_subtree(conditions, depth, table):
    """Evaluate a query and its extensions by excluded classes, as :func:`.retrieval.queries.evaluate_subtree`."""
    num_classes, num_images = len(table.starts) - 1, table.log_scores.shape[1]
    counts, totals = np.zeros(depth + 1, np.int64), np.zeros(depth + 1)
    scores, images = np.empty((depth + 1, num_images)), np.empty((depth + 1, num_images), np.int32)
    memory = _query_memory(num_images)
    sizes = np.zeros(depth + 1, np.int64)
    sizes[0] = _relevant_to(conditions, table, images[0])
    if sizes[0] == 0:
        return counts, totals
    _sum_conditions(conditions, table, scores[0])
    counts[0] += 1
    totals[0] += _average_precision(scores[0], images[0, : sizes[0]], memory)
    # Depth first without recursion: classes[level] is the next class to exclude as the level-th one.
    classes = np.zeros(depth + 2, np.int64)
    level = min(depth, 1)
    while level > 0:
        if classes[level] == num_classes:
            level -= 1
            continue
        condition = num_classes + classes[level]
        classes[level] += 1
        satisfied, size = table.satisfied[condition], 0
        for image in images[level - 1, : sizes[level - 1]]:
            images[level, size] = image
            size += satisfied[image]
        if size == 0:
            continue
        sizes[level] = size
        own, parent, column = scores[level], scores[level - 1], table.log_scores[condition]
        for image in range(num_images):
            own[image] = parent[image] + column[image]
        counts[level] += 1
        totals[level] += _average_precision(own, images[level, :size], memory)
        if level < depth:
            classes[level + 1] = classes[level]
            level += 1
    return counts, totals


@compiled
def evaluate_queries(queries, table):
    """Compute the average precision of each query, as :func:`.retrieval.queries.evaluate_queries`."""
    num_images = table.log_scores.shape[1]
    scores, images = np.empty(num_images), np.empty(num_images, np.int32)
    memory, precisions = _query_memory(num_images), np.full(len(queries), np.nan)
    for row in range(len(queries)):
        size = _relevant_to(queries[row], table, images)
        if size > 0:
            _sum_conditions(queries[row], table, scores)
            precisions[row] = _average_precision(scores, images[:size], memory)
    return precisions


@compiled
def first_relevant(queries, table):
    """Find the first relevant image of each query, as :func:`.retrieval.queries.first_relevant`."""
    first = np.full(len(queries), -1)
    for row in range(len(queries)):
        for image in _shortest_list(queries[row], table):
            if _satisfies(image, queries[row], table):
                first[row] = image
                break
    return first


@compiled
def _shortest_list(conditions, table):
    """Return the images that show the rarest class that a query requires."""
    num_classes = len(table.starts) - 1
    rarest = conditions[0]
    for condition in conditions:
        if condition < num_classes:
            size = table.starts[condition + 1] - table.starts[condition]
            if size < table.starts[rarest + 1] - table.starts[rarest]:
                rarest = condition
    return table.images[table.starts[rarest] : table.starts[rarest + 1]]


@compiled
def _satisfies(image, conditions, table):
    met = 0
    while met < len(conditions) and table.satisfied[conditions[met], image]:
        met += 1
    return met == len(conditions)


@compiled
def _relevant_to(conditions, table, images):
    """Write the images that satisfy all conditions to the front of ``images`` and return their number."""
    size = 0
    for image in _shortest_list(conditions, table):
        images[size] = image
        size += _satisfies(image, conditions, table)
    return size


@compiled
def _sum_conditions(conditions, table, scores):
    scores[:] = table.log_scores[conditions[0]]
    for condition in conditions[1:]:
        column = table.log_scores[condition]
        for image in range(len(scores)):
            scores[image] += column[image]


@compiled
def _query_memory(num_images):
    """Allocate the arrays that :func:`_average_precision` overwrites."""
    keys = np.empty(num_images, np.int64)
    return keys, np.empty_like(keys), np.empty_like(keys), np.empty_like(keys), _memory(num_images, keys)


@compiled
def _average_precision(scores, images, memory):
    """Compute the average precision of the ranking in which ``images`` are relevant; NaN scores are left out."""
    candidates, positives, spare, known_above, memory_of_counts = memory
    bits, lowest, num_relevant = scores.view(np.int64), np.iinfo(np.int64).min, len(images)
    worst = np.inf
    for place in range(num_relevant):
        image = images[place]
        positives[place] = bits[image] if bits[image] >= 0 else lowest - bits[image]
        worst = min(worst, scores[image])
    # Images below the worst relevant one change nothing. All are written and some kept, without a branch.
    num_candidates = 0
    for image in range(len(scores)):
        candidates[num_candidates] = bits[image] if bits[image] >= 0 else lowest - bits[image]
        num_candidates += scores[image] >= worst
    positives = positives[:num_relevant]
    _sort(positives, spare, memory_of_counts[0])
    _count_above(candidates, num_candidates, positives, FEW_RELEVANT, memory_of_counts, known_above)
    # From the best to the worst, one after the other, as the version without Numba adds.
    total, stop = 0.0, num_relevant
    while stop > 0:
        start = stop - 1
        while start > 0 and positives[start - 1] == positives[start]:
            start -= 1
        precision = (num_relevant - start) / known_above[start]
        for _ in range(start, stop):
            total += precision
        stop = start
    return total / num_relevant


@compiled
def _sort(keys, spare, stops):
    """Sort ``keys`` in place: by equal parts of their range, then within each part; almost in linear time."""
    if len(keys) <= FEW:
        keys.sort()
        return
    # Unsigned, because the distance of two signed numbers may not fit into a signed one.
    lowest, most, num_parts, shift = uint64(keys.min()), uint64(keys.max()) - uint64(keys.min()), 64, uint64(0)
    while num_parts < len(keys) and num_parts < LARGEST_TABLE:
        num_parts *= 2
    while most >> shift >= uint64(num_parts):
        shift += uint64(1)
    stops[: num_parts + 1] = 0
    for key in keys:
        stops[1 + np.int64((uint64(key) - lowest) >> shift)] += 1
    for part in range(num_parts):
        stops[part + 1] += stops[part]
    for key in keys:  # turns where a part begins into where it stops
        part = np.int64((uint64(key) - lowest) >> shift)
        spare[stops[part]] = key
        stops[part] += 1
    start = 0
    for part in range(num_parts):
        if stops[part] - start > FEW:
            spare[start : stops[part]].sort()
        start = stops[part]
    for place in range(len(keys)):  # moves keys within small parts alone
        key = spare[place]
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key

"""Numba-compiled kernels that rank scores, for :mod:`.positive_ranks` and :mod:`.retrieval`.

The kernels avoid sorting a whole ranking. They sort only the scores of the positives, and count the other scores
between these. Scores are compared as integers of the same order, called keys: the bits of a float, inverted where it
is negative. A lookup table from the leading bits of a key leaves only a short binary search among the positives.

All compiled code is in one file: Numba renews a function's cache if its own file changes, not if a file it uses does.
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
    """Compile a function by Numba at its first call; cache the code on disk if possible; release the GIL in calls."""
    try:
        return njit(cache=True, nogil=True, error_model='numpy')(function)
    except RuntimeError:  # there is no directory that Numba may write to
        return njit(nogil=True, error_model='numpy')(function)


def rank_rows(
    scores: np.ndarray, labels: np.ndarray, num_positives: np.ndarray, has_unknown: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count, for each positive of each row, the known entries (label 0 or 1) of the row with at least its score.

    ``scores`` (R, E) float32 or float64 and ``labels`` (R, E) int8 are row-major, R rankings of E entries.
    ``num_positives`` (R,) counts the positives; ``has_unknown`` (R,) is true for rows with a label -1. Return (scores,
    counts) of the positives, both (V,) for V positives, ordered by row, and by ascending score within a row.
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
    """Return (V,): how many known entries of all blocks are at or above each of the ascending scores ``positives``."""
    integer = INTEGERS[positives.dtype]
    keys, table = _ordered(positives.view(integer)), np.empty(LARGEST_TABLE + 2, np.int32)
    counts = np.zeros(len(positives) + 1, np.int64)
    shift = _fill_table(keys, table)
    for scores, labels in blocks:
        _pool(scores.view(integer).ravel(), labels.ravel(), keys, table, shift, counts)
    return np.cumsum(counts[:0:-1])[::-1]


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Turn float bits, as signed integers, into keys: integers that sort like the floats (-0.0 is 0). Or undo this."""
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


@compiled
def count_labels(labels):
    """Return (positives, known entries), both (R,) int64: the numbers of labels 1 and of labels 0 or 1 in each row."""
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
    """Allocate the work arrays of :func:`_count_above` for up to ``num_entries`` keys with the dtype of ``bits``."""
    table, of_parts = np.empty(LARGEST_TABLE + 2, np.int32), np.empty(LARGEST_TABLE + 2, np.int32)
    near, counts = np.empty(num_entries + 1, bits.dtype), np.empty(num_entries + 1, np.int64)
    return table, of_parts, np.empty(len(table), np.uint8), near, counts


@compiled
def _count_above(keys, num_keys, positives, few, memory, known_above):
    """Write to ``known_above`` (V,) how many of the first ``num_keys`` keys are at or above each of V positives.

    ``keys`` and the ascending ``positives`` are results of :func:`_ordered`. Up to ``few`` positives are compared with
    every key; for more, a lookup table is faster. Overwrite ``memory``, the work arrays of :func:`_memory`.
    """
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
    """Write the keys of a row's entries with a known label (0 or 1) to the front of ``keys``; return their number.

    ``bits`` (E,) are the float scores viewed as integers, keys are integers in the order of the scores (see
    :func:`_ordered`). If ``has_unknown`` is false, all entries are written and ``labels`` (E,) are not read.
    """
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
    """Write the keys of each row's positives (label 1) to ``positives``, from index ``starts[row]`` on.

    Keys are explained at :func:`_read_keys`. Those of rows with up to ``FEW`` positives are sorted, others are not.
    """
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
    """Cut the range of the ascending keys ``positives`` into intervals of 2^s integers, fill ``table``, return s.

    ``table[i]`` is the index of the first positive in interval i or after it, or the number of positives if there is
    none. Interval 0 lies below all positives, interval 1 begins at the first. The code calls an interval a part.
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
    """Increase ``counts[k]`` by the number of keys that have exactly k of the ascending positives at or below them.

    Inputs are the first ``num_keys`` of ``keys``, the V ``positives``, and their ``table`` of intervals and ``shift`` s
    from :func:`_fill_table`. These work arrays are overwritten: ``of_parts`` (number of keys in each interval),
    ``is_shared`` (whether the interval has a positive) and ``near`` (keys in intervals with a positive). Most keys lie
    in other intervals and are counted by interval. The keys in ``near`` are compared by binary search.
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
def evaluate(queries, depth, table):
    """Evaluate queries, alone and with excluded classes, with the result of :func:`.retrieval.queries.evaluate`."""
    num_conditions, num_images = table.log_scores.shape
    counts, totals = np.zeros((len(queries), depth + 1), np.int64), np.zeros((len(queries), depth + 1))
    scores, images = np.empty((depth + 1, num_images)), np.empty((depth + 1, num_images), np.int32)
    keys = np.empty(num_images, np.int64)
    memory = keys, _memory(num_images, keys)
    sizes, following = np.empty(depth + 1, np.int64), np.empty(depth + 1, np.int64)
    for row in range(len(queries)):
        sizes[0] = _relevant_to(queries[row], table, images[0])
        if sizes[0] == 0:
            continue
        own = scores[0]
        own[:] = table.log_scores[queries[row, 0]]
        for condition in queries[row, 1:]:
            column = table.log_scores[condition]
            for image in range(num_images):
                own[image] += column[image]
        # Depth first without recursion: following[level] is the next condition to add to the query of the level.
        level, following[0], is_new = 0, num_conditions // 2, True
        while level >= 0:
            if is_new:  # one call for all levels, so that the compiler may inline it
                counts[row, level] += 1
                totals[row, level] += _average_precision(scores[level], images[level, : sizes[level]], memory)
                is_new = False
            condition = following[level]
            if level == depth or condition == num_conditions:
                level -= 1
                continue
            following[level] += 1
            satisfied, size = table.satisfied[condition], 0
            for image in images[level, : sizes[level]]:
                images[level + 1, size] = image
                size += satisfied[image]
            if size > 0:
                own, parent, column = scores[level + 1], scores[level], table.log_scores[condition]
                for image in range(num_images):
                    own[image] = parent[image] + column[image]
                level += 1
                sizes[level], following[level], is_new = size, condition + 1, True
    return counts, totals


@compiled
def _relevant_to(conditions, table, images):
    """Write the indices of the images that satisfy all conditions to the front of ``images``; return their number."""
    # Only images that show the rarest of the required classes can be relevant.
    required = conditions[conditions < len(table.starts) - 1]
    rarest, size = required[np.argmin(table.starts[required + 1] - table.starts[required])], 0
    for image in table.images[table.starts[rarest] : table.starts[rarest + 1]]:
        met = 0
        while met < len(conditions) and table.satisfied[conditions[met], image]:
            met += 1
        images[size] = image
        size += met == len(conditions)
    return size


@compiled
def _average_precision(scores, images, memory):
    """Compute average precision of ``scores`` (NaN left out), relevant at indices ``images``; overwrite ``memory``."""
    candidates, memory_of_counts = memory
    bits, lowest, num_relevant = scores.view(np.int64), np.iinfo(np.int64).min, len(images)
    positives, known_above, worst = np.empty(num_relevant, np.int64), np.empty(num_relevant, np.int64), np.inf
    for place in range(num_relevant):
        image = images[place]
        positives[place] = bits[image] if bits[image] >= 0 else lowest - bits[image]
        worst = min(worst, scores[image])
    # Images below the worst relevant one change nothing. All are written and some kept, without a branch.
    num_candidates = 0
    for image in range(len(scores)):
        candidates[num_candidates] = bits[image] if bits[image] >= 0 else lowest - bits[image]
        num_candidates += scores[image] >= worst
    _sort(positives, known_above, memory_of_counts[0])
    _count_above(candidates, num_candidates, positives, FEW_RELEVANT, memory_of_counts, known_above)
    precisions, first_tied = np.empty(num_relevant), 0
    for place in range(num_relevant):
        if positives[place] > positives[first_tied]:
            first_tied = place
        precisions[place] = (num_relevant - first_tied) / known_above[place]
    total = 0.0
    for precision in precisions[::-1]:  # from the best to the worst, as the version without Numba adds
        total += precision
    return total / num_relevant


@compiled
def _sort(keys, spare, stops):
    """Sort integer ``keys`` in place, in almost linear time, by intervals; overwrite arrays ``spare`` and ``stops``."""
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

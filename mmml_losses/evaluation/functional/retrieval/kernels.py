"""Average precision of queries, compiled by numba; importing this module needs numba, :mod:`.plain` does not.

No ranking is sorted. The relevant images are sorted, and every other image is only counted between two of them. To
find its place at once, scores fall into fine buckets by the exponent and the leading bits of their distance to zero,
which spreads log-probabilities evenly at both ends; within a bucket the scores themselves decide.

All compiled code is in this one file: numba's cache notices a change of the file that a function stands in, and not of
the files that it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

from .conditions import ConditionTable

# Up to so many relevant images, a pass over the candidates for each one beats the buckets.
FEW = 16
# Images handled at a time, so that what is in work stays in the processor's nearest cache.
BLOCK = 1024
# Buckets cover distances from 2**-20 to 2**7, what lies beyond shares the outermost ones. Each doubling of the distance
# is cut by the leading bits of the mantissa: into 256, or into 1024 when many relevant images would crowd those.
NEAREST = 2.0**-20
NEAREST_EXPONENT = 1023 - 20
OCTAVES = 27
FEWER_BITS = 8
MORE_BITS = 10
MANY = 2000
# A bucket with more relevant images than this is searched by halves.
CROWD = 8


def compiled(function: Callable) -> Callable:
    """Compile without the interpreter lock, and keep the machine code on disk where there is a place for it."""
    options = {'nogil': True, 'error_model': 'numpy'}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's directory nor the user's can be written
        return numba.njit(**options)(function)


class Workspace(NamedTuple):
    """Memory that one thread works in, so that no query allocates."""

    scores: np.ndarray  # (depths, N) scores of the queries on the way down
    lists: np.ndarray  # (depths, N) their relevant images
    relevant: np.ndarray  # (N,) scores of the relevant images as they come
    ranked: np.ndarray  # (N + 1,) the same from best to worst
    candidates: np.ndarray  # (N,) scores at least as good as the worst relevant one
    above: np.ndarray  # (N + 1,) images between neighbouring relevant ones, then at or above each
    starts: np.ndarray  # (buckets + 1,) where each bucket begins in ranked
    places: np.ndarray  # (buckets,) next free place of each bucket while it is filled
    keys: np.ndarray  # (BLOCK,) distances of the scores in work


def workspace(max_conditions: int, num_images: int) -> Workspace:
    """Make the memory for queries of up to ``max_conditions`` conditions."""
    return Workspace(
        scores=np.empty((max_conditions + 1, num_images)),
        lists=np.empty((max_conditions + 1, num_images), dtype=np.int32),
        relevant=np.empty(num_images),
        ranked=np.empty(num_images + 1),
        candidates=np.empty(num_images),
        above=np.empty(num_images + 1, dtype=np.int64),
        starts=np.empty((OCTAVES << MORE_BITS) + 1, dtype=np.int32),
        places=np.empty(OCTAVES << MORE_BITS, dtype=np.int32),
        keys=np.empty(BLOCK),
    )


@compiled
def _buckets_of(scores, bits, work):
    """Buckets of at most ``BLOCK`` scores, the best score in the lowest; overwritten by the next call."""
    distances = work.keys[: scores.shape[0]]
    for i in range(scores.shape[0]):
        distances[i] = NEAREST - scores[i]
    # A positive float and its bits, read as an integer, rise together.
    keys = distances.view(np.int64)
    first_key = NEAREST_EXPONENT << bits
    last_bucket = (OCTAVES << bits) - 1
    for i in range(keys.shape[0]):
        keys[i] = min(max((keys[i] >> (52 - bits)) - first_key, 0), last_bucket)
    return keys


@compiled
def _sort_best_first(values):
    """Sort in place: by insertion where there are few values, in Shell's way, over shrinking gaps, where many."""
    gap = 1
    while gap < values.shape[0] // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, values.shape[0]):
            value = values[i]
            place = i
            while place >= gap and values[place - gap] < value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@compiled
def _count_few(num_relevant, num_candidates, work):
    """Rank few relevant images, and count the candidates at or above each one."""
    ranked, above = work.ranked[:num_relevant], work.above
    for place in range(num_relevant):
        ranked[place] = work.relevant[place]
        above[place] = 0
    _sort_best_first(ranked)
    for start in range(0, num_candidates, BLOCK):
        block = work.candidates[start : min(start + BLOCK, num_candidates)]
        for place in range(num_relevant):
            value = ranked[place]
            count = 0
            for i in range(block.shape[0]):
                count += 1 if block[i] >= value else 0
            above[place] += count


@compiled
def _sort_by_buckets(relevant, bits, work):
    """Rank many relevant images from best to worst, and note where each bucket begins."""
    starts, ranked, places = work.starts, work.ranked, work.places
    num_buckets = OCTAVES << bits
    for bucket in range(num_buckets + 1):
        starts[bucket] = 0
    for first in range(0, relevant.shape[0], BLOCK):
        for bucket in _buckets_of(relevant[first : first + BLOCK], bits, work):
            starts[bucket + 1] += 1
    for bucket in range(num_buckets):
        places[bucket] = starts[bucket]
        starts[bucket + 1] += starts[bucket]
    for first in range(0, relevant.shape[0], BLOCK):
        block = relevant[first : first + BLOCK]
        buckets = _buckets_of(block, bits, work)
        for i in range(block.shape[0]):
            ranked[places[buckets[i]]] = block[i]
            places[buckets[i]] += 1
    begin = 0
    while begin < relevant.shape[0]:
        end = starts[_buckets_of(ranked[begin : begin + 1], bits, work)[0] + 1]
        _sort_best_first(ranked[begin:end])
        begin = end


@compiled
def _count_by_buckets(num_relevant, num_candidates, work):
    """Rank many relevant images, and count the candidates at or above each one."""
    bits = FEWER_BITS if num_relevant < MANY else MORE_BITS
    _sort_by_buckets(work.relevant[:num_relevant], bits, work)
    starts, ranked, above = work.starts, work.ranked, work.above
    for place in range(num_relevant + 1):
        above[place] = 0
    for first in range(0, num_candidates, BLOCK):
        block = work.candidates[first : min(first + BLOCK, num_candidates)]
        buckets = _buckets_of(block, bits, work)
        for i in range(block.shape[0]):
            score = block[i]
            place = starts[buckets[i]]
            end = starts[buckets[i] + 1]
            while end - place > CROWD:
                middle = (place + end) >> 1
                if ranked[middle] > score:
                    place = middle + 1
                else:
                    end = middle
            # Most buckets hold one relevant image or none, so this step without a branch ends most searches.
            place += (place < end) & (ranked[place] > score)
            while place < end and ranked[place] > score:
                place += 1
            above[place] += 1
    for place in range(1, num_relevant):
        above[place] += above[place - 1]


@compiled
def _average_precision(num_relevant, num_candidates, work):
    """Average precision of the relevant scores among the candidates, tied images counted together."""
    if num_relevant <= FEW:
        _count_few(num_relevant, num_candidates, work)
    else:
        _count_by_buckets(num_relevant, num_candidates, work)
    total = 0.0
    place = 0
    while place < num_relevant:
        end = place + 1
        while end < num_relevant and work.ranked[end] == work.ranked[place]:
            end += 1
        share = end / work.above[place]
        for _ in range(place, end):
            total += share
        place = end
    return total / num_relevant


@compiled
def _gather(scores, images, work):
    """Keep the scores of the relevant images, and return the worst."""
    worst = np.inf
    for i in range(images.shape[0]):
        score = scores[images[i]]
        work.relevant[i] = score
        worst = min(worst, score)
    return worst


@compiled
def _keep_candidates(scores, worst, num_kept, work):
    """Append the scores at or above the worst relevant one to the candidates; return how many there are now."""
    candidates = work.candidates
    for i in range(scores.shape[0]):
        # Written in any case and kept by moving on: no branch to mispredict.
        candidates[num_kept] = scores[i]
        num_kept += scores[i] >= worst
    return num_kept


@compiled
def _first_list(conditions, table):
    """The images of the rarest class that is asked for."""
    num_classes = table.starts.shape[0] - 1
    rarest = -1
    for condition in conditions:
        if condition < num_classes:
            size = table.starts[condition + 1] - table.starts[condition]
            if rarest < 0 or size < table.starts[rarest + 1] - table.starts[rarest]:
                rarest = condition
    return table.images[table.starts[rarest] : table.starts[rarest + 1]]


@compiled
def _satisfies(image, conditions, table):
    met = 0
    while met < conditions.shape[0] and table.satisfied[conditions[met], image]:
        met += 1
    return met == conditions.shape[0]


@compiled
def _relevant_to(conditions, table, images):
    """List the relevant images; return how many there are."""
    count = 0
    for image in _first_list(conditions, table):
        if _satisfies(image, conditions, table):
            images[count] = image
            count += 1
    return count


@compiled
def _sum_conditions(conditions, start, table, scores):
    """Score the images from ``start`` on, as many as ``scores`` holds, one condition after the other."""
    column = table.log_scores[conditions[0]]
    for i in range(scores.shape[0]):
        scores[i] = column[start + i]
    for condition in conditions[1:]:
        column = table.log_scores[condition]
        for i in range(scores.shape[0]):
            scores[i] += column[start + i]


@compiled
def _evaluate_node(scores, images, work):
    worst = _gather(scores, images, work)
    num_candidates = _keep_candidates(scores, worst, 0, work)
    return _average_precision(images.shape[0], num_candidates, work)


@compiled
def _evaluate_subtree(conditions, first_class, depth, table, work, counts, totals):
    num_classes = table.starts.shape[0] - 1
    sizes = np.zeros(depth + 1, np.int64)
    sizes[0] = _relevant_to(conditions, table, work.lists[0])
    if sizes[0] == 0:
        return
    _sum_conditions(conditions, 0, table, work.scores[0])
    counts[0] += 1
    totals[0] += _evaluate_node(work.scores[0], work.lists[0, : sizes[0]], work)
    # Depth first without recursion: classes[level] is the class to try next as the level-th addition.
    classes = np.zeros(depth + 2, np.int64)
    classes[1] = first_class
    level = 1 if depth > 0 else 0
    while level > 0:
        if classes[level] == num_classes:
            level -= 1
            continue
        condition = num_classes + classes[level]
        classes[level] += 1
        satisfied = table.satisfied[condition]
        size = 0
        for image in work.lists[level - 1, : sizes[level - 1]]:
            work.lists[level, size] = image
            size += satisfied[image]
        if size == 0:
            continue
        sizes[level] = size
        scores, parent, column = work.scores[level], work.scores[level - 1], table.log_scores[condition]
        for i in range(scores.shape[0]):
            scores[i] = parent[i] + column[i]
        counts[level] += 1
        totals[level] += _evaluate_node(scores, work.lists[level, :size], work)
        if level < depth:
            classes[level + 1] = classes[level]
            level += 1


@compiled
def _evaluate_queries(queries, table, work, precisions):
    num_images = table.log_scores.shape[1]
    for row in range(queries.shape[0]):
        length = queries.shape[1]
        while queries[row, length - 1] < 0:
            length -= 1
        conditions = queries[row, :length]
        images = work.lists[0, : _relevant_to(conditions, table, work.lists[0])]
        if images.shape[0] == 0:
            precisions[row] = np.nan
            continue
        worst = np.inf
        for i in range(images.shape[0]):
            score = table.log_scores[conditions[0], images[i]]
            for condition in conditions[1:]:
                score += table.log_scores[condition, images[i]]
            work.relevant[i] = score
            worst = min(worst, score)
        num_candidates = 0
        for start in range(0, num_images, BLOCK):
            end = min(start + BLOCK, num_images)
            scores = work.keys[: end - start]
            _sum_conditions(conditions, start, table, scores)
            num_candidates = _keep_candidates(scores, worst, num_candidates, work)
        precisions[row] = _average_precision(images.shape[0], num_candidates, work)


@compiled
def _first_relevant(queries, table, first):
    for row in range(queries.shape[0]):
        first[row] = -1
        for image in _first_list(queries[row], table):
            if _satisfies(image, queries[row], table):
                first[row] = image
                break


def evaluate_subtree(
    conditions: np.ndarray, first_class: int, depth: int, table: ConditionTable, work: Workspace
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`.plain.evaluate_subtree`."""
    counts = np.zeros(depth + 1, dtype=np.int64)
    totals = np.zeros(depth + 1)
    _evaluate_subtree(conditions, first_class, depth, table, work, counts, totals)
    return counts, totals


def evaluate_queries(queries: np.ndarray, table: ConditionTable, work: Workspace) -> np.ndarray:
    """As :func:`.plain.evaluate_queries`."""
    precisions = np.empty(len(queries))
    _evaluate_queries(queries, table, work, precisions)
    return precisions


def first_relevant(queries: np.ndarray, table: ConditionTable) -> np.ndarray:
    """As :func:`.plain.first_relevant`."""
    first = np.empty(len(queries), dtype=np.int64)
    _first_relevant(queries, table, first)
    return first

"""The space of all queries: how many there are, and the part of it that can have an answer, in pieces of work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from ....utils.arrays import check_whole_number
from .conditions import ConditionTable

Counts = tuple[int, int]  # (|P|, |N|)


def count_queries(num_classes: int, max_conditions: int = 5, min_positives: int = 1) -> dict[Counts, int]:
    r"""Number of queries by (:math:`|P|`, :math:`|N|`), whether an image answers them or not.

    There are :math:`\binom{C}{|P| + |N|} \binom{|P| + |N|}{|P|}` ways to name classes and to ask for some of them.

    Args:
        num_classes: Number of classes C.
        max_conditions: Largest :math:`|P| + |N|`.
        min_positives: Smallest :math:`|P|`.

    Examples:
        >>> sum(count_queries(80).values())
        769548876
    """
    check_whole_number('max_conditions', max_conditions, 1)
    check_whole_number('min_positives', min_positives)
    if not 1 <= min_positives <= max_conditions:
        raise ValueError(f'min_positives must be from 1 to max_conditions ({max_conditions}), got {min_positives}')
    check_whole_number('num_classes', num_classes, 0)
    return {
        (positives, length - positives): comb(num_classes, length) * comb(length, positives)
        for length in range(1, min(max_conditions, num_classes) + 1)
        for positives in range(min_positives, length + 1)
    }


class Subtree(NamedTuple):
    """A query together with all that rule out up to ``depth`` more classes above the last one ruled out."""

    positives: tuple[int, ...]
    negatives: tuple[int, ...]
    depth: int

    @property
    def first_class(self) -> int:
        """The lowest class that may be ruled out in addition."""
        return self.negatives[-1] + 1 if self.negatives else 0

    def num_queries(self, num_classes: int) -> list[int]:
        """Number of queries by the number of classes added."""
        taken = sum(index >= self.first_class for index in self.positives)
        return [comb(num_classes - self.first_class - taken, added) for added in range(self.depth + 1)]

    def split(self, num_classes: int) -> Iterator[Subtree]:
        """Cut into the query itself and one subtree for each class that may be ruled out next."""
        yield self._replace(depth=0)
        for index in range(self.first_class, num_classes):
            if index not in self.positives:
                yield Subtree(self.positives, (*self.negatives, index), self.depth - 1)


def positive_sets(table: ConditionTable, max_size: int) -> Iterator[tuple[int, ...]]:
    """All sets of up to ``max_size`` classes that some image shows together, read from the images' own labels."""
    shows = np.ascontiguousarray(table.satisfied[: table.num_classes].T)

    def extend(chosen: tuple[int, ...], images: np.ndarray) -> Iterator[tuple[int, ...]]:
        first = chosen[-1] + 1 if chosen else 0
        for index in np.flatnonzero(shows[images, first:].any(axis=0)) + first:
            wider = (*chosen, int(index))
            yield wider
            if len(wider) < max_size:
                yield from extend(wider, images[shows[images, index]])

    return extend((), np.arange(table.num_images))


def subtrees(table: ConditionTable, max_conditions: int, min_positives: int, max_queries: int) -> Iterator[Subtree]:
    """Cover every query whose positives occur together, by subtrees of at most about ``max_queries`` queries."""

    def cut(subtree: Subtree) -> Iterator[Subtree]:
        if subtree.depth == 0 or sum(subtree.num_queries(table.num_classes)) <= max_queries:
            yield subtree
        else:
            for part in subtree.split(table.num_classes):
                yield from cut(part)

    for positives in positive_sets(table, max_conditions):
        if len(positives) >= min_positives:
            yield from cut(Subtree(positives, (), max_conditions - len(positives)))


def in_batches(parts: Iterable[Subtree], num_classes: int, min_queries: int) -> Iterator[list[Subtree]]:
    """Join neighbouring subtrees into batches of at least ``min_queries`` queries."""
    batch, size = [], 0
    for part in parts:
        batch.append(part)
        size += sum(part.num_queries(num_classes))
        if size >= min_queries:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def all_queries(num_classes: int, counts: Counts) -> np.ndarray:
    """List all queries with these numbers of positives and negatives as rows of conditions."""
    num_positives, num_negatives = counts
    rows = [
        (*positives, *(num_classes + index for index in negatives))
        for positives in combinations(range(num_classes), num_positives)
        for negatives in combinations([index for index in range(num_classes) if index not in positives], num_negatives)
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), sum(counts))

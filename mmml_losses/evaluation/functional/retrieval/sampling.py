"""Estimate the mean average precision of more queries than can be evaluated, from a stratified sample of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, nan
from types import ModuleType
from typing import NamedTuple

import numpy as np

from .queries import ConditionTable

Counts = tuple[int, int]  # (|P|, |N|)

# Entries of the largest array that a draw makes, and the most draws for one stratum.
CHUNK_ENTRIES = 1 << 22
MAX_DRAWS = 1 << 21
# Draws that find out how many queries of a stratum have a relevant image.
PILOT_DRAWS = 4096
# Draws for each query to evaluate: they are cheap next to its evaluation and make the number of queries well known.
DRAWS_PER_QUERY = 8
# The smallest sample of a stratum whose spread means anything.
MIN_SAMPLES = 16


@dataclass(frozen=True)
class Stratum:
    """Number and mean of the queries with one (:math:`|P|`, :math:`|N|`).

    Attributes:
        size: Number of queries.
        num_queries: Number of queries with a relevant image, or its estimate.
        count_variance: Variance of that estimate.
        mean: Mean average precision of those evaluated.
        mean_variance: Variance of the mean.
        num_evaluated: Number of those evaluated.
    """

    size: int
    num_queries: float
    count_variance: float
    mean: float
    mean_variance: float
    num_evaluated: int

    @classmethod
    def of_all(cls, size: int, num_queries: int, total: float) -> Stratum:
        """Make a stratum without an error, of which every query was evaluated."""
        return cls(size, num_queries, 0.0, total / num_queries if num_queries else nan, 0.0, num_queries)


class Drawn(NamedTuple):
    """Queries drawn from one stratum.

    Attributes:
        queries: Rows of conditions of accepted queries, as many as were wanted.
        num_draws: Number of draws.
        num_accepted: Number of accepted draws.
    """

    queries: np.ndarray
    num_draws: int
    num_accepted: int


class StratumSampler:
    r"""Draws queries with :math:`|P|` positives and :math:`|N|` negatives, uniformly of those with a relevant image.

    There are two methods, and the stratum takes the one that accepts more of its draws:

    - Draw any query and accept it if an image is relevant. A share :math:`M / U` of the draws is accepted, with M the
      number of queries that have a relevant image and U the number of all queries.
    - Draw an image and a query that it answers, uniformly of all such pairs, and accept the pair if no earlier image
      answers the query: every query is accepted with one image only. The share is :math:`M / T`, with
      :math:`T = \sum_i \binom{p_i}{|P|} \binom{n_i}{|N|}` for images with :math:`p_i` positive and :math:`n_i`
      negative labels.

    The smaller of U and T, the ``cover``, is known exactly. Times the share of accepted draws it estimates M, with the
    variance of a binomial proportion. A stratum of which no draw is accepted counts as empty.

    Args:
        counts: :math:`|P|` and :math:`|N|`.
        size: The number U of all queries.
        table: Conditions over all images.
        module: Has the function ``first_relevant``.
    """

    def __init__(self, counts: Counts, size: int, table: ConditionTable, module: ModuleType):
        self.counts, self.size, self.table, self.module = counts, size, table, module
        self._labels = table.satisfied.reshape(2, table.num_classes, -1)
        pairs, places = np.unique(self._labels.sum(axis=1), axis=1, return_inverse=True)
        ways = [comb(int(shown), counts[0]) * comb(int(absent), counts[1]) for shown, absent in pairs.T]
        num_pairs = sum(way * int(times) for way, times in zip(ways, np.bincount(places.ravel()), strict=True))
        self.cover = min(size, num_pairs)
        self.by_image = num_pairs < size
        self._cumulative = np.cumsum(np.array(ways, dtype=np.float64)[places.ravel()])

    def draw(self, seed: tuple[int, ...], num_draws: int, num_wanted: int) -> Drawn:
        """Make so many draws and keep the first accepted queries."""
        if self.cover == 0:
            return Drawn(np.empty((0, sum(self.counts)), dtype=np.int64), num_draws, 0)
        generator = np.random.default_rng([*seed, *self.counts])
        step = max(1, CHUNK_ENTRIES // (8 * self.table.num_classes))
        kept, num_kept, num_accepted = [], 0, 0
        for start in range(0, num_draws, step):
            accepted = self._draw_accepted(generator, min(step, num_draws - start))
            num_accepted += len(accepted)
            kept.append(accepted[: num_wanted - num_kept])
            num_kept += len(kept[-1])
        return Drawn(np.concatenate(kept), num_draws, num_accepted)

    def estimate(self, drawn: Drawn, precisions: np.ndarray) -> Stratum:
        """Estimate the number of queries and their mean from the draws and some average precisions."""
        share = drawn.num_accepted / drawn.num_draws
        known = len(precisions)
        return Stratum(
            size=self.size,
            num_queries=share * self.cover,
            count_variance=self.cover**2 * share * (1 - share) / drawn.num_draws,
            mean=precisions.mean() if known else nan,
            mean_variance=precisions.var(ddof=1) / known if known > 1 else nan,
            num_evaluated=known,
        )

    def _draw_accepted(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        num_classes = self.table.num_classes
        num_positives, num_negatives = self.counts
        if self.by_image:
            images = np.searchsorted(
                self._cumulative, generator.random(num_draws) * self._cumulative[-1], side='right'
            ).clip(max=np.searchsorted(self._cumulative, self._cumulative[-1]))
            positives, negatives = (
                _nth(flags := labels[:, images].T, _distinct(generator, flags.sum(axis=1), number))
                for labels, number in zip(self._labels, self.counts, strict=True)
            )
        else:
            positives = _distinct(generator, np.full(num_draws, num_classes), num_positives)
            negatives = _distinct(generator, np.full(num_draws, num_classes - num_positives), num_negatives)
            for column in range(num_positives):  # in rising order, so that each skips the right classes
                negatives += negatives >= positives[:, column, None]
        queries = np.concatenate([positives, num_classes + negatives], axis=1)
        first = self.module.first_relevant(queries, self.table)
        return queries[first == images if self.by_image else first >= 0]


def sample_strata(
    table: ConditionTable,
    space: dict[Counts, int],
    sample_size: int,
    seed: int,
    module: ModuleType,
    evaluate: Callable[[dict[Counts, np.ndarray]], dict[Counts, np.ndarray]],
) -> dict[Counts, Stratum]:
    """Evaluate a sample of each stratum, or all of a stratum whose share of the sample is as large as itself.

    Args:
        table: Conditions over all images.
        space: Number of queries of each stratum.
        sample_size: Number of queries to evaluate.
        seed: Seed of the random numbers.
        module: Has the function ``first_relevant``.
        evaluate: Returns the average precisions of queries, by stratum.
    """
    samplers = {counts: StratumSampler(counts, size, table, module) for counts, size in space.items()}
    pilot = {counts: sampler.draw((seed, 0), PILOT_DRAWS, 0) for counts, sampler in samplers.items()}
    shares = {counts: drawn.num_accepted / drawn.num_draws for counts, drawn in pilot.items()}
    numbers = share_out(sample_size, {counts: shares[counts] * samplers[counts].cover for counts in space}, space)
    drawn = {}
    for counts, number in numbers.items():
        enough = ceil(1.2 * number / shares[counts]) if shares[counts] else MAX_DRAWS
        num_draws = min(max(enough, DRAWS_PER_QUERY * number), MAX_DRAWS)
        drawn[counts] = samplers[counts].draw((seed, 1), num_draws, number)
    queries = {counts: each.queries for counts, each in drawn.items()}
    listed = {counts: all_queries(table.num_classes, counts) for counts in space if counts not in numbers}
    precisions = evaluate(queries | listed)
    strata = {}
    for counts, size in space.items():
        if counts in drawn:
            strata[counts] = samplers[counts].estimate(drawn[counts], precisions[counts])
        else:
            found = precisions[counts][~np.isnan(precisions[counts])]
            strata[counts] = Stratum.of_all(size, len(found), found.sum())
    return strata


def share_out(total: int, num_queries: dict[Counts, float], space: dict[Counts, int]) -> dict[Counts, int]:
    """Share out a sample among the strata, without those that are better evaluated whole.

    A tenth goes to all strata alike, so that each has an interval. Half goes to strata in proportion to their queries
    with a relevant image, which makes the overall mean precise. The rest goes to the numbers of conditions alike.

    Args:
        total: Number of queries to evaluate.
        num_queries: Number of queries with a relevant image of each stratum, or its estimate.
        space: Number of all queries of each stratum.
    """
    remaining = dict(num_queries)
    while remaining:
        by_length: dict[int, float] = {}
        for counts, number in remaining.items():
            by_length[sum(counts)] = by_length.get(sum(counts), 0.0) + number
        num_lengths = sum(number > 0 for number in by_length.values())
        numbers = {}
        for counts, number in remaining.items():
            share = 0.1 / len(remaining)
            if number > 0:
                share += 0.5 * number / sum(by_length.values()) + 0.4 * number / by_length[sum(counts)] / num_lengths
            numbers[counts] = ceil(total * share)
        # So many draws would be made for such a share that to look at every query costs no more.
        whole = [
            counts
            for counts, number in numbers.items()
            if number >= remaining[counts] and DRAWS_PER_QUERY * number >= space[counts]
        ]
        if not whole:
            return numbers
        # What is not spent on them goes to the others.
        total -= sum(round(remaining.pop(counts)) for counts in whole)
        total = max(total, MIN_SAMPLES * len(remaining))
    return {}


def all_queries(num_classes: int, counts: Counts) -> np.ndarray:
    """List all queries with these numbers of positives and negatives as rows of conditions."""
    num_positives, num_negatives = counts
    rows = [
        (*positives, *(num_classes + index for index in negatives))
        for positives in combinations(range(num_classes), num_positives)
        for negatives in combinations([index for index in range(num_classes) if index not in positives], num_negatives)
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), sum(counts))


def _distinct(generator: np.random.Generator, sizes: np.ndarray, number: int) -> np.ndarray:
    """Draw rising rows of ``number`` distinct integers below each size, all such rows alike."""
    chosen = np.empty((len(sizes), number), dtype=np.int64)
    for column in range(number):
        value = generator.integers(0, sizes - column)
        for earlier in range(column):
            value += value >= chosen[:, earlier]
        chosen[:, column] = value
        chosen[:, : column + 1].sort(axis=1)
    return chosen


def _nth(flags: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the column of the flag with each rank, counted from 0 along its row."""
    order = np.cumsum(flags, axis=1, dtype=np.int32)
    return np.stack([(order <= rank[:, None]).sum(axis=1) for rank in ranks.T], axis=1) if ranks.size else ranks

"""Estimate mean average precision over many queries from a sample, stratified by their numbers of conditions."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import ceil, comb, nan
from typing import NamedTuple

import numpy as np

from .queries import ConditionTable, first_relevant

Counts = tuple[int, int]  # (|P|, |N|)
# Arguments ``queries`` and ``depth`` of :func:`.queries.evaluate`, and the number of queries that it evaluates.
Job = tuple[np.ndarray | Sequence[tuple[int, ...]], int, int]
Run = Callable[[list[Job]], Iterator[tuple[np.ndarray, np.ndarray]]]  # yields results in the order of the jobs

CHUNK_ENTRIES = 1 << 22  # entries of the largest array of random queries
MAX_DRAWS = 1 << 21  # the most queries that are drawn for one stratum
PILOT_DRAWS = 4096  # queries drawn to find out how many of a stratum have a relevant image
DRAWS_PER_QUERY = 8  # draws for each query to evaluate: they are cheap, and make the number of queries more precise
QUERIES_AT_A_TIME = 500  # queries that a thread evaluates at a time


class Stratum(NamedTuple):
    """Counts, mean average precision and variances of queries with some number of required and excluded classes."""

    size: int  # number of queries
    num_queries: float  # number of queries with a relevant image, or its estimate
    count_variance: float  # variance of that estimate
    mean: float  # mean average precision of the evaluated queries
    mean_variance: float  # variance of the mean
    num_evaluated: int  # number of evaluated queries

    @classmethod
    def of_all(cls, size: int, num_queries: int, total: float) -> 'Stratum':
        """Build a stratum from all its queries; ``total`` sums the APs of ``num_queries`` with a relevant image."""
        return cls(size, num_queries, 0.0, total / num_queries if num_queries else nan, 0.0, num_queries)


class StratumSampler:
    r"""Sampler of queries with :math:`|P|` required classes, :math:`|N|` excluded classes and a relevant image.

    All these queries are equally likely. Of two methods, that with more accepted draws is used:

    - Draw any of all ``size`` queries. Accept it if an image is relevant.
    - Draw any pair of an image and a query that it answers. Accept it if no earlier image answers the query, so that
      every query is accepted with one image only.

    The accepted fraction times the number of queries or pairs (``cover``) estimates how many queries have a relevant
    image, with the variance of a binomial proportion. A stratum without an accepted draw counts as empty.
    """

    def __init__(self, counts: Counts, size: int, table: ConditionTable, bits: np.ndarray):
        self.counts, self.size, self.table, self.bits = counts, size, table, bits
        self._labels = table.satisfied.reshape(2, table.num_classes, -1)
        shown, absent = self._labels.sum(axis=1).tolist()
        answered = [comb(p, counts[0]) * comb(n, counts[1]) for p, n in zip(shown, absent, strict=True)]
        self.cover = min(size, sum(answered))
        self.by_image = self.cover < size
        self._cumulative = np.cumsum(np.array(answered, dtype=np.float64))

    def draw(self, seed: tuple[int, ...], num_draws: int, num_wanted: int) -> tuple[np.ndarray, int]:
        """Draw ``num_draws`` queries; return (first ``num_wanted`` accepted, as rows; number of all accepted)."""
        generator = np.random.default_rng([*seed, *self.counts])
        step = max(1, CHUNK_ENTRIES // (8 * self.table.num_classes))
        kept, num_accepted = np.empty((0, sum(self.counts)), dtype=np.int64), 0
        for start in range(0, num_draws if self.cover else 0, step):
            accepted = self._draw_accepted(generator, min(step, num_draws - start))
            num_accepted += len(accepted)
            if len(kept) < num_wanted:
                kept = np.concatenate([kept, accepted[: num_wanted - len(kept)]])
        return kept, num_accepted

    def estimate(self, num_draws: int, num_accepted: int, precisions: np.ndarray) -> Stratum:
        """Estimate the Stratum from the accepted fraction of draws and the APs ``precisions`` of evaluated queries."""
        share, known = num_accepted / num_draws, len(precisions)
        return Stratum(
            size=self.size,
            num_queries=share * self.cover,
            count_variance=self.cover**2 * share * (1 - share) / num_draws,
            mean=precisions.mean() if known else nan,
            mean_variance=precisions.var(ddof=1) / known if known > 1 else nan,
            num_evaluated=known,
        )

    def _draw_accepted(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        num_classes, (num_positives, num_negatives) = self.table.num_classes, self.counts
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
        first = first_relevant(queries, self.bits)
        return queries[first == images if self.by_image else first >= 0]


def sample_strata(
    table: ConditionTable, space: dict[Counts, int], sample_size: int, seed: int, run: Run
) -> dict[Counts, Stratum]:
    """Evaluate about ``sample_size`` queries of ``space``; strata that :func:`share_out` omits are evaluated whole."""
    bits = np.packbits(table.satisfied, axis=1)
    samplers = {counts: StratumSampler(counts, size, table, bits) for counts, size in space.items()}
    shares = {counts: sampler.draw((seed, 0), PILOT_DRAWS, 0)[1] / PILOT_DRAWS for counts, sampler in samplers.items()}
    numbers = share_out(sample_size, {counts: shares[counts] * samplers[counts].cover for counts in space}, space)
    draws, jobs = {}, []
    for counts in space:
        if counts in numbers:
            enough = ceil(1.2 * numbers[counts] / shares[counts]) if shares[counts] else MAX_DRAWS
            num_draws = min(max(enough, DRAWS_PER_QUERY * numbers[counts]), MAX_DRAWS)
            rows, num_accepted = samplers[counts].draw((seed, 1), num_draws, numbers[counts])
            draws[counts] = num_draws, num_accepted
        else:
            rows = all_queries(table.num_classes, counts)
        blocks = [rows[start : start + QUERIES_AT_A_TIME] for start in range(0, len(rows), QUERIES_AT_A_TIME)]
        jobs += [(counts, (block, 0, len(block))) for block in blocks]
    precisions = {counts: list[float]() for counts in space}  # of the queries with a relevant image
    for (counts, _), (num_relevant, values) in zip(jobs, run([job for _, job in jobs]), strict=True):
        precisions[counts] += values[num_relevant > 0].tolist()
    return {
        counts: samplers[counts].estimate(*draws[counts], np.array(values))
        if counts in draws
        else Stratum.of_all(space[counts], len(values), np.sum(values))
        for counts, values in precisions.items()
    }


def share_out(total: int, num_queries: dict[Counts, float], space: dict[Counts, int]) -> dict[Counts, int]:
    """Share ``total`` queries out to strata with about ``num_queries`` that have a relevant image, of ``space`` in all.

    A stratum is left out if evaluating all its queries costs no more than a sample. A tenth goes to all strata equally,
    so that each has an interval. Half goes to strata in proportion to ``num_queries``, which makes the overall mean
    precise. The rest is divided equally between the numbers of conditions.
    """
    remaining = dict(num_queries)
    while True:
        by_length: dict[int, float] = {}
        for counts, number in remaining.items():
            by_length[sum(counts)] = by_length.get(sum(counts), 0.0) + number
        num_lengths = sum(number > 0 for number in by_length.values())
        numbers = {}
        for counts, number in remaining.items():
            share = 0.1 / len(remaining)
            if number > 0:
                share += 0.5 * number / sum(by_length.values()) + 0.4 * number / by_length[sum(counts)] / num_lengths
            numbers[counts] = max(2, int(total * share))  # two at least, so that their variance is defined
        # For such a share, drawing costs as much as evaluating every query.
        whole = [key for key, n in numbers.items() if n >= remaining[key] and DRAWS_PER_QUERY * n >= space[key]]
        if not whole:
            return numbers
        total -= sum(round(remaining.pop(counts)) for counts in whole)


def all_queries(num_classes: int, counts: Counts) -> np.ndarray:
    """Return all queries of a stratum, as rows of conditions of a :class:`.queries.ConditionTable`."""
    rows = [
        (*positives, *negatives)
        for positives in combinations(range(num_classes), counts[0])
        for negatives in combinations([num_classes + i for i in range(num_classes) if i not in positives], counts[1])
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), sum(counts))


def _distinct(generator: np.random.Generator, sizes: np.ndarray, number: int) -> np.ndarray:
    """Draw ``number`` distinct integers in [0, size) for each of n ``sizes``; return (n, number), ascending in rows."""
    chosen = np.empty((len(sizes), number), dtype=np.int64)
    for column in range(number):
        value = generator.integers(0, sizes - column)
        for earlier in range(column):
            value += value >= chosen[:, earlier]
        chosen[:, column] = value
        chosen[:, : column + 1].sort(axis=1)
    return chosen


def _nth(flags: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return (n, k) column indices: (i, j) is where true value number ``ranks[i, j]``, from 0, is in ``flags[i]``."""
    order = np.cumsum(flags, axis=1, dtype=np.int32)
    return np.stack([(order <= rank[:, None]).sum(axis=1) for rank in ranks.T], axis=1) if ranks.size else ranks

"""Uniform samples of the queries that have a relevant image, and how many to take of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, comb
from typing import NamedTuple

import numpy as np

from .engine import Engine
from .results import Stratum
from .space import Counts

# Entries of the largest array that a draw makes, and the most draws for one stratum.
CHUNK_ENTRIES = 1 << 22
MAX_DRAWS = 1 << 21
# Draws per query that is wanted: they are cheap beside its evaluation and make the number of queries well known.
DRAWS_PER_QUERY = 8


class Drawn(NamedTuple):
    """Queries drawn from one stratum.

    Attributes:
        queries: Rows of conditions of accepted queries.
        num_draws: Number of draws.
        num_accepted: Number of draws that were accepted; queries has as many of them as were wanted.
    """

    queries: np.ndarray
    num_draws: int
    num_accepted: int


class StratumSampler:
    r"""Draws queries with :math:`|P|` positives and :math:`|N|` negatives, all with a relevant image alike.

    Two ways, and the stratum takes the one that accepts more of its draws:

    - Draw any query and accept it if an image is relevant. A share :math:`M / U` of the draws is accepted, with M the
      number of queries that have a relevant image and U the number of all queries.
    - Draw an image and a query that it answers, all such pairs alike, and accept the pair if no earlier image answers
      the query: every query is accepted with one image only. The share is :math:`M / T`, with
      :math:`T = \sum_i \binom{p_i}{|P|} \binom{n_i}{|N|}` for images with :math:`p_i` positive and :math:`n_i`
      negative labels.

    The smaller of U and T, the ``cover``, is known exactly; times the share of accepted draws it estimates M, with the
    variance of a binomial proportion. A stratum of which no draw is accepted counts as empty.
    """

    def __init__(self, counts: Counts, size: int, engine: Engine):
        self.counts, self.size, self.engine = counts, size, engine
        num_classes = engine.table.num_classes
        self._labels = engine.table.satisfied.reshape(2, num_classes, -1)
        pairs, places = np.unique(self._labels.sum(axis=1), axis=1, return_inverse=True)
        ways = [comb(int(shown), counts[0]) * comb(int(absent), counts[1]) for shown, absent in pairs.T]
        num_pairs = sum(way * int(times) for way, times in zip(ways, np.bincount(places.ravel()), strict=True))
        self.cover = min(size, num_pairs)
        self.by_image = num_pairs < size
        self._cumulative = np.cumsum(np.array(ways, dtype=np.float64)[places.ravel()])

    def draw(self, seed: Sequence[int], num_draws: int, num_wanted: int) -> Drawn:
        """Make so many draws and keep the first accepted queries."""
        if self.cover == 0:
            return Drawn(np.empty((0, sum(self.counts)), dtype=np.int64), num_draws, 0)
        generator = np.random.default_rng([*seed, *self.counts])
        step = max(1, CHUNK_ENTRIES // (8 * self.engine.table.num_classes))
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
            mean=precisions.mean() if known else np.nan,
            mean_variance=precisions.var(ddof=1) / known if known > 1 else np.nan,
            num_evaluated=known,
        )

    def _draw_accepted(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        num_classes = self.engine.table.num_classes
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
        first = self.engine.first_relevant(queries)
        return queries[first == images if self.by_image else first >= 0]


def num_draws_for(num_wanted: int, share: float) -> int:
    """Draws that give the wanted number of queries and some more, if so large a share is accepted."""
    enough = ceil(1.2 * num_wanted / share) if share else MAX_DRAWS
    return min(max(enough, DRAWS_PER_QUERY * num_wanted, 1), MAX_DRAWS)


def allocate(total: int, strata: dict[Counts, Stratum]) -> dict[Counts, int]:
    r"""Share out queries by Neyman's rule, in proportion to :math:`M_h s_h`.

    A tenth goes to all strata alike, so that each has an interval; the rest half to make the overall mean sharp, half
    to the numbers of conditions, to all of them alike. :math:`s_h` is the standard deviation of the average precision.
    """
    weights = {}
    for counts, stratum in strata.items():
        variance = stratum.mean_variance * stratum.num_evaluated
        weights[counts] = stratum.num_queries * np.sqrt(variance) if variance > 0 else 0.0
    by_length = {}
    for counts, weight in weights.items():
        by_length[sum(counts)] = by_length.get(sum(counts), 0.0) + weight
    sharp = [length for length, weight in by_length.items() if weight > 0]
    numbers = {}
    for counts, weight in weights.items():
        share = 1 / len(weights) if not sharp else 0.1 / len(weights)
        if weight > 0:
            share += 0.45 * weight / sum(weights.values()) + 0.45 * weight / by_length[sum(counts)] / len(sharp)
        numbers[counts] = ceil(total * share)
    return numbers


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
    """Column of the flag with each rank, counted from 0 along its row."""
    order = np.cumsum(flags, axis=1, dtype=np.int32)
    return np.stack([(order <= rank[:, None]).sum(axis=1) for rank in ranks.T], axis=1) if ranks.size else ranks

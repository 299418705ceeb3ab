"""The two ways through the space of queries: all of them, or a sample of each stratum."""

from __future__ import annotations

from math import nan

import numpy as np

from .batches import Batches
from .engine import Engine
from .results import Stratum
from .sampling import DRAWS_PER_QUERY, Drawn, StratumSampler, allocate, num_draws_for
from .space import Counts, all_queries, in_batches, subtrees

# Scores in a batch: a fraction of a second of work, so that a run that is stopped ends soon and loses little.
BATCH_SCORES = 25_000_000
MAX_BATCH_QUERIES = 5_000
# Of a sample, the part that finds out how much the queries of each stratum differ.
PILOT_SHARE = 0.05
PILOT_DRAWS = 4096
# The least sample of a stratum that says anything about its spread.
MIN_SAMPLES = 16


class Exhaustive:
    """Evaluates every query whose positives occur together; no other has a relevant image."""

    def __init__(self, engine: Engine, batches: Batches, space: dict[Counts, int], min_positives: int):
        self.engine, self.batches, self.space, self.min_positives = engine, batches, space, min_positives

    def run(self) -> None:
        """Evaluate what is not finished yet."""
        table = self.engine.table
        batch_queries = _batch_queries(table.num_images)
        parts = subtrees(table, self.engine.max_conditions, self.min_positives, 2 * batch_queries)
        batches = list(in_batches(parts, table.num_classes, batch_queries))
        sizes = [sum(sum(part.num_queries(table.num_classes)) for part in batch) for batch in batches]
        if self.batches.log is not None:
            self.batches.log(f'{sum(sizes):,} of them ask for classes that occur together and are evaluated')
        self.batches.run('all', lambda batch: self.engine.evaluate_subtrees(batch)[None], batches, sizes)

    def strata(self, is_complete: bool) -> dict[Counts, Stratum]:
        """What is known of each stratum now."""
        sums = np.zeros((self.engine.max_conditions + 1, self.engine.max_conditions + 1, 3))
        # One after the other, in the order of the batches: the same last bit on any number of threads.
        for result in self.batches.results('all'):
            sums += result[0]
        return {
            counts: Stratum(
                size=size if is_complete else int(sums[counts][0]),
                num_queries=int(sums[counts][1]),
                count_variance=0.0,
                mean=sums[counts][2] / sums[counts][1] if sums[counts][1] else nan,
                mean_variance=0.0 if is_complete else nan,
                num_evaluated=int(sums[counts][1]),
            )
            for counts, size in self.space.items()
        }


class Sampled:
    """Evaluates small strata whole, and of each other stratum a sample that a pilot sample has shared out.

    Where the share of a stratum would be as large as the stratum itself, it is evaluated whole, too, together with the
    main sample: no query is worth a second look, and without the draw there is no error.
    """

    def __init__(self, engine: Engine, batches: Batches, space: dict[Counts, int], sample_size: int, seed: int):
        self.engine, self.batches, self.space = engine, batches, space
        self.sample_size, self.seed = sample_size, seed
        self.listed = [counts for counts, size in space.items() if size <= sample_size // (2 * len(space))]
        self.samplers = {
            counts: StratumSampler(counts, size, engine) for counts, size in space.items() if counts not in self.listed
        }
        self.listed_in_main: list[Counts] = []
        self.draws: dict[str, dict[Counts, Drawn]] = {}
        self.strata_of_rows: dict[str, np.ndarray] = {}

    def run(self) -> None:
        """Evaluate what is not finished yet. Draws are made again: they are cheap and always the same."""
        self._evaluate('listed', self._all_queries(self.listed))
        if not self.samplers:
            return
        num_pilot = max(MIN_SAMPLES, int(PILOT_SHARE * self.sample_size) // len(self.samplers))
        self._draw('pilot', dict.fromkeys(self.samplers, num_pilot), {})
        self._evaluate('pilot', {counts: drawn.queries for counts, drawn in self.draws['pilot'].items()})
        num_spent = num_pilot * len(self.samplers) + sum(self.space[counts] for counts in self.listed)
        numbers = self._share_out(self.sample_size - num_spent)
        shares = {counts: drawn.num_accepted / drawn.num_draws for counts, drawn in self.draws['pilot'].items()}
        self._draw('main', numbers, shares)
        drawn_queries = {counts: drawn.queries for counts, drawn in self.draws['main'].items()}
        self._evaluate('main', drawn_queries | self._all_queries(self.listed_in_main))

    def strata(self, is_complete: bool) -> dict[Counts, Stratum]:
        """What is known of each stratum now: from the pilot sample as long as there is nothing better."""
        stage = 'main' if 'main' in self.strata_of_rows and self.batches.results('main') else 'pilot'
        strata = {}
        for counts, size in self.space.items():
            if counts in self.listed:
                strata[counts] = self._listed_stratum('listed', counts)
            elif counts in self.listed_in_main:
                is_listed = len(self._precisions('main', counts)) == size
                strata[counts] = (
                    self._listed_stratum('main', counts) if is_listed else self._sampled_stratum('pilot', counts)
                )
            else:
                strata[counts] = self._sampled_stratum(stage, counts)
        return strata

    def _share_out(self, total: int) -> dict[Counts, int]:
        """Queries to draw of each stratum for the main sample, without those that are listed instead."""
        pilot = {counts: self._sampled_stratum('pilot', counts) for counts in self.samplers}
        self.listed_in_main = []
        while pilot:
            numbers = allocate(total, pilot)
            # So many draws would be made for the share that to look at every query costs no more.
            small = [
                counts
                for counts, number in numbers.items()
                if number >= pilot[counts].num_queries and DRAWS_PER_QUERY * number >= self.space[counts]
            ]
            if not small:
                return numbers
            for counts in small:
                # What is not spent on it goes to the others.
                total -= round(pilot.pop(counts).num_queries)
            total = max(total, MIN_SAMPLES * len(pilot))
            self.listed_in_main += small
        return {}

    def _all_queries(self, strata: list[Counts]) -> dict[Counts, np.ndarray]:
        return {counts: all_queries(self.engine.table.num_classes, counts) for counts in strata}

    def _draw(self, stage: str, numbers: dict[Counts, int], shares: dict[Counts, float]) -> None:
        self.draws[stage] = {}
        for counts, number in numbers.items():
            num_draws = num_draws_for(number, shares[counts]) if shares else max(PILOT_DRAWS, number)
            seed = (self.seed, len(self.draws))  # the pilot and the main sample are independent
            self.draws[stage][counts] = self.samplers[counts].draw(seed, num_draws, number)

    def _evaluate(self, stage: str, groups: dict[Counts, np.ndarray]) -> None:
        """Evaluate queries of several strata, shuffled, so that any finished part is a sample of each of them."""
        rows = np.full((sum(map(len, groups.values())), self.engine.max_conditions), -1, dtype=np.int64)
        numbers = np.empty(len(rows), dtype=np.int64)
        start = 0
        for counts, queries in groups.items():
            part = slice(start, start + len(queries))
            rows[part, : queries.shape[1]] = queries
            numbers[part] = list(self.space).index(counts)
            start = part.stop
        shuffled = np.random.default_rng(self.seed).permutation(len(rows))
        self.strata_of_rows[stage] = numbers[shuffled]
        step = _batch_queries(self.engine.table.num_images)
        batches = [rows[shuffled[start : start + step]] for start in range(0, len(rows), step)]
        self.batches.run(stage, self.engine.evaluate_queries, batches, [len(batch) for batch in batches])

    def _precisions(self, stage: str, counts: Counts) -> np.ndarray:
        if stage not in self.strata_of_rows:  # a resumed run has results before it knows again what they belong to
            return np.empty(0)
        precisions = np.concatenate([np.empty(0), *self.batches.results(stage)])
        return precisions[self.strata_of_rows[stage][: len(precisions)] == list(self.space).index(counts)]

    def _listed_stratum(self, stage: str, counts: Counts) -> Stratum:
        precisions = self._precisions(stage, counts)
        found = precisions[~np.isnan(precisions)]
        is_complete = len(precisions) == self.space[counts]
        return Stratum(
            size=len(precisions),
            num_queries=len(found),
            count_variance=0.0,
            mean=found.mean() if found.size else nan,
            mean_variance=0.0 if is_complete else nan,
            num_evaluated=len(found),
        )

    def _sampled_stratum(self, stage: str, counts: Counts) -> Stratum:
        if stage not in self.draws or counts not in self.draws[stage]:
            size = self.space[counts]
            return Stratum(size, size, nan, nan, nan, 0)
        return self.samplers[counts].estimate(self.draws[stage][counts], self._precisions(stage, counts))


def _batch_queries(num_images: int) -> int:
    return min(max(BATCH_SCORES // max(num_images, 1), 1), MAX_BATCH_QUERIES)

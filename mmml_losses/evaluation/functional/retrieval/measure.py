"""Measure the mean average precision of a model over all queries for a few classes, or over a sample of the queries."""

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import comb, nan, sqrt
from types import ModuleType
from typing import NamedTuple

import numpy as np
from torch.hub import tqdm

from ....utils.arguments import check_whole_number
from ....utils.arrays import ArrayLike
from ..positive_ranks import import_compiled
from . import queries
from .queries import ConditionTable, Scale, condition_table
from .sampling import Counts, Job, Run, Stratum, sample_strata

Log = Callable[[str], None]

NORMAL_95 = 1.959963984540054  # half of the width, in standard errors, of a 95 % interval
SECONDS_BETWEEN_LINES = 15.0


class RetrievalMean(NamedTuple):
    """Mean average precision over a set of queries; a relevant image is one whose labels answer the query.

    Attributes:
        value: The mean in [0, 1] over all queries with a relevant image; NaN without such a query.
        half_width: Half the width of the 95 % interval around ``value``; 0 when every query was evaluated. NaN if
            ``value`` is NaN, or if a single query was sampled for some numbers of required and excluded classes.
        num_queries: Number of queries with a relevant image; an estimate when queries were sampled.
        num_evaluated: Number of queries whose average precision is in the mean.
        num_skipped: Number of queries without a relevant image, left out; an estimate when queries were sampled.
    """

    value: float
    half_width: float
    num_queries: int
    num_evaluated: int
    num_skipped: int


@dataclass(frozen=True)
class RetrievalResult:
    """Mean average precision of queries that require the classes P and exclude the classes N.

    Attributes:
        overall: Mean over all queries.
        by_conditions: Dict from the number of conditions :math:`|P| + |N|` to the mean over these queries.
        by_counts: Dict from (:math:`|P|`, :math:`|N|`) to the mean over these queries.
        num_images: Number of images that were ranked.
        num_classes: Number of classes that queries can name.
        exhaustive: True if all queries were evaluated, false if a sample.
        complete: Always true; kept for code that reads it.
    """

    overall: RetrievalMean
    by_conditions: dict[int, RetrievalMean]
    by_counts: dict[Counts, RetrievalMean]
    num_images: int
    num_classes: int
    exhaustive: bool = True
    complete: bool = True


def query_retrieval(
    probabilities: ArrayLike,
    labels: ArrayLike,
    max_conditions: int = 5,
    *,
    min_positives: int = 1,
    budget: int = 1_000_000,
    sample_size: int = 200_000,
    seed: int = 0,
    scale: Scale = 'probability',
    checkpoint_file: str | os.PathLike | None = None,
    num_workers: int | None = None,
    use_numba: bool | None = None,
    progress: bool = False,
    log: Log | None = None,
) -> RetrievalResult:
    r"""Compute the mean average precision of queries for images that show the classes P and do not show the classes N.

    Each class of P or N is a condition of the query. Images are ranked by
    :math:`\prod_{i \in P} \eta_i \prod_{j \in N} (1 - \eta_j)` (Cheng and Vasconcelos, sections 4 and 5.3), computed as
    a float64 sum of logarithms, P before N, each by class index. An image is relevant if all of P are labelled 1 and
    all of N are labelled 0. A query leaves out images with an unknown label (-1) among its conditions. As in
    :func:`mmml_losses.evaluation.average_precision`, tied images share one threshold. Queries without a relevant image
    are counted, but left out of the means.

    All queries with :math:`|P| \ge` ``min_positives`` and :math:`|P| + |N| \le` ``max_conditions`` are evaluated if
    there are at most ``budget``. Otherwise a sample is evaluated. Its strata are the queries of equal (:math:`|P|`,
    :math:`|N|`), of which all with a relevant image are equally likely (:class:`.sampling.StratumSampler`).
    :func:`.sampling.share_out` chooses the numbers. The means have 95 % intervals (:func:`combine`).

    Args:
        probabilities: (N, C) predicted probabilities :math:`\eta` in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown.
        max_conditions: Largest number of conditions of a query.
        min_positives: Smallest number of classes that a query requires, at least 1.
        budget: Largest number of queries for which all are evaluated.
        sample_size: Approximate number of queries to evaluate if there are more than ``budget``.
        seed: Seed of the sample; the same seed draws the same queries.
        scale: ``'logit'`` if ``probabilities`` holds log-odds, which are not rounded to 0 and 1 as probabilities are.
        checkpoint_file: Ignored with a warning: an evaluation takes about a minute and no longer writes a checkpoint.
        num_workers: Number of threads, with the same result; by default one for each processor of the process.
        use_numba: True or False to use compiled kernels or numpy, with the same result; None uses kernels if possible.
        progress: Whether to draw a progress bar.
        log: Function called with lines of text: the number of queries, then progress if no bar is drawn. None: silent.
    """
    check_settings(max_conditions, min_positives, budget, sample_size, seed, num_workers)
    if checkpoint_file is not None:
        warnings.warn('checkpoint_file is ignored: query_retrieval writes no checkpoint any more', stacklevel=2)
    table = condition_table(probabilities, labels, scale)
    module = queries if use_numba is False else import_compiled('retrieval', required=bool(use_numba)) or queries
    space = count_queries(table.num_classes, max_conditions, min_positives)
    is_exhaustive = sum(space.values()) <= budget
    log = log or (lambda line: None)
    if num_workers is None:
        num_workers = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    by_counts = ', '.join(f'{counts}: {size:,}' for counts, size in space.items())
    num_images = table.log_scores.shape[1]
    log(f'{sum(space.values()):,} queries over {num_images:,} images, by (positives, negatives) {by_counts}')
    run = partial(run_threads, module, table, num_workers=num_workers, progress=progress, log=log)
    if is_exhaustive:
        strata = _all_strata(table, space, max_conditions, run, log)
    else:
        log(f'they are more than the budget, so a stratified sample of about {sample_size:,} is evaluated')
        strata = sample_strata(table, space, sample_size, seed, run)
    result = RetrievalResult(
        overall=combine(strata.values()),
        by_conditions={
            length: combine([stratum for counts, stratum in strata.items() if sum(counts) == length])
            for length in sorted({sum(counts) for counts in strata})
        },
        by_counts={counts: combine([stratum]) for counts, stratum in strata.items()},
        num_images=num_images,
        num_classes=table.num_classes,
        exhaustive=is_exhaustive,
    )
    about = '' if is_exhaustive else 'about '
    log(f'{about}{result.overall.num_skipped:,} queries have no relevant image and are left out')
    return result


def count_queries(num_classes: int, max_conditions: int = 5, min_positives: int = 1) -> dict[Counts, int]:
    r"""Count all queries with and without a relevant image, as a dict from (:math:`|P|`, :math:`|N|`) to their number.

    P are the required and N the excluded classes. The number is :math:`\binom{C}{|P| + |N|} \binom{|P| + |N|}{|P|}`.

    Args:
        num_classes: Number of classes C.
        max_conditions: Largest :math:`|P| + |N|`.
        min_positives: Smallest :math:`|P|`.
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


def check_settings(
    max_conditions: int, min_positives: int, budget: int, sample_size: int, seed: int, num_workers: int | None
) -> None:
    """Raise a ValueError if one of these arguments of :func:`query_retrieval` is invalid for any data."""
    num_strata = len(count_queries(max_conditions, max_conditions, min_positives))
    check_whole_number('budget', budget, 0)
    check_whole_number('sample_size', sample_size, 32 * num_strata)
    check_whole_number('seed', seed, 0)
    check_whole_number('num_workers', 1 if num_workers is None else num_workers, 1)


def positive_sets(table: ConditionTable, max_size: int) -> Iterator[tuple[int, ...]]:
    """Yield all sets of 1 to ``max_size`` classes that some image shows together, as ascending tuples of indices."""
    shows = np.ascontiguousarray(table.satisfied[: table.num_classes].T)

    def extend(chosen: tuple[int, ...], images: np.ndarray, first: int) -> Iterator[tuple[int, ...]]:
        for index in np.flatnonzero(shows[images, first:].any(axis=0)).tolist():
            yield (wider := (*chosen, first + index))
            if len(wider) < max_size:
                yield from extend(wider, images[shows[images, first + index]], first + index + 1)

    return extend((), np.arange(len(shows)), 0)


def combine(strata: Collection[Stratum]) -> RetrievalMean:
    r"""Compute the mean average precision over the queries of several strata, with its 95 % interval.

    Stratum h has (about) :math:`M_h` queries with a relevant image, of mean average precision :math:`m_h`. These are
    estimated independently. Of the ratio :math:`R = \sum_h M_h m_h / M` with :math:`M = \sum_h M_h`, the variance is
    :math:`\sum_h [M_h^2 \mathrm{Var}(m_h) + (m_h - R)^2 \mathrm{Var}(M_h)] / M^2`, to first order.
    """
    size = sum(stratum.size for stratum in strata)
    filled = [stratum for stratum in strata if stratum.num_queries]
    if not filled:
        return RetrievalMean(nan, nan, 0, 0, size)
    total = sum(stratum.num_queries for stratum in filled)
    value = sum(stratum.num_queries * stratum.mean for stratum in filled) / total
    variance = sum(
        stratum.num_queries**2 * stratum.mean_variance + (stratum.mean - value) ** 2 * stratum.count_variance
        for stratum in filled
    )
    num_evaluated = sum(stratum.num_evaluated for stratum in filled)
    half_width = NORMAL_95 * sqrt(variance) / total
    return RetrievalMean(float(value), half_width, round(total), num_evaluated, size - round(total))


def run_threads(
    module: ModuleType, table: ConditionTable, jobs: list[Job], num_workers: int, progress: bool, log: Log
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the results of ``module.evaluate`` in the order of ``jobs``; show progress in a bar, else by ``log``."""
    done, total = 0, sum(size for *_, size in jobs)
    start = last_line = time.monotonic()
    pool = ThreadPoolExecutor(num_workers)
    try:
        found = pool.map(lambda job: module.evaluate(np.array(job[0]), job[1], table), jobs)
        with tqdm(total=total, unit=' queries', unit_scale=True, disable=not progress) as bar:
            for (*_, size), result in zip(jobs, found, strict=True):
                yield result
                bar.update(size)
                done += size
                if not progress and time.monotonic() - last_line >= SECONDS_BETWEEN_LINES:
                    last_line = time.monotonic()
                    log(f'{done:,} of {total:,} queries done in {last_line - start:.0f} s')
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest


def _all_strata(
    table: ConditionTable, space: dict[Counts, int], max_conditions: int, run: Run, log: Log
) -> dict[Counts, Stratum]:
    """Evaluate all queries of ``space`` whose required classes occur together; no other query has a relevant image."""
    jobs: list[Job] = []
    for classes in positive_sets(table, max_conditions):
        if (len(classes), 0) in space:
            depth, others = max_conditions - len(classes), table.num_classes - len(classes)
            jobs.append(([classes], depth, sum(comb(others, excluded) for excluded in range(depth + 1))))
    log(f'{sum(size for *_, size in jobs):,} of them ask for classes that occur together and are evaluated')
    sums = np.zeros((max_conditions + 1, max_conditions + 1, 2))
    # Added in the order of the sets: the same last bit on any number of threads.
    for ([classes], depth, _), found in zip(jobs, run(jobs), strict=True):
        sums[len(classes), : depth + 1] += np.dstack(found)[0]
    return {counts: Stratum.of_all(size, int(sums[counts][0]), sums[counts][1]) for counts, size in space.items()}

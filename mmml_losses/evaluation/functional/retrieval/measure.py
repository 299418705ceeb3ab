"""Mean average precision of a model over all queries of a few conditions, or over a sample of them."""

from __future__ import annotations

import os

from ....utils.arrays import ArrayLike, check_whole_number
from .batches import Batches, Checkpoint, Log, digest_of
from .conditions import Scale, condition_table
from .engine import Engine
from .evaluations import MIN_SAMPLES, Exhaustive, Sampled
from .results import RetrievalInterrupted, RetrievalResult, result_of
from .space import Counts, count_queries


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
    r"""Mean average precision over queries for images that show the classes P and do not show the classes N.

    Images are ranked by :math:`\prod_{i \in P} \eta_i \prod_{j \in N} (1 - \eta_j)` (Cheng and Vasconcelos, sections 4
    and 5.3), summed in log space in float64, positives first, classes rising. An image is relevant when all of P are
    labelled 1 and all of N are labelled 0. An image with an unknown label (-1) among the conditions of a query is
    neither right nor wrong and takes no place in its ranking. The average precision of a query is that of
    :func:`mmml_losses.evaluation.average_precision`, tied images counted together; a query without a relevant image
    has none, is left out of the means and counted.

    All queries with :math:`|P| \ge` ``min_positives`` and :math:`|P| + |N| \le` ``max_conditions`` are evaluated if
    there are at most ``budget``. If there are more, a sample is, stratified by (:math:`|P|`, :math:`|N|`): each stratum
    is sampled uniformly over its queries with a relevant image (:class:`.sampling.StratumSampler`), more where
    queries are many and differ much (:func:`.sampling.allocate`, from a pilot sample that counts for nothing else),
    and the means carry 95 % intervals (:func:`.results.combine`). Small strata, and those whose share
    of the sample would be all of them, are evaluated whole even then.

    Args:
        probabilities: (N, C) predicted probabilities :math:`\eta` in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown.
        max_conditions: Largest number of conditions of a query.
        min_positives: Smallest number of classes that a query asks for, at least 1.
        budget: The largest number of queries that are all evaluated.
        sample_size: Number of queries to evaluate of more than that.
        seed: Seed of the sample; the same seed draws the same queries.
        scale: ``'logit'`` if ``probabilities`` holds log-odds; they keep what rounding takes from probabilities near
            0 and 1.
        checkpoint_file: Where to keep the finished part, as ``.npz``. An interrupted call goes on from there when it
            is repeated with the same data and settings; the file is removed when the evaluation is done.
        num_workers: Number of threads; by default as many as the process may use processors. It does not change the
            result.
        use_numba: Whether to use compiled kernels; where numba is installed by default. It does not change the result.
        progress: Whether to draw a progress bar, where tqdm is installed.
        log: Takes lines of text: first the number of queries, later how far the work is.

    Raises:
        RetrievalInterrupted: A KeyboardInterrupt that carries the result of the finished part.
    """
    check_settings(max_conditions, min_positives, budget, sample_size, seed, num_workers)
    table = condition_table(probabilities, labels, scale)
    space = count_queries(table.num_classes, max_conditions, min_positives)
    is_exhaustive = sum(space.values()) <= budget
    _announce(space, table.num_images, None if is_exhaustive else sample_size, log)

    digest = ''
    if checkpoint_file is not None:
        sample_settings = () if is_exhaustive else (sample_size, seed)
        settings = (max_conditions, min_positives, is_exhaustive, *sample_settings)
        digest = digest_of([table.log_scores, table.satisfied], settings)
    batches = Batches(Checkpoint(checkpoint_file, digest), num_workers or _num_processors(), progress, log)
    engine = Engine(table, max_conditions, use_numba)
    if is_exhaustive:
        evaluation = Exhaustive(engine, batches, space, min_positives)
    else:
        evaluation = Sampled(engine, batches, space, sample_size, seed)
    attributes = {'num_images': table.num_images, 'num_classes': table.num_classes, 'exhaustive': is_exhaustive}
    try:
        evaluation.run()
    except BaseException as error:
        batches.checkpoint.save()
        if isinstance(error, KeyboardInterrupt):
            so_far = result_of(evaluation.strata(False), complete=False, **attributes)
            raise RetrievalInterrupted(so_far, checkpoint_file) from None
        raise
    batches.checkpoint.remove()
    result = result_of(evaluation.strata(True), **attributes)
    if log is not None:
        about = '' if is_exhaustive else 'about '
        log(f'{about}{result.overall.num_skipped:,} queries have no relevant image and are left out')
    return result


def _announce(space: dict[Counts, int], num_images: int, sample_size: int | None, log: Log | None) -> None:
    """Say how many queries there are before the work starts."""
    if log is None:
        return
    by_counts = ', '.join(f'{counts}: {size:,}' for counts, size in space.items())
    log(f'{sum(space.values()):,} queries over {num_images:,} images, by (positives, negatives) {by_counts}')
    if sample_size is not None:
        log(f'they are more than the budget, so a stratified sample of about {sample_size:,} is evaluated')


def check_settings(
    max_conditions: int, min_positives: int, budget: int, sample_size: int, seed: int, num_workers: int | None
) -> None:
    """Refuse settings that no data could make right."""
    check_whole_number('max_conditions', max_conditions, 1)
    num_strata = len(count_queries(max_conditions, max_conditions, min_positives))
    limits = {
        'budget': (budget, 0),
        'sample_size': (sample_size, 2 * MIN_SAMPLES * num_strata),
        'seed': (seed, 0),
        'num_workers': (1 if num_workers is None else num_workers, 1),
    }
    for name, (value, least) in limits.items():
        check_whole_number(name, value, least)


def _num_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1

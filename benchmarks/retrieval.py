"""Measure the time of query retrieval at the sizes of VOC 2012 and COCO, next to scikit-learn query by query.

    python benchmarks/retrieval.py                       # all cases
    python benchmarks/retrieval.py --only voc-5 coco-5
    python benchmarks/retrieval.py --plain               # without numba, however long it takes
    python benchmarks/retrieval.py --images 0.1          # a tenth of the images

Labels and scores are random numbers of a fixed seed. Class frequencies and the number of labels per image are those of
the published labels. Images belong to scenes in which some classes occur together, so that the number of different sets
of classes is about that of the published labels: the cost depends on it. Scores are those of a good, imperfect model.

A first call on a few images compiles the kernels or loads them from disk; the second call is timed. ``processor`` is
the time of all cores together, the better figure if the machine has other load. scikit-learn ranks the images of some
of the queries, one after the other on one core. ``ratio`` is its time per query divided by ours, both on the clock.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mmml_losses.evaluation import (
    RetrievalResult,
    count_queries,
    query_retrieval,
    relevant_images,
    retrieval_scores,
)


class Data(NamedTuple):
    """Size of a dataset, labels per image beyond the first, and parameters of the class frequencies and scenes."""

    num_images: int
    num_classes: int
    extra_labels: float
    share_of_first: float
    spread: float
    togetherness: float
    num_scenes: int


class Case(NamedTuple):
    """A dataset, the largest number of conditions, and the seconds that it may take."""

    data: Data
    max_conditions: int
    seconds: int


VOC = Data(5_823, 20, extra_labels=0.52, share_of_first=0.45, spread=0.4, togetherness=8.0, num_scenes=5)
COCO = Data(40_137, 80, extra_labels=1.93, share_of_first=0.55, spread=1.0, togetherness=8.0, num_scenes=12)
CASES = {
    'voc-5': Case(VOC, max_conditions=5, seconds=90),
    'coco-3': Case(COCO, max_conditions=3, seconds=180),
    'coco-5': Case(COCO, max_conditions=5, seconds=120),
}


def make_labels(data: Data, generator: np.random.Generator) -> np.ndarray:
    """Draw the classes of each image without replacement; classes of its scene are more likely."""
    weights = generator.normal(0, data.spread, data.num_classes)
    scenes = generator.integers(0, data.num_scenes, data.num_images)
    belongs = generator.random((data.num_scenes, data.num_classes)) < 0.05
    belongs[np.arange(data.num_classes) % data.num_scenes, np.arange(data.num_classes)] = True
    # The number of labels beyond the first is Poisson with a mean that differs by image.
    numbers = 1 + generator.poisson(generator.gamma(2, data.extra_labels / 2, data.num_images))
    keys = weights + data.togetherness * belongs[scenes] + generator.gumbel(size=(data.num_images, data.num_classes))
    keys[:, 0] = np.where(generator.random(data.num_images) < data.share_of_first, np.inf, -np.inf)
    ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
    return (ranks < numbers[:, None]).astype(np.int8)


def make_scores(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return float32 probabilities of a model that separates most positives from most negatives."""
    logits = generator.normal(5.0 * labels - 4.5, 1.8)
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def seconds_of_scikit_learn(scores: np.ndarray, labels: np.ndarray, max_conditions: int) -> float:
    """Return the median seconds that scikit-learn takes for the average precision of one query."""
    from sklearn.metrics import average_precision_score

    generator = np.random.default_rng(0)
    seconds = []
    while len(seconds) < 20:
        classes = generator.permutation(labels.shape[1])[:max_conditions]
        positives, negatives = classes[:1].tolist(), classes[1:].tolist()
        start = time.perf_counter()
        relevant = relevant_images(labels, positives, negatives)
        if relevant.any():
            average_precision_score(relevant, retrieval_scores(scores, positives, negatives))
            seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def measure(name: str, case: Case, images: float, use_numba: bool | None, num_workers: int | None) -> None:
    """Run one case and print its row."""
    generator = np.random.default_rng(0)
    data = case.data._replace(num_images=max(100, round(images * case.data.num_images)))
    labels = make_labels(data, generator)
    scores = make_scores(labels, generator)
    options = {'use_numba': use_numba, 'num_workers': num_workers}
    query_retrieval(scores[:50, :5], labels[:50, :5], 2, **options)
    query_retrieval(scores[:50, :5], labels[:50, :5], 2, budget=0, **options)

    num_queries = sum(count_queries(data.num_classes, case.max_conditions).values())
    print(
        f'{name}: {num_queries:,} queries over {data.num_images:,} images, {labels.sum() / len(labels):.2f} labels each'
    )
    clock, processor = time.perf_counter(), time.process_time()
    result = query_retrieval(scores, labels, case.max_conditions, **options)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    print_result(result)
    per_query = clock / max(1, result.overall.num_evaluated)
    ratio = seconds_of_scikit_learn(scores, labels, case.max_conditions) / per_query
    print(
        f'  {clock:.1f} s of {case.seconds} s allowed, processor {processor:.1f} s, {1e6 * per_query:.0f} us a query, '
        f'scikit-learn ratio {ratio:.0f}',
        flush=True,
    )


def print_result(result: RetrievalResult) -> None:
    """Print the number of queries and the mAP."""
    mean = result.overall
    known = 'have' if result.exhaustive else 'are estimated to have'
    error = 100 * mean.half_width / 1.96
    print(f'  {mean.num_queries:,} {known} a relevant image, {mean.num_evaluated:,} evaluated')
    print(f'  mAP {100 * mean.value:.2f}, standard error {error:.3f}')


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', nargs='+', choices=CASES, default=list(CASES), help='cases to run')
    parser.add_argument('--images', type=float, default=1.0, help='share of the images, for a quick look')
    parser.add_argument('--plain', action='store_true', help='leave numba out')
    parser.add_argument('--workers', type=int, help='number of threads; all processors by default')
    arguments = parser.parse_args(argv)
    if not 0 < arguments.images <= 1:
        parser.error(f'--images must be in (0, 1], got {arguments.images:g}')
    print(f'{platform.processor() or platform.machine()}, {os.cpu_count()} processors, numpy {np.__version__}')
    for name in arguments.only:
        measure(name, CASES[name], arguments.images, False if arguments.plain else None, arguments.workers)


if __name__ == '__main__':
    main()

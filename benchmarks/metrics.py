"""Measure time and memory of the metrics, next to scikit-learn, torchmetrics, mmpretrain and one numpy.sort.

    python benchmarks/metrics.py                               # every section
    python benchmarks/metrics.py --only class sample --rounds 9
    python benchmarks/metrics.py --only large --large-size 20000x9605

Everything runs in one process with one thread. Every round runs each implementation once, in a new order, so that
other load on the machine affects all of them. A ratio divides the time of an implementation by ours in the same round;
the table has medians. Scores are the sigmoid of normal logits, with positives two standard deviations above negatives.
The number of labels per image is that of COCO (40,137 x 80) and Open Images (37,306 x 567). Times include the checks of
the input. Sections:

    class      mAP@class, which is the macro average
    sample     mAP@sample; scikit-learn's label ranking average precision
    micro      all pairs pooled into one ranking
    f1         CP to OF1 at a threshold, and the best threshold of each class
    large      memory of mAP@class where the scores take gigabytes, in a process of its own
    retrieval  the queries of benchmarks/retrieval.py
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import retrieval
from benchmarks.tables import parse, print_table, setup
from mmml_losses.evaluation import (
    average_precision,
    best_threshold,
    f1_scores,
    mean_average_precision,
    micro_average_precision,
)

Measure = Callable[[], float]

SIZES = ('40137x80', '37306x567')
LARGE_SIZE = '125000x9605'
# Labels per image by the number of classes.
POSITIVES = {80: 2.9, 567: 2.54}
PACKAGES = ('numpy', 'torch', 'numba', 'scikit-learn', 'torchmetrics', 'mmpretrain')
GIB = 1 << 30


def make_case(samples: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Make float32 probabilities and int8 labels, block by block to save memory."""
    generator = np.random.default_rng(0)
    scores = np.empty((samples, classes), np.float32)
    labels = np.empty((samples, classes), np.int8)
    for start in range(0, samples, 1000):
        block = slice(start, min(start + 1000, samples))
        shape = scores[block].shape
        labels[block] = generator.random(shape, dtype=np.float32) < POSITIVES.get(classes, 2.9) / classes
        logits = 2 * generator.standard_normal(shape, dtype=np.float32) - 4 + 4 * labels[block]
        scores[block] = 1 / (1 + np.exp(-logits))
    return scores, labels


def class_measures(scores: np.ndarray, labels: np.ndarray) -> dict[str, Measure]:
    """Return our mAP@class, one sort of the scores, and the mAP of other projects."""
    classes = scores.shape[1]
    found = {
        'mmml_losses': lambda: mean_average_precision(scores, labels).value,
        'numpy.sort': lambda: float(np.sort(scores, axis=0)[0, 0]),
    }
    with suppress(ImportError):
        from sklearn.metrics import average_precision_score

        found['scikit-learn'] = lambda: average_precision_score(labels, scores, average='macro')
    score_tensor, label_tensor = torch.from_numpy(scores), torch.from_numpy(labels).long()
    with suppress(ImportError):
        from torchmetrics.functional.classification import multilabel_average_precision

        found['torchmetrics'] = lambda: float(multilabel_average_precision(score_tensor, label_tensor, classes))
    with suppress(ImportError):
        from mmpretrain.evaluation import AveragePrecision

        found['mmpretrain'] = lambda: float(AveragePrecision.calculate(score_tensor, label_tensor)) / 100
    return found


def sample_measures(scores: np.ndarray, labels: np.ndarray) -> dict[str, Measure]:
    """Return our mAP@sample, one sort, and scikit-learn's, without the images without labels that it counts as 1."""
    num_without = int((~(labels == 1).any(axis=1)).sum())
    found = {
        'mmml_losses': lambda: mean_average_precision(scores, labels, by='sample').value,
        'numpy.sort': lambda: float(np.sort(scores, axis=1)[0, 0]),
    }
    with suppress(ImportError):
        from sklearn.metrics import label_ranking_average_precision_score

        def label_ranking() -> float:
            mean = label_ranking_average_precision_score(labels, scores)
            return (mean * len(scores) - num_without) / (len(scores) - num_without)

        found['scikit-learn'] = label_ranking
    return found


def micro_measures(scores: np.ndarray, labels: np.ndarray) -> dict[str, Measure]:
    """Return our micro AP, one sort of all scores, and scikit-learn's micro AP."""
    found = {
        'mmml_losses': lambda: micro_average_precision(scores, labels),
        'numpy.sort': lambda: float(np.sort(scores, axis=None)[0]),
    }
    with suppress(ImportError):
        from sklearn.metrics import average_precision_score

        found['scikit-learn'] = lambda: average_precision_score(labels, scores, average='micro')
    return found


def f1_measures(scores: np.ndarray, labels: np.ndarray) -> dict[str, Measure]:
    """Return the macro F1 at 0.5, ours and of other projects, and our search of the best thresholds."""
    found = {
        'mmml_losses': lambda: f1_scores(scores, labels).macro_f1,
        'mmml_losses, best thresholds': lambda: float(best_threshold(scores, labels).f1.mean()),
    }
    with suppress(ImportError):
        from sklearn.metrics import f1_score

        found['scikit-learn'] = lambda: f1_score(labels, scores >= 0.5, average='macro', zero_division=0)
    with suppress(ImportError):
        from mmpretrain.evaluation import MultiLabelMetric

        tensors = torch.from_numpy(scores), torch.from_numpy(labels).long()
        found['mmpretrain'] = lambda: float(MultiLabelMetric.calculate(*tensors, thr=0.5)[2]) / 100
    return found


COMPARISONS = {
    'class': ('mAP@class', class_measures),
    'sample': ('mAP@sample', sample_measures),
    'micro': ('micro AP', micro_measures),
    'f1': ('macro F1', f1_measures),
}
SECTIONS = (*COMPARISONS, 'large', 'retrieval')


def measure_times(measures: dict[str, Measure], rounds: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the seconds of each round, and the value of each implementation."""
    values = {name: measure() for name, measure in measures.items()}
    times: dict[str, list[float]] = {name: [] for name in measures}
    order = list(measures)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            measures[name]()
            times[name].append(time.perf_counter() - start)
    return times, values


def compare(section: str, size: str, rounds: int) -> None:
    """Measure one section at one size and print the table."""
    what, make_measures = COMPARISONS[section]
    times, values = measure_times(make_measures(*make_case(*parse(size))), rounds)
    rows = []
    for name, seconds in times.items():
        ratios = [theirs / ours for theirs, ours in zip(seconds, times['mmml_losses'], strict=True)]
        ratio, median = statistics.median(ratios), statistics.median(seconds)
        value = '' if name in ('numpy.sort', 'mmml_losses, best thresholds') else f'{values[name]:.9f}'
        rows.append((name, f'{1e3 * median:.1f}', f'{ratio:.2f}', value))
    print_table(f'{what}, {size}', ('implementation', 'ms', 'ratio to ours', what), rows)


def peak_bytes() -> int:
    """Return the peak memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == 'darwin' else 1024 * peak


def measure_large(size: str) -> None:
    """Print time and memory of the large case as json. This runs in a separate process."""
    torch.set_num_threads(1)
    scores, labels = make_case(*parse(size))
    before = peak_bytes()
    start = time.perf_counter()
    by_class = average_precision(scores, labels)
    seconds = time.perf_counter() - start
    result = dict(data=scores.nbytes + labels.nbytes, before=before, peak=peak_bytes(), seconds=seconds)
    print(json.dumps({**result, 'value': float(np.nanmean(by_class))}))


def report_large(size: str) -> None:
    """Print the memory of the large case."""
    command = [sys.executable, str(Path(__file__).resolve()), '--measure-large', size]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    row = (
        size,
        f'{result["data"] / GIB:.2f}',
        f'{result["before"] / GIB:.2f}',
        f'{result["peak"] / GIB:.2f}',
        f'{result["seconds"]:.1f}',
        f'{result["value"]:.6f}',
    )
    header = ('size', 'scores and labels, GiB', 'before, GiB', 'peak, GiB', 's', 'mAP@class')
    print_table('Memory of mAP@class: the process before the call and at its peak', header, [row])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--only', nargs='+', choices=SECTIONS, default=SECTIONS, metavar='SECTION', help='all by default'
    )
    parser.add_argument('--sizes', nargs='+', default=SIZES, metavar='NxC', help='samples x classes')
    parser.add_argument('--large-size', default=LARGE_SIZE, metavar='NxC', help='size of the section on memory')
    parser.add_argument('--rounds', type=int, default=5, help='timed rounds')
    parser.add_argument('--measure-large', metavar='NxC', help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure_large:
        return measure_large(options.measure_large)
    torch.set_num_threads(1)
    random.seed(0)
    print(setup(*PACKAGES))
    print(f'one thread, medians of {options.rounds} rounds')
    for section in options.only:
        if section == 'large':
            report_large(options.large_size)
        elif section == 'retrieval':
            retrieval.main([])
        else:
            for size in options.sizes:
                compare(section, size, options.rounds)


if __name__ == '__main__':
    main()

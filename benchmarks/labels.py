"""Measure time and memory of the label wrappers, relative to reading the labels.

    python benchmarks/labels.py                                # a dataset of the size of COCO, and one of Open Images
    python benchmarks/labels.py --sizes 82081x80 --rounds 9

Everything runs in one process with one thread. The dataset keeps its data infos serialised, as MMEngine does by
default. Every round runs each row once, in a new order, so that other load on the machine affects all of them. A ratio
divides the time of a row by that of ``read_labels`` in the same round; the table has medians. Bytes are the size that a
wrapper adds to a dataset that is sent to a worker, per image and class.
"""

from __future__ import annotations

import argparse
import pickle
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.tables import parse, print_table, setup
from mmml_losses.datasets import HeldOut, LabelWrapper, MissingLabels, PartialLabels, SinglePositive, read_labels

SIZES = ('82081x80', '100000x567')
POSITIVES = 2.9  # labels per image, as in COCO
WRAPPERS: dict[str, Callable[[BaseDataset], LabelWrapper]] = {
    "MissingLabels, rule='floor'": lambda dataset: MissingLabels(dataset, 0.8),
    "MissingLabels, rule='bernoulli'": lambda dataset: MissingLabels(dataset, 0.5, 'bernoulli'),
    "MissingLabels, order='smallest_first'": lambda dataset: MissingLabels(dataset, 0.8, order='smallest_first'),
    "SinglePositive, by='uniform'": SinglePositive,
    "SinglePositive, by='area'": lambda dataset: SinglePositive(dataset, by='area'),
    'PartialLabels': lambda dataset: PartialLabels(dataset, 0.3),
    'HeldOut': HeldOut,
}


class Drawn(BaseDataset):
    """Dataset of images that do not exist, with random labels and areas."""

    def __init__(self, samples: int, classes: int):
        self.size = samples, classes
        super().__init__(
            metainfo=dict(classes=tuple(map(str, range(classes)))), data_prefix=dict(img_path='data/coco/train2014')
        )

    def load_data_list(self) -> list[dict]:
        generator = np.random.default_rng(0)
        samples, classes = self.size
        infos = []
        for number in range(samples):
            labels = np.flatnonzero(generator.random(classes) < POSITIVES / classes).tolist()
            path = f'data/coco/train2014/COCO_train2014_{number:012d}.jpg'
            areas = generator.random(len(labels)).tolist()
            infos.append(dict(img_path=path, img_id=number, gt_label=labels, label_areas=areas))
        return infos


def measure(size: str, rounds: int) -> None:
    """Measure the wrappers at one size and print the table."""
    samples, classes = parse(size)
    dataset = Drawn(samples, classes)
    plain_bytes = len(pickle.dumps(dataset))
    measures: dict[str, Callable[[], object]] = {
        'read_labels': lambda: read_labels(dataset),
        'get_data_info of every image': lambda: [dataset.get_data_info(idx) for idx in range(samples)],
        **{name: (lambda wrap=wrap: wrap(dataset)) for name, wrap in WRAPPERS.items()},
    }
    times: dict[str, list[float]] = {name: [] for name in measures}
    sizes = {}
    order = list(measures)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            result = measures[name]()
            times[name].append(time.perf_counter() - start)
            if name in WRAPPERS:
                sizes[name] = (len(pickle.dumps(result)) - plain_bytes) / (samples * classes)
    rows = []
    for name, seconds in times.items():
        ratios = [own / reading for own, reading in zip(seconds, times['read_labels'], strict=True)]
        added = f'{sizes[name]:.4f}' if name in sizes else ''
        rows.append((name, f'{statistics.median(seconds):.2f}', f'{statistics.median(ratios):.2f}', added))
    header = ('what', 's', 'ratio to reading', 'bytes per image and class')
    print_table(f'Wrapping {samples:,} images x {classes} classes', header, rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sizes', nargs='+', default=SIZES, metavar='NxC', help='images x classes')
    parser.add_argument('--rounds', type=int, default=5, help='timed rounds')
    options = parser.parse_args(argv)
    random.seed(0)
    print(f'{setup("numpy")}; medians of {options.rounds} rounds')
    for size in options.sizes:
        measure(size, options.rounds)


if __name__ == '__main__':
    main()

"""Measure time and memory of a FeatureDataset whose features stay in their file.

    python benchmarks/features.py                                  # 100,000 x 1,280 float16, 80 classes
    python benchmarks/features.py --size 20000x512 --workers 0 4

The steps: write a file of random features into a temporary folder, open it, compute mean and deviation, and go through
it in shuffled batches. The memory after each step has two parts: what this process allocated, and mapped pages of
files, which all processes share. Features loaded into memory would add their size to the first part. Only Linux reports
the two parts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.tables import parse, print_table, setup
from mmml_losses.datasets import FeatureDataset
from mmml_losses.datasets.readers.feature_dataset import feature_statistics

NUM_CLASSES, POSITIVES = 80, 2.9
BATCH_SIZE = 128
BLOCK = 4096


def write_features(path: Path, samples: int, width: int) -> None:
    """Write random features, a block at a time, so that this process never holds them."""
    generator = np.random.default_rng(0)
    header = dict(descr='<f2', fortran_order=False, shape=(samples, width))
    with zipfile.ZipFile(path, 'w') as archive:
        with archive.open('features.npy', 'w', force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for start in range(0, samples, BLOCK):
                count = min(BLOCK, samples - start)
                member.write(generator.standard_normal((count, width), dtype=np.float32).astype('<f2').tobytes())
        with archive.open('labels.npy', 'w') as member:
            labels = generator.random((samples, NUM_CLASSES), dtype=np.float32) < POSITIVES / NUM_CLASSES
            np.lib.format.write_array(member, labels.astype(np.int8))


def memory() -> dict[str, float]:
    """Return allocated memory and mapped pages of this process in MB; empty if the system does not report them."""
    status = Path('/proc/self/status')
    if not status.is_file():
        return {}
    lines = (line.split() for line in status.read_text().splitlines())
    kilobytes = {words[0]: int(words[1]) for words in lines if words[0] in ('RssAnon:', 'RssFile:')}
    return dict(own=kilobytes['RssAnon:'] / 1000, mapped=kilobytes['RssFile:'] / 1000)


def stack(samples: list[dict]) -> torch.Tensor:
    """Stack the features of a batch."""
    return torch.from_numpy(np.stack([sample['features'] for sample in samples]))


def run_through(dataset: FeatureDataset, workers: int) -> None:
    """Read one epoch of shuffled batches."""
    loader = DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=workers, collate_fn=stack)
    count = sum(len(batch) for batch in loader)
    if count != len(dataset):
        raise RuntimeError(f'an epoch must have {len(dataset)} samples, got {count}')


def measure(path: Path, workers: list[int]) -> list[tuple[str, float, dict[str, float]]]:
    """Return each step with its seconds and the memory after it."""
    rows = [('before', 0.0, memory())]

    def step(name: str, run: Callable[[], object]) -> object:
        start = time.perf_counter()
        result = run()
        rows.append((name, time.perf_counter() - start, memory()))
        return result

    dataset = step('open, with all labels', lambda: FeatureDataset(str(path)))
    step('mean and deviation', lambda: feature_statistics([dataset]))
    for number in workers:
        step(f'epoch of shuffled batches, {number} workers', lambda number=number: run_through(dataset, number))
    step('the first of these again', lambda: run_through(dataset, workers[0]))
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--size', default='100000x1280', metavar='NxD', help='samples x features')
    parser.add_argument('--workers', nargs='+', type=int, default=[0, 2], help='workers of the dataloader')
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    samples, width = parse(options.size)
    print(setup('numpy', 'torch'))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'features.npz')
        write_features(path, samples, width)
        rows = measure(path, options.workers)
        title = f'{samples:,} x {width:,} float16, a file of {path.stat().st_size / 1e6:.0f} MB'
    cells = [
        (name, f'{seconds:.1f}', *(f'{used[kind]:.0f}' if used else '' for kind in ('own', 'mapped')))
        for name, seconds, used in rows
    ]
    print_table(title, ('step', 's', 'own memory, MB', 'mapped, MB'), cells)


if __name__ == '__main__':
    main()

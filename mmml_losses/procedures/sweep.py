"""Train a config for every point of a grid of settings, and collect a result of each training."""

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..utils.errors import UsageError
from ..utils.files import replacing
from ..visualization import read_metrics

Grid = Mapping[str, Sequence[str]]
POINT_FILE = 'point.json'


def sweep(
    grid: Grid, command: Sequence[str], work_dir: Path, result: str, log: Callable[[str], None] = print
) -> np.ndarray:
    """Train all points of a grid in folders of their own, and return the results, with one axis for each key.

    A finished point is not trained again, and an interrupted one is resumed.

    Args:
        grid: Dict from each key of ``--cfg-options`` to its values as text.
        command: Command of the training, to which ``--work-dir``, ``--resume`` and ``--cfg-options`` are added.
        work_dir: Folder of the folders of all points.
        result: Name of a metric in the log; the last value that a training logged counts.
        log: Called with a line after each point.
    """
    results = np.full([len(values) for values in grid.values()], np.nan)
    for place, values in zip(np.ndindex(*results.shape), itertools.product(*grid.values()), strict=True):
        options = [f'{key}={value}' for key, value in zip(grid, values, strict=True)]
        folder = work_dir / re.sub(r'[^\w.,=+-]+', '_', ','.join(options))
        train_point([*command, '--cfg-options', *options], folder)
        metrics = read_metrics(folder)
        if not metrics.get(result):
            known = ', '.join(sorted(metrics)) or 'no metrics'
            raise UsageError(f"--result: {folder} has no '{result}' in its log, but {known}")
        results[place] = list(metrics[result].values())[-1]
        log(f'{" ".join(options)}: {result} {results[place]:.4f}')
    return results


def train_point(command: list[str], folder: Path) -> None:
    """Run the command of one training in ``folder``, unless it has finished there; raise a UsageError if it fails."""
    file = folder / POINT_FILE
    point = json.loads(file.read_text(encoding='utf-8')) if file.is_file() else dict(command=command, finished=False)
    if point['command'] != command:
        raise UsageError(f'{folder} holds the training of another command, give another --work-dir: {point["command"]}')
    if point['finished']:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for finished in (False, True):
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(dict(command=command, finished=finished)), encoding='utf-8')
        if not finished:
            done = subprocess.run([*command, '--work-dir', str(folder), '--resume'], check=False)
            if done.returncode:
                raise UsageError(f'the training in {folder} ended with exit code {done.returncode}, see above')

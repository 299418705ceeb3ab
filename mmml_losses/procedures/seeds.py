"""Repeat a training with several seeds, as ``tools/train.py --seeds`` does, and read and compare what came out."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from mmengine.config import Config
from mmengine.dist import is_main_process

from ..evaluation.functional.significance import paired_t_test
from ..utils.errors import UsageError
from ..utils.files import replacing
from .stages import Stages

RECORD_FILE = 'seeds.json'
TABLE_FILE = 'seeds.csv'

Figures = dict[int, dict[str, float | None]]  # by seed and metric


def train_seeds(cfg: Config, number: int, log: Callable[[str], None] = print) -> Figures:
    """Train and test with the seeds 0 to ``number`` - 1, and return the test metrics of each, NaN as None.

    A seed decides the weights that training starts from, the order of the images and their augmentations. Hidden or
    drawn labels stay the same, since the wrappers of datasets have a seed of their own: the LASD paper, too, draws the
    labels of a dataset once. Every seed has folders ``seed_0`` (training) and ``seed_0_test`` in ``cfg.work_dir``,
    which also gets ``seeds.csv``. A finished seed is not repeated, and more seeds can be added later.
    """
    if number < 1:
        raise UsageError(f'--seeds must be at least 1, got {number}')
    cfg = cfg.copy()
    cfg.randomness = dict(cfg.get('randomness') or {}, seed=None)
    stages = Stages(cfg, '--seeds', log)
    stages.start(RECORD_FILE)
    figures = {}
    for seed in range(number):
        training, test = f'seed_{seed}', f'seed_{seed}_test'
        stages.train(training, stages.config(training, seed))
        figures[seed] = stages.test(test, stages.config(test, seed), stages.checkpoint(training))
    if is_main_process():
        _write_table(stages.folder / TABLE_FILE, figures)
    return figures


def read_seeds(folder: str | Path) -> Figures:
    """Return the test metrics of every finished seed in a folder of :func:`train_seeds`."""
    file = Path(folder) / RECORD_FILE
    try:
        finished = json.loads(file.read_text(encoding='utf-8'))['finished']
        tests = {stage: found['metrics'] for stage, found in finished.items() if stage.endswith('_test')}
        return {int(stage.split('_')[1]): metrics for stage, metrics in tests.items()}
    except OSError as error:
        raise UsageError(
            f'{file} cannot be read: {error.strerror}. This makes it: python tools/train.py CONFIG --seeds 10'
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f'{file} must be a record of --seeds, got something else: {error!r}') from None


def summarize(figures: Figures) -> dict[str, tuple[float | None, float | None]]:
    """Return each metric's (mean, standard deviation) over the seeds; None if a seed has none, or for one seed."""
    found: dict[str, tuple[float | None, float | None]] = {}
    for name in next(iter(figures.values())):
        values = [metrics[name] for metrics in figures.values()]
        known = [value for value in values if value is not None]
        complete = len(known) == len(values)
        found[name] = (mean(known) if complete else None, stdev(known) if complete and len(known) > 1 else None)
    return found


class Comparison(NamedTuple):
    """Comparison of one metric of two folders.

    Args:
        first: Mean over the seeds of the first folder.
        second: Mean over the seeds of the second folder.
        deviation: Standard deviation of the differences, second minus first, over the seeds.
        p_value: Of the two-sided paired t-test.
    """

    first: float
    second: float
    deviation: float
    p_value: float


def compare(first: Figures, second: Figures) -> dict[str, Comparison]:
    """Compare each metric of both over their seeds, which must be the same; leave out metrics that a seed lacks."""
    if first.keys() != second.keys() or len(first) < 2:
        raise UsageError(f'both folders must have the same seeds, at least 2, got {sorted(first)} and {sorted(second)}')
    found = {}
    for name in next(iter(first.values())):
        pairs = [(first[seed].get(name), second[seed].get(name)) for seed in sorted(first)]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if len(known) == len(pairs):
            before, after = zip(*known, strict=True)
            differences = [b - a for a, b in known]
            p_value = paired_t_test(before, after)
            found[name] = Comparison(mean(before), mean(after), stdev(differences), p_value)
    return found


def _write_table(file: Path, figures: Figures) -> None:
    with replacing(file) as temporary, temporary.open('w', newline='', encoding='utf-8') as stream:
        writer = csv.writer(stream)
        writer.writerow(['metric', 'mean', 'deviation', *(f'seed_{seed}' for seed in figures)])
        for name, row in summarize(figures).items():
            writer.writerow([name, *row, *(metrics[name] for metrics in figures.values())])

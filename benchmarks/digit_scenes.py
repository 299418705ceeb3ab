"""The papers' claims on digit scenes: a small network, in four settings of the labels.

    python benchmarks/digit_scenes.py                                     # everything, some two hours of one core
    python benchmarks/digit_scenes.py --settings full --losses SPA ASL Focal
    python benchmarks/digit_scenes.py --part 1/2 &                        # two processes share the runs
    python benchmarks/digit_scenes.py --part 2/2
    python benchmarks/digit_scenes.py --report                            # the tables of what is done

Network, augmentation, optimiser and rate are those of configs/bce_digits.py, the same for all losses. As the papers'
networks start from ImageNet, the backbone starts from a training on scenes of something else: one half of the 6,000
training scenes, transposed, for 20 epochs. Then each loss trains on the other half for 6 epochs, or for 12 on the 1,155
scenes of the long tail, which are drawn from all. Tested on 3,000 scenes, whose digits are none of the training's.

Every finished run is kept in the output folder. The same command goes on where it was.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.logging import MMLogger
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import digit_training as training
from benchmarks.digit_training import Scenes
from benchmarks.experiment_figures import measure, measure_retrieval
from benchmarks.experiment_report import Report
from benchmarks.loss_rows import RESAMPLED, VOC, TrainingFacts, build_loss, loss_rows
from benchmarks.run_store import RunStore
from benchmarks.tables import versions
from mmml_losses.datasets import DigitScenes

SETTINGS = {
    'full': 'Full labels',
    '40': '40 % of the labels left',
    'single': 'A single positive label',
    'lt': 'Long tail, full labels',
}
LASD_ALONE = 'LASD, one view'
MISSING_ROWS = ('BCE', 'WAN', 'ASL', 'Hill', 'SPLC', 'LASD')
# The rows that the claims are about; --losses takes any other.
CLAIM_ROWS = {
    'full': ('BCE', 'Focal', 'ASL', 'SPA', 'SPA + LPR', 'Two-way'),
    '40': MISSING_ROWS,
    'single': MISSING_ROWS,
    'lt': ('BCE', 'BCE + RS', 'Focal', 'LSEP', 'DR', 'DB-Focal'),
}
RETRIEVAL_ROWS = ('BCE', 'ASL', 'SPA', 'SPA + LPR')
RETRIEVAL_QUERIES = 20_000  # more than there are of ten classes, so all are evaluated
BATCH_SIZE = 64
TRAIN_SCENES, PRETRAINING_SCENES = range(3000), range(3000, 6000)
EPOCHS, LONG_TAILED_EPOCHS, PRETRAINING_EPOCHS = 6, 12, 20
CONSISTENCY = 0.7  # the paper of LASD for VOC12 (Table 4), as its other values here


class Run(NamedTuple):
    """One training."""

    setting: str
    row: str
    seed: int


class Experiment:
    """Trainings in all settings.

    Args:
        store: Keeps the runs.
        data_root: Where the scenes are, or will be.
    """

    def __init__(self, store: RunStore, data_root: Path):
        self.store = store
        self.data_root = data_root
        self.scenes: dict[str, Scenes] = {}

    def setting(self, name: str) -> Scenes:
        """Scenes of a setting, or of ``'test'``, read once."""
        if name not in self.scenes:
            if name == 'test':
                self.scenes[name] = training.read_scenes(DigitScenes('test', data_root=str(self.data_root)))
            else:
                self.scenes[name] = training.read_setting(name, self.data_root, TRAIN_SCENES)
        return self.scenes[name]

    @cache  # noqa: B019  there is one object in a run, and it lives as long
    def backbone(self) -> dict[str, Tensor]:
        """The weights that all trainings start from."""
        scenes = training.read_setting('full', self.data_root, PRETRAINING_SCENES)
        file = self.store.folder / 'backbone.pth'
        return training.pretrained_backbone(file, scenes, PRETRAINING_EPOCHS, BATCH_SIZE)

    def configs(self, setting: str) -> dict[str, dict]:
        """The losses by row."""
        full = self.setting(setting).full
        return digit_rows(TrainingFacts(*full.shape, float(full.sum(axis=1).mean()), epochs_of(setting)))

    def run(self, run: Run) -> None:
        """Do one training and test it, unless that is done."""
        config = self.configs(run.setting)[run.row]
        made_with = dict(loss=config, epochs=epochs_of(run.setting), scenes=len(self.setting(run.setting).full))
        names = (run.setting, run.row, f'seed_{run.seed}')
        if self.store.has(names, made_with):
            return
        backbone = self.backbone()
        start = time.process_time()
        scenes, test = self.setting(run.setting), self.setting('test')
        loss = build_loss(config, scenes.observed)
        class_aware = run.setting == 'lt' and run.row in RESAMPLED
        network, settings = training.train(
            scenes, loss, epochs_of(run.setting), BATCH_SIZE, run.seed, class_aware, backbone
        )
        with torch.no_grad():
            log_odds = loss.logit_probabilities(training.predict(network, settings, test.images))
        frequencies = scenes.full.sum(axis=0) if run.setting == 'lt' else None
        figures = measure(log_odds, test.full, frequencies)
        if run.setting == 'full' and run.row in RETRIEVAL_ROWS:
            figures |= measure_retrieval(log_odds, test.full, RETRIEVAL_QUERIES)
        self.store.keep(names, made_with, dict(rate=settings.optim_wrapper.optimizer.lr, readings={run.row: figures}))
        print(f'{", ".join(names)}: {time.process_time() - start:.0f} s', file=sys.stderr, flush=True)


def digit_rows(facts: TrainingFacts) -> dict[str, dict]:
    """The losses by row.

    LASD has its consistency between views, which frozen features cannot have; the paper's weight of it is against a sum
    over the classes.
    """
    rows = loss_rows(facts, VOC)
    lasd = dict(
        type='SumLoss',
        losses=dict(
            lasd=dict(rows['LASD'], loss_weight=float(facts.num_classes)),
            consistency=dict(type='ConsistencyRegularizer', loss_weight=CONSISTENCY),
        ),
    )
    return {
        **rows,
        'LASD': lasd,
        LASD_ALONE: rows['LASD'],
    }


def epochs_of(setting: str) -> int:
    """Length of a training."""
    return LONG_TAILED_EPOCHS if setting == 'lt' else EPOCHS


def planned_runs(settings: list[str], losses: list[str] | None, seeds: int) -> list[Run]:
    """All runs, every seed of every row before the next seed."""
    return [
        Run(setting, row, seed)
        for seed in range(seeds)
        for setting in settings
        for row in losses or CLAIM_ROWS[setting]
        if setting == 'lt' or row != 'BCE + RS'
    ]


def parse_part(text: str) -> tuple[int, int]:
    """``1/2`` as (0, 2)."""
    number, count = (int(word) for word in text.split('/'))
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f'must be such as 1/2, got {text}')
    return number - 1, count


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(digit_rows(TrainingFacts(1, 1, 1.0, 2)))
    parser.add_argument('--data', type=Path, default=Path('data/digit_scenes'), help='where the scenes are, or will be')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/digit_scenes'), help='where runs are kept')
    parser.add_argument('--settings', nargs='+', choices=SETTINGS, default=list(SETTINGS), help='all by default')
    parser.add_argument('--losses', nargs='+', choices=names, metavar='LOSS', help='by default those of the claims')
    parser.add_argument('--seeds', type=int, default=3, help='trainings of each')
    parser.add_argument(
        '--part', type=parse_part, default=(0, 1), metavar='K/N', help='the k-th of n shares of the runs'
    )
    parser.add_argument('--report', action='store_true', help='print the tables of what is done, and do nothing more')
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    MMLogger.get_current_instance().setLevel(logging.WARNING)
    machine = platform.processor() or platform.machine()
    print(f'{versions("torch", "numpy", "mmpretrain")}; Python {platform.python_version()}, {machine}, one thread')
    store = RunStore(options.out)
    experiment = Experiment(store, options.data)
    if not options.report:
        number, count = options.part
        for run in planned_runs(options.settings, options.losses, options.seeds)[number::count]:
            experiment.run(run)
    Report(store, SETTINGS, names, options.seeds).print()


if __name__ == '__main__':
    main()

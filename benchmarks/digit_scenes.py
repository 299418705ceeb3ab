"""Test the papers' claims on digit scenes with a small network, in four settings of the labels.

    python benchmarks/digit_scenes.py                                     # everything, some two hours on one core
    python benchmarks/digit_scenes.py --settings full --losses SPA ASL Focal
    python benchmarks/digit_scenes.py --part 1/2 &                        # two processes share the runs
    python benchmarks/digit_scenes.py --part 2/2
    python benchmarks/digit_scenes.py --report                            # the tables of the finished runs

Network, augmentation, optimiser and rate are those of configs/bce_digits.py, the same for all losses. The papers'
networks start from ImageNet. Here the backbone starts from a training on other scenes: one half of the 6,000 training
scenes, transposed, for 20 epochs. Then each loss trains on the other half for 6 epochs, or for 12 epochs on the 1,155
scenes of the long tail, which are drawn from all 6,000. The test set has 3,000 scenes with other digits.

Every finished run is kept in the output folder. Run the same command again to resume.
"""

from __future__ import annotations

import argparse
import logging
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
from benchmarks.tables import setup
from mmml_losses.datasets import DigitScenes

SETTINGS = {
    'full': 'Full labels',
    '40': '40 % of the labels left',
    'single': 'A single positive label',
    'lt': 'Long tail, full labels',
}
LASD_ALONE = 'LASD, one view'
MISSING_ROWS = ('BCE', 'WAN', 'ASL', 'Hill', 'SPLC', 'LASD')
# The rows of the claims; --losses takes any others.
CLAIM_ROWS = {
    'full': ('BCE', 'Focal', 'ASL', 'SPA', 'SPA + LPR', 'Two-way'),
    '40': MISSING_ROWS,
    'single': MISSING_ROWS,
    'lt': ('BCE', 'BCE + RS', 'Focal', 'LSEP', 'DR', 'DB-Focal'),
}
RETRIEVAL_ROWS = ('BCE', 'ASL', 'SPA', 'SPA + LPR')
RETRIEVAL_QUERIES = 20_000  # more than ten classes have, so all are evaluated
BATCH_SIZE = 64
TRAIN_SCENES, PRETRAINING_SCENES = range(3000), range(3000, 6000)
EPOCHS, LONG_TAILED_EPOCHS, PRETRAINING_EPOCHS = 6, 12, 20
CONSISTENCY = 0.7  # for VOC12 (LASD paper, Table 4), like the other values here


class Run(NamedTuple):
    """One training: its setting, its loss and its seed."""

    setting: str
    row: str
    seed: int


class Experiment:
    """Trainings in all settings.

    Args:
        store: Keeps the runs.
        data_root: Folder of the scenes, which are made if they do not exist.
    """

    def __init__(self, store: RunStore, data_root: Path):
        self.store = store
        self.data_root = data_root
        self.scenes: dict[str, Scenes] = {}

    def setting(self, name: str) -> Scenes:
        """Return the scenes of a setting or of ``'test'``, read once."""
        if name not in self.scenes:
            if name == 'test':
                self.scenes[name] = training.read_scenes(DigitScenes('test', data_root=str(self.data_root)))
            else:
                self.scenes[name] = training.read_setting(name, self.data_root, TRAIN_SCENES)
        return self.scenes[name]

    @cache  # noqa: B019  one object lives as long as the process
    def backbone(self) -> dict[str, Tensor]:
        """Return the weights that all trainings start from."""
        scenes = training.read_setting('full', self.data_root, PRETRAINING_SCENES)
        file = self.store.folder / 'backbone.pth'
        return training.pretrained_backbone(file, scenes, PRETRAINING_EPOCHS, BATCH_SIZE)

    def configs(self, setting: str) -> dict[str, dict]:
        """Return the configs of the losses by row."""
        full = self.setting(setting).full
        return digit_rows(TrainingFacts(*full.shape, float(full.sum(axis=1).mean()), epochs_of(setting)))

    def run(self, run: Run) -> None:
        """Do one training and test it, unless it is finished."""
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
    """Return the configs of the losses by row.

    LASD includes its consistency between views, which frozen features do not have. The paper's weight of the
    consistency assumes a sum over the classes.
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
    """Return the number of epochs of a setting."""
    return LONG_TAILED_EPOCHS if setting == 'lt' else EPOCHS


def planned_runs(settings: list[str], losses: list[str] | None, seeds: int) -> list[Run]:
    """Return all runs, with all rows of a seed before the next seed."""
    return [
        Run(setting, row, seed)
        for seed in range(seeds)
        for setting in settings
        for row in losses or CLAIM_ROWS[setting]
        if setting == 'lt' or row != 'BCE + RS'
    ]


def parse_part(text: str) -> tuple[int, int]:
    """Parse a share of the runs: ``1/2`` gives (0, 2)."""
    number, count = (int(word) for word in text.split('/'))
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f'must be such as 1/2, got {text}')
    return number - 1, count


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(digit_rows(TrainingFacts(1, 1, 1.0, 2)))
    parser.add_argument('--data', type=Path, default=Path('data/digit_scenes'), help='folder of the scenes')
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
    print(f'{setup("torch", "numpy", "mmpretrain")}, one thread')
    store = RunStore(options.out)
    experiment = Experiment(store, options.data)
    if not options.report:
        number, count = options.part
        for run in planned_runs(options.settings, options.losses, options.seeds)[number::count]:
            experiment.run(run)
    Report(store, SETTINGS, names, options.seeds).print()


if __name__ == '__main__':
    main()

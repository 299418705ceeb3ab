"""Train a linear classifier with every loss on frozen features of photographs, in five settings of the labels.

    python benchmarks/coco_features.py FEATURES.npz                     # everything, about an hour on one core
    python benchmarks/coco_features.py FEATURES.npz --settings full single --losses BCE SPA 'SPA + LPR'
    python benchmarks/coco_features.py FEATURES.npz --report            # the tables of the finished runs

The file has ``train_features`` with ``train_full``, ``train_75``, ``train_40`` and ``train_single``, the labels that
are left in each setting; ``long_tailed_features`` and ``long_tailed_labels``; ``test_features`` and ``test_labels``;
and ``train_ids`` and ``long_tailed_ids``.

The recipe is that of configs/bce_features.py: one linear layer on standardised features, Adam, a warm-up of one epoch
and a cosine to 0. Trainings take 6 epochs in batches of 128, and on the long tail 20 epochs in batches of 32. The long
tail is also trained by SGD with momentum. All labels start at the probability 0.12, computed with the link of each
loss, and biases learn at ten times the rate.

Each loss has its own learning rate in each setting: the one with the best mAP@class on held-out images with full
labels, with seed 0. These are a fifth of the training set. For the long tail they are as many training images outside
of it, so that its rarest classes stay whole. With this rate the loss trains on the whole training set, once for each
seed, and only these trainings are tested.

Every finished run is kept in the output folder. Run the same command again to resume.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.experiment_figures import LONG_TAILED, measure, measure_retrieval
from benchmarks.experiment_report import Report
from benchmarks.linear_training import Head, Recipe, train_together
from benchmarks.loss_rows import COCO, RESAMPLED, TrainingFacts, build_loss, loss_rows
from benchmarks.run_store import RunStore
from benchmarks.tables import setup
from mmml_losses.losses import PhiLink, TemperatureLink

SETTINGS = {
    'full': 'Full labels',
    '75': '75 % of the labels left',
    '40': '40 % of the labels left',
    'single': 'A single positive label',
    'lt': 'Long tail, full labels',
    'lt-sgd': 'Long tail, full labels, by SGD',
}
# The rates to compare: first those of FIRST_RATES, then the next ones on the side of the better, until one is worse.
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
FIRST_RATES = dict(adam=(3e-4, 1e-3), sgd=(3e-2, 1e-1))
RECIPE = dict(epochs=6, batch_size=128)
LONG_TAILED_RECIPE = dict(epochs=20, batch_size=32)
# A linear layer has separate weights for each class, and Adam's steps do not change when all gradients of a class are
# scaled. So the effect of losses that weight classes shows under SGD only.
LONG_TAILED_OPTIMIZERS = {'lt': 'adam', 'lt-sgd': 'sgd'}
SIDE_BY_SIDE = 8
RETRIEVAL_ROWS = ('BCE', 'ASL', 'SPA', 'SPA + LPR')
RETRIEVAL_QUERIES = 20_000
# Rows whose logits are also scored through another link.
PHI = {
    'Focal': PhiLink(gamma_positive=2.0, gamma_negative=2.0, margin=0.0),
    'ASL': PhiLink(gamma_positive=0.0, gamma_negative=4.0, margin=0.05),
}
TEMPERED = ('Two-way',)


class Split(NamedTuple):
    """Images as standardised features (N, D), with the labels of the training and the full labels, both (N, C)."""

    features: Tensor
    observed: Tensor
    full: np.ndarray

    def take(self, rows: np.ndarray) -> Split:
        """Return the images of these rows."""
        return Split(self.features[rows], self.observed[rows], self.full[rows])


class Setting(NamedTuple):
    """Data of a setting: the whole training set, its parts to train and to compare rates with, and the test set."""

    name: str
    whole: Split
    tuning: Split
    held_out: Split
    test: Split
    recipe: Recipe

    @property
    def facts(self) -> TrainingFacts:
        """Facts that some losses need about the training."""
        samples, classes = self.whole.full.shape
        return TrainingFacts(samples, classes, float(self.whole.full.sum(axis=1).mean()), self.recipe.epochs)

    def is_class_aware(self, row: str) -> bool:
        """Return True if a loss trains with class-aware sampling."""
        return self.name in LONG_TAILED and row in RESAMPLED


class Run(NamedTuple):
    """One training: its loss, learning rate and seed, and the stem of its file."""

    row: str
    config: dict
    rate: float
    seed: int
    name: str


class Features:
    """Contents of the file of features.

    Args:
        file: Path of the file.
        raw: Whether features stay as they are.
    """

    def __init__(self, file: Path, raw: bool = False):
        self.arrays = dict(np.load(file, allow_pickle=False))
        self.raw = raw

    @cache  # noqa: B019  one object lives as long as the process
    def standardized(self, split: str, by: str) -> Tensor:
        """Return features less their mean and in units of their deviation over another split, or as they are."""
        if self.raw:
            return torch.from_numpy(self.arrays[f'{split}_features'].astype(np.float32))
        reference = self.arrays[f'{by}_features'].astype(np.float32)
        mean, deviation = reference.mean(axis=0), reference.std(axis=0)
        return torch.from_numpy((self.arrays[f'{split}_features'].astype(np.float32) - mean) / deviation.clip(1e-6))

    def split(self, split: str, by: str, observed: str, full: str) -> Split:
        """Return images of the file with two of its arrays of labels."""
        labels = torch.from_numpy(self.arrays[observed]).float()
        return Split(self.standardized(split, by), labels, self.arrays[full])

    def setting(self, name: str, **recipe: float) -> Setting:
        """Return one of ``SETTINGS``, with changes of its recipe."""
        order = np.random.default_rng(0).permutation(len(self.arrays['train_features']))
        if name in LONG_TAILED:
            whole = self.split('long_tailed', 'long_tailed', 'long_tailed_labels', 'long_tailed_labels')
            others = order[~np.isin(self.arrays['train_ids'][order], self.arrays['long_tailed_ids'])]
            held_out = self.split('train', 'long_tailed', 'train_full', 'train_full').take(others[: len(order) // 5])
            test = self.split('test', 'long_tailed', 'test_labels', 'test_labels')
            recipe = Recipe(**{**LONG_TAILED_RECIPE, 'optimizer': LONG_TAILED_OPTIMIZERS[name], **recipe})
            return Setting(name, whole, whole, held_out, test, recipe)
        whole = self.split('train', 'train', f'train_{name}', 'train_full')
        held_out, tuning = np.split(order, [len(order) // 5])
        test = self.split('test', 'train', 'test_labels', 'test_labels')
        return Setting(name, whole, whole.take(tuning), whole.take(held_out), test, Recipe(**{**RECIPE, **recipe}))


class Experiment:
    """All losses in one setting.

    Args:
        store: Keeps the runs.
        setting: The setting.
        configs: Configs of the losses by row.
    """

    def __init__(self, store: RunStore, setting: Setting, configs: dict[str, dict]):
        self.store = store
        self.setting = setting
        self.configs = configs

    def run(self, seeds: int) -> None:
        """Find the best rates, then train and test with them."""
        tried = {row: FIRST_RATES[self.setting.recipe.optimizer] for row in self.configs}
        best = {}
        while tried:
            self.finish(
                [self._run(row, rate, 0, f'rate_{rate:g}') for row in tried for rate in tried[row]], tested=False
            )
            for row in tried:
                best[row] = max(tried[row], key=lambda rate: self.held_out(row, rate)['mAP@class'])
            tried = {row: wider for row, rates in tried.items() if (wider := widened(rates, best[row])) != rates}
        for seed in range(seeds):
            self.finish([self._run(row, best[row], seed, f'seed_{seed}') for row in self.configs], tested=True)

    def held_out(self, row: str, rate: float) -> dict:
        """Return the figures of a rate on the held-out images."""
        return self.store.find(self.setting.name, row, f'rate_{rate:g}')

    def finish(self, runs: list[Run], tested: bool) -> None:
        """Do the runs that are not finished, several at a time."""
        for class_aware in (False, True):
            waiting = [
                run
                for run in runs
                if self.setting.is_class_aware(run.row) == class_aware
                and not self.store.has((self.setting.name, run.row, run.name), self._made_with(run))
            ]
            for start in range(0, len(waiting), SIDE_BY_SIDE):
                self._train(waiting[start : start + SIDE_BY_SIDE], tested, class_aware)

    def _run(self, row: str, rate: float, seed: int, name: str) -> Run:
        return Run(row, self.configs[row], rate, seed, name)

    def _made_with(self, run: Run) -> dict:
        return dict(
            loss=run.config, rate=run.rate, samples=self.setting.facts.num_samples, **self.setting.recipe._asdict()
        )

    def _train(self, runs: list[Run], tested: bool, class_aware: bool) -> None:
        start = time.process_time()
        split = self.setting.whole if tested else self.setting.tuning
        heads = [self._head(run, split) for run in runs]
        train_together(split.features, split.observed, heads, self.setting.recipe, runs[0].seed, class_aware)
        for run, head in zip(runs, heads, strict=True):
            figures = self._test(run, head) if tested else self._compare(run, head)
            self.store.keep((self.setting.name, run.row, run.name), self._made_with(run), figures)
        names = ', '.join(f'{run.row} at {run.rate:g}' for run in runs)
        print(f'{self.setting.name}, {time.process_time() - start:.0f} s: {names}', file=sys.stderr, flush=True)

    def _head(self, run: Run, split: Split) -> Head:
        config = run.config
        if 'num_samples' in config:
            config = {**config, 'num_samples': len(split.observed)}
        loss = build_loss(config, split.observed)
        shape = (split.features.size(1), split.observed.size(1))
        return Head(loss, run.rate, shape, self.setting.recipe, run.seed)

    @torch.no_grad()
    def _compare(self, run: Run, head: Head) -> dict:
        split = self.setting.held_out
        logits = head.layer(split.features)
        if not logits.isfinite().all():
            return {'mAP@class': -math.inf}  # the rate was too large
        figures = measure(head.loss.logit_probabilities(logits), split.full)
        if run.row in TEMPERED:
            link = TemperatureLink(base=head.loss.link)
            link.fit(logits, torch.from_numpy(split.full).float())
            figures['temperature'] = link.temperature.item()
        return figures

    @torch.no_grad()
    def _test(self, run: Run, head: Head) -> dict:
        split = self.setting.test
        logits = head.layer(split.features)
        readings = {run.row: head.loss.logit_probabilities(logits)}
        if run.row in PHI:
            readings[f'{run.row} + phi'] = PHI[run.row].logit_probabilities(logits)
        if run.row in TEMPERED:
            temperature = self.held_out(run.row, run.rate)['temperature']
            readings[f'{run.row} + temperature'] = readings[run.row] / temperature
        frequencies = self.setting.whole.full.sum(axis=0) if self.setting.name in LONG_TAILED else None
        figures = {name: measure(log_odds, split.full, frequencies) for name, log_odds in readings.items()}
        if self.setting.name == 'full' and run.row in RETRIEVAL_ROWS:
            figures[run.row] |= measure_retrieval(readings[run.row], split.full, RETRIEVAL_QUERIES)
        return dict(rate=run.rate, readings=figures)


def widened(rates: tuple[float, ...], best: float) -> tuple[float, ...]:
    """Add the next rate if the best of the compared rates is the first or the last of them."""
    if best == rates[0] and best != RATES[0]:
        return (RATES[RATES.index(best) - 1], *rates)
    if best == rates[-1] and best != RATES[-1]:
        return (*rates, RATES[RATES.index(best) + 1])
    return rates


def add_recipe_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the start of the labels and the learning rate of the biases."""
    defaults = Recipe._field_defaults
    parser.add_argument('--start', type=float, default=defaults['start'], help='probability of all labels at the start')
    parser.add_argument('--bias-factor', type=float, default=defaults['bias_factor'], help='of the rate of the biases')


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(loss_rows(TrainingFacts(1, 1, 1.0, 2), COCO))
    parser.add_argument('features', type=Path, help='the .npz file')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/coco_features'), help='where runs are kept')
    parser.add_argument('--settings', nargs='+', choices=SETTINGS, default=list(SETTINGS), help='all by default')
    parser.add_argument('--losses', nargs='+', choices=names, default=names, metavar='LOSS', help='all by default')
    parser.add_argument('--seeds', type=int, default=3, help='trainings that are tested')
    add_recipe_options(parser)
    parser.add_argument('--report', action='store_true', help='print the tables of what is done, and do nothing more')
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f'{setup("torch", "numpy", "mmengine")}, one thread')
    store = RunStore(options.out)
    if not options.report:
        features = Features(options.features)
        for name in options.settings:
            setting = features.setting(name, start=options.start, bias_factor=options.bias_factor)
            # Class-aware sampling is for the long tail. Elsewhere BCE + RS would be BCE.
            configs = {
                row: config
                for row, config in loss_rows(setting.facts, COCO).items()
                if row in options.losses and (name in LONG_TAILED or row != 'BCE + RS')
            }
            Experiment(store, setting, configs).run(options.seeds)
    Report(store, SETTINGS, names, options.seeds).print()


if __name__ == '__main__':
    main()

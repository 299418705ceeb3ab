"""Losses in a detector: box mAP and calibration of detections on digit scenes, with all boxes and with half of them.

    python benchmarks/detectors.py                          # everything, 80 minutes of one core
    python benchmarks/detectors.py --settings half --losses Focal SPLC
    python benchmarks/detectors.py --report                 # the tables of what is done

Each row is a config of configs/det, trained once for each seed and tested at its end. Every finished run is kept in the
output folder; the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from mmengine.config import Config
from mmengine.runner import Runner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.experiment_figures import Spread
from benchmarks.run_store import RunStore
from benchmarks.tables import print_table, versions

ROOT = Path(__file__).resolve().parents[1]

SETTINGS = {
    'full': 'RetinaNet on digit scenes',
    'half': 'RetinaNet on digit scenes, half of the boxes hidden in training',
}
CONFIGS = {
    'full': {
        'Focal': 'retinanet_focal_digits.py',
        'Focal, phi': 'retinanet_focal_phi_digits.py',
        'ASL': 'retinanet_asl_digits.py',
        'Hill': 'retinanet_hill_digits.py',
        'SPA': 'retinanet_spa_digits.py',
    },
    'half': {
        'Focal': 'retinanet_focal_digits_50.py',
        'Hill': 'retinanet_hill_digits_50.py',
        'SPLC': 'retinanet_splc_digits_50.py',
        'LASD': 'retinanet_lasd_digits_50.py',
        'LL-R': 'retinanet_ll_r_digits_50.py',
    },
}
# Titles of columns, the names of the metrics, and the factors that make per cent of them.
FIGURES = {
    'AP': ('coco/bbox_mAP', 100),
    'AP50': ('coco/bbox_mAP_50', 100),
    'AP75': ('coco/bbox_mAP_75', 100),
    'D-ECE': ('detection/D-ECE', 1),
    'D-ACE': ('detection/D-ACE', 1),
    'D-MCE': ('detection/D-MCE', 1),
}
LOSSES = tuple(dict.fromkeys(name for rows in CONFIGS.values() for name in rows))


def train_and_test(config_file: Path, seed: int, data_root: str | None) -> dict[str, float]:
    """The metrics of a detector at the end of its training."""
    config = Config.fromfile(config_file)
    if data_root is not None:
        config = moved_data(config, data_root)
    # Tested at the end alone, and no checkpoint is kept: nothing is chosen by the test scenes.
    config.train_cfg.val_interval = config.train_cfg.max_epochs + 1
    config.default_hooks.checkpoint = None
    config.randomness = dict(seed=seed)
    config.log_level = logging.WARNING
    with TemporaryDirectory() as work_dir:
        config.work_dir = work_dir
        config.visualizer.name = work_dir  # of the same name, it would be that of the run before, whose folder is gone
        runner = Runner.from_cfg(config)
        runner.train()
        return {name: float(value) for name, value in runner.test().items()}


def moved_data(config: Config, data_root: str) -> Config:
    """A config whose scenes are somewhere else."""
    text = config.pretty_text.replace(config.scenes.data_root, data_root)
    return Config.fromstring(text, '.py')


def run(store: RunStore, setting: str, row: str, seed: int, data_root: str | None) -> None:
    """Train and test, unless that is done."""
    config_file = ROOT / 'configs' / 'det' / CONFIGS[setting][row]
    names = (setting, row, f'seed_{seed}')
    config = Config.fromfile(config_file)
    parts = dict(model=config.model, optimizer=config.optim_wrapper, scenes=config.train_dataloader.dataset)
    made_with = {name: part.to_dict() for name, part in parts.items()} | dict(config.train_cfg)
    if store.has(names, made_with):
        return
    start = time.process_time()
    store.keep(names, made_with, train_and_test(config_file, seed, data_root))
    print(f'{", ".join(names)}: {time.process_time() - start:.0f} s', file=sys.stderr, flush=True)


def report(store: RunStore, seeds: int) -> None:
    """Print a table for each setting of what is done."""
    for setting, title in SETTINGS.items():
        rows = []
        for row in CONFIGS[setting]:
            found = [figures for seed in range(seeds) if (figures := store.find(setting, row, f'seed_{seed}'))]
            if found:
                spreads = (Spread([factor * run[name] for run in found]) for name, factor in FIGURES.values())
                rows.append((row, str(len(found)), *map(str, spreads)))
        if rows:
            print_table(title, ('loss', 'seeds', *FIGURES), rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', help="where the scenes are, or will be; by default the config's place")
    parser.add_argument('--out', type=Path, default=Path('work_dirs/detectors'), help='where runs are kept')
    parser.add_argument('--settings', nargs='+', choices=SETTINGS, default=list(SETTINGS), help='all by default')
    parser.add_argument('--losses', nargs='+', choices=LOSSES, default=LOSSES, metavar='LOSS', help='all by default')
    parser.add_argument('--seeds', type=int, default=3, help='trainings of each')
    parser.add_argument('--report', action='store_true', help='print the tables of what is done, and do nothing more')
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    machine = platform.processor() or platform.machine()
    print(f'{versions("torch", "mmdet", "mmcv")}; Python {platform.python_version()}, {machine}, one thread')
    store = RunStore(options.out)
    if not options.report:
        for seed in range(options.seeds):
            for setting in options.settings:
                for row in CONFIGS[setting]:
                    if row in options.losses:
                        run(store, setting, row, seed, options.data)
    report(store, options.seeds)


if __name__ == '__main__':
    main()

"""Compare losses in detectors on digit scenes: box mAP and calibration, also with half of the boxes hidden.

    python benchmarks/detectors.py                          # everything, 130 minutes on one core
    python benchmarks/detectors.py --settings half --losses Focal SPLC
    python benchmarks/detectors.py --report                 # the tables of the finished runs

Each row is a config of configs/det, trained once for each seed and tested at its end. Every finished run is kept in the
output folder. Run the same command again to resume.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from mmengine.config import Config
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.experiment_figures import Spread
from benchmarks.run_store import RunStore
from benchmarks.tables import print_table, setup
from mmml_losses.evaluation import calibration_errors, reliability_bins

ROOT = Path(__file__).resolve().parents[1]

SETTINGS = {
    'full': 'RetinaNet on digit scenes',
    'half': 'RetinaNet on digit scenes, half of the boxes hidden in training',
    'queries': 'Deformable DETR on digit scenes, which suppresses no box',
}
CONFIGS = {
    'full': {
        'Focal': 'retinanet_focal_digits.py',
        'Focal, phi': 'retinanet_focal_phi_digits.py',
        'BCE': 'retinanet_bce_digits.py',
        'ASL': 'retinanet_asl_digits.py',
        'Hill': 'retinanet_hill_digits.py',
        'SPA': 'retinanet_spa_digits.py',
    },
    'half': {
        'Focal': 'retinanet_focal_digits_50.py',
        'BCE': 'retinanet_bce_digits_50.py',
        'Hill': 'retinanet_hill_digits_50.py',
        'SPLC': 'retinanet_splc_digits_50.py',
        'LASD': 'retinanet_lasd_digits_50.py',
        'LL-R': 'retinanet_ll_r_digits_50.py',
    },
    'queries': {
        'Focal': 'deformable_detr_focal_digits.py',
        'BCE': 'deformable_detr_bce_digits.py',
        'SPA': 'deformable_detr_spa_digits.py',
    },
}
# Titles of columns, names of their metrics, and factors to per cent.
DETECTIONS = {
    'AP': ('coco/bbox_mAP', 100),
    'AP50': ('coco/bbox_mAP_50', 100),
    'AP75': ('coco/bbox_mAP_75', 100),
    'D-ECE': ('detection/D-ECE', 1),
    'D-ACE': ('detection/D-ACE', 1),
    'D-MCE': ('detection/D-MCE', 1),
}
ANCHORS = {
    'ACE of anchors': ('anchors/ACE', 1),
    'MCE of anchors': ('anchors/MCE', 1),
}
FIGURES = {'full': DETECTIONS | ANCHORS, 'half': DETECTIONS, 'queries': DETECTIONS}
LOSSES = tuple(dict.fromkeys(name for rows in CONFIGS.values() for name in rows))


def train_and_test(config_file: Path, seed: int, data_root: str | None, of_anchors: bool) -> dict[str, float]:
    """Train a detector and return its metrics, with the calibration of its anchors if ``of_anchors``."""
    config = Config.fromfile(config_file)
    if data_root is not None:
        config = moved_data(config, data_root)
    # Only the last weights are tested, so nothing is chosen by the test scenes.
    config.train_cfg.val_interval = config.train_cfg.max_epochs + 1
    config.default_hooks.checkpoint = None
    config.randomness = dict(seed=seed)
    config.log_level = logging.WARNING
    with TemporaryDirectory() as work_dir:
        config.work_dir = work_dir
        config.visualizer.name = work_dir  # a second one of the same name would write into the deleted folder
        runner = Runner.from_cfg(config)
        runner.train()
        metrics = runner.test()
        if of_anchors:
            metrics |= anchor_calibration(runner.model, runner.test_dataloader)
        return {name: float(value) for name, value in metrics.items()}


@torch.no_grad()
def anchor_calibration(model: nn.Module, scenes: DataLoader) -> dict[str, float]:
    """Compute the calibration errors of the anchors, before any of them is suppressed.

    Args:
        model: A detector with one dense head.
        scenes: Images that are not resized, because test pipelines load boxes in the coordinates of the original.
    """
    loss = model.bbox_head.loss_cls
    probabilities, targets = [], []

    def see(module: nn.Module, arguments: tuple[Tensor, Tensor, Tensor]) -> None:
        logits, labels, weights = arguments
        probabilities.append(loss.probabilities(logits))
        classes = one_hot(labels, logits.size(1) + 1)[:, :-1]
        targets.append(classes.masked_fill(weights.unsqueeze(1) == 0, -1))

    model.eval()
    with loss.register_forward_pre_hook(see):
        for batch in scenes:
            model(**model.data_preprocessor(batch), mode='loss')
    errors = calibration_errors(reliability_bins(torch.cat(probabilities), torch.cat(targets)))
    return {'anchors/ACE': 100 * errors.ace, 'anchors/MCE': 100 * errors.mce}


def moved_data(config: Config, data_root: str) -> Config:
    """Return the config with its scenes in another folder."""
    text = config.pretty_text.replace(config.scenes.data_root, data_root)
    return Config.fromstring(text, '.py')


def run(store: RunStore, setting: str, row: str, seed: int, data_root: str | None) -> None:
    """Train and test a row, unless it is finished."""
    config_file = ROOT / 'configs' / 'det' / CONFIGS[setting][row]
    names = (setting, row, f'seed_{seed}')
    config = Config.fromfile(config_file)
    parts = ('model', 'optim_wrapper', 'param_scheduler', 'train_cfg', 'train_dataloader', 'test_dataloader')
    made_with = {name: config.to_dict()[name] for name in (*parts, 'test_evaluator')}
    if store.has(names, made_with):
        return
    start = time.process_time()
    figures = train_and_test(config_file, seed, data_root, of_anchors=setting == 'full')
    store.keep(names, made_with, figures)
    print(f'{", ".join(names)}: {time.process_time() - start:.0f} s', file=sys.stderr, flush=True)


def report(store: RunStore, seeds: int) -> None:
    """Print a table of the finished runs for each setting."""
    for setting, title in SETTINGS.items():
        rows = []
        for row in CONFIGS[setting]:
            found = [figures for seed in range(seeds) if (figures := store.find(setting, row, f'seed_{seed}'))]
            if found:
                columns = FIGURES[setting].values()
                spreads = (Spread([factor * run[name] for run in found]) for name, factor in columns)
                rows.append((row, str(len(found)), *map(str, spreads)))
        if rows:
            print_table(title, ('loss', 'seeds', *FIGURES[setting]), rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', help="folder of the scenes, made if there is none; the config's by default")
    parser.add_argument('--out', type=Path, default=Path('work_dirs/detectors'), help='where runs are kept')
    parser.add_argument('--settings', nargs='+', choices=SETTINGS, default=list(SETTINGS), help='all by default')
    parser.add_argument('--losses', nargs='+', choices=LOSSES, default=LOSSES, metavar='LOSS', help='all by default')
    parser.add_argument('--seeds', type=int, default=3, help='trainings of each')
    parser.add_argument('--report', action='store_true', help='print the tables of what is done, and do nothing more')
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f'{setup("torch", "mmdet", "mmcv")}, one thread')
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

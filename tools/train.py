"""Train a model: ``python tools/train.py CONFIG``. Has the flags of MMPretrain's tool, and more.

``--loss`` and ``--model`` replace parts of the config, ``--metric`` and ``--hook`` add parts to it. ``--hold-out 0.2``
validates on a part of the training set. ``--seeds 10`` trains and tests ten times, and prints the mean and standard
deviation of every test metric.
"""

from __future__ import annotations

import argparse

from mmengine.dist import is_main_process

from mmml_losses.cli import launch, parts
from mmml_losses.engine.config_data import require_data
from mmml_losses.engine.resuming import train
from mmml_losses.procedures.seeds import Figures, summarize, train_seeds


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Train a model')
    parser.add_argument('config', help='config file')
    launch.add_common_arguments(parser)
    parts.add_part_arguments(parser)
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='resume from a checkpoint, or without one from the latest in the work folder',
    )
    parser.add_argument(
        '--seeds',
        type=int,
        metavar='N',
        help='train and test with the seeds 0 to N - 1, in folders seed_0, seed_0_test, ... of the work folder; the '
        'same command resumes',
    )
    launch.add_training_arguments(parser)
    args = parser.parse_args()
    if args.seeds is not None and args.resume not in (None, 'auto'):
        parser.error('--seeds resumes every seed from its own checkpoint: give --resume no checkpoint')
    return args


def print_figures(figures: Figures) -> None:
    """Print a table with a row for each metric: mean, standard deviation and the figure of each seed."""
    if not is_main_process() or not figures[0]:
        return
    rows = []
    for name, (mean, deviation) in summarize(figures).items():
        cells = dict(mean=mean, deviation=deviation) | {f'seed {seed}': found[name] for seed, found in figures.items()}
        rows.append({'metric': name} | {key: launch.figure(value) for key, value in cells.items()})
    launch.print_table(rows)


def main() -> None:
    args = parse_args()
    cfg = launch.load_config(args)
    parts.append_parts(cfg, args)
    launch.apply_training_arguments(cfg, args)
    if args.seeds is not None:
        require_data(cfg, args.config)
        print_figures(train_seeds(cfg, args.seeds, launch.print_once))
        return
    if args.resume is not None:
        cfg.resume = True
        cfg.load_from = None if args.resume == 'auto' else args.resume
    train(cfg, require_data(cfg, args.config))


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Train a model: ``python tools/train.py CONFIG``. Adds --loss, --hold-out, --metric and --hook to MMPretrain's."""

from __future__ import annotations

import argparse

from mmml_losses.cli import launch, parts
from mmml_losses.engine.config_data import require_data
from mmml_losses.engine.resuming import train


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
    launch.add_training_arguments(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cfg = launch.load_config(args)
    parts.append_parts(cfg, args)
    launch.apply_training_arguments(cfg, args)
    if args.resume is not None:
        cfg.resume = True
        cfg.load_from = None if args.resume == 'auto' else args.resume
    train(cfg, require_data(cfg, args.config))


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Correct the labels of a training set: ``python tools/pseudo_label.py CONFIG CHECKPOINT --out FILE.json``.

The trained model predicts the training set with the test pipeline. Unobserved labels that are more probable than the
threshold become positive. Train on the file with ``mmml_losses.Relabelled``, see docs/labels.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmengine.config import Config

from mmml_losses.cli import launch
from mmml_losses.engine.config_data import label_with_the_test_run, require_data
from mmml_losses.engine.resuming import safe_checkpoint
from mmml_losses.procedures.pseudo_label import shows_progress_bar, write_pseudo_labels
from mmml_losses.utils.errors import UsageError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Write the labels of a training set as a trained model corrects them')
    parser.add_argument('config', help='config file of the training')
    parser.add_argument('checkpoint', help='checkpoint file of the training')
    launch.add_label_file(parser)
    launch.add_dataloader(parser)
    parser.add_argument(
        '--threshold', type=float, default=0.5, help='labels above this probability become positive (default: 0.5)'
    )
    launch.add_common_arguments(parser)
    return parser.parse_args()


def check_arguments(args: argparse.Namespace) -> None:
    """Check the threshold, and that the result of a long run can be written."""
    if not 0 < args.threshold < 1:
        raise UsageError(f'--threshold must be in (0, 1), got {args.threshold}')
    launch.check_output(args.out, '.json', args.overwrite)


def apply_arguments(cfg: Config, args: argparse.Namespace) -> None:
    launch.reject_detector(cfg, args.config, ': pseudo labels are those of images, and have no boxes')
    cfg.resume = False
    label_with_the_test_run(cfg, args.dataloader)
    if args.amp:
        cfg.test_cfg.fp16 = True
    if shows_progress_bar() and cfg.get('default_hooks'):
        cfg.default_hooks.logger = None  # its lines would break the progress bar


def main() -> None:
    args = parse_args()
    check_arguments(args)
    cfg = launch.load_config(args)
    apply_arguments(cfg, args)
    require_data(cfg, args.config)
    cfg.load_from = safe_checkpoint(args.checkpoint, cfg)
    launch.make_folder(Path(args.out))
    made_by = dict(
        tool=Path(__file__).name,
        config=Path(args.config).name,
        checkpoint=Path(args.checkpoint).name,
        dataloader=args.dataloader,
        threshold=args.threshold,
    )
    described = write_pseudo_labels(cfg, Path(args.out), args.threshold, made_by)
    if described is not None:
        print(described)


if __name__ == '__main__':
    launch.exit_clearly(main)

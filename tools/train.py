"""Train a model: ``python tools/train.py CONFIG``. The flags are those of MMPretrain's tool, plus ``--loss``."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.runner import find_latest_checkpoint

from mmml_losses.engine import launch
from mmml_losses.engine.data_check import DATALOADERS, require_data
from mmml_losses.engine.errors import UsageError

LOSSES_FOLDER = Path(__file__).resolve().parents[1] / 'configs' / '_base_' / 'losses'


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Train a model')
    parser.add_argument('config', help='config file')
    launch.add_common_arguments(parser)
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='resume from a checkpoint, or without one from the latest in the work folder',
    )
    parser.add_argument('--no-validate', action='store_true', help='do not evaluate during training')
    parser.add_argument(
        '--auto-scale-lr', action='store_true', help='scale the learning rate with the batch size in use'
    )
    parser.add_argument(
        '--no-persistent-workers', action='store_true', help='let the workers of the dataloaders end with each epoch'
    )
    return parser.parse_args()


def apply_training_arguments(cfg: Config, args: argparse.Namespace) -> None:
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.amp:
        if not torch.cuda.is_available():
            raise UsageError('--amp needs a GPU: MMEngine has no mixed precision on the CPU')
        cfg.optim_wrapper.type = 'AmpOptimWrapper'
        cfg.optim_wrapper.setdefault('loss_scale', 'dynamic')
    if args.auto_scale_lr:
        if cfg.get('auto_scale_lr') is None:
            raise UsageError(f'--auto-scale-lr: {args.config} has no auto_scale_lr = dict(base_batch_size=...)')
        cfg.auto_scale_lr.enable = True
    if args.no_persistent_workers:
        for name in DATALOADERS:
            if cfg.get(name) is not None:
                cfg[name].persistent_workers = False
    if args.resume is not None:
        cfg.resume = True
        cfg.load_from = None if args.resume == 'auto' else args.resume


def main() -> None:
    args = parse_args()
    cfg = launch.load_config(args, LOSSES_FOLDER, apply_training_arguments)
    require_data(cfg, args.config)
    checkpoint = cfg.get('load_from')
    if cfg.get('resume') and checkpoint is None:
        checkpoint = find_latest_checkpoint(cfg.work_dir)
    if checkpoint is not None:
        cfg.load_from = launch.safe_checkpoint(checkpoint, cfg, resume=cfg.get('resume', False))
    launch.build_runner(cfg).train()


if __name__ == '__main__':
    launch.exit_clearly(main)

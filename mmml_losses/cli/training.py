"""What the tools that train share: their flags, and what these do to a config."""

from __future__ import annotations

import argparse

import torch
from mmengine.config import Config

from ..engine.config_data import DATALOADERS
from ..utils.errors import UsageError


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of MMPretrain's training tool that are not those of every tool."""
    parser.add_argument('--no-validate', action='store_true', help='do not evaluate during training')
    parser.add_argument(
        '--auto-scale-lr', action='store_true', help='scale the learning rate with the batch size in use'
    )
    parser.add_argument(
        '--no-persistent-workers', action='store_true', help='let the workers of the dataloaders end with each epoch'
    )


def apply_training_arguments(cfg: Config, args: argparse.Namespace) -> None:
    """Change a config as the flags of :func:`add_training_arguments` and ``--amp`` say, and check what it learns by."""
    check_schedule(cfg)
    check_weight_decay(cfg)
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


def check_schedule(cfg: Config) -> None:
    """Refuse a training that ends before a part of its schedule begins: MMEngine cannot build such a part."""
    schedulers = cfg.get('param_scheduler') or []
    for scheduler in [schedulers] if isinstance(schedulers, dict) else schedulers:
        name = 'max_epochs' if scheduler.get('by_epoch', True) else 'max_iters'
        length, begin = (cfg.get('train_cfg') or {}).get(name), scheduler.get('begin', 0)
        if length is not None and 'end' not in scheduler and begin >= length:
            raise UsageError(
                f'train_cfg.{name} must be more than {begin}, where the {scheduler.get("type")} of param_scheduler '
                f'begins, got {length}'
            )


def check_weight_decay(cfg: Config) -> None:
    """Refuse factors of a weight decay that is not given: MMEngine does, without a name of either."""
    settings = cfg.get('optim_wrapper') or {}
    factors = settings.get('paramwise_cfg') or {}
    keys = factors.get('custom_keys') or {}
    named = [name for name in factors if name.endswith('decay_mult')]
    named += [f'custom_keys.{key}.decay_mult' for key, values in keys.items() if 'decay_mult' in values]
    optimizer = settings.get('optimizer')
    if named and isinstance(optimizer, dict) and optimizer.get('weight_decay') is None:
        raise UsageError(
            f'optim_wrapper.optimizer.weight_decay must be given, 0 for none, because optim_wrapper.paramwise_cfg.'
            f'{named[0]} is a factor of it, got none for {optimizer.get("type")}'
        )

"""What the command-line tools share: from arguments to a config that a Runner can take."""

from __future__ import annotations

import argparse
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from mmengine.config import Config, ConfigDict, DictAction
from mmengine.registry import DATASETS, RUNNERS, DefaultScope
from mmengine.runner import Runner

from ..compat import check_checkpoint
from ..datasets import MissingDataError
from ..registry import LOSSES

DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')
# Where the heads of MMPretrain, dense detectors and two-stage detectors keep their classification loss.
LOSS_PATHS = (('head', 'loss'), ('bbox_head', 'loss_cls'), ('roi_head', 'bbox_head', 'loss_cls'))


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why and what to do."""


def exit_clearly(main: Callable[[], None]) -> None:
    """Run a tool; what the user can mend ends it with a message and exit code 1 instead of a traceback."""
    try:
        main()
    except (UsageError, MissingDataError) as error:
        sys.exit(str(error))


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that MMPretrain's training and test tools share, and ``--loss``."""
    parser.add_argument('--work-dir', help='folder of logs, checkpoints and results')
    parser.add_argument(
        '--loss',
        metavar='NAME_OR_FILE',
        help='replace the loss of the config: a registered name (SPALoss), a file of configs/_base_/losses by its '
        'stem (spa_lpr), or any config file with `loss = dict(...)`',
    )
    parser.add_argument('--amp', action='store_true', help='automatic mixed precision')
    parser.add_argument('--no-pin-memory', action='store_true', help='switch pin_memory of the dataloaders off')
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        metavar='KEY=VALUE',
        help='override settings of the config, e.g. optim_wrapper.optimizer.lr=0.01 key="[a,b]"',
    )
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0, help='set by the launcher')


def load_config(args: argparse.Namespace, losses_folder: Path) -> Config:
    """Read the config and apply the arguments of :func:`add_common_arguments`."""
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    if not Path(args.config).is_file():
        raise UsageError(f'config {args.config} does not exist')
    cfg = Config.fromfile(args.config)
    cfg.launcher = args.launcher
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        cfg.work_dir = str(Path('work_dirs', Path(args.config).stem))
    if args.loss is not None:
        replace_loss(cfg, find_loss(args.loss, losses_folder))
    for name in DATALOADERS:
        if cfg.get(name) is not None:
            cfg[name] = dataloader_with_defaults(cfg[name], pin_memory=not args.no_pin_memory)
    if args.cfg_options is not None:
        cfg.merge_from_dict(args.cfg_options)
    if args.launcher == 'pytorch' and not torch.cuda.is_available():
        distribute_over_cpus(cfg)
    return cfg


def dataloader_with_defaults(dataloader: ConfigDict, pin_memory: bool) -> ConfigDict:
    """MMPretrain's defaults, left out where they would only raise an error or a warning."""
    defaults = ConfigDict(
        pin_memory=pin_memory and torch.cuda.is_available(),
        persistent_workers=dataloader.get('num_workers', 0) > 0,
        collate_fn=dict(type='default_collate'),
    )
    defaults.update(dataloader)
    if not pin_memory:
        defaults.pin_memory = False
    return defaults


def distribute_over_cpus(cfg: Config) -> None:
    """Let ``torchrun`` work without a GPU: MMEngine's own start selects a CUDA device, and its wrapper assumes one."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
    if cfg.get('model_wrapper_cfg') is None:
        cfg.model_wrapper_cfg = dict(type='MMDistributedDataParallel', device_ids=None, broadcast_buffers=False)


def find_loss(name_or_file: str, losses_folder: Path) -> dict:
    """The config of a loss, from a config file, from a file of ``losses_folder`` by its stem, or by registered name."""
    for file in (Path(name_or_file), losses_folder / f'{name_or_file}.py'):
        if file.suffix == '.py' and file.is_file():
            loss = Config.fromfile(file).get('loss')
            if loss is None:
                raise UsageError(f'--loss {name_or_file}: {file} must define `loss = dict(type=...)`')
            return loss
    try:
        LOSSES.get(name_or_file)
    except KeyError as error:
        known = ', '.join(sorted(file.stem for file in losses_folder.glob('*.py')))
        raise UsageError(f'--loss {name_or_file}: {error.args[0]} (short names: {known})') from None
    return dict(type=f'mmml_losses.{name_or_file.removeprefix("mmml_losses.")}')


def replace_loss(cfg: Config, loss: dict) -> None:
    """Put a loss in the place of the config's classification loss."""
    for *path, key in LOSS_PATHS:
        holder = cfg.model
        for name in path:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            holder[key] = ConfigDict(loss)
            return
    places = ', '.join('.'.join(('model', *path)) for path in LOSS_PATHS)
    raise UsageError(f'--loss found no classification loss in the config; it looks for {places}')


def require_data(cfg: Config, config_file: str) -> None:
    """Stop before anything is built when files of a dataset are missing, and say what runs without them."""
    missing = [file for dataset in _datasets(cfg) for file in dataset.missing_files()]
    if missing:
        listing = '\n'.join(f'  {file}' for file in dict.fromkeys(missing))
        raise MissingDataError(
            f'The data of {config_file} is not complete. These files and folders must be there and are not:\n'
            f'{listing}\nWithout any download, this trains on data that it makes itself:\n'
            f'  python tools/train.py {_digits_sibling(Path(config_file))}',
            missing,
        )


def _datasets(cfg: Config) -> Iterator:
    """The datasets of the config that can tell what they miss, unloaded; also those inside wrappers."""
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
        for name in DATALOADERS:
            for settings in _dicts_with_type(cfg.get(name, {}).get('dataset') if cfg.get(name) else None):
                kind = settings['type']
                kind = DATASETS.get(kind) if isinstance(kind, str) else kind
                if hasattr(kind, 'missing_files'):
                    arguments = {key: value for key, value in settings.items() if key != 'type'}
                    yield kind(**{**arguments, 'pipeline': [], 'lazy_init': True})


def _dicts_with_type(node) -> Iterator[dict]:
    if isinstance(node, dict):
        if 'type' in node:
            yield node
        nested = [value for key, value in node.items() if key in ('dataset', 'datasets')]
    else:
        nested = node if isinstance(node, (list, tuple)) else []
    for child in nested:
        yield from _dicts_with_type(child)


def _digits_sibling(config_file: Path) -> Path:
    """The config of the same method on DigitScenes: ``spa_lpr_coco.py`` has ``spa_lpr_digits.py``."""
    stem = config_file.stem
    while stem:
        sibling = config_file.with_name(f'{stem}_digits.py')
        if sibling.is_file():
            return sibling
        stem = re.sub(r'_?[^_]*$', '', stem)
    return config_file.with_name('spa_lpr_digits.py')


def require_safe_checkpoint(path: str | None) -> None:
    """Check a local checkpoint before MMEngine opens it; one behind a URL is left to MMEngine."""
    if path and '://' not in path:
        try:
            check_checkpoint(path)
        except (FileNotFoundError, pickle.UnpicklingError) as error:
            raise UsageError(str(error)) from None


def build_runner(cfg: Config) -> Runner:
    """The Runner that the config asks for."""
    return RUNNERS.build(cfg) if 'runner_type' in cfg else Runner.from_cfg(cfg)

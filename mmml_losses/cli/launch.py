"""What the command-line tools share: from arguments to a config that a Runner can take."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from mmengine.config import Config, DictAction

from ..datasets import AnnotationError, MissingDataError
from ..engine.config_data import DATALOADERS
from ..engine.running import add_hook, dataloader_with_defaults
from ..hosts.checkpoints import CheckpointError
from ..hosts.loss_places import is_detector
from ..hosts.mmdet import require_mmdet
from ..registry import UnknownNameError
from ..utils.errors import UsageError
from .losses import check_loss, find_loss, swap_loss

PACKAGE = Path(__file__).resolve().parents[1]


def exit_clearly(main: Callable[[], None]) -> None:
    """Run a tool; what the user can mend ends it with a message and exit code 1 instead of a traceback."""
    try:
        main()
        if torch.distributed.is_initialized():
            leave_together()
    # FileExistsError: DigitScenes refuses a folder that was made with other settings.
    except (UsageError, UnknownNameError, CheckpointError, MissingDataError, AnnotationError, FileExistsError) as error:
        sys.exit(str(error))
    except (TypeError, ValueError) as error:
        if not _is_an_answer(error):
            raise
        sys.exit(str(error))


def _is_an_answer(error: Exception) -> bool:
    """Whether this package raised an error on purpose: its text says what to mend, and a traceback would only hide it.

    What Python or another package raises in the middle of our code is a fault, of which the traceback tells.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    return Path(place.filename).resolve().is_relative_to(PACKAGE) and str(place.line).startswith('raise ')


def leave_together() -> None:
    """End a process of a distributed run, when all of them have come to the end."""
    torch.distributed.barrier()
    if torch.distributed.get_backend() == 'gloo':
        # Now and then such a process was seen to abort at its end ("terminate called without an active exception",
        # torch 2.13.0). The cause is not known; all is written by now, so the interpreter's shutdown is left out.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    torch.distributed.destroy_process_group()


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


def read_config(args: argparse.Namespace, losses_folder: Path) -> Config:
    """The config as the user has it, with ``--loss`` and ``--cfg-options``, and nothing else."""
    if not Path(args.config).is_file():
        raise UsageError(f'config {args.config} does not exist')
    cfg = _parsed(args.config)
    if args.loss is not None:  # before the options, which may be for the new loss
        swap_loss(cfg, find_loss(args.loss, losses_folder, is_detector(cfg)))
    cfg.merge_from_dict(args.cfg_options or {})
    return cfg


def _parsed(file: str) -> Config:
    """A config. One of a detector says at once what must be installed for it."""
    try:
        cfg = Config.fromfile(file)
    except ModuleNotFoundError as error:
        if str(error).startswith('mmdet '):  # what MMEngine says of a `_base_` in it
            _require_mmdet(file)
        raise
    if is_detector(cfg):
        _require_mmdet(file)
    return cfg


def _require_mmdet(file: str) -> None:
    try:
        require_mmdet(file)
    except ImportError as error:
        raise UsageError(str(error)) from None


def refuse_detector(cfg: Config, config_file: str, reason: str) -> None:
    """Stop a tool that is for classifiers alone.

    Args:
        cfg: The config.
        config_file: Where it is from.
        reason: Why, to follow upon "a detector".
    """
    if is_detector(cfg):
        raise UsageError(f'{config_file} must be the config of a classifier, got a detector{reason}')


def load_config(
    args: argparse.Namespace, losses_folder: Path, apply_arguments: Callable[[Config, argparse.Namespace], None]
) -> Config:
    """Read the config and apply the arguments.

    Args:
        args: What :func:`add_common_arguments` and the tool itself asked for.
        losses_folder: Where ``--loss`` finds short names.
        apply_arguments: Applies the tool's own arguments.
    """
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    cfg = read_config(args, losses_folder)
    cfg.launcher = args.launcher
    if args.work_dir is not None:
        cfg.work_dir = args.work_dir
    elif cfg.get('work_dir') is None:
        cfg.work_dir = str(Path('work_dirs', Path(args.config).stem))
    check_loss(cfg)
    if is_detector(cfg):  # of which a config need not have more than the loss of this package
        add_hook(cfg, 'DetectorCheckHook')
    for name in DATALOADERS:
        if cfg.get(name) is not None:
            # Detectors take images of several sizes in one batch.
            collate = 'pseudo_collate' if is_detector(cfg) else 'default_collate'
            cfg[name] = dataloader_with_defaults(cfg[name], pin_memory=not args.no_pin_memory, collate=collate)
    apply_arguments(cfg, args)
    if args.launcher == 'pytorch' and not torch.cuda.is_available():
        distribute_over_cpus(cfg)
    return cfg


def distribute_over_cpus(cfg: Config) -> None:
    """Let ``torchrun`` work without a GPU: MMEngine's own start selects a CUDA device, and its wrapper assumes one."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
    if cfg.get('model_wrapper_cfg') is None:
        cfg.model_wrapper_cfg = dict(type='MMDistributedDataParallel', device_ids=None, broadcast_buffers=False)

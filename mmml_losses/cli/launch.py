"""Flags, configs, checks, tables and errors that the scripts in ``tools/`` share; see CONTRIBUTING.md, "Add a tool"."""

import argparse
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import torch
from mmengine.config import Config, DictAction
from mmengine.dist import is_main_process

from ..datasets import AnnotationError, MissingDataError
from ..engine.config_data import DATALOADERS, hold_out, trained_hold_out
from ..engine.running import add_hook, dataloader_with_defaults
from ..hosts.checkpoints import CheckpointError
from ..hosts.loss_places import is_detector
from ..hosts.mmdet import require_mmdet
from ..registry import SCOPE, UnknownNameError
from ..utils.errors import UsageError
from .losses import PACKAGE, find_loss, swap_loss
from .models import find_model, swap_model


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--loss``, ``--model``, ``--hold-out`` and MMPretrain's flags.

    These are --work-dir, --amp, --no-pin-memory, --cfg-options, --launcher and --local_rank.
    """
    parser.add_argument(
        '--work-dir',
        help='folder of logs, checkpoints and results; by default work_dirs/CONFIG, with -MODEL and -LOSS appended',
    )
    parser.add_argument(
        '--loss',
        metavar='NAME_OR_FILE',
        help='replace the loss of the config: a registered name (SPALoss), a file of configs/_base_/losses by its '
        'stem (spa_lpr), or any config file with `loss = dict(...)`',
    )
    parser.add_argument(
        '--model',
        metavar='NAME_OR_FILE',
        help='replace the network of the config, not its head: a file of configs/_base_/models by its stem '
        '(resnext50), or any config file with `model = dict(...)`',
    )
    parser.add_argument(
        '--hold-out',
        type=float,
        metavar='SHARE',
        help='hold this share of the training set out, 0.2 for example: train on the rest, and choose epochs, rates, '
        'thresholds and temperatures with the held-out part (val_dataloader); the test set stays as it is',
    )
    parser.add_argument('--amp', action='store_true', help='automatic mixed precision')
    parser.add_argument('--no-pin-memory', action='store_true', help='switch pin_memory of the dataloaders off')
    add_cfg_options(parser, 'optim_wrapper.optimizer.lr=0.01 key="[a,b]"')
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none', help='job launcher')
    parser.add_argument('--local_rank', '--local-rank', type=int, default=0, help='set by the launcher')


def add_cfg_options(parser: argparse.ArgumentParser, example: str) -> None:
    """Add ``--cfg-options KEY=VALUE …``, which overrides settings of the config; ``example`` is shown in its help."""
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        metavar='KEY=VALUE',
        help=f'override settings of the config, e.g. {example}',
    )


def add_dataloader(parser: argparse.ArgumentParser) -> None:
    """Add ``--dataloader``: whose dataset a tool reads, ``train`` (default), ``val`` or ``test``."""
    parser.add_argument(
        '--dataloader', choices=['train', 'val', 'test'], default='train', help='whose dataset (default: train)'
    )


def add_label_file(parser: argparse.ArgumentParser) -> None:
    """Add ``--out`` (the label file to write, required) and ``--overwrite`` (replace an existing file)."""
    parser.add_argument('--out', required=True, metavar='FILE.json', help='label file to write')
    parser.add_argument('--overwrite', action='store_true', help='replace the label file if there is one')


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MMPretrain's training flags ``--no-validate``, ``--auto-scale-lr`` and ``--no-persistent-workers``."""
    parser.add_argument('--no-validate', action='store_true', help='do not evaluate during training')
    parser.add_argument(
        '--auto-scale-lr', action='store_true', help='scale the learning rate with the batch size in use'
    )
    parser.add_argument(
        '--no-persistent-workers', action='store_true', help='let the workers of the dataloaders end with each epoch'
    )


def read_config(file: str, options: Mapping | None = None, loss: str | None = None, model: str | None = None) -> Config:
    """Return the config in ``file`` with ``--model``, then ``--loss`` and then ``--cfg-options`` applied."""
    if not Path(file).is_file():
        raise UsageError(f'config {file} does not exist')
    try:
        cfg = Config.fromfile(file)
    except ModuleNotFoundError as error:
        if str(error).startswith('mmdet '):  # MMEngine's error for a `_base_` of MMDetection
            require_mmdet(file)
        raise
    if is_detector(cfg):
        require_mmdet(file)
    if model is not None:
        swap_model(cfg, find_model(model))
    if loss is not None:
        swap_loss(cfg, find_loss(loss, for_detector=is_detector(cfg)))
    cfg.merge_from_dict(options or {})
    return cfg


def load_config(args: argparse.Namespace) -> Config:
    """Apply all flags of :func:`add_common_arguments` but ``--amp`` to the config ``args.config``, and return it.

    Give dataloaders MMPretrain's defaults (pinned memory, collate function), and a detector ``DetectorCheckHook``. Set
    the environment variable ``LOCAL_RANK`` unless set. Without CUDA, start a gloo group for launcher ``pytorch``.
    """
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    cfg = read_config(args.config, args.cfg_options, args.loss, args.model)
    if args.hold_out is not None:
        reject_detector(cfg, args.config, ': --hold-out splits sets of images with labels')
        hold_out(cfg, args.hold_out)
    cfg.launcher = args.launcher
    cfg.work_dir = args.work_dir or cfg.get('work_dir') or default_work_dir(args.config, args.model, args.loss)
    collate = 'default_collate'
    if is_detector(cfg):
        add_hook(cfg, 'DetectorCheckHook')
        collate = 'pseudo_collate'  # images of several sizes in one batch
    for name in DATALOADERS:
        if cfg.get(name) is not None:
            cfg[name] = dataloader_with_defaults(cfg[name], pin_memory=not args.no_pin_memory, collate=collate)
    if args.launcher == 'pytorch' and not torch.cuda.is_available():
        # MMEngine would start with a CUDA device, and its wrapper assumes one.
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group('gloo')
        if cfg.get('model_wrapper_cfg') is None:
            cfg.model_wrapper_cfg = dict(type='MMDistributedDataParallel', device_ids=None, broadcast_buffers=False)
    return cfg


def check_hold_out(checkpoint: Mapping, share: float) -> None:
    """Raise a UsageError if a checkpoint was trained on images that ``--hold-out SHARE`` now holds out."""
    trained = trained_hold_out(checkpoint)
    if checkpoint.get('meta', {}).get('cfg') and trained != (share, 0):
        got = 'without it' if trained is None else f'with {trained[0]} and the seed {trained[1]}'
        raise UsageError(
            f'--hold-out {share} must be given as in the training of the checkpoint, which may have seen the held-out '
            f'images otherwise, got a checkpoint trained {got}'
        )


def default_work_dir(config_file: str, model: str | None, loss: str | None) -> str:
    """Return ``work_dirs/CONFIG-MODEL-LOSS``, each by the stem of its file or its name, without those that are None."""
    name = Path(config_file).stem
    for part in filter(None, (model, loss)):
        part = Path(part).name.removesuffix('.py')
        part = part.rpartition('.')[2] if part.startswith(f'{SCOPE}.') else part
        name += '-' + re.sub(r'[^\w.-]+', '_', part)
    return str(Path('work_dirs', name))


def reject_detector(cfg: Config, config_file: str, reason: str) -> None:
    """Raise a UsageError if ``cfg`` is the config of a detector.

    The message names ``config_file`` and ends with "got a detector" + ``reason``, which begins with a comma or colon.
    """
    if is_detector(cfg):
        raise UsageError(f'{config_file} must be the config of a classifier, got a detector{reason}')


def apply_training_arguments(cfg: Config, args: argparse.Namespace) -> None:
    """Write ``--amp`` and the flags of :func:`add_training_arguments` into ``cfg``, in place.

    Before that, check ``cfg`` by :func:`check_schedule` and :func:`check_weight_decay`. Raise a UsageError for
    ``--amp`` without a GPU and for ``--auto-scale-lr`` without ``auto_scale_lr`` in ``cfg``.
    """
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
    """Raise a UsageError if a scheduler without ``end`` begins when training has ended: MMEngine could not build it."""
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
    """Raise a UsageError for a ``decay_mult`` without the ``weight_decay`` that it multiplies, which MMEngine needs."""
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


def check_output(out: str | Path, suffix: str, overwrite: bool) -> Path:
    """Return ``out`` as a Path; UsageError if it lacks ``suffix``, is a folder, or (without ``overwrite``) exists."""
    path = Path(out)
    if path.suffix != suffix:
        raise UsageError(f"--out must end with '{suffix}', got '{path}'")
    if path.is_dir():
        raise UsageError(f'--out: {path} is a folder')
    if path.exists() and not overwrite:
        raise UsageError(f'--out: {path} exists, pass --overwrite to replace it')
    return path


def make_folder(out: Path) -> None:
    """Make the parent folder of the file ``out``; raise a UsageError if it cannot be made or written to."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f'--out: the folder {out.parent} cannot be made: {error.strerror}') from None
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f'--out: the folder {out.parent} cannot be written to')


def print_table(rows: Sequence[dict[str, str]], texts: Collection[str] = ()) -> None:
    """Print rows as a table, with a frame on a terminal.

    Args:
        rows: A dict from column name to text for each row; the columns are the same in all rows.
        texts: Names of columns to align to the left. The first column is too; all others are aligned to the right.
    """
    header = list(rows[0])
    is_text = [number == 0 or name in texts for number, name in enumerate(header)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for name, text in zip(header, is_text, strict=True):
            table.add_column(name, justify='left' if text else 'right')
        for row in rows:
            table.add_row(*(Text(cell) for cell in row.values()))
        Console().print(table)
        return
    lines = [header, *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, is_text, strict=True)
        print('  '.join(f'{cell:<{width}}' if text else f'{cell:>{width}}' for cell, width, text in cells).rstrip())


def print_once(message: str) -> None:
    """Print ``message`` in the main process, at once."""
    if is_main_process():
        print(message, flush=True)


def figure(value: float | None) -> str:
    """Return ``value`` with four decimals, or ``'none'`` for None."""
    return 'none' if value is None else f'{value:.4f}'


def exit_clearly(main: Callable[[], None]) -> None:
    """Run a tool's ``main``. An error that the user can fix ends it with a message and exit code 1, not a traceback.

    Examples: UsageError, MissingDataError, and a TypeError, ValueError or ImportError that this package raises. If
    ``main`` succeeds in a distributed run, call :func:`leave_together`.
    """
    try:
        main()
        if torch.distributed.is_initialized():
            leave_together()
    # FileExistsError: DigitScenes rejects a folder that was made with other settings.
    except (UsageError, UnknownNameError, CheckpointError, MissingDataError, AnnotationError, FileExistsError) as error:
        sys.exit(str(error))
    except (TypeError, ValueError, ImportError) as error:
        # The message of a `raise` of this package says what to fix. Others are faults, and need their traceback.
        place = traceback.extract_tb(error.__traceback__)[-1]
        if not Path(place.filename).resolve().is_relative_to(PACKAGE) or not str(place.line).startswith('raise '):
            raise
        sys.exit(str(error))


def leave_together() -> None:
    """Wait for all processes of a distributed run, then leave the process group.

    With gloo, end this process instead, with code 0, because its normal end may abort. No code after the call runs.
    """
    torch.distributed.barrier()
    if torch.distributed.get_backend() == 'gloo':
        # Such processes sometimes abort at their end ("terminate called without an active exception", torch 2.13.0) for
        # an unknown reason. All files are written by now, so skip the interpreter's shutdown.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    torch.distributed.destroy_process_group()

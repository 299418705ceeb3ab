"""``--loss``: another loss for any config."""

from __future__ import annotations

import copy
from pathlib import Path

from mmengine.config import Config, ConfigDict

from ..losses import MultiLabelLoss
from ..registry import LOSSES, SCOPE
from .errors import UsageError

# Where the heads of MMPretrain, dense detectors and two-stage detectors keep their classification loss.
LOSS_PATHS = (('head', 'loss'), ('bbox_head', 'loss_cls'), ('roi_head', 'bbox_head', 'loss_cls'))
# What the head of a detector decides about its loss, unless the loss does.
KEPT_BY_DETECTORS = ('use_sigmoid', 'loss_weight')


def find_loss(name_or_file: str, losses_folder: Path, for_detector: bool = False) -> dict:
    """The config of a loss.

    Args:
        name_or_file: A config file, the stem of a file in ``losses_folder``, the name of a loss of this package, or
            another project's loss with its scope, such as ``mmpretrain.AsymmetricLoss``.
        losses_folder: Folder of config files that hold one loss each.
        for_detector: Whether a file for detectors, where there is one of this name, comes first.
    """
    files = [Path(name_or_file), losses_folder / f'{name_or_file}.py']
    if for_detector:
        files.insert(1, losses_folder.parents[1] / 'det' / '_base_' / 'losses' / f'{name_or_file}.py')
    for file in files:
        if file.suffix == '.py' and file.is_file():
            return _read_loss(file)
    if name_or_file.endswith('.py'):
        raise UsageError(f'--loss: the file {name_or_file} does not exist')
    name = name_or_file.removeprefix(f'{SCOPE}.')
    if '.' in name:
        return dict(type=name)
    known = ', '.join(sorted(file.stem for file in losses_folder.glob('*.py')))
    try:
        kind = LOSSES.get(name)
    except KeyError as error:
        raise UsageError(f'--loss: {error.args[0]} (short names: {known})') from None
    if not issubclass(kind, MultiLabelLoss):
        raise UsageError(f'--loss: {name} is not a loss (short names: {known})')
    return dict(type=f'{SCOPE}.{name}')


def _read_loss(file: Path) -> dict:
    loss = Config.fromfile(file).get('loss')
    if loss is None:
        raise UsageError(f'--loss: {file} must define `loss = dict(type=...)`')
    return loss


def replace_loss(cfg: Config, loss: dict) -> None:
    """Put a loss in the place of the config's classification loss, in each stage of a cascade.

    A detector keeps ``use_sigmoid``, which dense heads read from the config, and the weight of the classification
    against the boxes, unless the loss has its own.
    """
    for *path, key in LOSS_PATHS:
        holders = holders_of(cfg, path)
        for holder in holders:
            kept = {}
            if key == 'loss_cls':
                kept = {name: value for name, value in (holder.get(key) or {}).items() if name in KEPT_BY_DETECTORS}
                kept |= dict(use_sigmoid=True) if _is_ours(loss) else {}
            holder[key] = ConfigDict(kept | dict(loss))
        if holders:
            return
    places = ', '.join('.'.join(('model', *path)) for path in LOSS_PATHS)
    raise UsageError(f'--loss found no classification loss in the config; it looks for {places}')


def is_detector(cfg: Config) -> bool:
    """Whether the model of a config has the head of a detector, also inside test-time augmentation."""
    paths = [path for *path, key in LOSS_PATHS if key == 'loss_cls']
    return any(holders_of(cfg, [*outside, *path]) for path in paths for outside in ((), ('module',)))


def check_loss(cfg: Config) -> None:
    """Build the config's classification loss, if it is one of ours, so that a mistake in it shows before all else."""
    for *path, key in LOSS_PATHS:
        for holder in holders_of(cfg, path):
            loss = holder.get(key)
            if not isinstance(loss, dict) or not _is_ours(loss):
                continue
            try:
                LOSSES.build(copy.deepcopy(loss))
            except (TypeError, ValueError) as error:
                place = '.'.join(('model', *path, key))
                raise UsageError(f'{place} of the config, {loss["type"]}, cannot be built: {error}') from None


def _is_ours(loss: dict) -> bool:
    return str(loss.get('type')).startswith(f'{SCOPE}.')


def holders_of(cfg: Config, path: list[str]) -> list[dict]:
    """The parts of the model at a path: one, several where they stand in a list as the stages of a cascade do, or none.

    Args:
        cfg: A config.
        path: Names below ``model``.
    """
    holders = [cfg.get('model')]
    for name in path:
        found = [holder.get(name) for holder in holders if isinstance(holder, dict)]
        holders = [each for part in found for each in (part if isinstance(part, (list, tuple)) else [part])]
    return [holder for holder in holders if isinstance(holder, dict)]

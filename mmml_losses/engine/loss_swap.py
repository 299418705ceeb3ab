"""``--loss``: another loss for any config."""

from __future__ import annotations

from pathlib import Path

from mmengine.config import Config, ConfigDict

from ..losses import MultiLabelLoss
from ..registry import LOSSES, SCOPE
from .errors import UsageError

# Where the heads of MMPretrain, dense detectors and two-stage detectors keep their classification loss.
LOSS_PATHS = (('head', 'loss'), ('bbox_head', 'loss_cls'), ('roi_head', 'bbox_head', 'loss_cls'))


def find_loss(name_or_file: str, losses_folder: Path) -> dict:
    """The config of a loss.

    Args:
        name_or_file: A config file, the stem of a file in ``losses_folder``, the name of a loss of this package, or
            another project's loss with its scope, such as ``mmpretrain.AsymmetricLoss``.
        losses_folder: Folder of config files that hold one loss each.
    """
    for file in (Path(name_or_file), losses_folder / f'{name_or_file}.py'):
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

"""``--loss``: another loss for any config."""

from __future__ import annotations

import copy
import difflib
import logging
from pathlib import Path

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import MODELS as MMENGINE_MODELS

from ..engine.model_loss import is_ours, replace_loss
from ..hosts.loss_places import find_loss as find_loss_in
from ..hosts.loss_places import loss_of
from ..losses import MultiLabelLoss
from ..registry import LOSSES, SCOPE, UnknownNameError
from ..utils.errors import UsageError


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
        _require_registered(name_or_file)
        return dict(type=name_or_file)
    short_names = sorted(file.stem for file in losses_folder.glob('*.py'))
    try:
        kind = LOSSES.get(name)
    except UnknownNameError:
        near = ' or '.join(f"'{match}'" for match in _names_near(name, short_names))
        hint = f'did you mean {near}? ' if near else ''
        raise UsageError(f"--loss: '{name}' is not a loss: {hint}(short names: {', '.join(short_names)})") from None
    if not issubclass(kind, MultiLabelLoss):
        raise UsageError(f'--loss: {name} is not a loss (short names: {", ".join(short_names)})')
    return dict(type=f'{SCOPE}.{name}')


def _require_registered(name: str) -> None:
    parts = name.split('.')
    scope, found = parts[0], None
    if all(part.isidentifier() for part in parts):
        with MMENGINE_MODELS.switch_scope_and_registry(scope) as registry:
            found = registry.get(name)
    if found is None:
        raise UsageError(f"--loss: '{name}' is not a loss: {scope!r} has none of that name, or is not installed")


def _names_near(name: str, short_names: list[str]) -> list[str]:
    """The short and the registered names of losses that a misspelt one comes near."""
    registered = [known for known, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss)]
    by_lower_name = {known.lower(): known for known in (*registered, *short_names)}
    return [by_lower_name[match] for match in difflib.get_close_matches(name.lower(), by_lower_name, n=3, cutoff=0.5)]


def _read_loss(file: Path) -> dict:
    loss = Config.fromfile(file).get('loss')
    if loss is None:
        raise UsageError(f'--loss: {file} must define `loss = dict(type=...)`')
    return loss


def swap_loss(cfg: Config, loss: dict) -> None:
    """Put a loss in the place of the config's classification loss, reduced as that one was.

    The learning rate of a recipe goes with the size of its loss, which ``reduction`` decides. So where the config sets
    it, and the new loss does not, it stays. Two kinds of losses are left as they are, with a warning: the parts of a
    sum, whose proportion it would change, and losses of other projects, to which our heads pass a divisor.
    """
    old = loss_of(cfg.get('model'))
    reduction = _reduction_of(old[0] if isinstance(old, list) else old)
    if reduction is not None and _reduction_of(loss) is None:
        if is_ours(loss) and 'losses' not in loss:
            loss = dict(loss, reduction=reduction)
            _log(f"{loss['type']} is reduced as the loss of the config is, reduction='{reduction}'")
        else:
            _log(
                f"the loss of the config has reduction='{reduction}', but {loss.get('type')} keeps its own: the "
                'learning rate of the config may not suit it',
                logging.WARNING,
            )
    replace_loss(cfg, loss)


def check_loss(cfg: Config) -> None:
    """Build the config's classification loss, if it is one of ours, so that a mistake in it shows before all else."""
    path, holders = find_loss_in(cfg.get('model'))
    for holder in holders:
        loss = holder.get(path[-1])
        if not isinstance(loss, dict) or not is_ours(loss):
            continue
        try:
            LOSSES.build(copy.deepcopy(loss))
        except (TypeError, ValueError) as error:
            place = '.'.join(('model', *path))
            raise UsageError(f'{place} of the config, {loss["type"]}, cannot be built: {error}') from None


def _reduction_of(loss: dict | None) -> str | None:
    """What a loss, or every part of a sum, sets as its reduction; None where nothing is set, or the parts differ."""
    if not isinstance(loss, dict):
        return None
    parts = loss.get('losses')
    if not isinstance(parts, dict):
        return loss.get('reduction')
    found = {_reduction_of(part) for part in parts.values()}
    return found.pop() if len(found) == 1 else None


def _log(message: str, level: int = logging.INFO) -> None:
    print_log(f'--loss: {message}', logger='current', level=level)

"""Find the loss that ``--loss`` names, and put it into any config."""

import logging
from pathlib import Path

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import MODELS as MMENGINE_MODELS

from ..engine.model_loss import names_our_loss, replace_loss
from ..hosts.loss_places import loss_of
from ..losses import MultiLabelLoss
from ..registry import LOSSES, SCOPE, UnknownNameError
from ..utils.errors import UsageError, did_you_mean

PACKAGE = Path(__file__).resolve().parents[1]


def configs_folder() -> Path:
    """Return the folder of the configs: ``configs`` in a checkout, ``.mim/configs`` in an installed package."""
    in_checkout = PACKAGE.parent / 'configs'
    return in_checkout if Path(in_checkout, '_base_', 'losses').is_dir() else PACKAGE / '.mim' / 'configs'


def losses_folder() -> Path:
    """Return the folder ``_base_/losses`` of the configs. ``--loss`` selects a loss by the stem of its file there."""
    return configs_folder() / '_base_' / 'losses'


def find_loss(name_or_file: str, *, for_detector: bool = False) -> dict:
    """Return the config of a loss, ``dict(type=..., ...)``; raise a UsageError if there is none.

    Args:
        name_or_file: A config file with ``loss = dict(...)``, the stem of a file in :func:`losses_folder`, the name of
            a loss of this package, or of another project with its scope, such as ``mmpretrain.AsymmetricLoss``.
        for_detector: Whether to look for the stem in ``configs/det/_base_/losses`` first.
    """
    files = [Path(name_or_file), losses_folder() / f'{name_or_file}.py']
    if for_detector:
        files.insert(1, configs_folder() / 'det' / '_base_' / 'losses' / f'{name_or_file}.py')
    for file in files:
        if file.suffix == '.py' and file.is_file():
            loss = Config.fromfile(file).get('loss')
            if loss is None:
                raise UsageError(f'--loss: {file} must define `loss = dict(type=...)`')
            return loss
    if name_or_file.endswith('.py'):
        raise UsageError(f'--loss: the file {name_or_file} does not exist')
    name = name_or_file.removeprefix(f'{SCOPE}.')
    if '.' in name:
        _require_registered(name_or_file)
        return dict(type=name_or_file)
    short_names = sorted(file.stem for file in losses_folder().glob('*.py'))
    known = f'(short names: {", ".join(short_names)})'
    try:
        kind = LOSSES.get(name)
    except UnknownNameError:
        registered = [each for each, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss)]
        hint = ' '.join(filter(None, (did_you_mean(name, (*registered, *short_names)), known)))
        raise UsageError(f"--loss: '{name}' is not a loss: {hint}") from None
    if kind is None or not issubclass(kind, MultiLabelLoss):
        raise UsageError(f'--loss: {name} is not a loss {known}')
    return dict(type=f'{SCOPE}.{name}')


def _require_registered(name: str) -> None:
    parts = name.split('.')
    scope, found = parts[0], None
    if all(part.isidentifier() for part in parts):
        with MMENGINE_MODELS.switch_scope_and_registry(scope) as registry:
            found = registry.get(name)
    if found is None:
        raise UsageError(f"--loss: '{name}' is not a loss: {scope!r} has none of that name, or is not installed")


def swap_loss(cfg: Config, loss: dict) -> None:
    """Put ``loss`` in place of the classification loss of ``cfg``, with the ``reduction`` of the recipe.

    The learning rate of a recipe is for losses of one scale, which depends on ``reduction``. The schedules of our
    configs name it as ``loss_reduction``; in another config it is that of the old loss. A new loss with a ``reduction``
    keeps it; without ``loss_reduction``, so does a SumLoss whose parts have one. So does a loss of another project,
    with a warning unless our heads, which pass it the number of samples as a divisor, give it this scale anyway.
    """
    old = loss_of(cfg.get('model'))
    reduction = cfg.get('loss_reduction')
    if reduction is None and _reduction_of(loss) is None:
        reduction = _reduction_of(old[0] if isinstance(old, list) else old)
    if reduction is not None and 'reduction' not in loss:
        if names_our_loss(loss):
            loss, level = dict(loss, reduction=reduction), logging.INFO
            message = f"{loss['type']} is reduced as the recipe wants it, reduction='{reduction}'"
        else:
            level = logging.INFO if reduction == 'batchmean' else logging.WARNING
            message = (
                f"the losses of the recipe have reduction='{reduction}', but {loss.get('type')} keeps its own, over "
                "samples ('batchmean'): the learning rate of the config may not suit it"
            )
        print_log(f'--loss: {message}', logger='current', level=level)
    replace_loss(cfg, loss)


def _reduction_of(loss: dict | None) -> str | None:
    """Return the ``reduction`` of a loss config, or else of all parts of a SumLoss; None if absent, or parts differ."""
    if not isinstance(loss, dict):
        return None
    parts = loss.get('losses')
    if loss.get('reduction') is not None or not isinstance(parts, dict):
        return loss.get('reduction')
    found = {_reduction_of(part) for part in parts.values()}
    return found.pop() if len(found) == 1 else None

"""Build MMEngine's Runner from a config, and save the metrics that it returns."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import mmengine
import torch
from mmengine.config import Config, ConfigDict
from mmengine.dataset import BaseDataset
from mmengine.evaluator import Evaluator
from mmengine.registry import RUNNERS
from mmengine.runner import Runner

from ..evaluation.metrics.base import finite_or_none
from ..evaluation.metrics.evaluator import MultiLabelEvaluator, details_of
from ..hosts.loss_places import type_name
from ..registry import SCOPE, UnknownNameError
from ..utils.files import replacing
from .config_data import DATALOADERS, with_datasets
from .model_loss import check_loss


def add_hook(cfg: Config, name: str) -> None:
    """Add the hook of this package with the class name ``name`` to a config's ``custom_hooks``, unless it is there."""
    hooks = list(cfg.get('custom_hooks') or [])
    if not any(type_name(hook).rpartition('.')[2] == name for hook in hooks):
        cfg.custom_hooks = [*hooks, dict(type=f'{SCOPE}.{name}')]


def dataloader_with_defaults(dataloader: ConfigDict, pin_memory: bool, collate: str = 'default_collate') -> ConfigDict:
    """Return a copy of a dataloader config with MMPretrain's defaults for missing settings.

    Workers persist if there are any, memory is pinned on a GPU, and ``collate`` is the type of ``collate_fn``. With
    ``pin_memory=False`` memory is never pinned.
    """
    defaults = ConfigDict(
        pin_memory=pin_memory and torch.cuda.is_available(),
        persistent_workers=dataloader.get('num_workers', 0) > 0,
        collate_fn=dict(type=collate),
    )
    defaults.update(dataloader)
    if not pin_memory:
        defaults.pin_memory = False
    return defaults


def build_runner(cfg: Config, datasets: Sequence[tuple[dict, BaseDataset]] = ()) -> Runner:
    """Build the Runner of a config. If the config's loss cannot be built, raise a UsageError that names the loss.

    ``datasets``, pairs (dict in ``cfg``, dataset built from it), are used and not built again. They come from
    :func:`mmml_losses.engine.config_data.require_data`.
    """
    try:
        runner = RUNNERS.build(cfg) if 'runner_type' in cfg else Runner.from_cfg(cfg)
    except (TypeError, ValueError, UnknownNameError):
        check_loss(cfg)
        raise
    for name in DATALOADERS if datasets else ():
        loader = getattr(runner, f'_{name}')
        if isinstance(loader, dict):
            # In the Runner alone: its config is written into checkpoints.
            setattr(runner, f'_{name}', dict(loader, dataset=with_datasets(cfg[name].dataset, datasets)))
    return runner


def save_metrics(path: str | Path, metrics: Mapping[str, float], evaluator: Evaluator) -> None:
    """Write ``metrics`` into one file, with further results (:func:`details_of`), if any, under the key ``details``.

    The suffix of ``path`` selects the format: ``.json`` (NaN and infinity become null), ``.yaml`` or ``.pkl``. An
    error leaves no half-written file.
    """
    path = Path(path)
    details = evaluator.details() if isinstance(evaluator, MultiLabelEvaluator) else details_of(evaluator.metrics)
    found = {**metrics, 'details': details} if details else dict(metrics)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        mmengine.dump(
            finite_or_none(found) if path.suffix == '.json' else found, temporary, file_format=path.suffix[1:]
        )

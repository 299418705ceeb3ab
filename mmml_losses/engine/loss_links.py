"""The link of a model's loss: where it is, what can be fitted on top of it, and its map phi."""

from __future__ import annotations

from typing import NamedTuple

from mmengine.config import Config
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.runner import Runner
from torch import Tensor, nn

from ..losses import MultiLabelLoss, SumLoss
from ..losses.links import Link, PlattLink, ScaledLink, TemperatureLink, VectorLink
from ..registry import LOSSES, SCOPE
from ..utils.errors import UsageError
from .loss_places import LOSS_PATHS

METHODS = {'temperature': TemperatureLink, 'platt': PlattLink, 'vector': VectorLink}


class LossPlace(NamedTuple):
    """Where a model has its classification loss.

    Args:
        module: The loss.
        prefix: How the keys of its state begin in the state of the model.
        config: Its config; of the module's type alone where the config leaves the loss to the head.
    """

    module: MultiLabelLoss
    prefix: str
    config: dict


def find_loss_place(cfg: Config, model: nn.Module) -> LossPlace:
    """The loss of a model, which must be one of this package: no other has a link."""
    found = None
    for *path, key in LOSS_PATHS:
        holder, module = cfg.model, model
        for name in path:
            holder = holder.get(name) if isinstance(holder, dict) else None
            module = getattr(module, name, None)
        if isinstance(holder, dict):
            attribute = 'loss_module' if key == 'loss' else key
            found = getattr(module, attribute, None)
            if isinstance(found, MultiLabelLoss):
                config = holder.get(key) or dict(type=f'{SCOPE}.{type(found).__name__}')
                return LossPlace(found, '.'.join((*path, attribute, '')), config)
    reason = 'none was found' if found is None else f'got {type(found).__name__}'
    raise UsageError(
        f'the model must have a loss of {SCOPE}, whose link can be fitted; {reason}. A model trained by another '
        'sigmoid loss can be given one: --loss BCELoss'
    )


def describe_link(link: ScaledLink, targets: Tensor) -> str:
    """The fitted values of a link in words.

    Args:
        link: One of ``METHODS``.
        targets: (N, C) that it was fitted to.
    """
    if not isinstance(link, VectorLink):
        return ', '.join(f'{name} {value:.4g}' for name, value in link.named_buffers(recurse=False))
    ranges = [f'{name} {value.min():.4g} to {value.max():.4g}' for name, value in link.named_buffers(recurse=False)]
    alike = ~((targets > 0).any(dim=0) & (targets == 0).any(dim=0))
    kept = f'; as before for {int(alike.sum())} classes without positive or without negative labels'
    return ', '.join(ranges) + (kept if alike.any() else '')


def phi_link_of(runner: Runner) -> Link:
    """The map that undoes the bias of Focal or ASL, with the parameters of the loss.

    Args:
        runner: Its model has such a loss, or a sum whose first pointwise part is one, and reads it by the sigmoid.

    Raises:
        UsageError: It has not.
    """
    cfg, model = runner.cfg, runner.model.module if is_model_wrapper(runner.model) else runner.model
    if isinstance(model, BaseTTAModel):
        cfg, model = Config(dict(model=cfg.model.module)), model.module
    place = find_loss_place(cfg, model)
    config, reads_through = dict(place.config), place.config.get('link')
    if isinstance(place.module, SumLoss):
        first = next((name for name, part in place.module.losses.items() if part.pointwise), None)
        config = dict(config['losses'][first]) if first is not None else config
        reads_through = reads_through or config.get('link')
    if reads_through is not None:
        raise UsageError(f'phi is for scores that are read by the sigmoid, got a loss with the link {reads_through}')
    try:
        return LOSSES.build({**config, 'link': 'phi'}).link
    except (TypeError, ValueError) as error:
        raise UsageError(f'phi is not defined for {config["type"]}: {error}') from None

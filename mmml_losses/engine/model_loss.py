"""Find and replace the classification loss of a config or a model, and its link from logits to probabilities."""

import copy
from typing import NamedTuple

from mmengine.config import Config, ConfigDict
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from torch import Tensor, nn

from ..hosts.loss_places import LOSS_PATHS, find_loss, type_name
from ..losses import MultiLabelLoss, SumLoss
from ..losses.links import Link, PlattLink, ScaledLink, TemperatureLink, VectorLink
from ..registry import LOSSES, SCOPE
from ..utils.errors import UsageError

MMDET_FOCAL_ALPHA = 0.25  # where a config does not set it
METHODS = {'temperature': TemperatureLink, 'platt': PlattLink, 'vector': VectorLink}


class LossPlace(NamedTuple):
    """The classification loss of a model, with its config and its prefix in the ``state_dict``.

    Args:
        module: The loss.
        prefix: Beginning of the loss's keys in the ``state_dict`` of the model, such as ``'head.loss_module.'``.
        config: Config of the loss; only ``dict(type=...)`` if the model's config names no loss and the head builds it.
    """

    module: MultiLabelLoss
    prefix: str
    config: dict


def find_loss_place(cfg: Config, model: nn.Module) -> LossPlace:
    """Return the LossPlace of ``model``, by the place in ``cfg``; raise a UsageError unless it is of this package."""
    path, holders = find_loss(cfg.model)
    attributes = ['loss_module' if name == 'loss' else name for name in path]
    module = model if path else None
    for name in attributes:
        module = getattr(module, name, None)
    if isinstance(module, MultiLabelLoss):
        config = holders[0].get(path[-1]) or dict(type=f'{SCOPE}.{type(module).__name__}')
        return LossPlace(module, '.'.join((*attributes, '')), config)
    reason = 'none was found' if module is None else f'got {type(module).__name__}'
    raise UsageError(
        f'the model must have a loss of {SCOPE}, whose link can be fitted; {reason}. A model trained by another '
        'sigmoid loss can be given one: --loss BCELoss'
    )


def check_loss(cfg: Config) -> None:
    """Raise a UsageError that names a config's classification loss if it is of this package and cannot be built.

    The function builds the loss, so call it to explain an error of a Runner, not to prevent one.
    """
    path, holders = find_loss(cfg.get('model'))
    for holder in holders:
        loss = holder.get(path[-1])
        if not isinstance(loss, dict) or not names_our_loss(loss):
            continue
        try:
            LOSSES.build(copy.deepcopy(loss))
        except (TypeError, ValueError) as error:
            place = '.'.join(('model', *path))
            raise UsageError(f'{place} of the config, {loss["type"]}, cannot be built: {error}') from None


def replace_loss(cfg: Config, loss: dict) -> None:
    """Replace the classification loss of a config in place, in each stage of a cascade.

    In a detector, positives keep the weight of the old loss, unless ``loss`` sets ``loss_weight``. A new loss of
    this package gets ``use_sigmoid=True``, which detector heads read. Any other new loss gets it if the old loss had
    it, except in a RoI head whose old loss is of this package: such a head scores other losses by a softmax.
    """
    path, holders = find_loss(cfg.get('model'))
    if not holders:
        places = ', '.join('.'.join(('model', *path)) for path in LOSS_PATHS)
        raise UsageError(f'found no classification loss to replace in the config: looked for {places}')
    for holder in holders:
        kept, key = {}, path[-1]
        if key == 'loss_cls':
            old = holder.get(key) or {}
            # A RoI head lets a loss of this package score, but takes the softmax with any other loss.
            was_sigmoid = old.get('use_sigmoid') and not ('roi_head' in path and names_our_loss(old))
            kept = dict(use_sigmoid=True) if names_our_loss(loss) or was_sigmoid else {}
            kept |= _kept_weight(old, loss)
        holder[key] = ConfigDict(kept | dict(loss))


def names_our_loss(loss: dict) -> bool:
    """Return True if the config of a loss names a loss of this package (its ``type`` begins with ``mmml_losses.``)."""
    return type_name(loss).startswith(f'{SCOPE}.')


def _kept_weight(old: dict, loss: dict) -> dict:
    """Return ``dict(loss_weight=...)`` with which the new ``loss`` weights positives as the ``old`` loss did.

    In a FocalLoss this weight is ``loss_weight`` times ``alpha``. The dict is empty if the default weight is right.
    """
    before, after = _alpha_of(old), _alpha_of(loss)
    if before == after or 0 in (before, after):  # an alpha of 0 leaves the positives out, and is no weight
        return dict(loss_weight=old['loss_weight']) if 'loss_weight' in old else {}
    return dict(loss_weight=old.get('loss_weight', 1.0) * before / after)


def _alpha_of(loss: dict) -> float:
    if type_name(loss).split('.')[-1] != 'FocalLoss':
        return 1.0
    alpha = loss.get('alpha', None if names_our_loss(loss) else MMDET_FOCAL_ALPHA)
    return 1.0 if alpha is None else alpha


def new_link(method: str, num_classes: int, base: Link | None = None) -> ScaledLink:
    """Return an unfitted link (logits to probabilities) by ``method``: ``'temperature'``, ``'platt'`` or ``'vector'``.

    It scales the log-odds of the link ``base``. If ``base`` is None, a loss that gets the new link sets its own default
    link as the base; without a loss, logits are taken for log-odds. Only ``'vector'`` needs ``num_classes``.
    """
    kind = METHODS[method]
    return kind(num_classes, base) if kind is VectorLink else kind(base)


def describe_link(link: ScaledLink, targets: Tensor) -> str:
    """Return the fitted values of a link as text, such as ``scale 1.2, bias -0.3``; of a VectorLink, their ranges.

    For a VectorLink, also count the classes without positive or negative ``targets`` (N, C): they are not fitted.
    """
    if not isinstance(link, VectorLink):
        return ', '.join(f'{name} {value:.4g}' for name, value in link.named_buffers(recurse=False))
    ranges = [f'{name} {value.min():.4g} to {value.max():.4g}' for name, value in link.named_buffers(recurse=False)]
    alike = ~((targets > 0).any(dim=0) & (targets == 0).any(dim=0))
    kept = f'; as before for {int(alike.sum())} classes without positive or without negative labels'
    return ', '.join(ranges) + (kept if alike.any() else '')


def phi_link_of(runner: Runner) -> Link:
    """Return the link that undoes the bias of Focal or ASL, with the parameters of the loss in a Runner's model.

    Raise a UsageError unless the loss (in a SumLoss, its first pointwise part) is Focal or ASL with the sigmoid link.
    """
    model = runner.model.module if is_model_wrapper(runner.model) else runner.model
    place = find_loss_place(runner.cfg, model)
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

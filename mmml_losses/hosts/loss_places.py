"""Find the classification loss in the config of a model, under the keys of MMPretrain's and MMDetection's heads."""

import ast
import logging
from collections.abc import Mapping

from mmengine.config import Config
from mmengine.logging import print_log

# Heads of classifiers, of dense detectors and of two-stage detectors, from the model down.
LOSS_PATHS = (('head', 'loss'), ('bbox_head', 'loss_cls'), ('roi_head', 'bbox_head', 'loss_cls'))


def type_name(settings: dict) -> str:
    """Return the ``type`` of a config as text, ``'None'`` if absent; ``'package.module.Class'`` for a class."""
    kind = settings.get('type')
    return f'{kind.__module__}.{kind.__qualname__}' if isinstance(kind, type) else str(kind)


def find_loss(model: object) -> tuple[tuple[str, ...], list[dict]]:
    """Find the classification loss in the config of a model; also if a test-time augmentation wraps the model.

    Returns:
        (keys, heads). ``keys`` lead from model to loss, such as ``('head', 'loss')`` or ``('module', 'head', 'loss')``.
        ``heads`` is a list of head configs: one head, or one per stage of a cascade. A head's loss is under the last
        of ``keys``, and may be missing. Both results are empty if the model is no dict or has no such head.
    """
    for path in (*LOSS_PATHS, *(('module', *path) for path in LOSS_PATHS)):
        holders: list = [model]
        for name in path[:-1]:
            found = [holder.get(name) for holder in holders if isinstance(holder, dict)]
            holders = [each for part in found for each in (part if isinstance(part, (list, tuple)) else [part])]
        holders = [holder for holder in holders if isinstance(holder, dict)]
        if holders:
            return path, holders
    return (), []


def loss_of(model: object) -> dict | list | None:
    """Return the config of a model's classification loss; a list, one per stage, for a cascade; None without a loss."""
    path, holders = find_loss(model)
    losses = [loss for holder in holders if (loss := holder.get(path[-1])) is not None]
    return losses[0] if len(losses) == 1 else losses or None


def is_detector(cfg: Config) -> bool:
    """Return True if the model of a config has a detection head, one that keeps its loss under ``loss_cls``."""
    path, _ = find_loss(cfg.get('model'))
    return path[-1:] == ('loss_cls',)


def warn_of_other_loss(checkpoint: Mapping, cfg: Config) -> None:
    """Log a warning if the text ``meta['cfg']`` of a checkpoint has another classification loss than ``cfg``.

    The weights fit all the same, but the other loss may turn logits into other probabilities.
    """
    trained = loss_in_text(checkpoint.get('meta', {}).get('cfg'))
    used = loss_in_text(cfg.pretty_text)
    if trained is not None and used is not None and trained != used:
        print_log(
            f'The checkpoint was trained with the loss {trained}, and is used with {used}: its probabilities are read '
            'through the link of the latter. Take the config of the training, or name its loss (--loss of the tools).',
            logger='current',
            level=logging.WARNING,
        )


def loss_in_text(config_text: str | None) -> dict | list | None:
    """Return :func:`loss_of` of ``model = ...`` in a config's text; None if it is absent or has no loss."""
    return loss_of(setting_in_text(config_text, 'model'))


def network_in_text(config_text: str | None) -> dict | None:
    """Return what identifies the backbone of ``model = ...`` in a config's text, such as ``type`` and ``depth``."""
    model = setting_in_text(config_text, 'model')
    model = model.get('module', model) if isinstance(model, dict) else {}
    backbone = model.get('backbone')
    if not isinstance(backbone, dict):
        return None
    return {name: backbone[name] for name in ('type', 'arch', 'depth', 'model_name') if name in backbone}


def setting_in_text(config_text: str | None, name: str) -> object:
    """Parse ``name = ...`` in a config's text without running it; return its value as data, None if not found."""
    try:
        tree = ast.parse(config_text or '')
    except SyntaxError:
        return None
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return _plain(statement.value)
    return None


def _plain(node: ast.expr) -> object:
    """Return a parsed expression as data: ``dict(...)`` as a dict, a list or literal as its value, others as text."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == 'dict':
        return {keyword.arg: _plain(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.List):
        return [_plain(each) for each in node.elts]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)

"""Which loss a checkpoint was trained with: its logits must be read through the link of that loss."""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping

from mmengine.config import Config
from mmengine.logging import print_log

# Where the heads of MMPretrain, dense detectors and two-stage detectors keep their classification loss.
LOSS_PATHS = (('head', 'loss'), ('bbox_head', 'loss_cls'), ('roi_head', 'bbox_head', 'loss_cls'))


def warn_of_other_loss(checkpoint: Mapping, cfg: Config) -> None:
    """Warn when a checkpoint was trained with another loss than the config has.

    Nothing else would notice: the weights fit, and the probabilities would be those of another link.

    Args:
        checkpoint: Content of a checkpoint of MMEngine, whose ``meta['cfg']`` is the text of the training's config.
        cfg: The config in use.
    """
    trained = _loss_in(checkpoint.get('meta', {}).get('cfg'))
    used = _loss_in(cfg.pretty_text)
    if trained is not None and used is not None and trained != used:
        print_log(
            f'The checkpoint was trained with the loss {trained}, and is used with {used}: its probabilities are read '
            'through the link of the latter. Take the config of the training, or name its loss (--loss of the tools).',
            logger='current',
            level=logging.WARNING,
        )


def _loss_in(config_text: str | None) -> object:
    """The classification loss of a config's text as plain data, or None. The text is read as a tree and never run."""
    try:
        tree = ast.parse(config_text or '')
    except SyntaxError:
        return None
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == 'model':
            model = _plain(statement.value)
            return next((loss for path in LOSS_PATHS if (loss := _at(model, path)) is not None), None)
    return None


def _at(node: object, path: tuple[str, ...]) -> object:
    """What stands below some keys, or None; of a cascade, that of each stage."""
    for number, key in enumerate(path):
        if isinstance(node, list):
            return [_at(each, path[number:]) for each in node]
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _plain(node: ast.expr) -> object:
    """Nested ``dict(...)`` calls as dicts, and lists; anything else as its own text or value."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == 'dict':
        return {keyword.arg: _plain(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.List):
        return [_plain(each) for each in node.elts]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)

"""Missing data, noticed before anything is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope

from ..datasets import MissingDataError
from .errors import UsageError

DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def require_data(cfg: Config, config_file: str) -> None:
    """Stop when files of a dataset are missing, and say what runs without them."""
    missing = [file for dataset in _datasets(cfg) for file in dataset.missing_files()]
    if missing:
        listing = '\n'.join(f'  {file}' for file in dict.fromkeys(missing))
        raise MissingDataError(
            f'The data of {config_file} is not complete. These files and folders must be there and are not:\n'
            f'{listing}\nWithout any download, this trains on data that it makes itself:\n'
            f'  python tools/train.py {digits_sibling(Path(config_file))}',
            missing,
        )


def _datasets(cfg: Config) -> Iterator:
    """The datasets of the config that can tell what they miss, unloaded; also those inside wrappers."""
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
        for name in DATALOADERS:
            for settings in _dicts_with_type((cfg.get(name) or {}).get('dataset')):
                kind = settings['type']
                kind = DATASETS.get(kind) if isinstance(kind, str) else kind
                if hasattr(kind, 'missing_files'):
                    yield _unloaded(kind, {key: value for key, value in settings.items() if key != 'type'})


def _unloaded(kind: type, arguments: dict):
    try:
        return kind(**{**arguments, 'pipeline': [], 'lazy_init': True})
    except (TypeError, ValueError) as error:
        raise UsageError(f'the config has a {kind.__name__} that cannot be built: {error}') from None


def _dicts_with_type(node) -> Iterator[dict]:
    if isinstance(node, dict):
        if 'type' in node:
            yield node
        nested = [value for key, value in node.items() if key in ('dataset', 'datasets')]
    else:
        nested = node if isinstance(node, (list, tuple)) else []
    for child in nested:
        yield from _dicts_with_type(child)


def digits_sibling(config_file: Path) -> Path:
    """The config of the same method on DigitScenes: ``spa_lpr_coco.py`` has ``spa_lpr_digits.py``."""
    stem = config_file.stem
    while stem:
        sibling = config_file.with_name(f'{stem}_digits.py')
        if sibling.is_file():
            return sibling
        stem = re.sub(r'_?[^_]*$', '', stem)
    return config_file.with_name('spa_lpr_digits.py')

"""Missing data, noticed before anything is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, DefaultScope

from ..datasets import MissingDataError
from ..datasets.wrappers.label_wrapper import LabelWrapper
from .errors import UsageError

DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def require_data(cfg: Config, config_file: str) -> None:
    """Stop when files of a dataset are missing, and say what runs without them."""
    datasets = [dataset for _, dataset in unloaded_datasets(cfg)]
    missing = [file for dataset in datasets for file in dataset.missing_files()]
    if missing:
        listing = '\n'.join(f'  {file}' for file in dict.fromkeys(missing))
        if any(dataset.missing_files() for dataset in datasets if not isinstance(dataset, LabelWrapper)):
            advice = (
                'Without any download, this trains on data that it makes itself:\n'
                f'  python tools/train.py {digits_sibling(Path(config_file))}'
            )
        else:
            advice = 'tools/make_labels.py writes labels that a config draws, tools/pseudo_label.py corrected ones.'
        raise MissingDataError(
            f'The data of {config_file} is not complete. These files and folders must be there and are not:\n'
            f'{listing}\n{advice}',
            missing,
        )


def unloaded_datasets(cfg: Config) -> Iterator[tuple[dict, BaseDataset]]:
    """The datasets of a config that can tell what they miss, also those inside wrappers, each beside its settings."""
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
        for name in DATALOADERS:
            for settings in _dicts_with_type((cfg.get(name) or {}).get('dataset')):
                kind = settings['type']
                kind = DATASETS.get(kind) if isinstance(kind, str) else kind
                can_tell = hasattr(kind, 'missing_files')
                wraps = isinstance(kind, type) and issubclass(kind, LabelWrapper)
                if can_tell or wraps:
                    arguments = {key: value for key, value in settings.items() if key != 'type'}
                    dataset = _unloaded(kind, arguments)  # of every wrapper, to see whether it can be built
                    if can_tell:
                        yield settings, dataset


def _unloaded(kind: type, arguments: dict):
    # The dataset inside a label wrapper is asked by itself; an empty one stands for it.
    light = dict(dataset=BaseDataset(lazy_init=True)) if issubclass(kind, LabelWrapper) else dict(pipeline=[])
    try:
        return kind(**{**arguments, **light, 'lazy_init': True})
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

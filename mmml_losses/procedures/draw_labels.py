"""Label files: where they go, what went into them, and how to use them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset, ConcatDataset

from ..datasets.labels.label_file import checked_json_path
from ..datasets.labels.nesting import count_views, unrepeated
from ..datasets.labels.sample_labels import POSITIVE, UNKNOWN
from ..datasets.wrappers.drawn_labels import DrawnLabels
from ..utils.errors import UsageError


def check_output(out: str, overwrite: bool) -> Path:
    """Refuse an ``--out`` that must not be written, before any work is done.

    Args:
        out: What the user gave.
        overwrite: Whether a file of that name may be replaced.
    """
    try:
        path = checked_json_path(out, '--out')
    except ValueError as error:
        raise UsageError(str(error)) from None
    if path.is_dir():
        raise UsageError(f'--out: {path} is a folder')
    if path.exists() and not overwrite:
        raise UsageError(f'--out: {path} exists, pass --overwrite to replace it')
    return path


def make_folder(out: Path) -> None:
    """Make the folder of ``--out``, and refuse one that cannot be written to."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f'--out: the folder {out.parent} cannot be made: {error.strerror}') from None
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f'--out: the folder {out.parent} cannot be written to')


def describe_drawing(drawn: DrawnLabels) -> str:
    """How many images and labels there were, and how many there are, in a few lines for a terminal."""
    old, new = drawn.source.labels, drawn.labels
    lines = [
        f'images before   {len(old):,}',
        f'images after    {len(new):,}',
        f'labels before   {_count(old)}',
        f'labels after    {_count(new)}',
    ]
    if (new == UNKNOWN).any():
        lines.append(f'labels unknown  {int((new == UNKNOWN).sum()):,} of {new.size:,}')
    return '\n'.join(lines)


def describe_use(dataset: BaseDataset, config_file: str, dataloader: str, out: str) -> str:
    """A config that serves the labels of the file instead of drawing them.

    Args:
        dataset: The dataset that drew them, built from the config.
        config_file: The config.
        dataloader: Whose dataset it is, such as ``'train'``.
        out: The label file.
    """
    place, depth, part = f'_base_.{dataloader}_dataloader.dataset', 1, dataset
    while part is not unrepeated(dataset):
        place, depth, part = f'{place}.dataset', depth + 1, part.dataset
    return '\n'.join(
        (
            f'_base_ = {Path(config_file).name!r}',
            f'{dataloader}_dataloader = dict(' + 'dataset=dict(' * depth,
            '    _delete_=True,',
            "    type='mmml_losses.Relabelled',",
            f'    dataset={_source_expression(part, place)},',
            f'    labels={out!r},',
            ')' * (depth + 1),
        )
    )


def _source_expression(dataset: BaseDataset, place: str) -> str:
    """The config of what lies inside all label wrappers, in terms of the config that has them."""
    if not count_views(dataset):
        return place
    if isinstance(dataset, ConcatDataset):
        parts = [_source_expression(part, f'{place}.datasets[{index}]') for index, part in enumerate(dataset.datasets)]
        return f'dict({place}, datasets=[\n        ' + ',\n        '.join(parts) + ',\n    ])'
    return _source_expression(dataset.dataset, f'{place}.dataset')


def _count(labels: np.ndarray) -> str:
    count = int((labels == POSITIVE).sum())
    return f'{count:,} ({count / max(1, len(labels)):.2f} per image)'

"""Describe the labels that wrappers of a dataset hid or changed, and write a config that reads them from a file."""

from pathlib import Path

from mmengine.dataset import BaseDataset, ConcatDataset

from ..datasets.labels.nesting import count_views, unrepeated
from ..datasets.labels.sample_labels import POSITIVE, UNKNOWN
from ..datasets.wrappers.drawn_labels import DrawnLabels


def describe_drawing(drawn: DrawnLabels) -> str:
    """Return a text with the numbers of images and positive labels before and after the label wrappers of a dataset."""
    old, new = drawn.source.labels, drawn.labels
    positives = [int((labels == POSITIVE).sum()) for labels in (old, new)]
    lines = [
        f'images before   {len(old):,}',
        f'images after    {len(new):,}',
        f'labels before   {positives[0]:,} ({positives[0] / max(1, len(old)):.2f} per image)',
        f'labels after    {positives[1]:,} ({positives[1] / max(1, len(new)):.2f} per image)',
    ]
    if (new == UNKNOWN).any():
        lines.append(f'labels unknown  {int((new == UNKNOWN).sum()):,} of {new.size:,}')
    return '\n'.join(lines)


def describe_use(dataset: BaseDataset, config_file: str, dataloader: str, out: str) -> str:
    """Return the text of a config that inherits from ``config_file`` and reads the labels of one dataset from ``out``.

    Args:
        dataset: The dataset of the dataloader, with the label wrappers that changed the labels.
        config_file: Config to inherit from, by its file name alone: save the text in the folder of ``config_file``.
        dataloader: ``'train'``, ``'val'`` or ``'test'``.
        out: Path of the label file, copied into the text as it is.
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
    """Return Python code for the config of ``dataset`` without its label wrappers; ``place`` is the code with them."""
    if not count_views(dataset):
        return place
    if isinstance(dataset, ConcatDataset):
        parts = [_source_expression(part, f'{place}.datasets[{index}]') for index, part in enumerate(dataset.datasets)]
        return f'dict({place}, datasets=[\n        ' + ',\n        '.join(parts) + ',\n    ])'
    return _source_expression(dataset.dataset, f'{place}.dataset')

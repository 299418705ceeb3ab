"""What the label wrappers around a dataset drew, in the form in which a label file keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset, ConcatDataset

from ...utils.errors import AnnotationError
from ..labels.nesting import count_views, inner_positions, parts_of, source_datasets
from ..labels.reading import read_labels
from ..labels.sample_labels import SampleLabels
from .label_wrapper import LabelWrapper
from .missing_boxes import MissingBoxes


@dataclass(frozen=True)
class DrawnLabels:
    """The labels that a dataset serves, and where they come from.

    Attributes:
        source: The M samples inside all label wrappers, with the labels they have there.
        positions: (N,), where among them each sample that is served stands; None if they are all served as they come.
        labels: (N, C) int8, the labels that are served.
        settings: What the wrappers do, each with what it wraps as ``dataset`` or ``datasets``.
    """

    source: SampleLabels
    positions: np.ndarray | None
    labels: np.ndarray
    settings: dict


def read_drawn_labels(dataset: BaseDataset) -> DrawnLabels:
    """Read what the label wrappers in a dataset drew.

    A file of it, written by :func:`mmml_losses.datasets.labels.label_file.save_label_file` and read by
    :class:`mmml_losses.datasets.Relabelled` around the dataset without its label wrappers, serves the same samples
    with the same labels.

    Args:
        dataset: Label wrappers around a dataset, or a ``ConcatDataset`` with such in it. Wrappers of MMEngine may also
            lie between two label wrappers.

    Raises:
        ValueError: It has no label wrapper.
        AnnotationError: One hides single boxes, which a label file cannot tell.
    """
    if not count_views(dataset):
        raise ValueError(f'dataset must have a label wrapper, got {type(dataset).__name__} without one')
    observed = read_labels(dataset)
    sources = [read_labels(source) for source in source_datasets(dataset)]
    source = SampleLabels(
        observed.classes,
        list(chain.from_iterable(part.keys for part in sources)),
        np.concatenate([part.labels for part in sources]),
    )
    positions = _source_positions(dataset)
    if np.array_equal(positions, np.arange(len(source.labels))):
        positions = None
    return DrawnLabels(source, positions, observed.labels, _settings(dataset))


def _source_positions(dataset: BaseDataset) -> np.ndarray:
    """Where each sample stands among those of the sources."""
    if not count_views(dataset):
        return np.arange(len(dataset))
    parts = parts_of(dataset)
    if isinstance(dataset, ConcatDataset):
        return _joined([_source_positions(part) for part in parts], [_source_size(part) for part in parts])
    inside, positions = _source_positions(parts[0]), inner_positions(dataset)
    return inside if positions is None else inside[positions]


def _joined(positions: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    starts = np.cumsum([0, *sizes[:-1]])
    return np.concatenate([part + start for part, start in zip(positions, starts, strict=True)])


def _source_size(dataset: BaseDataset) -> int:
    return sum(map(len, source_datasets(dataset)))


def _settings(dataset: BaseDataset) -> dict:
    """The settings of label wrappers; of other datasets only what they are: the labels tell the rest."""
    if isinstance(dataset, MissingBoxes):
        raise AnnotationError(
            'the dataset must hide labels of images to be kept in a label file, which does not tell single boxes, got '
            f'{type(dataset).__name__}: its seed and the names of the images give the same boxes every time'
        )
    settings = dataset.settings() if isinstance(dataset, LabelWrapper) else dict(type=type(dataset).__name__)
    if isinstance(dataset, ConcatDataset):
        settings['datasets'] = [_settings(part) for part in dataset.datasets]
    elif parts_of(dataset):
        settings['dataset'] = _settings(dataset.dataset)
    return settings

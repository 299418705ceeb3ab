"""The labels that label wrappers drew, in the form of a label file."""

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
    """The labels of a dataset, and their origin.

    Attributes:
        source: The M samples inside all label wrappers, with their labels there.
        positions: (N,), position of each sample of the dataset in ``source``; None if both have the same samples.
        labels: (N, C) int8, the labels of the dataset.
        settings: Settings of the wrappers, each with the wrapped datasets as ``dataset`` or ``datasets``.
    """

    source: SampleLabels
    positions: np.ndarray | None
    labels: np.ndarray
    settings: dict


def read_drawn_labels(dataset: BaseDataset) -> DrawnLabels:
    """Read the labels that the label wrappers in a dataset drew, and their origin.

    :func:`mmml_losses.datasets.labels.label_file.save_label_file` writes the result to a file. With that file,
    :class:`mmml_losses.datasets.Relabelled` around the dataset without its label wrappers has the same samples and
    labels.

    There must be a label wrapper somewhere inside, and none that hides single boxes, which a label file cannot hold.
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
    found = _source_positions(dataset)
    positions = None if np.array_equal(found, np.arange(len(source.labels))) else found
    return DrawnLabels(source, positions, observed.labels, _settings(dataset))


def _source_positions(dataset: BaseDataset) -> np.ndarray:
    """Return the position of each sample among the samples of all ``source_datasets``, one after the other."""
    if not count_views(dataset):
        return np.arange(len(dataset))
    parts = parts_of(dataset)
    if isinstance(dataset, ConcatDataset):
        starts = np.cumsum([0, *(sum(map(len, source_datasets(part))) for part in parts)])
        return np.concatenate([_source_positions(part) + start for part, start in zip(parts, starts, strict=False)])
    inside, positions = _source_positions(parts[0]), inner_positions(dataset)
    return inside if positions is None else inside[positions]


def _settings(dataset: BaseDataset) -> dict:
    """Return the settings of a dataset and of all datasets inside it; only label wrappers have more than a type."""
    if isinstance(dataset, MissingBoxes):
        raise AnnotationError(
            'the dataset must hide labels of images to be kept in a label file, which cannot hold single boxes, got '
            f'{type(dataset).__name__}: its seed and the names of the images give the same boxes every time'
        )
    settings = dataset.settings() if isinstance(dataset, LabelWrapper) else dict(type=type(dataset).__name__)
    if isinstance(dataset, ConcatDataset):
        settings['datasets'] = [_settings(part) for part in dataset.datasets]
    elif parts_of(dataset):
        settings['dataset'] = _settings(dataset.dataset)
    return settings

"""Read the labels that label wrappers drew, to write them to a label file."""

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
    """The labels of a dataset after its label wrappers, and the samples and labels from before.

    Attributes:
        source: :class:`SampleLabels` of the M samples inside all label wrappers, from before all changes.
        positions: (N,), position in ``source`` of each sample of the dataset; None if these are all M in order.
        labels: (N, C) int8, the labels of the dataset: 1 positive, 0 negative or unobserved, -1 unknown.
        settings: Dict that describes the dataset: ``settings()`` of a label wrapper, or else the class name as
            ``type``. It has such a dict of the wrapped dataset under ``dataset``, or a list under ``datasets``.
    """

    source: SampleLabels
    positions: np.ndarray | None
    labels: np.ndarray
    settings: dict


def read_drawn_labels(dataset: BaseDataset) -> DrawnLabels:
    """Return the labels of a dataset with label wrappers, and the samples and labels from before the wrappers.

    :func:`mmml_losses.datasets.labels.label_file.save_label_file` writes the result to a file. If the label wrappers
    are replaced by one :class:`mmml_losses.datasets.Relabelled` with that file, samples and labels stay the same.
    Without a label wrapper this raises a ValueError; with :class:`.MissingBoxes` inside, an AnnotationError, because a
    label file cannot hold single boxes.
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
    """Return the position of each sample, (N,) int64, in the datasets inside all label wrappers, concatenated."""
    if not count_views(dataset):
        return np.arange(len(dataset))
    parts = parts_of(dataset)
    if isinstance(dataset, ConcatDataset):
        starts = np.cumsum([0, *(sum(map(len, source_datasets(part))) for part in parts)])
        return np.concatenate([_source_positions(part) + start for part, start in zip(parts, starts, strict=False)])
    inside, positions = _source_positions(parts[0]), inner_positions(dataset)
    return inside if positions is None else inside[positions]


def _settings(dataset: BaseDataset) -> dict:
    """Return the ``settings`` of :class:`DrawnLabels`; raise an AnnotationError for :class:`.MissingBoxes` inside."""
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

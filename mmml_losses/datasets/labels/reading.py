"""Read the labels of any dataset without loading images."""

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset, ConcatDataset

from ...utils.errors import AnnotationError
from .data_infos import read_leaf
from .nesting import LabelView, class_names, inner_positions, parts_of, reject_unknown_kinds
from .sample_labels import POSITIVE, SampleLabels


@dataclass(frozen=True)
class LabelChanges:
    """Labels of a dataset before and after its label wrappers (datasets that change the labels of another).

    Arrays of labels have 1 positive, 0 negative or unobserved, -1 unknown. They are int8, or float32 with soft labels.

    Attributes:
        classes: Names of the C classes.
        observed: (N, C) labels of the dataset, after all changes.
        true: (N, C) labels of the same samples before all changes.
        original: (M, C) labels before all changes, also of the samples that label wrappers left out.
        sample_idx: (N,) sample numbers in the data infos. They repeat in a ``ConcatDataset``.
    """

    classes: tuple[str, ...]
    observed: np.ndarray
    true: np.ndarray
    original: np.ndarray
    sample_idx: np.ndarray


# What the error for soft labels says of hard ones.
HARD_LABELS = '1 (positive), 0 (negative) or -1 (unknown)'
HARD_TO_CHANGE = f'gt_score must be {HARD_LABELS} to hide or replace labels'


def read_labels(dataset: BaseDataset, with_areas: bool = False, hard_rule: str = HARD_TO_CHANGE) -> SampleLabels:
    """Return the labels of all samples of a dataset, in dataset order, as :class:`SampleLabels`.

    Args:
        dataset: An MMEngine dataset. Its data infos (sample dicts) must have ``gt_score`` (C,) with 1, 0 or -1, or else
            ``gt_label`` with class indices, or else ``instances`` with ``bbox_label`` as in MMDetection. Wrappers
            around such datasets are allowed, as in :class:`mmml_losses.datasets.LabelWrapper`.
        with_areas: Whether to read the areas of objects, too, which some label wrappers need.
        hard_rule: Beginning of the error for soft labels: who needs hard ones.

    Raises:
        TypeError: The dataset is of another kind.
        AnnotationError: The dataset has no such labels, has soft labels, or has no class names.
    """
    reject_unknown_kinds(dataset)
    classes = _class_names(dataset)
    rows = _read(dataset, len(classes), with_areas=with_areas)
    if rows.observed.dtype != np.int8:
        sample, label = np.argwhere(rows.observed != rows.observed.round())[0]
        raise AnnotationError(
            f'{hard_rule}, got the soft label {rows.observed[sample, label]:g} for class {label} of sample {sample}'
        )
    true = None if rows.true is rows.observed else rows.true
    return SampleLabels(classes, rows.keys, rows.observed, rows.areas, rows.images, true)


def read_label_changes(dataset: BaseDataset, num_classes: int | None = None) -> LabelChanges:
    """Return the labels of a dataset before and after the changes of label wrappers, as :class:`LabelChanges`.

    Each sample of the outermost label wrapper, or of a dataset without one, counts once. Repetitions by
    ``RepeatDataset`` and ``ClassBalancedDataset`` around it are left out.

    Args:
        dataset: A dataset as for :func:`read_labels`, also with soft labels, or any other with ``get_data_info``.
        num_classes: C, needed if neither the metainfo nor ``gt_score`` determines it.

    Raises:
        DatasetKindError: The dataset has no ``get_data_info``.
        AnnotationError: The dataset has no such labels.
    """
    classes = _class_names(dataset, required=False)
    rows = _read(dataset, len(classes) or num_classes, each_once=True)
    classes = classes or tuple(f'class {index}' for index in range(rows.observed.shape[1]))
    return LabelChanges(classes, rows.observed, rows.true, rows.all_original, rows.sample_idx)


def read_history(dataset: BaseDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return (true labels, uncorrected labels) of a dataset's samples, both (N, C), int8 or float32 if soft.

    True labels are from before all label wrappers. Uncorrected labels are the observed ones, but a class that a label
    wrapper made positive keeps its previous label, 0 or -1.
    """
    rows = _read(dataset, len(_class_names(dataset)))
    return rows.true, rows.uncorrected


# Arrays of _Rows that are always there.
PER_SAMPLE = ('sample_idx', 'observed', 'true', 'uncorrected')


@dataclass(frozen=True)
class _Rows:
    """Labels of a dataset before and after its label wrappers, in arrays with one row per sample.

    ``keys``, ``images`` and ``areas`` are as in :class:`SampleLabels`, the others as in :class:`LabelChanges`.
    ``original`` is None if there is no label wrapper and no ``true_label``. ``uncorrected`` is as in
    :func:`read_history`.
    """

    keys: list[str]
    images: list[str]
    sample_idx: np.ndarray
    observed: np.ndarray
    true: np.ndarray
    uncorrected: np.ndarray
    areas: np.ndarray | None = None
    original: np.ndarray | None = None

    @property
    def all_original(self) -> np.ndarray:
        return self.observed if self.original is None else self.original

    def take(self, positions: np.ndarray | None) -> '_Rows':
        if positions is None:
            return self
        return replace(
            self,
            keys=[self.keys[position] for position in positions.tolist()],
            images=[self.images[position] for position in positions.tolist()],
            areas=None if self.areas is None else self.areas[positions],
            **{name: getattr(self, name)[positions] for name in PER_SAMPLE},
        )

    def seen_through(self, view: LabelView) -> '_Rows':
        """Return the rows of ``view``, a label wrapper around the dataset that these rows describe."""
        rows, observed = self.take(view.positions()), view.observed_labels()
        added = (observed == POSITIVE) & (rows.uncorrected != POSITIVE)
        return replace(
            rows,
            sample_idx=np.arange(len(observed)),
            observed=observed,
            areas=None if rows.areas is None else view.observed_areas(rows.areas),
            uncorrected=np.where(added, rows.uncorrected, observed),
            original=self.all_original,
        )

    @staticmethod
    def joined(parts: 'list[_Rows]') -> '_Rows':
        areas = original = None
        if any(part.areas is not None for part in parts):
            unknown = np.float32(np.nan)
            areas = np.concatenate(
                [np.full(part.true.shape, unknown) if part.areas is None else part.areas for part in parts]
            )
        if any(part.original is not None for part in parts):
            original = np.concatenate([part.all_original for part in parts])
        return _Rows(
            keys=list(chain.from_iterable(part.keys for part in parts)),
            images=list(chain.from_iterable(part.images for part in parts)),
            areas=areas,
            original=original,
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in PER_SAMPLE},
        )


def _read(dataset: BaseDataset, num_classes: int | None, with_areas: bool = False, each_once: bool = False) -> _Rows:
    """Read a dataset's labels; ``each_once`` leaves out repetitions, as :func:`read_label_changes` describes."""
    if isinstance(dataset, ConcatDataset):
        dataset.full_init()
        return _Rows.joined([_read(part, num_classes, with_areas, each_once) for part in dataset.datasets])
    if not parts_of(dataset):
        keys, images, sample_idx, labels, true, areas = read_leaf(dataset, num_classes, with_areas)
        # A wrapper of another kind around a label wrapper has both labels, and nothing else from inside.
        return _Rows(keys, images, sample_idx, labels, true, labels, areas, original=None if true is labels else true)
    dataset.full_init()
    if isinstance(dataset, LabelView):
        return _read(dataset.dataset, num_classes, with_areas).seen_through(dataset)
    rows = _read(dataset.dataset, num_classes, with_areas, each_once)
    return rows if each_once else rows.take(inner_positions(dataset))


def _class_names(dataset: BaseDataset, required: bool = True) -> tuple[str, ...]:
    # Some readers know the names only after they have read the annotations.
    if hasattr(dataset, 'full_init'):
        dataset.full_init()
    classes = class_names(dataset)
    if not classes and required:
        raise AnnotationError(f'{type(dataset).__name__} has no classes in its metainfo')
    return classes

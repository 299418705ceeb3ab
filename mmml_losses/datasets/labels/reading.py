"""Read the labels of any dataset, without making an item."""

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
    """The labels of a dataset, and what they were before its label wrappers changed them.

    Arrays hold 1 positive, 0 negative or unobserved, -1 unknown; they are int8, or float32 where labels are soft.

    Attributes:
        classes: Names of the C classes.
        observed: (N, C), the labels of the dataset, with all changes.
        true: (N, C), the labels of the innermost datasets for the same samples.
        original: (M, C), all labels inside every label wrapper, before any of them chose samples.
        sample_idx: (N,), ``sample_idx`` of the data infos. It repeats in a ``ConcatDataset``.
    """

    classes: tuple[str, ...]
    observed: np.ndarray
    true: np.ndarray
    original: np.ndarray
    sample_idx: np.ndarray


def read_labels(dataset: BaseDataset, with_areas: bool = False) -> SampleLabels:
    """Read the labels of a dataset, in its order.

    Args:
        dataset: A dataset of MMEngine's kind, whose data infos have ``gt_score`` (C,) with 1, 0 or -1, or else
            ``gt_label`` with class indices, or else ``instances`` with ``bbox_label`` as in MMDetection; or wrappers
            around such datasets, as for :class:`mmml_losses.datasets.LabelWrapper`.
        with_areas: Whether to read the areas of objects as well, for wrappers that depend on them.

    Raises:
        TypeError: It is a dataset of another kind.
        AnnotationError: There are no such labels.
    """
    reject_unknown_kinds(dataset)
    classes = _class_names(dataset)
    rows = _read(dataset, len(classes), with_areas=with_areas)
    if rows.observed.dtype != np.int8:
        sample, label = np.argwhere(rows.observed != rows.observed.round())[0]
        raise AnnotationError(
            'gt_score must be 1 (positive), 0 (negative) or -1 (unknown) to hide or replace labels, got the soft label '
            f'{rows.observed[sample, label]:g} for class {label} of sample {sample}'
        )
    return SampleLabels(classes, rows.keys, rows.observed, rows.areas)


def read_label_changes(dataset: BaseDataset, num_classes: int | None = None) -> LabelChanges:
    """Read the observed labels of a dataset, the true ones, and those before label wrappers chose samples.

    Every sample of the outermost label wrapper, or of a dataset without label wrappers, counts once: ``RepeatDataset``
    and ``ClassBalancedDataset`` around it only repeat samples.

    Args:
        dataset: As for :func:`read_labels`; soft labels and any other dataset with ``get_data_info`` are allowed.
        num_classes: C, needed if neither the metainfo nor ``gt_score`` determines it.

    Raises:
        DatasetKindError: It is a dataset of another kind.
        AnnotationError: There are no such labels.
    """
    classes = _class_names(dataset, required=False)
    rows = _read(dataset, len(classes) or num_classes, each_once=True)
    classes = classes or tuple(f'class {index}' for index in range(rows.observed.shape[1]))
    return LabelChanges(classes, rows.observed, rows.true, rows.all_original, rows.sample_idx)


def read_history(dataset: BaseDataset) -> tuple[np.ndarray, np.ndarray]:
    """Read the true labels (N, C) of the samples of a dataset, and its labels without restored positives.

    A restored positive is one that a label wrapper removed and another one added again.
    """
    rows = _read(dataset, len(_class_names(dataset)))
    return rows.true, rows.uncorrected


# Arrays of _Rows that are always there.
PER_SAMPLE = ('sample_idx', 'observed', 'true', 'uncorrected')


@dataclass(frozen=True)
class _Rows:
    """The labels of a dataset, and what they were before, in arrays with a row for each sample.

    ``uncorrected`` is ``observed`` without the positives that a wrapper added. Only ``original`` has other samples; it
    is None without any label wrapper.
    """

    keys: list[str]
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
            areas=None if self.areas is None else self.areas[positions],
            **{name: getattr(self, name)[positions] for name in PER_SAMPLE},
        )

    def seen_through(self, view: LabelView) -> '_Rows':
        """Return the rows of ``view``, a label wrapper around the dataset of these rows."""
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
            areas=areas,
            original=original,
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in PER_SAMPLE},
        )


def _read(dataset: BaseDataset, num_classes: int | None, with_areas: bool = False, each_once: bool = False) -> _Rows:
    """Read a dataset; ``each_once`` leaves out repetitions by MMEngine's wrappers outside of label wrappers."""
    if isinstance(dataset, ConcatDataset):
        dataset.full_init()
        return _Rows.joined([_read(part, num_classes, with_areas, each_once) for part in dataset.datasets])
    if not parts_of(dataset):
        keys, sample_idx, labels, true, areas = read_leaf(dataset, num_classes, with_areas)
        # A wrapper of another kind around a label wrapper has both labels, and nothing else from inside.
        return _Rows(keys, sample_idx, labels, true, labels, areas, original=None if true is labels else true)
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

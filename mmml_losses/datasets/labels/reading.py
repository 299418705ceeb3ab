"""How the labels of any dataset are read, without making an item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset, ConcatDataset

from ...utils.errors import AnnotationError
from .data_infos import read_leaf
from .nesting import LabelView, class_names, inner_positions, parts_of, refuse_unknown_kinds
from .sample_labels import POSITIVE, SampleLabels


@dataclass(frozen=True)
class LabelChanges:
    """What the label wrappers in a dataset made of its labels.

    Arrays hold 1 positive, 0 negative or unobserved, -1 unknown; they are int8, or float32 where labels are soft.

    Attributes:
        classes: Names of the C classes.
        observed: (N, C), the labels that are served.
        true: (N, C), the labels that the innermost datasets have for the same samples.
        original: (M, C), all that the datasets inside every label wrapper have, before any of them chose samples.
        sample_idx: (N,), what the data infos have as ``sample_idx``. It repeats in a ``ConcatDataset``.
    """

    classes: tuple[str, ...]
    observed: np.ndarray
    true: np.ndarray
    original: np.ndarray
    sample_idx: np.ndarray


def read_labels(dataset: BaseDataset, with_areas: bool = False) -> SampleLabels:
    """The labels that a dataset serves, in its order.

    Args:
        dataset: One of MMEngine's kind, whose data infos have ``gt_score`` (C,) with 1, 0 or -1, or else ``gt_label``
            with class indices, or else ``instances`` with ``bbox_label`` as MMDetection has them; or wrappers around
            such, as for :class:`mmml_losses.datasets.LabelWrapper`.
        with_areas: Whether to read areas as well.

    Raises:
        TypeError: It is a dataset of another kind.
        AnnotationError: There are no such labels.
    """
    refuse_unknown_kinds(dataset)
    classes = _class_names(dataset)
    rows = _read(dataset, _Request(len(classes), with_areas=with_areas))
    if rows.observed.dtype != np.int8:
        sample, label = np.argwhere(rows.observed != rows.observed.round())[0]
        raise AnnotationError(
            'gt_score must be 1 (positive), 0 (negative) or -1 (unknown) to hide or replace labels, got the soft label '
            f'{rows.observed[sample, label]:g} for class {label} of sample {sample}'
        )
    return SampleLabels(classes, rows.keys, rows.observed, rows.areas)


def read_label_changes(dataset: BaseDataset, num_classes: int | None = None) -> LabelChanges:
    """The labels of a dataset as they are served, in truth, and before label wrappers chose samples.

    Every sample of the outermost label wrapper counts once: ``RepeatDataset`` and ``ClassBalancedDataset`` around it
    are ways to draw samples, which do not change how many there are. So it is with a dataset without label wrappers.

    Args:
        dataset: As for :func:`read_labels`; soft labels and any other dataset with ``get_data_info`` will do.
        num_classes: C, where neither the metainfo nor ``gt_score`` tells.

    Raises:
        DatasetKindError: It is a dataset of another kind.
        AnnotationError: There are no such labels.
    """
    classes = _class_names(dataset, required=False)
    rows = _read(dataset, _Request(len(classes) or num_classes, each_once=True))
    classes = classes or tuple(f'class {index}' for index in range(rows.observed.shape[1]))
    return LabelChanges(classes, rows.observed, rows.true, rows.all_original, rows.sample_idx)


def read_history(dataset: BaseDataset) -> tuple[np.ndarray, np.ndarray]:
    """The true labels (N, C) of the samples of a dataset, and those that it serves without what was brought back.

    Brought back is a positive that one label wrapper took away and another one added.
    """
    rows = _read(dataset, _Request(len(_class_names(dataset))))
    return rows.true, rows.uncorrected


@dataclass(frozen=True)
class _Request:
    """What to read."""

    num_classes: int | None
    with_areas: bool = False
    each_once: bool = False  # leave out what MMEngine's wrappers outside of label wrappers repeat


@dataclass(frozen=True)
class _Rows:
    """What was read: arrays with a row for each sample.

    ``uncorrected`` is ``observed`` without the positives that a wrapper added. ``original`` alone is of other samples;
    it is None without any label wrapper.
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

    def take(self, positions: np.ndarray) -> _Rows:
        return _Rows(
            [self.keys[position] for position in positions.tolist()],
            self.sample_idx[positions],
            self.observed[positions],
            self.true[positions],
            self.uncorrected[positions],
            None if self.areas is None else self.areas[positions],
            self.original,
        )

    def seen_through(self, view: LabelView) -> _Rows:
        """These rows with the labels of the wrapper around them."""
        positions, observed, original = view.positions(), view.observed_labels(), self.all_original
        rows = self if positions is None else self.take(positions)
        added = (observed == POSITIVE) & (rows.uncorrected != POSITIVE)
        return replace(
            rows,
            sample_idx=np.arange(len(observed)),
            observed=observed,
            areas=None if rows.areas is None else view.observed_areas(rows.areas),
            uncorrected=np.where(added, rows.uncorrected, observed),
            original=original,
        )

    @staticmethod
    def joined(parts: list[_Rows]) -> _Rows:
        def join(name: str, default: Callable[[_Rows], np.ndarray]) -> np.ndarray | None:
            arrays = [getattr(part, name) for part in parts]
            if all(array is None for array in arrays):
                return None
            pairs = zip(parts, arrays, strict=True)
            return np.concatenate([default(part) if array is None else array for part, array in pairs])

        return _Rows(
            list(chain.from_iterable(part.keys for part in parts)),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ('sample_idx', 'observed', 'true', 'uncorrected')
            ),
            areas=join('areas', lambda part: np.full(part.observed.shape, np.nan, np.float32)),
            original=join('original', lambda part: part.observed),
        )


def _read(dataset: BaseDataset, request: _Request) -> _Rows:
    if isinstance(dataset, ConcatDataset):
        dataset.full_init()
        return _Rows.joined([_read(part, request) for part in dataset.datasets])
    if not parts_of(dataset):
        leaf = read_leaf(dataset, request.num_classes, request.with_areas)
        # A wrapper of another kind around a label wrapper shows both labels, and no more of what is inside.
        original = None if leaf.true is leaf.labels else leaf.true
        return _Rows(leaf.keys, leaf.sample_idx, leaf.labels, leaf.true, leaf.labels, leaf.areas, original)
    dataset.full_init()
    if isinstance(dataset, LabelView):
        return _read(dataset.dataset, replace(request, each_once=False)).seen_through(dataset)
    rows = _read(dataset.dataset, request)
    return rows if request.each_once else rows.take(inner_positions(dataset))


def _class_names(dataset: BaseDataset, required: bool = True) -> tuple[str, ...]:
    # Readers may know the names only when they have read the annotations.
    if hasattr(dataset, 'full_init'):
        dataset.full_init()
    classes = class_names(dataset)
    if not classes and required:
        raise AnnotationError(f'{type(dataset).__name__} has no classes in its metainfo')
    return classes

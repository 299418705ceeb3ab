"""Base class of the datasets that change the labels of another dataset."""

import copy
from collections.abc import Sequence

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init
from mmengine.registry import DATASETS as MMENGINE_DATASETS

from ...utils.arrays import as_labels
from ...utils.errors import AnnotationError
from ..labels.data_infos import has_boxes_only, label_row, write_labels
from ..labels.nesting import LabelView, class_names, count_views, leaf_datasets, pipeline_of, reject_unknown_kinds
from ..labels.reading import HARD_TO_CHANGE, read_history, read_labels
from ..labels.sample_labels import POSITIVE, UNKNOWN, SampleLabels


class LabelWrapper(LabelView):
    """Base class of datasets that wrap another dataset and change its labels or choose some of its samples.

    A subclass overrides :meth:`relabel` to replace labels, :meth:`select` to choose samples, or both. It lists the
    constructor arguments that determine the labels in the class attribute ``arguments``.

    Items come from the pipeline of the wrapped dataset, and only the labels differ: ``gt_label``, ``gt_score`` and the
    boxes in ``instances``, as far as samples have them. The data info also gets ``true_label``, (C,) int8, the labels
    before all wrappers, which no loss reads. Pipelines pack it only with ``PackInputs(algorithm_keys=['true_label'])``.

    If any label is unknown, all samples get ``gt_score``, (C,) with 1, 0 and -1, except samples with boxes only. In
    these the classes of boxes without ``ignore_flag`` are positive, and adding a class raises an AnnotationError. If a
    class is hidden, its boxes in the image are removed. If it becomes unknown, they get ``ignore_flag=1``.

    ``sample_idx`` is the position in this dataset. If the pipeline returns None in training, a random sample replaces
    it, as in MMEngine; around a ``ConcatDataset``, the random sample may be of any part.

    Args:
        dataset: A dataset of MMEngine's kind whose samples have ``gt_label``, ``gt_score`` or ``instances``; a
            ``ConcatDataset``, ``RepeatDataset`` or ``ClassBalancedDataset`` of such datasets; another label wrapper;
            or the config of one of these, built in MMEngine's default scope.
        lazy_init: Whether to wait with loading until :meth:`full_init`. The wrapped dataset has its own ``lazy_init``.
    """

    # Whether select and relabel need the areas of the samples, which take a while to read.
    needs_areas: bool = False
    # Beginning of the error for soft labels.
    hard_rule: str = HARD_TO_CHANGE
    # Attributes that determine the labels, see settings.
    arguments: Sequence[str] = ()

    # BaseDataset.__init__ is not called: it needs annotation files and a pipeline, which the wrapped dataset has.
    def __init__(self, dataset: BaseDataset | dict, lazy_init: bool = False):
        self.dataset = MMENGINE_DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        reject_unknown_kinds(self.dataset)
        self._labels = np.empty((0, 0), dtype=np.int8)
        self._positions: np.ndarray | None = None
        self._has_unknown = False
        self._fully_initialized = False
        if not lazy_init:
            self.full_init()

    def select(self, samples: SampleLabels) -> np.ndarray | None:
        """Return the positions of the chosen samples in the wrapped dataset, (N,) in their new order; None for all.

        ``samples`` holds all samples and labels of the wrapped dataset; do not change it. The base class returns None.
        """
        return None

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the new labels, (N, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.

        ``samples`` has the samples of :meth:`select` with old labels, which the base class returns; do not change it.
        """
        return samples.labels

    def settings(self) -> dict:
        """Return a dict for JSON: ``type``, the class name, and the value of each argument named in ``arguments``."""
        return dict(type=type(self).__name__, **{name: getattr(self, name) for name in self.arguments})

    @property
    def stream(self) -> str:
        """Name of this wrapper's random numbers: class and depth of label wrappers inside, as ``'MissingLabels/1'``."""
        return f'{type(self).__name__}/{count_views(self.dataset)}'

    def full_init(self) -> None:
        """Load the wrapped dataset and compute the labels of this one; do nothing if this was done before."""
        if self._fully_initialized:
            return
        self.dataset.full_init()
        samples = read_labels(self.dataset, self.needs_areas, self.hard_rule)
        positions = self.select(samples)
        if positions is not None:
            positions = _as_positions(positions, f'select of {type(self).__name__} must give positions')
            samples = samples.take(positions)
        labels, shape = self.relabel(samples), samples.labels.shape
        if np.shape(labels) != shape:
            raise ValueError(
                f'relabel of {type(self).__name__} must give labels for each sample and class {shape}, got the shape '
                f'{np.shape(labels)}'
            )
        # One array without Python objects: workers that are forked share it instead of copying it.
        labels = np.array(as_labels(labels, f'the labels that relabel of {type(self).__name__} gives'), order='C')
        gains = (labels == POSITIVE) & (samples.labels != POSITIVE)
        if gains.any():
            self._reject_classes_without_boxes(np.flatnonzero(gains.any(axis=1)), positions)
        self._set(positions, labels)
        self._fully_initialized = True

    def _set(self, positions: np.ndarray | None, labels: np.ndarray) -> None:
        self._positions, self._labels = positions, labels
        self._has_unknown = bool((labels == UNKNOWN).any())

    def _reject_classes_without_boxes(self, gaining: np.ndarray, positions: np.ndarray | None) -> None:
        """Raise an AnnotationError if a sample with new positives has boxes only: the new class would have no box.

        ``gaining`` (M,): indices of samples with new positives in this dataset. ``positions``: the result of select.
        """
        # All samples of a dataset are of one kind.
        if not any(len(leaf) and has_boxes_only(leaf.get_data_info(0)) for leaf in leaf_datasets(self.dataset)):
            return
        for idx in gaining.tolist():
            position = idx if positions is None else int(positions[idx])
            if has_boxes_only(self.dataset.get_data_info(position)):
                raise AnnotationError(
                    f'{type(self).__name__} must not add a class to a detection dataset, where it would have no box, '
                    f'but does so for sample {idx}'
                )

    @property
    def metainfo(self) -> dict:
        """Meta information of the wrapped dataset, such as the class names under ``'classes'``."""
        return self.dataset.metainfo

    @property
    def CLASSES(self) -> tuple[str, ...] | None:  # noqa: N802 (the name that mmpretrain's hooks use)
        """Class names in the order of the class indices; None if the metainfo has no classes."""
        return class_names(self.dataset) or None

    @property
    def test_mode(self) -> bool:
        """Whether any innermost dataset is in test mode; then a pipeline that returns None for a sample is an error."""
        return any(leaf.test_mode for leaf in leaf_datasets(self.dataset))

    @property
    def max_refetch(self) -> int:
        """Largest ``max_refetch`` of the innermost datasets: how many other samples training may try after a None."""
        return max(leaf.max_refetch for leaf in leaf_datasets(self.dataset))

    @force_full_init
    def positions(self) -> np.ndarray | None:
        """Return each sample's position in the wrapped dataset, (N,); None if both have the same samples in order."""
        return self._positions

    @force_full_init
    def observed_labels(self) -> np.ndarray:
        """Return the labels of this dataset, (N, C) int8: 1 positive; 0 negative, or not annotated; -1 left out."""
        return self._labels.copy()

    @force_full_init
    def has_unknown(self) -> bool:
        """Return whether any label of this dataset is unknown."""
        return self._has_unknown

    @force_full_init
    def source_labels(self) -> np.ndarray:
        """Return the labels that the N samples of this dataset have in the wrapped dataset, (N, C) int8."""
        labels = read_labels(self.dataset).labels
        return labels if self._positions is None else labels[self._positions]

    @force_full_init
    def true_labels(self) -> np.ndarray:
        """Return the labels that the N samples of this dataset had before all label wrappers, (N, C) int8."""
        return read_history(self)[0]

    @force_full_init
    def uncorrected_labels(self) -> np.ndarray:
        """Return the labels of this dataset, (N, C) int8, without the positives that label wrappers added.

        Pseudo labels add such positives. Each gets its label from before, 0 or -1. All other changes stay.
        """
        return read_history(self)[1]

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Return the wrapped dataset's data info with this dataset's labels; ``true_label`` has the original ones."""
        row = self._labels[idx]
        idx = idx if idx >= 0 else len(self._labels) + idx
        position = idx if self._positions is None else int(self._positions[idx])
        info = self.dataset.get_data_info(position)
        if 'true_label' not in info:
            info['true_label'] = label_row(info, len(row))
        self.write(info, row, position)
        info['sample_idx'] = idx
        return info

    def write(self, info: dict, row: np.ndarray, position: int) -> None:
        """Write the labels ``row`` (C,) to ``info``, the data info at ``position`` of the wrapped dataset, in place."""
        write_labels(info, row, with_score=self._has_unknown)

    @force_full_init
    def get_cat_ids(self, idx: int) -> list[int]:
        """Return the indices of a sample's positive classes, for :class:`mmengine.dataset.ClassBalancedDataset`."""
        return np.flatnonzero(self._labels[idx] == POSITIVE).tolist()

    def prepare_data(self, idx: int) -> object:
        """Return :meth:`get_data_info` after the innermost dataset's pipeline; None if a transform returns None."""
        return pipeline_of(self, idx)(self.get_data_info(idx))

    @force_full_init
    def __len__(self) -> int:
        return len(self._labels)

    @force_full_init
    def get_subset(self, indices: Sequence[int] | int) -> 'LabelWrapper':
        """Return a new dataset of the first n samples for ``indices`` n, the last n for -n, or the listed positions."""
        subset = copy.copy(self)
        subset.get_subset_(indices)
        return subset

    @force_full_init
    def get_subset_(self, indices: Sequence[int] | int) -> None:
        """Keep only the samples that :meth:`get_subset` would return, in place. The wrapped dataset stays as it is."""
        chosen = _as_index(indices)
        positions = np.arange(len(self)) if self._positions is None else self._positions
        self._set(positions[chosen], self._labels[chosen])


def _as_index(indices: Sequence[int] | int) -> slice | np.ndarray:
    """Return numpy's index of a subset: a slice of the first n for n or the last n for -n, or positions for a list."""
    if isinstance(indices, (int, np.integer)) and not isinstance(indices, bool):
        return slice(indices) if indices >= 0 else slice(indices, None)
    return _as_positions(indices, 'indices must be a whole number or positions')


def _as_positions(positions: object, rule: str) -> np.ndarray:
    """Return positions as (N,) int64; raise a TypeError '{rule}, whole numbers (N,), got ...' for masks, floats."""
    found = np.asarray(positions)
    if found.ndim != 1 or (found.size and found.dtype.kind not in 'iu'):
        raise TypeError(f'{rule}, whole numbers (N,), got {found.dtype} {found.shape}')
    return found.astype(np.int64)

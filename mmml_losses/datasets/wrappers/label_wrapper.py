"""What the datasets that change labels share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init
from mmengine.registry import DATASETS as MMENGINE_DATASETS

from ...utils.arrays import as_labels
from ...utils.errors import AnnotationError
from ..labels.data_infos import has_boxes_only, label_row, write_labels
from ..labels.nesting import LabelView, class_names, count_views, leaf_datasets, pipeline_of, refuse_unknown_kinds
from ..labels.reading import read_history, read_labels
from ..labels.sample_labels import POSITIVE, UNKNOWN, SampleLabels


class LabelWrapper(LabelView):
    """A dataset with samples of another one and labels of its own.

    A subclass writes :meth:`relabel`, which gives the samples other labels, or :meth:`select`, which chooses some of
    them, or both; and :meth:`settings`.

    Items come from the pipeline of the wrapped dataset, in which only the labels differ: ``gt_label``, ``gt_score``
    and the boxes in ``instances``, whichever the samples have. The label that the innermost dataset has is in the data
    info as ``true_label``, (C,) int8. Pipelines pack it only when asked
    (``PackInputs(algorithm_keys=['true_label'])``), and no loss reads it.

    A sample has ``gt_score`` where it had one before; every sample has one if any label is unknown, since class
    indices cannot say so. In a detection dataset an image has the classes of its boxes that are not to be ignored
    (``ignore_flag``). There a class that is hidden loses all its boxes in the image, and the boxes of one that becomes
    unknown are to be ignored; no class can be added.

    ``sample_idx`` is the position in this dataset, also around a ``ConcatDataset``. A sample that the pipeline cannot
    make is replaced by a random one in training, as MMEngine does; around a ``ConcatDataset`` that may be one of any
    part.

    Args:
        dataset: A dataset or its config: one of MMEngine's kind whose samples have ``gt_label``, ``gt_score`` or
            ``instances``, a ``ConcatDataset``, ``RepeatDataset`` or ``ClassBalancedDataset`` of such, or another label
            wrapper. A config is built as the host project builds it.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.
    """

    # Whether select and relabel need the areas of the samples, which take a while to read.
    needs_areas: bool = False

    # BaseDataset.__init__ is not called: it is about annotation files and a pipeline, and the wrapped dataset has both.
    def __init__(self, dataset: BaseDataset | dict, lazy_init: bool = False):
        self.dataset = MMENGINE_DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        refuse_unknown_kinds(self.dataset)
        self._labels = np.empty((0, 0), dtype=np.int8)
        self._positions: np.ndarray | None = None
        self._has_unknown = False
        self._fully_initialized = False
        if not lazy_init:
            self.full_init()

    def select(self, samples: SampleLabels) -> np.ndarray | None:
        """Which samples to serve, as positions in the wrapped dataset and in the order to serve them; None for all.

        Args:
            samples: The samples and labels of the wrapped dataset, which must stay as they are.
        """
        return None

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels to serve, (N, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.

        Args:
            samples: The samples that :meth:`select` chose, with the labels of the wrapped dataset, which must stay as
                they are.
        """
        return samples.labels

    def settings(self) -> dict:
        """What determines the labels, beside the wrapped dataset, in json's types: the type and the arguments."""
        return dict(type=type(self).__name__)

    @property
    def stream(self) -> str:
        """Names the random numbers of this wrapper: wrappers of one seed inside each other draw independently."""
        return f'{type(self).__name__}/{count_views(self.dataset)}'

    def full_init(self) -> None:
        """Load the wrapped dataset, and find the labels."""
        if self._fully_initialized:
            return
        self.dataset.full_init()
        samples = read_labels(self.dataset, with_areas=self.needs_areas)
        positions = self.select(samples)
        if positions is not None:
            positions = _as_positions(positions, f'select of {type(self).__name__} must give positions')
            samples = samples.take(positions)
        labels = self._checked(self.relabel(samples), samples.labels.shape)
        gains = (labels == POSITIVE) & (samples.labels != POSITIVE)
        if gains.any():
            self._refuse_classes_without_boxes(np.flatnonzero(gains.any(axis=1)), positions)
        self._set(positions, labels)
        self._fully_initialized = True

    def _checked(self, labels: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """The labels of a subclass in an array of its own, unless they are none."""
        if np.shape(labels) != shape:
            raise ValueError(
                f'relabel of {type(self).__name__} must give labels for each sample and class {shape}, got the shape '
                f'{np.shape(labels)}'
            )
        # One array without Python objects: workers that are forked share it instead of copying it.
        return np.array(as_labels(labels, f'the labels that relabel of {type(self).__name__} gives'), order='C')

    def _set(self, positions: np.ndarray | None, labels: np.ndarray) -> None:
        self._positions, self._labels = positions, labels
        self._has_unknown = bool((labels == UNKNOWN).any())

    def _refuse_classes_without_boxes(self, gaining: np.ndarray, positions: np.ndarray | None) -> None:
        """Refuse positives that came to samples which have boxes for labels."""
        # The samples of a dataset are of one kind.
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
        """Meta information of the wrapped dataset."""
        return self.dataset.metainfo

    @property
    def CLASSES(self) -> tuple[str, ...] | None:  # noqa: N802 (the name that mmpretrain's hooks ask for)
        """Class names in the order of the class indices."""
        return class_names(self.dataset) or None

    @property
    def test_mode(self) -> bool:
        """Whether a sample that the pipeline cannot make is an error, as the wrapped dataset says."""
        return any(leaf.test_mode for leaf in leaf_datasets(self.dataset))

    @property
    def max_refetch(self) -> int:
        """How often another sample may be tried in training, as the wrapped dataset says."""
        return max(leaf.max_refetch for leaf in leaf_datasets(self.dataset))

    @force_full_init
    def positions(self) -> np.ndarray | None:
        """Where in the wrapped dataset each sample stands; None if that is its own position."""
        return self._positions

    @force_full_init
    def observed_labels(self) -> np.ndarray:
        """The labels that this dataset serves, (N, C) int8."""
        return self._labels.copy()

    @force_full_init
    def has_unknown(self) -> bool:
        """Whether a label that this dataset serves is unknown."""
        return self._has_unknown

    @force_full_init
    def source_labels(self) -> np.ndarray:
        """The labels that the wrapped dataset serves for these samples, (N, C) int8."""
        labels = read_labels(self.dataset).labels
        return labels if self._positions is None else labels[self._positions]

    @force_full_init
    def true_labels(self) -> np.ndarray:
        """The labels that the innermost datasets have for these samples, (N, C) int8."""
        return read_history(self)[0]

    @force_full_init
    def uncorrected_labels(self) -> np.ndarray:
        """The labels that this dataset serves without the positives that one wrapper took away and another brought
        back, (N, C) int8: what a file of pseudo labels added to a dataset with missing labels is not in them."""
        return read_history(self)[1]

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """The data info of the wrapped dataset with the labels of this one, and with the true label beside them."""
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
        """Give a data info of the wrapped dataset the labels of this one.

        Args:
            info: What is changed. It has ``true_label``.
            row: (C,) int8, the labels.
            position: Of the sample in the wrapped dataset.
        """
        write_labels(info, row, with_score=self._has_unknown)

    @force_full_init
    def get_cat_ids(self, idx: int) -> list[int]:
        """Class indices of a sample, as :class:`mmengine.dataset.ClassBalancedDataset` asks for them."""
        return np.flatnonzero(self._labels[idx] == POSITIVE).tolist()

    def prepare_data(self, idx: int) -> object:
        """What the wrapped dataset's pipeline makes of a sample with the labels of this one."""
        return pipeline_of(self, idx)(self.get_data_info(idx))

    @force_full_init
    def __len__(self) -> int:
        return len(self._labels)

    @force_full_init
    def get_subset(self, indices: Sequence[int] | int) -> LabelWrapper:
        """Some of the samples as a dataset of their own, see :meth:`mmengine.dataset.BaseDataset.get_subset`.

        The labels are not drawn again. The wrapped dataset is shared, and may be of a kind without subsets.
        """
        subset = copy.copy(self)
        subset.get_subset_(indices)
        return subset

    @force_full_init
    def get_subset_(self, indices: Sequence[int] | int) -> None:
        """Keep only some of the samples. The wrapped dataset stays as it is."""
        chosen = _as_index(indices)
        positions = np.arange(len(self)) if self._positions is None else self._positions
        self._set(positions[chosen], self._labels[chosen])


def _as_index(indices: Sequence[int] | int) -> slice | np.ndarray:
    """MMEngine's way to name a subset (the first n, the last n, or these) as numpy's."""
    if isinstance(indices, Integral) and not isinstance(indices, bool):
        return slice(indices) if indices >= 0 else slice(indices, None)
    return _as_positions(indices, 'indices must be a whole number or positions')


def _as_positions(positions: Sequence[int] | np.ndarray, rule: str) -> np.ndarray:
    """Positions as (N,) int64. A mask is none: read as numbers it would name the first two samples."""
    found = np.asarray(positions)
    if found.ndim != 1 or (found.size and found.dtype.kind not in 'iu'):
        raise TypeError(f'{rule}, whole numbers (N,), got {found.dtype} {found.shape}')
    return found.astype(np.int64)

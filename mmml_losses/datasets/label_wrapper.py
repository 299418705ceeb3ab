"""What the datasets that change labels share, and how the labels of any dataset are read."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset, force_full_init
from mmengine.registry import DATASETS as MMENGINE_DATASETS

from ..evaluation.arrays import as_labels
from .errors import AnnotationError
from .label_file import POSITIVE, UNKNOWN, SampleLabels, fill_rows


class LabelWrapper(BaseDataset):
    """A dataset with the samples of another one and labels of its own. A subclass writes :meth:`relabel`.

    Items come from the pipeline of the wrapped dataset, in which only ``gt_label`` and ``gt_score`` differ. The label
    that the innermost dataset has is in the data info as ``true_label``, (C,) int8. Pipelines pack it only when asked
    (``PackInputs(algorithm_keys=['true_label'])``), and no loss reads it.

    A sample has ``gt_score`` where it had one before; every sample has one if any label is unknown, since class
    indices cannot say so. ``sample_idx`` is the position in this dataset, also around a ``ConcatDataset``. A sample
    that the pipeline cannot make is replaced by a random one in training, as MMEngine does; around a
    ``ConcatDataset`` that may be one of any part.

    Args:
        dataset: A dataset or its config: one of MMEngine's kind whose samples have ``gt_label`` or ``gt_score``, a
            ``ConcatDataset``, ``RepeatDataset`` or ``ClassBalancedDataset`` of such, or another label wrapper. A
            config is built as the host project builds it.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.
    """

    # BaseDataset.__init__ is not called: it is about annotation files and a pipeline, and the wrapped dataset has both.
    def __init__(self, dataset: BaseDataset | dict, lazy_init: bool = False):
        self.dataset = MMENGINE_DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        _refuse_unknown_kinds(self.dataset)
        self._labels = np.empty((0, 0), dtype=np.int8)
        self._has_unknown = False
        self._fully_initialized = False
        if not lazy_init:
            self.full_init()

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels to serve, (N, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.

        Args:
            samples: The samples and labels of the wrapped dataset, which must stay as they are.
        """
        raise NotImplementedError

    def full_init(self) -> None:
        """Load the wrapped dataset, and find the labels."""
        if self._fully_initialized:
            return
        self.dataset.full_init()
        self._set_labels(self.relabel(read_labels(self.dataset)))
        self._fully_initialized = True

    def _set_labels(self, labels: np.ndarray) -> None:
        # One array without Python objects: workers that are forked share it instead of copying it.
        self._labels = np.ascontiguousarray(labels, dtype=np.int8)
        self._has_unknown = bool((self._labels == UNKNOWN).any())

    @property
    def metainfo(self) -> dict:
        """Meta information of the wrapped dataset."""
        return self.dataset.metainfo

    @property
    def CLASSES(self) -> tuple[str, ...] | None:  # noqa: N802 (the name that mmpretrain's hooks ask for)
        """Class names in the order of the class indices."""
        classes = self.metainfo.get('classes')
        return None if classes is None else tuple(classes)

    @property
    def test_mode(self) -> bool:
        """Whether a sample that the pipeline cannot make is an error, as the wrapped dataset says."""
        return any(leaf.test_mode for leaf in leaf_datasets(self.dataset))

    @property
    def max_refetch(self) -> int:
        """How often another sample may be tried in training, as the wrapped dataset says."""
        return max(leaf.max_refetch for leaf in leaf_datasets(self.dataset))

    @force_full_init
    def observed_labels(self) -> np.ndarray:
        """The labels that this dataset serves, (N, C) int8."""
        return self._labels.copy()

    @force_full_init
    def source_labels(self) -> np.ndarray:
        """The labels that the wrapped dataset serves, (N, C) int8."""
        return read_labels(self.dataset).labels

    @force_full_init
    def true_labels(self) -> np.ndarray:
        """The labels that the innermost datasets have, (N, C) int8."""
        return _read_below_wrappers(self, self._labels.shape[1])

    @force_full_init
    def uncorrected_labels(self) -> np.ndarray:
        """The labels that this dataset serves without the positives that one wrapper took away and another brought
        back, (N, C) int8: what a file of pseudo labels added to a dataset with missing labels is not in them."""
        return _read_without_corrections(self, self._labels.shape[1])

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """The data info of the wrapped dataset with the labels of this one, and with the true label beside them."""
        row = self._labels[idx]
        idx = idx if idx >= 0 else len(self._labels) + idx
        info = self.dataset.get_data_info(idx)
        if 'true_label' not in info:
            info['true_label'] = _label_row(info, len(row))
        if 'gt_label' in info:
            info['gt_label'] = np.flatnonzero(row == POSITIVE).tolist()
        if 'gt_score' in info or self._has_unknown:
            info['gt_score'] = row.astype(np.float32)
        info['sample_idx'] = idx
        return info

    @force_full_init
    def get_cat_ids(self, idx: int) -> list[int]:
        """Class indices of a sample, as :class:`mmengine.dataset.ClassBalancedDataset` asks for them."""
        return np.flatnonzero(self._labels[idx] == POSITIVE).tolist()

    def prepare_data(self, idx: int) -> object:
        """What the wrapped dataset's pipeline makes of a sample with the labels of this one."""
        return _pipeline_of(self.dataset, idx)(self.get_data_info(idx))

    @force_full_init
    def __len__(self) -> int:
        return len(self._labels)

    @force_full_init
    def get_subset(self, indices: Sequence[int] | int) -> LabelWrapper:
        """Some of the samples as a dataset of their own, see :meth:`mmengine.dataset.BaseDataset.get_subset`."""
        subset = copy.copy(self)
        subset.dataset = self.dataset.get_subset(indices)
        subset._set_labels(self._labels[_as_index(indices)])
        return subset

    @force_full_init
    def get_subset_(self, indices: Sequence[int] | int) -> None:
        """Keep only some of the samples, here and in the wrapped dataset."""
        self.dataset.get_subset_(indices)
        self._set_labels(self._labels[_as_index(indices)])


def read_labels(dataset: BaseDataset) -> SampleLabels:
    """The labels that a dataset serves, without making a single item.

    Args:
        dataset: See :class:`LabelWrapper`. Samples have ``gt_score`` (C,) with 1, 0 or -1, or else ``gt_label`` with
            class indices.

    Raises:
        TypeError: It is a dataset of another kind.
        AnnotationError: There are no such labels.
    """
    _refuse_unknown_kinds(dataset)
    dataset.full_init()
    classes = dataset.metainfo.get('classes')
    if not classes:
        raise AnnotationError(f'{type(dataset).__name__} has no classes in its metainfo')
    keys, labels = _read(dataset, len(classes))
    return SampleLabels(tuple(map(str, classes)), keys, labels)


def leaf_datasets(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """The datasets inside all wrappers, which have a pipeline each."""
    parts = _parts(dataset)
    if not parts:
        yield dataset
    for part in parts:
        yield from leaf_datasets(part)


def _parts(dataset: BaseDataset) -> list[BaseDataset]:
    """The datasets directly inside a wrapper; none inside a dataset that is no wrapper."""
    if isinstance(dataset, ConcatDataset):
        return dataset.datasets
    if isinstance(dataset, (RepeatDataset, ClassBalancedDataset, LabelWrapper)):
        return [dataset.dataset]
    return []


def _refuse_unknown_kinds(dataset: BaseDataset) -> None:
    """Refuse what makes its items in a way of its own: that would be left out without a word."""
    for leaf in leaf_datasets(dataset):
        if not isinstance(leaf, BaseDataset):
            raise TypeError(
                "dataset must be one of MMEngine's kind, its ConcatDataset, RepeatDataset or ClassBalancedDataset of "
                f'such, or a label wrapper, got {type(leaf).__name__}'
            )
        for method in ('__getitem__', 'prepare_data'):
            if getattr(type(leaf), method) is not getattr(BaseDataset, method):
                raise TypeError(
                    'dataset must make its items from get_data_info and the pipeline alone, '
                    f'but {type(leaf).__name__} has a {method} of its own'
                )


def _pipeline_of(dataset: BaseDataset, idx: int):
    """The pipeline that makes a sample."""
    if isinstance(dataset, ConcatDataset):
        part, idx = dataset._get_ori_dataset_idx(idx)
        return _pipeline_of(dataset.datasets[part], idx)
    if isinstance(dataset, (RepeatDataset, ClassBalancedDataset)):
        return _pipeline_of(dataset.dataset, dataset._get_ori_dataset_idx(idx))
    if isinstance(dataset, LabelWrapper):
        return _pipeline_of(dataset.dataset, idx)
    return dataset.pipeline


def _read(dataset: BaseDataset, num_classes: int) -> tuple[list[str], np.ndarray]:
    if isinstance(dataset, ConcatDataset):
        keys, labels = zip(*(_read(part, num_classes) for part in dataset.datasets), strict=True)
        return list(chain.from_iterable(keys)), np.concatenate(labels)
    if isinstance(dataset, RepeatDataset):
        keys, labels = _read(dataset.dataset, num_classes)
        return keys * dataset.times, np.tile(labels, (dataset.times, 1))
    if isinstance(dataset, ClassBalancedDataset):
        keys, labels = _read(dataset.dataset, num_classes)
        return [keys[idx] for idx in dataset.repeat_indices], labels[dataset.repeat_indices]
    if isinstance(dataset, LabelWrapper):
        return _read(dataset.dataset, num_classes)[0], dataset.observed_labels()
    return _read_leaf(dataset, num_classes)


def _read_below_wrappers(dataset: BaseDataset, num_classes: int) -> np.ndarray:
    if isinstance(dataset, LabelWrapper):
        return _read_below_wrappers(dataset.dataset, num_classes)
    parts = [_read_below_wrappers(part, num_classes) for part in _parts(dataset)]
    return _arranged(dataset, parts) if parts else _read_leaf(dataset, num_classes)[1]


def _read_without_corrections(dataset: BaseDataset, num_classes: int) -> np.ndarray:
    parts = [_read_without_corrections(part, num_classes) for part in _parts(dataset)]
    if isinstance(dataset, LabelWrapper):
        # A wrapper may take positives away. One that it adds was not there before.
        return np.where(parts[0] == POSITIVE, dataset.observed_labels(), parts[0])
    return _arranged(dataset, parts) if parts else _read_leaf(dataset, num_classes)[1]


def _arranged(dataset: BaseDataset, parts: list[np.ndarray]) -> np.ndarray:
    """Labels of the datasets inside a wrapper of MMEngine, in the order in which it has the samples."""
    if isinstance(dataset, ConcatDataset):
        return np.concatenate(parts)
    if isinstance(dataset, RepeatDataset):
        return np.tile(parts[0], (dataset.times, 1))
    return parts[0][dataset.repeat_indices]


def _read_leaf(dataset: BaseDataset, num_classes: int) -> tuple[list[str], np.ndarray]:
    folders = _image_folders(dataset)
    keys, rows, scores = [], [], {}
    for idx in range(len(dataset)):
        info = dataset.get_data_info(idx)
        keys.append(_key(info.get('img_path'), folders))
        if info.get('gt_score') is not None:
            scores[idx] = info['gt_score']
            rows.append([])
        else:
            rows.append(_label_indices(info, dataset))
    labels = np.zeros((len(rows), num_classes), dtype=np.int8)
    try:
        fill_rows(labels, rows, POSITIVE)
        for idx, score in scores.items():
            labels[idx] = as_labels(score, 'gt_score')
    except ValueError as error:
        raise AnnotationError(f'{type(dataset).__name__} has labels that cannot be read: {error}') from error
    return keys, labels


def _label_indices(info: dict, dataset: BaseDataset) -> list[int]:
    labels = info.get('gt_label')
    if labels is None:
        raise AnnotationError(
            f'{type(dataset).__name__} has no labels: sample {info.get("sample_idx")} has neither gt_label nor gt_score'
        )
    return labels if isinstance(labels, list) else np.atleast_1d(labels).tolist()


def _label_row(info: dict, num_classes: int) -> np.ndarray:
    """The label in a data info as (C,) int8."""
    if info.get('gt_score') is not None:
        return as_labels(info['gt_score'], 'gt_score')
    row = np.zeros(num_classes, dtype=np.int8)
    row[info['gt_label']] = POSITIVE
    return row


def _image_folders(dataset: BaseDataset) -> tuple[str, ...]:
    """Folders that images lie in, the deepest first, each with a slash at its end."""
    folders = [*(dataset.data_prefix or {}).values(), dataset.data_root]
    folders = {_with_slashes(os.fspath(folder)).rstrip('/') + '/' for folder in folders if folder}
    return tuple(sorted(folders, key=len, reverse=True))


def _key(img_path: str | os.PathLike | None, folders: tuple[str, ...]) -> str:
    """The name of an image below the folder of the images, wherever that lies; without a known folder, its file name.

    A sample without an image has no name: then only labels and order tell its dataset from another.
    """
    if img_path is None:
        return ''
    path = _with_slashes(os.fspath(img_path))
    folder = next((folder for folder in folders if path.startswith(folder)), path[: path.rfind('/') + 1])
    return path[len(folder) :]


def _with_slashes(path: str) -> str:
    return path.replace('\\', '/')


def _as_index(indices: Sequence[int] | int) -> slice | list[int]:
    """MMEngine's way to name a subset (the first n, the last n, or these) as numpy's."""
    if isinstance(indices, int):
        return slice(indices) if indices >= 0 else slice(indices, None)
    return list(indices)

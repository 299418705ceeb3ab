"""Labels in the data info of a sample, as classification and detection datasets keep them."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset

from ...utils.arrays import as_labels
from ...utils.errors import AnnotationError
from ..readers.reader import MultiLabelReader
from .sample_labels import NEGATIVE, POSITIVE, UNKNOWN, fill_rows

# Where a data info may have its labels.
LABEL_KEYS = ('gt_label', 'gt_score', 'instances')


def positive_classes(info: dict) -> Sequence[int] | None:
    """The class indices in ``gt_label``, or else of the boxes that are not to be ignored; None without either."""
    labels = info.get('gt_label')
    if labels is not None:
        return labels if isinstance(labels, (list, tuple)) else np.atleast_1d(labels).tolist()
    instances = info.get('instances')
    if instances is not None:
        return [instance['bbox_label'] for instance in instances if not instance.get('ignore_flag', 0)]
    return None


def class_areas(info: dict) -> dict[int, float]:
    """How large the largest object of each class is, where the data info tells: by class index."""
    if info.get('label_areas') is not None:
        return dict(zip(positive_classes(info), info['label_areas'], strict=True))
    areas: dict[int, float] = {}
    for instance in info.get('instances') or ():
        if not instance.get('ignore_flag', 0) and instance.get('bbox') is not None:
            areas[instance['bbox_label']] = max(areas.get(instance['bbox_label'], 0), box_area(instance))
    return areas


def box_area(instance: dict) -> float:
    """The area of a box in pixels."""
    left, top, right, bottom = instance['bbox']
    return max(right - left, 0) * max(bottom - top, 0)


def label_row(info: dict, num_classes: int) -> np.ndarray:
    """The labels in a data info, (C,) int8 with 1 positive, 0 negative or unobserved, -1 unknown."""
    if info.get('gt_score') is not None:
        return as_labels(info['gt_score'], 'gt_score')
    row = np.zeros(num_classes, dtype=np.int8)
    row[list(positive_classes(info))] = POSITIVE
    return row


def has_boxes_only(info: dict) -> bool:
    """Whether boxes are all that the data info has for labels."""
    return 'instances' in info and 'gt_label' not in info and 'gt_score' not in info


def as_unknown(instance: dict) -> dict:
    """The box, to be ignored because it is unknown; one that the annotation itself ignores, a crowd, stays as it is."""
    return instance if instance.get('ignore_flag', 0) else instance | dict(ignore_flag=1, is_unknown=True)


def write_labels(info: dict, row: np.ndarray, with_score: bool) -> None:
    """Give a data info other labels, wherever it has labels.

    Boxes of a class follow its label: they go where it is 0 and was not in truth, they are to be ignored where it is
    unknown, and stay otherwise. A class that the annotation itself has only to be ignored (a crowd) stays so.

    Args:
        info: Has ``true_label``, the labels that it came with. It is changed; what it holds is not.
        row: (C,) int8, the labels.
        with_score: Whether it gets ``gt_score`` even if it has none. One that has only boxes for labels gets none.
    """
    if 'label_areas' in info:
        areas = class_areas(info)
        info['label_areas'] = [areas.get(index, math.nan) for index in np.flatnonzero(row == POSITIVE).tolist()]
    if 'gt_score' in info or (with_score and not has_boxes_only(info)):
        info['gt_score'] = row.astype(np.float32)
    if 'gt_label' in info:
        info['gt_label'] = np.flatnonzero(row == POSITIVE).tolist()
    if 'instances' in info:
        gone = (row == NEGATIVE) & (info['true_label'] == POSITIVE)
        info['instances'] = [
            as_unknown(instance) if row[instance['bbox_label']] == UNKNOWN else instance
            for instance in info['instances']
            if not gone[instance['bbox_label']]
        ]


# What data infos may have beside the classes that are positive, see MultiLabelReader.
OTHER_KEYS = ('gt_score', 'negative_label', 'unknown_label', 'label_scores')


class DatasetKindError(TypeError):
    """A dataset has no data infos that labels could be read from."""


@dataclass(frozen=True)
class LeafLabels:
    """What the data infos of a dataset hold.

    Attributes:
        keys: A name for each of the N samples, of which each stands once.
        sample_idx: (N,) int64.
        labels: (N, C) int8 with 1, 0 and -1; float32 where some are soft.
        true: (N, C), ``labels`` unless the data infos have true ones as well.
        areas: (N, C) float32, NaN where an area is not known; None if none is, or they were not asked for.
    """

    keys: list[str]
    sample_idx: np.ndarray
    labels: np.ndarray
    true: np.ndarray
    areas: np.ndarray | None


def read_leaf(dataset: BaseDataset, num_classes: int | None = None, with_areas: bool = False) -> LeafLabels:
    """Read the labels of a dataset that is no wrapper.

    Args:
        dataset: One with ``get_data_info``.
        num_classes: C; not needed beside ``gt_score``.
        with_areas: Whether to read areas as well.

    Raises:
        DatasetKindError: It is a dataset of another kind.
        AnnotationError: There are no labels, or wrong ones.
    """
    folders = _image_folders(dataset)
    keys, sample_idx, positives = [], [], []
    others: dict[str, dict[int, Sequence]] = {key: {} for key in OTHER_KEYS}
    truths, areas = {}, {}
    # MMEngine numbers the data infos as it serves them, whatever they hold for a number.
    numbers_samples = _serves_as_kept(dataset)
    for position, info in enumerate(_data_infos(dataset)):
        keys.append(info.get('sample_name') or _key(info.get('img_path'), folders))
        sample_idx.append(position if numbers_samples else info.get('sample_idx', position))
        for key, found in others.items():
            if info.get(key) is not None:
                found[position] = info[key]
        classes = () if position in others['gt_score'] else positive_classes(info)
        if classes is None:
            raise AnnotationError(
                f'{type(dataset).__name__} has no labels: sample {position} has neither {" nor ".join(LABEL_KEYS)}'
            )
        positives.append(classes)
        if 'true_label' in info:
            truths[position] = info['true_label']
        if with_areas:
            areas[position] = class_areas(info)
    num_classes = _number_of_classes(num_classes, others['gt_score'], dataset)
    try:
        labels = _label_array(positives, num_classes=num_classes, **others)
    except ValueError as error:
        raise AnnotationError(f'{type(dataset).__name__} has labels that cannot be read: {error}') from error
    true = labels
    if truths:
        true = labels.copy()
        true[list(truths)] = list(truths.values())
    sample_idx = np.asarray(sample_idx, dtype=np.int64)
    return LeafLabels(numbered(keys), sample_idx, labels, true, area_array(areas, labels.shape))


def _data_infos(dataset: BaseDataset) -> Iterator[dict]:
    """The data infos of a dataset that is no wrapper, as it keeps them."""
    if not hasattr(dataset, 'get_data_info'):
        raise DatasetKindError(
            f"a dataset of MMEngine's kind, with get_data_info, is needed to read labels, got {type(dataset).__name__}"
        )
    if not _serves_as_kept(dataset):
        for idx in range(len(dataset)):
            yield dataset.get_data_info(idx)
        return
    # Asked one by one, MMEngine would take far longer: it copies each data info deeply, or slices arrays.
    dataset.full_init()
    if not dataset.serialize_data:
        yield from dataset.data_list
        return
    # What MMEngine serialised in this process; nothing of it comes from a file.
    content, start = memoryview(dataset.data_bytes), 0
    for end in dataset.data_address.tolist():
        yield pickle.loads(content[start:end])
        start = end


def _serves_as_kept(dataset: BaseDataset) -> bool:
    """Whether the labels that a dataset serves are those of the data infos that it keeps."""
    own = getattr(type(dataset), 'get_data_info', None)
    return own in (BaseDataset.get_data_info, MultiLabelReader.get_data_info)


def _number_of_classes(num_classes: int | None, scores: dict[int, Sequence], dataset: BaseDataset) -> int:
    if num_classes is not None:
        return num_classes
    if scores:
        return len(next(iter(scores.values())))
    raise AnnotationError(
        f"classes must be in the metainfo of {type(dataset).__name__}, or num_classes in the model's head, to count "
        'labels: got neither'
    )


def _label_array(
    positives: list, gt_score: dict, negative_label: dict, unknown_label: dict, label_scores: dict, num_classes: int
) -> np.ndarray:
    """All labels of a dataset, (N, C), from what its data infos hold."""
    labels = np.zeros((len(positives), num_classes), dtype=np.int8)
    if negative_label:
        labels[list(negative_label)] = UNKNOWN
    for value, rows in ((NEGATIVE, negative_label), (UNKNOWN, unknown_label)):
        if rows:
            fill_rows(labels, [rows.get(position, ()) for position in range(len(labels))], value)
    fill_rows(labels, positives, POSITIVE)
    for position, score in gt_score.items():
        if np.shape(score) != (num_classes,):
            raise ValueError(
                f'gt_score must have one entry for each of the {num_classes} classes, got the shape {np.shape(score)} '
                f'for sample {position}'
            )
    if gt_score:
        scores = np.asarray(list(gt_score.values()), dtype=np.float32)
        labels = _with_scores(labels, np.asarray(list(gt_score))[:, None], np.arange(num_classes), scores)
    if label_scores:
        owners = np.repeat(list(label_scores), [len(scores) for scores in label_scores.values()])
        columns = np.asarray(list(chain.from_iterable(positives[position] for position in label_scores)), dtype=int)
        scores = np.asarray(list(chain.from_iterable(label_scores.values())), dtype=np.float32)
        labels = _with_scores(labels, owners, columns, scores)
    return labels


def _with_scores(labels: np.ndarray, rows: np.ndarray, columns: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Labels with scores at some places, float32 if one of them is soft."""
    # Written so that NaN is wrong, too.
    wrong = ~((scores == UNKNOWN) | ((scores >= 0) & (scores <= 1)))
    if wrong.any():
        rows, columns = np.broadcast_arrays(rows, columns)
        raise ValueError(
            'gt_score must be 1 (positive), 0 (negative) or -1 (unknown), or between 0 and 1 where it is soft, got '
            f'{scores[wrong][0]} for class {columns[wrong][0]} of sample {rows[wrong][0]}'
        )
    if (scores != scores.round()).any():
        labels = labels.astype(np.float32)
    labels[rows, columns] = scores
    return labels


def area_array(areas: dict[int, dict[int, float]], shape: tuple[int, int]) -> np.ndarray | None:
    """Areas by sample and class as an (N, C) array, NaN where none is known; None without any."""
    if not any(areas.values()):
        return None
    owners = np.repeat(list(areas), [len(by_class) for by_class in areas.values()])
    columns = list(chain.from_iterable(areas.values()))
    array = np.full(shape, np.nan, dtype=np.float32)
    array[owners, columns] = list(chain.from_iterable(by_class.values() for by_class in areas.values()))
    return array


def _image_folders(dataset: BaseDataset) -> tuple[str, ...]:
    """Folders that images lie in, the deepest first, each with a slash at its end."""
    folders = [*(getattr(dataset, 'data_prefix', None) or {}).values(), getattr(dataset, 'data_root', None)]
    folders = {_with_slashes(os.fspath(folder)).rstrip('/') + '/' for folder in folders if folder}
    return tuple(sorted(folders, key=len, reverse=True))


def _key(img_path: str | os.PathLike | None, folders: tuple[str, ...]) -> str:
    """The name of an image below the folder of the images, wherever that lies; without a known folder, its file name.

    A sample without an image has no name but its number: only labels and order tell its dataset from another.
    """
    if img_path is None:
        return ''
    path = _with_slashes(os.fspath(img_path))
    folder = next((folder for folder in folders if path.startswith(folder)), path[: path.rfind('/') + 1])
    return path[len(folder) :]


def _with_slashes(path: str) -> str:
    return path.replace('\\', '/')


def numbered(keys: list[str]) -> list[str]:
    """Names of which each stands once: the second sample of a name becomes ``name#2``, or the next that is free."""
    taken = set(keys)
    if len(taken) == len(keys):
        return keys
    counts: dict[str, int] = {}
    names = []
    for key in keys:
        name, counts[key] = key, counts.get(key, 0) + 1
        while counts[key] > 1 and (name := f'{key}#{counts[key]}') in taken:
            counts[key] += 1
        taken.add(name)
        names.append(name)
    return names

"""Read and write the labels in data infos, the dicts in which MMEngine's datasets describe one sample each."""

import math
import os
import pickle
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset

from ...utils.arrays import as_labels
from ...utils.errors import AnnotationError
from ..readers.reader import MultiLabelReader
from .sample_labels import NEGATIVE, POSITIVE, UNKNOWN, fill_rows

# Keys of the labels in a data info.
LABEL_KEYS = ('gt_label', 'gt_score', 'instances')


def positive_classes(info: dict) -> Sequence[int] | None:
    """Return the class indices in ``gt_label`` or, without it, one per box not ignored; None if there are neither."""
    labels = info.get('gt_label')
    if labels is not None:
        return labels if isinstance(labels, (list, tuple)) else np.atleast_1d(labels).tolist()
    instances = info.get('instances')
    if instances is not None:
        return [instance['bbox_label'] for instance in instances if not instance.get('ignore_flag', 0)]
    return None


def class_areas(info: dict) -> dict[int, float]:
    """Return {class index: largest object's area}, from ``label_areas`` or else (in pixels) from unignored boxes."""
    if info.get('label_areas') is not None:
        return dict(zip(positive_classes(info) or (), info['label_areas'], strict=True))
    areas: dict[int, float] = {}
    for instance in info.get('instances') or ():
        if not instance.get('ignore_flag', 0) and instance.get('bbox') is not None:
            areas[instance['bbox_label']] = max(areas.get(instance['bbox_label'], 0), box_area(instance))
    return areas


def box_area(instance: dict) -> float:
    """Return the area in pixels of a box, a dict with ``bbox`` as (left, top, right, bottom)."""
    left, top, right, bottom = instance['bbox']
    return max(right - left, 0) * max(bottom - top, 0)


def label_row(info: dict, num_classes: int) -> np.ndarray:
    """Return labels, (C,) int8: ``gt_score`` (ValueError if soft), or 1 at :func:`positive_classes`, 0 elsewhere."""
    if info.get('gt_score') is not None:
        return as_labels(info['gt_score'], 'gt_score')
    classes = positive_classes(info)
    if classes is None:
        raise AnnotationError(f'a data info must have {" or ".join(LABEL_KEYS)}, got {", ".join(info)}')
    row = np.zeros(num_classes, dtype=np.int8)
    row[list(classes)] = POSITIVE
    return row


def has_boxes_only(info: dict) -> bool:
    """Return whether a sample's dict has labelled boxes (``instances``) but neither ``gt_label`` nor ``gt_score``."""
    return 'instances' in info and 'gt_label' not in info and 'gt_score' not in info


def as_unknown(instance: dict) -> dict:
    """Return a copy of a box dict with ``ignore_flag=1, is_unknown=True``; or an already ignored box (crowd) itself."""
    return instance if instance.get('ignore_flag', 0) else instance | dict(ignore_flag=1, is_unknown=True)


def write_labels(info: dict, row: np.ndarray, with_score: bool) -> None:
    """Replace the labels in ``info``, the dict of one sample, by ``row``, (C,) with 1, 0 or -1.

    ``gt_score``, ``gt_label``, ``label_areas`` and ``instances`` are updated if present. A box, also an ignored one (a
    crowd), is removed if its class has 1 in ``true_label`` and 0 in ``row``. Boxes of a class with -1 become ignored.

    ``info`` must have its original labels as ``true_label``, (C,). ``info`` changes in place, but not the lists and
    dicts in it. ``with_score`` adds ``gt_score`` if it is missing, unless ``info`` has boxes only.
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


# Optional keys of the labels next to the positive classes, see MultiLabelReader.
OTHER_KEYS = ('gt_score', 'negative_label', 'unknown_label', 'label_scores')


class DatasetKindError(TypeError):
    """Error for a dataset whose labels cannot be read, because it has no ``get_data_info``."""


def read_leaf(
    dataset: BaseDataset, num_classes: int | None = None, with_areas: bool = False
) -> tuple[list[str], list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Read the labels of a dataset that wraps no other dataset.

    Args:
        dataset: A dataset with ``get_data_info``.
        num_classes: C; may be None if the samples have ``gt_score``, (C,).
        with_areas: Whether to read the areas of objects, too.

    Returns:
        (names, images, sample_idx, labels, true labels, areas). The N names, from ``sample_name`` or path, are unique.
        ``images`` has N paths, or names where there is no path, which samples of one image share. ``sample_idx`` (N,)
        has the sample numbers of the data infos. Both labels are (N, C), int8 with 1, 0 and -1, or float32 if some are
        soft. True labels are from before any change: ``true_label`` or else the labels. ``areas`` (N, C) has the area
        of each class's largest object, NaN where unknown; it is None if no area is known.
    """
    folders = _image_folders(dataset)
    keys, images, sample_idx, positives = [], [], [], []
    others: dict[str, dict[int, Sequence]] = {key: {} for key in OTHER_KEYS}
    truths, areas = {}, {}
    # MMEngine numbers the data infos when it returns them, and ignores a number that they hold.
    numbers_samples = _returns_stored_infos(dataset)
    for position, info in enumerate(_data_infos(dataset)):
        image = _key(info.get('img_path'), folders)
        keys.append(info.get('sample_name') or image)
        images.append(image)
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
    if num_classes is None:
        num_classes = next((len(score) for score in others['gt_score'].values()), None)
    if num_classes is None:
        raise AnnotationError(
            f"classes must be in the metainfo of {type(dataset).__name__}, or num_classes in the model's head, to "
            'count labels: got neither'
        )
    try:
        labels = _label_array(positives, num_classes=num_classes, **others)
    except ValueError as error:
        raise AnnotationError(f'{type(dataset).__name__} has labels that cannot be read: {error}') from error
    true = labels
    if truths:
        true = labels.copy()
        true[list(truths)] = list(truths.values())
    names = numbered(keys)
    images = [image or name for image, name in zip(images, names, strict=True)]
    return names, images, np.asarray(sample_idx, dtype=np.int64), labels, true, area_array(areas, labels.shape)


def _data_infos(dataset: BaseDataset) -> Iterator[dict]:
    """Yield the dict of each sample of an unwrapped dataset, directly from its storage if possible, which is faster."""
    if not hasattr(dataset, 'get_data_info'):
        raise DatasetKindError(
            f"a dataset of MMEngine's kind, with get_data_info, is needed to read labels, got {type(dataset).__name__}"
        )
    if not _returns_stored_infos(dataset):
        yield from (dataset.get_data_info(idx) for idx in range(len(dataset)))
        return
    # get_data_info would take far longer: it copies each data info deeply, or slices arrays.
    dataset.full_init()
    if not dataset.serialize_data:
        yield from dataset.data_list
        return
    # MMEngine serialised it in this process; nothing of it comes from a file.
    content, start = memoryview(dataset.data_bytes), 0
    for end in dataset.data_address.tolist():
        yield pickle.loads(content[start:end])
        start = end


def _returns_stored_infos(dataset: BaseDataset) -> bool:
    """Return whether ``get_data_info`` is MMEngine's or that of our readers, so that stored dicts can be read."""
    own = getattr(type(dataset), 'get_data_info', None)
    return own in (BaseDataset.get_data_info, MultiLabelReader.get_data_info)


def _label_array(
    positives: list, gt_score: dict, negative_label: dict, unknown_label: dict, label_scores: dict, num_classes: int
) -> np.ndarray:
    """Return labels (N, C), int8 or soft float32, from all samples' positives and {sample: value} of other keys."""
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
    """Set ``labels[rows, columns] = scores`` in place, or in a float32 copy if soft; ValueError unless -1 or 0 to 1."""
    # This form also finds NaN.
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
    """Convert {sample index: {class index: area}} to an array (N, C), NaN where unknown; None if no area is known."""
    if not any(areas.values()):
        return None
    owners = np.repeat(list(areas), [len(by_class) for by_class in areas.values()])
    columns = list(chain.from_iterable(areas.values()))
    array = np.full(shape, np.nan, dtype=np.float32)
    array[owners, columns] = list(chain.from_iterable(by_class.values() for by_class in areas.values()))
    return array


def _image_folders(dataset: BaseDataset) -> tuple[str, ...]:
    """Return the folders in ``data_prefix`` and ``data_root``, longest first, each with a slash at its end."""
    prefixes = [*(getattr(dataset, 'data_prefix', None) or {}).values(), getattr(dataset, 'data_root', None)]
    folders = {_with_slashes(os.fspath(folder)).rstrip('/') + '/' for folder in prefixes if folder}
    return tuple(sorted(folders, key=len, reverse=True))


def _key(img_path: str | os.PathLike | None, folders: tuple[str, ...]) -> str:
    """Return an image's path relative to the first of ``folders`` that has it, or its file name; ``''`` for None."""
    if img_path is None:
        return ''
    path = _with_slashes(os.fspath(img_path))
    folder = next((folder for folder in folders if path.startswith(folder)), path[: path.rfind('/') + 1])
    return path[len(folder) :]


def _with_slashes(path: str) -> str:
    return path.replace('\\', '/')


def numbered(keys: list[str]) -> list[str]:
    """Make names unique: repeats of a name become ``name#2``, ``name#3`` and so on, skipping names already taken."""
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

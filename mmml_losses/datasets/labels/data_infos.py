"""Labels in the data info of a sample, as classification and detection datasets keep them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...utils.arrays import as_labels
from .sample_labels import NEGATIVE, POSITIVE, UNKNOWN

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

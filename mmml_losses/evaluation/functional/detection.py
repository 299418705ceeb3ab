"""Match the detections of an object detector to true objects, to measure how well the detection scores are calibrated.

A detection is correct if it finds an object of its class that no better detection has found. Each image is matched
separately. The matches serve as binary labels of the scores in the calibration measures of this package. Their ECE is
the D-ECE (detection ECE) of Kueppers et al. 2020, by scores alone. Undetected objects have no score and do not count.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ...utils.arrays import ArrayLike, as_array

IgnoredOverlap: TypeAlias = Literal['detection', 'union']
IGNORED_OVERLAPS = ('detection', 'union')

MATCHED, UNMATCHED, IGNORED = 1, 0, -1


class Detections(NamedTuple):
    """Predicted boxes of one image, with D detections.

    Attributes:
        boxes: (D, 4) corners x1, y1, x2, y2.
        scores: (D,) predicted probabilities in [0, 1].
        labels: (D,) predicted class indices.
    """

    boxes: ArrayLike
    scores: ArrayLike
    labels: ArrayLike


class Objects(NamedTuple):
    """True boxes of one image, with G objects.

    Attributes:
        boxes: (G, 4) corners x1, y1, x2, y2.
        labels: (G,) class indices.
        ignored: (G,) true for crowds and difficult objects; detections of them are left out. None if none is ignored.
    """

    boxes: ArrayLike
    labels: ArrayLike
    ignored: ArrayLike | None = None


class MatchedDetections(NamedTuple):
    """Scores and matches of the detections of N images, for use as probabilities and labels in calibration measures.

    Attributes:
        scores: (N, D) scores, one row for each image. D is the most detections of an image; 0 fills shorter rows.
        matched: (N, D) int8: 1 for a detection that found an object, 0 for one that did not. -1 is left out: detections
            of ignored objects, detections below ``min_score``, and the filled end of a row.
        num_ignored: Number of detections of ignored objects, at or above ``min_score``.
        num_below: Number of detections below ``min_score``.
    """

    scores: np.ndarray
    matched: np.ndarray
    num_ignored: int
    num_below: int


def match_images(
    images: Iterable[tuple[Detections, Objects]],
    iou_threshold: float = 0.5,
    min_score: float = 0.0,
    ignored_overlap: IgnoredOverlap = 'detection',
) -> MatchedDetections:
    """Match the detections of many images to their true objects, by the rules of :func:`match_detections`.

    With the result ``matches``, ``calibration_errors(reliability_bins(matches.scores, matches.matched))`` computes the
    errors of the detector. Each row is one image, so :func:`calibration_intervals` resamples whole images.

    Args:
        images: Pairs (detections, objects), one for each image.
        iou_threshold: Least intersection over union (IoU) of a detection and the object that it finds.
        min_score: Detections below this score are left out. Detectors return hundreds of boxes with scores near 0 for
            each image, which dominate errors weighted by counts.
        ignored_overlap: Area that divides the intersection with an ignored object: ``'detection'`` or ``'union'``.
    """
    check_matching(iou_threshold, ignored_overlap, min_score)
    rows, num_ignored, num_below = [], 0, 0
    for detections, objects in images:
        matched = match_detections(detections, objects, iou_threshold, ignored_overlap)
        scores = as_array(detections.scores).reshape(-1)
        below = scores < min_score
        num_ignored += int((matched[~below] == IGNORED).sum())
        num_below += int(below.sum())
        rows.append((scores, np.where(below, np.int8(IGNORED), matched)))
    width = max((len(scores) for scores, _ in rows), default=0)
    kind = np.result_type(*(scores for scores, _ in rows)) if rows else np.float32
    all_scores = np.zeros((len(rows), width), dtype=kind)
    all_matched = np.full((len(rows), width), IGNORED, dtype=np.int8)
    for index, (scores, matched) in enumerate(rows):
        all_scores[index, : len(scores)] = scores
        all_matched[index, : len(scores)] = matched
    return MatchedDetections(all_scores, all_matched, num_ignored, num_below)


def match_detections(
    detections: Detections, objects: Objects, iou_threshold: float = 0.5, ignored_overlap: IgnoredOverlap = 'detection'
) -> np.ndarray:
    """Decide which detections of one image have found an object.

    The rules are those of COCO's evaluation. Detections choose in descending order of score. A detection takes the
    object of its class that has the greatest IoU and is not yet taken, if this IoU reaches the threshold. Otherwise the
    detection is left out if its overlap with an ignored object of its class reaches the threshold. Any number of
    detections may match one ignored object. COCO breaks ties by input order. Here, of equal scores, the detection
    with the greatest IoU chooses first. Other ties go to the box further left, then up. Boxes are x2 - x1 wide.

    Args:
        detections: Predicted boxes, scores and labels of the image.
        objects: True boxes and labels of the image.
        iou_threshold: Least intersection over union (IoU) of a detection and the object that it finds.
        ignored_overlap: Area that divides the intersection with an ignored object: ``'detection'`` (COCO's rule for
            crowds, whose boxes are large) or ``'union'`` (as in the IoU; VOC's rule for difficult objects).

    Returns:
        (D,) int8 in the order of the detections: 1 found an object, 0 found none, -1 is left out.
    """
    check_matching(iou_threshold, ignored_overlap)
    boxes, scores, labels = _read('detections', detections.boxes, scores=detections.scores, labels=detections.labels)
    if np.isnan(scores).any():
        raise ValueError('scores of detections must not hold NaN')
    flags = np.zeros(as_array(objects.labels).size) if objects.ignored is None else objects.ignored
    true_boxes, true_labels, ignored = _read('objects', objects.boxes, labels=objects.labels, ignored=flags)
    matched = np.zeros(len(boxes), dtype=np.int8)
    if not len(boxes) or not len(true_boxes):
        return matched

    by_place = np.lexsort(true_boxes.T[::-1])
    true_boxes, true_labels, ignored = true_boxes[by_place], true_labels[by_place], ignored[by_place].astype(bool)
    overlap = _overlaps(boxes, true_boxes, ignored & (ignored_overlap == 'detection'))
    overlap[labels[:, None] != true_labels] = -1.0
    # As COCO: an overlap of 1 satisfies a threshold of 1 in spite of rounding.
    reaches = overlap >= min(iou_threshold, 1 - 1e-10)
    matched[(reaches & ignored).any(axis=1)] = IGNORED

    overlap = np.where(reaches & ~ignored, overlap, -1.0)
    best = overlap.max(axis=1)
    order = np.lexsort((*boxes.T[::-1], -best, -scores.astype(np.float64)))
    for index in order[best[order] >= 0]:
        choice = overlap[index].argmax()
        if overlap[index, choice] >= 0:
            matched[index] = MATCHED
            overlap[:, choice] = -1.0
    return matched


def detection_columns(count: int) -> tuple[str, ...]:
    """Return ``count`` names ('detection 1', 'detection 2', …) that replace class names in stored detections."""
    return tuple(f'detection {number}' for number in range(1, count + 1))


def are_detections(names: tuple[str, ...]) -> bool:
    """Return whether column names of stored predictions are those of :func:`detection_columns`, not of classes."""
    return names == detection_columns(len(names))


def check_matching(iou_threshold: float, ignored_overlap: str, min_score: float = 0.0) -> None:
    """Raise a ValueError if one of these arguments of :func:`match_images` is invalid."""
    if not 0 < iou_threshold <= 1:
        raise ValueError(f'iou_threshold must be above 0 and at most 1, got {iou_threshold}')
    if ignored_overlap not in IGNORED_OVERLAPS:
        raise ValueError(f'ignored_overlap must be one of {IGNORED_OVERLAPS}, got {ignored_overlap!r}')
    if not 0 <= min_score <= 1:
        raise ValueError(f'min_score must lie in [0, 1], got {min_score}')


def _read(owner: str, boxes: ArrayLike, **others: ArrayLike) -> tuple[np.ndarray, ...]:
    """Return (boxes as (n, 4) float64, each of ``others`` as (n,)); errors name ``owner``, such as 'objects'."""
    array = as_array(boxes).astype(np.float64)
    array = array if array.size else array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise ValueError(f'boxes of {owner} must have the shape (number, 4), got {array.shape}')
    if np.isnan(array).any():
        raise ValueError(f'boxes of {owner} must not hold NaN')
    read = {name: as_array(values).reshape(-1) for name, values in others.items()}
    for name, values in read.items():
        if len(values) != len(array):
            raise ValueError(f'{name} of {owner} must be as many as the {len(array)} boxes, got {len(values)}')
    return array, *read.values()


def _overlaps(boxes: np.ndarray, true_boxes: np.ndarray, of_detection: np.ndarray) -> np.ndarray:
    """Compute (D, G) overlaps: intersection over the detection's area where ``of_detection`` (G,) is true, else IoU."""
    upper = np.minimum(boxes[:, None, 2:], true_boxes[:, 2:])
    lower = np.maximum(boxes[:, None, :2], true_boxes[:, :2])
    intersection = np.clip(upper - lower, 0, None).prod(axis=2)
    area, true_area = (np.clip(each[:, 2:] - each[:, :2], 0, None).prod(axis=1) for each in (boxes, true_boxes))
    whole = area[:, None] + np.where(of_detection, 0.0, true_area - intersection)
    return np.divide(intersection, whole, out=np.zeros_like(intersection), where=whole > 0)

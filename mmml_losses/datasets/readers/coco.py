"""COCO, or any dataset in COCO's format, for multi-label classification."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...registry import DATASETS
from ...utils.errors import AnnotationError
from .annotation_files import reject_repeated
from .reader import MultiLabelReader

if TYPE_CHECKING:
    from pycocotools.coco import COCO


@DATASETS.register_module()
class CocoMultiLabel(MultiLabelReader):
    """Images of COCO 2014 or 2017, each labelled with the classes of its objects.

    The classes are the file's categories, sorted by category id. Each sample is ``dict(img_path=..., img_id=...,
    gt_label=[ascending class indices], label_areas=[...])``, in file order. ``label_areas`` has, for each class in
    ``gt_label``, its largest object's area as a fraction of the image (pixels if its size is missing); NaN if unknown.

    Args:
        ann_file: Annotation file in COCO's format, such as ``instances_train2014.json``.
        with_crowd: Count a class that appears only as a crowd (``iscrowd``) as present, as most published code does.
        with_boxes: Add what detectors of MMDetection need: ``height``, ``width`` and ``instances``, the object boxes.
            Crowds have ``ignore_flag=1``. Boxes with ``ignore``, under a pixel or outside of the image are left out.
        *args: Further arguments of :class:`MultiLabelReader`. With ``drop_empty``, as in most papers, 82,081 of the
            82,783 images of train2014 remain.
        **kwargs: Further arguments of :class:`MultiLabelReader`.

    Example:
        >>> dataset = CocoMultiLabel(
        ...     'annotations/instances_train2014.json', data_root='data/coco',
        ...     data_prefix='train2014', drop_empty=True)
        >>> len(dataset), len(dataset.CLASSES)
        (82081, 80)
    """

    def __init__(self, ann_file: str, *args, with_crowd: bool = True, with_boxes: bool = False, **kwargs):
        self.with_crowd = with_crowd
        self.with_boxes = with_boxes
        super().__init__(ann_file, *args, **kwargs)

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each image: path, id, present classes, their areas and, with ``with_boxes``, the boxes."""
        coco = _read_coco(self.ann_file)
        names = {category_id: coco.cats[category_id]['name'] for category_id in sorted(coco.cats)}
        classes = self.choose_classes(list(names.values()), self.ann_file)
        class_of_category = {category_id: classes[name] for category_id, name in names.items() if name in classes}
        for image_id, image in coco.imgs.items():
            annotations = coco.imgToAnns.get(image_id, ())
            areas = self._areas(image, annotations, class_of_category)
            sample = dict(
                img_path=self.image_path(image['file_name']),
                gt_label=sorted(areas),
                label_areas=[areas[label] for label in sorted(areas)],
                img_id=image_id,
            )
            if self.with_boxes:
                sample |= self._boxes(image, annotations, class_of_category)
            yield sample

    def _areas(self, image: dict, annotations: Iterable[dict], class_of_category: dict[int, int]) -> dict[int, float]:
        """Return {class index: area of its largest object / area of the image}; NaN if one of its areas is unknown."""
        areas: dict[int, float] = {}
        size = image.get('width', 1) * image.get('height', 1) or 1
        for annotation in annotations:
            label = class_of_category.get(annotation['category_id'])
            if label is not None and (self.with_crowd or not annotation.get('iscrowd', 0)):
                area, largest = _area(annotation) / size, areas.get(label, 0.0)
                # Every comparison with NaN is false, so an unknown area always wins.
                areas[label] = largest if area <= largest else area if area > largest else math.nan
        return areas

    def _boxes(self, image: dict, annotations: Iterable[dict], class_of_category: dict[int, int]) -> dict:
        """Return ``dict(height, width, instances=[dict(bbox=[x1, y1, x2, y2], bbox_label, ignore_flag), ...])``.

        Boxes with ``ignore``, with area 0, narrower or lower than one pixel, or outside of the image are left out.
        """
        try:
            width, height = image['width'], image['height']
            boxes = [
                (annotation['bbox'], class_of_category[annotation['category_id']], annotation.get('iscrowd', 0))
                for annotation in annotations
                if annotation['category_id'] in class_of_category
                # As in MMDetection; an unknown area, NaN, is not left out.
                if not (annotation.get('ignore', 0) or _area(annotation) <= 0)
            ]
            instances = [
                dict(bbox=[x, y, x + w, y + h], bbox_label=label, ignore_flag=int(bool(crowd)))
                for (x, y, w, h), label, crowd in boxes
                # Boxes of less than a pixel, or outside of the image, are mistakes of the annotation.
                if min(w, h) >= 1 and min(x + w, width) > max(x, 0) and min(y + h, height) > max(y, 0)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise AnnotationError(
                f'{self.ann_file} must have the width and height of image {image["id"]} and a bbox of four numbers for '
                f'each of its objects to be read with_boxes, got {type(error).__name__}: {error}'
            ) from error
        return dict(height=height, width=width, instances=instances)


def _area(annotation: dict) -> float:
    """Return an object's ``area`` in pixels or, without this key, the area of its ``bbox``; NaN if it has neither."""
    if 'area' in annotation:
        return annotation['area']
    if 'bbox' in annotation:
        return annotation['bbox'][2] * annotation['bbox'][3]
    return math.nan


def _read_coco(path: str) -> COCO:
    """Load a COCO file with pycocotools without its printed output; raise an AnnotationError for a malformed file."""
    # Imported here so that looking up another dataset does not need pycocotools.
    from pycocotools.coco import COCO

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(path)
        problem = _find_problem(coco)
    except KeyError as error:
        raise AnnotationError(f'{path} is not a COCO annotation file: an entry has no {error}') from error
    # Broken JSON is a ValueError; pycocotools asserts a dict; lists of something else than dicts are a TypeError.
    except (ValueError, AssertionError, TypeError) as error:
        raise AnnotationError(f'{path} is not a COCO annotation file: {error}') from error
    if problem:
        raise AnnotationError(f'{path} is not a COCO annotation file: {problem}')
    for key, what in (('images', 'image id'), ('categories', 'category id')):
        reject_repeated((entry['id'] for entry in coco.dataset[key]), path, what)
    return coco


def _find_problem(coco: COCO) -> str:
    """Return the error text for a malformed file that pycocotools nevertheless loads; ``''`` if the file is valid."""
    absent = [key for key in ('images', 'annotations', 'categories') if key not in coco.dataset]
    if absent:
        return f'it has no {" and no ".join(map(repr, absent))}'
    names = [category['name'] for category in coco.cats.values()]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        return f'several categories are called {", ".join(repeated)}'
    unknown = sorted(coco.catToImgs.keys() - coco.cats.keys())
    if unknown:
        return f'annotations name the unknown categories {unknown}'
    if not all('file_name' in image for image in coco.imgs.values()):
        return "an image has no 'file_name'"
    numbers = [image.get(side, 1) for image in coco.imgs.values() for side in ('width', 'height')]
    numbers += [annotation.get('area', 0) for annotation in coco.anns.values()]
    if not _are_numbers(numbers):
        return "'width', 'height' and 'area' must be numbers"
    # Where there is an area, no box is read.
    boxes = [entry['bbox'] for entry in coco.anns.values() if 'area' not in entry and 'bbox' in entry]
    if not all(isinstance(box, list) and len(box) == 4 and _are_numbers(box) for box in boxes):
        return "'bbox' must be four numbers"
    return ''


def _are_numbers(values: list) -> bool:
    return all(isinstance(value, (int, float)) for value in values)

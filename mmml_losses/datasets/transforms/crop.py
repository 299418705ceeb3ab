"""Samples that are a part of an image: their boxes, and the transform that cuts them out."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from ...registry import TRANSFORMS
from ..errors import AnnotationError


@TRANSFORMS.register_module()
class CropToBox:
    """Cuts the box of a sample out of the loaded image; put it after ``LoadImageFromFile``.

    It needs ``img``, (H, W) or (H, W, channels), and ``bbox`` as ``[x, y, width, height]`` in pixels, which readers of
    persons and object instances give. A box that ends between two pixels is rounded outwards, and what lies outside of
    the image is left out. It changes ``img`` and ``img_shape``; ``bbox`` stays the box in the whole image.

    Args:
        margin: Context around the box on each side, as a fraction of its width and of its height.

    Example:
        >>> pipeline = [
        ...     dict(type='LoadImageFromFile'),
        ...     dict(type='mmml_losses.CropToBox', margin=0.1),
        ...     dict(type='Resize', scale=(224, 224)),
        ...     dict(type='PackInputs'),
        ... ]
    """

    def __init__(self, margin: float = 0.0):
        if not 0 <= margin < math.inf:
            raise ValueError(f'margin must be a fraction of at least 0, got {margin}')
        self.margin = margin

    def __call__(self, results: dict) -> dict:
        """Crop a loaded image.

        Raises:
            ValueError: There is no box, it has no area, or it lies outside of the image.
        """
        image, name = results['img'], results.get('img_path')
        if 'bbox' not in results:
            raise ValueError(f"CropToBox needs 'bbox' in the data info of each sample, got none for {name}")
        box = results['bbox']
        problem = box_problem(box)
        if problem:
            raise ValueError(f'bbox of {name} {problem}')
        height, width = image.shape[:2]
        left, right = self._ends(box[0], box[2], width)
        top, bottom = self._ends(box[1], box[3], height)
        if left >= right or top >= bottom:
            raise ValueError(f'bbox of {name} must lie in the image of {width} x {height} pixels, got {list(box)}')
        results['img'] = image[top:bottom, left:right].copy()  # else the whole image would stay in memory
        results['img_shape'] = results['img'].shape[:2]
        return results

    def _ends(self, start: float, size: float, limit: int) -> tuple[int, int]:
        """The first pixel, and the one after the last."""
        context = self.margin * size
        return max(math.floor(start - context), 0), min(math.ceil(start + size + context), limit)

    def __repr__(self) -> str:
        return f'{type(self).__name__}(margin={self.margin})'


def box_problem(box: object) -> str:
    """What keeps something from being a box ``[x, y, width, height]`` with an area; empty if nothing does."""
    if not _is_box(box):
        return f'must be four numbers x, y, width and height, got {box!r}'
    return '' if box[2] > 0 and box[3] > 0 else f'must have an area, got {list(box)}'


def read_box(box: object, place: str, drop_degenerate: bool = False) -> list[float] | None:
    """A box of an annotation file.

    Args:
        box: ``[x, y, width, height]``.
        place: Where it stands, for the error message.
        drop_degenerate: Whether to give None for a box without an area.

    Raises:
        AnnotationError: It is no box, or one without an area.
    """
    problem = box_problem(box)
    if not problem:
        return [float(number) for number in box]
    if drop_degenerate and _is_box(box):
        return None
    raise AnnotationError(f'{place}: the box {problem}')


def _is_box(box: object) -> bool:
    numbers = isinstance(box, (list, tuple, np.ndarray)) and len(box) == 4
    return numbers and all(isinstance(number, Real) and math.isfinite(number) for number in box)

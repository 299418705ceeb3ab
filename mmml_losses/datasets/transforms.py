"""Transforms: crop to the box of a sample or at random, distort colours, and pack several views of an image."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np
import torch
from mmengine.dataset import Compose

from ..registry import TRANSFORMS
from .readers.annotation_files import box_problem


@TRANSFORMS.register_module()
class CropToBox:
    """Crop the loaded image to the bounding box of its sample; put it after ``LoadImageFromFile``.

    The data info must have ``img``, (H, W) or (H, W, channels), and ``bbox`` as ``[x, y, width, height]`` in pixels.
    Readers of persons and object instances provide ``bbox``. The crop is rounded outwards to whole pixels and clipped
    to the image. ``img`` and ``img_shape`` change; ``bbox`` stays in the coordinates of the whole image.

    Args:
        margin: Context on each side of the box, as a fraction of its width (left, right) or height (top, bottom).

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
        """Crop the image in ``results``, return this dict; raise a ValueError for a missing, empty or outside box."""
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
        results['img'] = image[top:bottom, left:right].copy()  # a view would keep the whole image in memory
        results['img_shape'] = results['img'].shape[:2]
        return results

    def _ends(self, start: float, size: float, limit: int) -> tuple[int, int]:
        """Return the crop's (start, end) on an axis, end excluded: the box (start, size) with margin, in 0 to limit."""
        context = self.margin * size
        return max(math.floor(start - context), 0), min(math.ceil(start + size + context), limit)

    def __repr__(self) -> str:
        return f'{type(self).__name__}(margin={self.margin})'


@TRANSFORMS.register_module()
class PhotometricDistortion:
    """Change brightness, contrast, saturation and hue and swap the channels, each with a probability of one half.

    The image becomes float32 in the range of the bytes it was loaded from, and is not clipped to it. These are the
    colours of the DB loss (Wu et al., 2020), whose augmentation the DR paper uses.

    Args:
        brightness: Largest number that is added to or subtracted from all pixels.
        contrast: Smallest and largest factor of all pixels, before or after the changes of colour.
        saturation: Smallest and largest factor of the saturation.
        hue: Largest change of the hue, in degrees.
    """

    def __init__(
        self,
        brightness: float = 32.0,
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: float = 18.0,
    ):
        for name, value in dict(brightness=brightness, hue=hue).items():
            if not 0 <= value < math.inf:
                raise ValueError(f'{name} must be at least 0, got {value}')
        for name, (low, high) in dict(contrast=contrast, saturation=saturation).items():
            if not 0 <= low <= high < math.inf:
                raise ValueError(f'{name} must be a smallest and a largest factor, got {(low, high)}')
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue

    def __call__(self, results: dict) -> dict:
        """Distort the colours of ``img``, (H, W, 3) as blue, green and red, and return ``results``."""
        image = results['img'].astype(np.float32)
        if image.ndim != 3 or image.shape[2] != 3:
            raise ValueError(f'img must have three channels, got the shape {image.shape}')
        if _coin():
            image += np.random.uniform(-self.brightness, self.brightness)
        contrast = np.random.uniform(*self.contrast) if _coin() else 1.0
        before, after = (contrast, 1.0) if _coin() else (1.0, contrast)
        image = cv2.cvtColor(image * np.float32(before), cv2.COLOR_BGR2HSV)
        if _coin():
            image[..., 1] *= np.random.uniform(*self.saturation)
        if _coin():
            image[..., 0] = (image[..., 0] + np.random.uniform(-self.hue, self.hue)) % 360
        image = cv2.cvtColor(image, cv2.COLOR_HSV2BGR) * np.float32(after)
        results['img'] = np.ascontiguousarray(image[..., np.random.permutation(3)]) if _coin() else image
        return results

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, '
            f'saturation={self.saturation}, hue={self.hue})'
        )


def _coin() -> bool:
    return bool(np.random.randint(2))


@TRANSFORMS.register_module()
class RandomSideCrop:
    """Crop an image at random so that a fraction of each side is left, as the DB loss (Wu et al., 2020) does.

    Args:
        smallest: Smallest fraction that is left of the width, and of the height. Both are drawn uniformly.
        max_ratio: Largest ratio of the longer side to the shorter one, for which sizes are drawn up to 50 times. If
            none fits, the image stays as it is.
    """

    def __init__(self, smallest: float = 0.8, max_ratio: float = 2.0):
        if not 0 < smallest <= 1:
            raise ValueError(f'smallest must be in (0, 1], got {smallest}')
        if not max_ratio >= 1:
            raise ValueError(f'max_ratio must be at least 1, got {max_ratio}')
        self.smallest, self.max_ratio = smallest, max_ratio

    def __call__(self, results: dict) -> dict:
        """Crop ``img``, set ``img_shape``, and return ``results``."""
        image = results['img']
        height, width = image.shape[:2]
        for _ in range(50):
            rows, columns = (np.random.uniform(self.smallest * side, side) for side in (height, width))
            if max(rows / columns, columns / rows) <= self.max_ratio:
                top, left = np.random.uniform(0, height - rows), np.random.uniform(0, width - columns)
                bottom, right = max(int(top + rows), int(top) + 1), max(int(left + columns), int(left) + 1)
                results['img'] = image[int(top) : bottom, int(left) : right].copy()
                results['img_shape'] = results['img'].shape[:2]
                break
        return results

    def __repr__(self) -> str:
        return f'{type(self).__name__}(smallest={self.smallest}, max_ratio={self.max_ratio})'


LABELS = ('gt_label', 'gt_score')


@TRANSFORMS.register_module()
class PackViews:
    """Make several views (augmented copies) of a loaded image and pack them as one sample; the last pipeline step.

    The sample is ``dict(inputs=[V images], data_samples=...)``, in the order of ``views``. The data sample is the one
    of the first view, with ``num_views`` added. :class:`mmml_losses.models.MultiLabelPreprocessor` makes a list of V
    batches of such samples. Every view has its own random numbers, from the generators that MMEngine seeds per worker.

    Args:
        views: Two or more pipelines, one for each view. ``[]`` is the image as it was loaded, and a pipeline may be
            repeated. A view that changes ``gt_label`` or ``gt_score`` raises a ValueError: all views share one label.
        pack: Config of the transform that packs each view, MMPretrain's ``PackInputs`` by default.

    Example:
        >>> augment = [dict(type='RandomFlip', prob=0.5), dict(type='ColorJitter', brightness=0.3)]
        >>> pipeline = [
        ...     dict(type='LoadImageFromFile'),
        ...     dict(type='mmml_losses.PackViews', views=[[], augment, augment]),
        ... ]
    """

    def __init__(self, views: Sequence[Sequence[dict | Callable]], pack: Mapping | None = None):
        if isinstance(views, Mapping) or not all(isinstance(view, (list, tuple)) for view in views):
            raise TypeError(f'views must be pipelines, a list of transforms for each view, got {views}')
        if len(views) < 2:
            raise ValueError(f'views must be pipelines of at least 2 views, got {len(views)}')
        self.pack = dict(pack or dict(type='PackInputs'))
        self.views = [Compose([*view, self.pack]) for view in views]

    def __call__(self, results: dict) -> dict | None:
        """Return the packed sample; None if a transform returns None, so that MMEngine tries another sample."""
        packed: list[dict] = []
        for view in self.views:
            sample = view(copy.deepcopy(results))
            if sample is None:
                return None
            self._check(sample, packed)
            packed.append(sample)
        data_sample = packed[0]['data_samples']
        data_sample.set_metainfo(dict(num_views=len(packed)))
        return dict(inputs=[sample['inputs'] for sample in packed], data_samples=data_sample)

    def _check(self, sample: dict, earlier: list[dict]) -> None:
        if 'inputs' not in sample or 'data_samples' not in sample:
            raise ValueError(
                f'views must leave an image for {self.pack["type"]} to pack, got {", ".join(sample) or "nothing"} of '
                f'view {len(earlier)}: a view does not pack by itself'
            )
        for key in LABELS:
            first, own = (each['data_samples'].get(key) for each in (earlier[0] if earlier else sample, sample))
            if (first is None) != (own is None) or (own is not None and not torch.equal(first, own)):
                raise ValueError(
                    f'views must leave {key} as it is, because one label belongs to all views, got {own} of view '
                    f'{len(earlier)} and {first} of the first one'
                )

    def __repr__(self) -> str:
        return f'{type(self).__name__}({len(self.views)} views: {", ".join(map(repr, self.views))})'

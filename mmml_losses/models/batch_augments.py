"""Batch augmentations for MMPretrain that merge several images into one, labelled with the union of their labels."""

import numpy as np
import torch
from mmpretrain.registry import BATCH_AUGMENTS as MMPRETRAIN_BATCH_AUGMENTS
from torch import Tensor
from torch.nn.functional import interpolate

from ..losses.core.inputs import check_targets
from ..registry import Registry

# This registry is not in registry.py, because its parent is a registry of MMPretrain and not of MMEngine.
BATCH_AUGMENTS = Registry('batch augment', MMPRETRAIN_BATCH_AUGMENTS, locations=['mmml_losses.models'])


def union_labels(*targets: Tensor) -> Tensor:
    """Return the labels of an image that is merged from several images, in the shape of each of ``targets``.

    A label is 1 if it is 1 in any image. Otherwise it is -1 if it is -1 in any image, or else the largest value.

    Args:
        *targets: Labels of each image, of one shape: 1 positive, 0 negative, -1 unknown, or soft between 0 and 1.
    """
    sources = torch.stack(targets)
    largest = sources.amax(dim=0)
    return largest.masked_fill((sources < 0).any(dim=0) & (largest < 1), -1)


class UnionAugment:
    """Base of batch augmentations that merge several images into one, labelled with the union of their labels.

    A subclass sets ``num_sources``, the number of images to merge, and defines :meth:`join`. Image i of the batch is
    merged with image i of each of ``num_sources`` - 1 random permutations of the batch, which may be the same image.
    """

    num_sources: int
    """Number of images that are joined into one."""
    unites_labels = True
    """A mark for the patch of MMPretrain's batch augmentations: unknown labels (-1) are never blended with others."""

    def join(self, images: Tensor, orders: list[Tensor]) -> Tensor:
        """Return N new images (N, channels, H, W), each merged from ``num_sources`` images of the batch.

        Args:
            images: The batch, (N, channels, H, W).
            orders: ``num_sources`` index tensors (N,), of which the first is 0 to N - 1. New image i merges image
                ``order[i]`` for each ``order``.
        """
        raise NotImplementedError

    def __call__(self, batch_inputs: Tensor, batch_score: Tensor) -> tuple[Tensor, Tensor]:
        """Return (images, labels): merged images in the shape of ``batch_inputs``, and their labels, (N, C) float32.

        Args:
            batch_inputs: Images, (N, channels, H, W).
            batch_score: Labels, (N, C): 1 positive, 0 negative, -1 unknown, or soft between 0 and 1.
        """
        score = batch_score.float()
        check_targets(score, soft=True, loss_name=type(self).__name__)
        count = len(batch_inputs)
        orders = [torch.arange(count), *(torch.randperm(count) for _ in range(self.num_sources - 1))]
        return self.join(batch_inputs, orders), union_labels(*(score[order] for order in orders))


@BATCH_AUGMENTS.register_module()
class UnionMixup(UnionAugment):
    """Batch augmentation that blends two images into one, labelled with the union of their labels.

    The weight of the first image is drawn once per batch, from Beta(``alpha``, ``alpha``) scaled to
    [``smallest_share``, 1 - ``smallest_share``]. MMPretrain's ``Mixup`` also blends labels: wrong for -1 (unknown).

    Args:
        alpha: Parameter of the Beta distribution, above 0. 1 draws uniformly, larger values prefer equal weights.
        smallest_share: Smallest weight of either image, 0 to 0.5. Both must stay visible: both labels count in full.
    """

    num_sources = 2

    def __init__(self, alpha: float = 1.0, smallest_share: float = 0.3):
        if not alpha > 0:
            raise ValueError(f'alpha must be above 0, got {alpha}')
        if not 0 <= smallest_share <= 0.5:
            raise ValueError(f'smallest_share must be in [0, 0.5], got {smallest_share}')
        self.alpha = alpha
        self.smallest_share = smallest_share

    def join(self, images: Tensor, orders: list[Tensor]) -> Tensor:
        share = self.smallest_share + (1 - 2 * self.smallest_share) * np.random.beta(self.alpha, self.alpha)
        return share * images + (1 - share) * images[orders[1]]


@BATCH_AUGMENTS.register_module()
class UnionMosaic(UnionAugment):
    """Batch augmentation that shows four images in a 2 x 2 grid, labelled with the union of their labels.

    Each image is resized to its grid cell as a whole: a crop could lose an object and keep its label. The point where
    the four cells meet is drawn once per batch.

    Args:
        smallest_pane: Smallest side of a cell, as a fraction of the side of the image. With 0.5 all cells are equal.
    """

    num_sources = 4

    def __init__(self, smallest_pane: float = 0.4):
        if not 0 < smallest_pane <= 0.5:
            raise ValueError(f'smallest_pane must be in (0, 0.5], got {smallest_pane}')
        self.smallest_pane = smallest_pane

    def join(self, images: Tensor, orders: list[Tensor]) -> Tensor:
        height, width = images.shape[-2:]
        if min(height, width) < 2:
            raise ValueError(f'images must be of 2 x 2 pixels or more for a mosaic, got {height} x {width}')
        shares = np.random.uniform(self.smallest_pane, 1 - self.smallest_pane, size=2)
        top, left = (
            min(max(round(share * side), 1), side - 1) for share, side in zip(shares, (height, width), strict=True)
        )
        panes = [(slice(0, top), slice(0, left)), (slice(0, top), slice(left, width))]
        panes += [(slice(top, height), columns) for _, columns in panes]
        mosaic = torch.empty_like(images)
        for (rows, columns), order in zip(panes, orders, strict=True):
            size = (rows.stop - rows.start, columns.stop - columns.start)
            mosaic[..., rows, columns] = interpolate(images, size, mode='bilinear', antialias=True)[order]
        return mosaic

"""Augmentations that join the images of a batch and unite their labels, for MMPretrain's ``batch_augments``."""

import numpy as np
import torch
from mmpretrain.registry import BATCH_AUGMENTS as MMPRETRAIN_BATCH_AUGMENTS
from torch import Tensor
from torch.nn.functional import interpolate

from ..losses.core.inputs import check_targets
from ..registry import Registry

# It is not in registry.py, because its parent is a registry of MMPretrain and not of MMEngine.
BATCH_AUGMENTS = Registry('batch augment', MMPRETRAIN_BATCH_AUGMENTS, locations=['mmml_losses.models'])


def union_labels(*targets: Tensor) -> Tensor:
    """Return the labels of an image that is made of several images.

    A label is positive if it is positive in any of the images, negative if it is negative in all, and otherwise
    unknown. Of soft labels the largest is taken, unless an image has an unknown label: then the label is unknown, or 1
    if it is 1 in another image.

    Args:
        *targets: Labels of each image, of one shape, with 1 positive, 0 negative, -1 unknown, or between 0 and 1.
    """
    sources = torch.stack(targets)
    largest = sources.amax(dim=0)
    return largest.masked_fill((sources < 0).any(dim=0) & (largest < 1), -1)


class UnionAugment:
    """Base of augmentations that join each image of a batch with other images of the batch.

    A subclass defines ``num_sources`` and :meth:`join`. The other images come from random orders of the batch, so that
    an image may be joined with itself.
    """

    num_sources: int
    """Number of images that are joined into one."""
    unites_labels = True
    """A mark for the patch of MMPretrain's batch augmentations: unknown labels (-1) are never blended with others."""

    def join(self, images: Tensor, orders: list[Tensor]) -> Tensor:
        """Return N new images, each joined from ``num_sources`` images of the batch: (N, C, H, W).

        Args:
            images: (N, C, H, W).
            orders: For each source, N indices into ``images``; those of the first source are 0 to N - 1.
        """
        raise NotImplementedError

    def __call__(self, batch_inputs: Tensor, batch_score: Tensor) -> tuple[Tensor, Tensor]:
        """Return new images and their labels.

        Args:
            batch_inputs: Images, (N, C, H, W).
            batch_score: Labels, (N, C), with 1 positive, 0 negative, -1 unknown, or between 0 and 1.
        """
        score = batch_score.float()
        check_targets(score, soft=True, loss_name=type(self).__name__)
        count = len(batch_inputs)
        orders = [torch.arange(count), *(torch.randperm(count) for _ in range(self.num_sources - 1))]
        return self.join(batch_inputs, orders), union_labels(*(score[order] for order in orders))


@BATCH_AUGMENTS.register_module()
class UnionMixup(UnionAugment):
    """Blends two images into one that has the labels of both.

    The share of the first image is drawn once for a batch, from Beta(``alpha``, ``alpha``) scaled to
    [``smallest_share``, 1 - ``smallest_share``]. MMPretrain's ``Mixup`` blends the labels by the same share, which is a
    target for soft losses and has no meaning for unknown labels.

    Args:
        alpha: Parameter of the Beta distribution: 1 draws uniformly, larger values prefer halves.
        smallest_share: Smallest share of each image, since the labels of both count in full.
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
    """Joins four images, as the panes of a window, into one that has the labels of all four.

    Each image is resized to its pane as a whole: a crop could lose an object and keep its label. The point where the
    panes meet is drawn once for a batch.

    Args:
        smallest_pane: Smallest side of a pane, as a share of the side of the image. With 0.5 all four are equal.
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

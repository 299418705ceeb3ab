"""Choose samples of any multi-label set so that its class counts fall along a Pareto curve (a long-tailed set)."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ...utils.arguments import check_choice, check_whole_number
from ...utils.frequencies import group_classes
from ..labels.sample_labels import POSITIVE

ORDERS = ('co-occurrence', 'frequency')
# Shares are integer multiples of 1 / PARTS: sums of floats, and ties between them, would depend on the machine.
PARTS = 2**40
# Within the exact integers of float32, in which joint images are counted.
ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class ParetoCurve:
    r"""The wanted number of images of each class in a long-tailed set.

    The classes are put in an ``order``. Class :math:`i = 0, \dots, C - 1` in it should have
    :math:`n_i = \text{largest} \cdot x_i^{-(\text{shape} + 1)}` images: the density of a Pareto distribution at evenly
    spaced :math:`x_i`, from 1 to where :math:`n_i` is ``smallest``. The paper of the DR loss (Lin et al.) names this
    distribution for VOC-LT, and prints no parameters. The default shape of 6 is ours, and not fitted to VOC-LT: from
    775 to 4 images, the curve differs from the published counts by 9 % on average. A shape of 5 comes nearer (5 %).

    Args:
        largest: Images of the first class.
        smallest: Images of the last class.
        shape: How steeply the curve falls at first. A large shape makes the ratio of neighbouring classes constant.
        order: Which classes come first. ``'frequency'``: those with the most images. ``'co-occurrence'``: those that
            appear most in the images of other classes, :math:`\sum_j P(i \mid j)`, as in the counts of VOC-LT, because
            a class that accompanies frequent classes cannot be rare.
    """

    largest: int = 700
    smallest: int = 5
    shape: float = 6.0
    order: str = 'co-occurrence'

    def __post_init__(self):
        for name in ('largest', 'smallest'):
            check_whole_number(name, getattr(self, name))
        if not 1 <= self.smallest <= self.largest:
            raise ValueError(f'smallest must be in [1, largest = {self.largest}], got {self.smallest}')
        if not isinstance(self.shape, Real) or not 0 < self.shape < np.inf:
            raise ValueError(f'shape must be a positive and finite number, got {self.shape!r}')
        check_choice('order', self.order, ORDERS)

    def counts(self, num_classes: int) -> np.ndarray:
        """Return the wanted images per class, (``num_classes``,) int64, falling from ``largest`` to ``smallest``."""
        end = (self.largest / self.smallest) ** (1 / (self.shape + 1))
        steps = (rank / max(num_classes - 1, 1) for rank in range(num_classes))
        curve = [self.largest * (1 + (end - 1) * step) ** -(self.shape + 1) for step in steps]
        return np.array([round(count) for count in curve], dtype=np.int64)

    def rank(self, labels: np.ndarray) -> np.ndarray:
        """Return the indices of the classes that have a positive in ``labels`` (N, C), from head to tail of the curve.

        Classes with the most images come first, or for ``'co-occurrence'`` with the largest sum in
        :class:`ParetoCurve`. Ties go by images, then lower index.
        """
        joint = _count_joint_images(labels == POSITIVE)
        frequencies = joint.diagonal()
        if self.order == 'co-occurrence':
            # The diagonal adds the same to every class that has an image.
            company = (joint * PARTS // np.maximum(frequencies, 1)).sum(axis=1)
        else:
            company = np.zeros_like(frequencies)
        ranked = np.lexsort((np.arange(len(frequencies)), -frequencies, -company))
        return ranked[frequencies[ranked] > 0]


@dataclass(frozen=True)
class LongTail:
    """A long-tailed choice of samples, and its class counts.

    Attributes:
        positions: Positions of the chosen samples in the dataset, ascending.
        num_samples: Number of samples of the dataset.
        curve: (C,) wanted images of each class by the curve; 0 for a class without an image.
        available: (C,) images of each class in the dataset.
        counts: (C,) chosen images of each class.
    """

    positions: np.ndarray
    num_samples: int
    curve: np.ndarray
    available: np.ndarray
    counts: np.ndarray

    @property
    def targets(self) -> np.ndarray:
        """Number of images wanted of each class, (C,): as on the curve, or all available images if they are fewer."""
        return np.minimum(self.curve, self.available)

    @property
    def deviation(self) -> float:
        """Sum over classes of the absolute difference of counts and targets, divided by the sum of the targets."""
        return float(np.abs(self.counts - self.targets).sum() / self.targets.sum())

    def describe(self, classes: Sequence[str]) -> str:
        """Return a log text: :func:`describe_tail`, deviation, and classes with too few images in the dataset."""
        figures = describe_tail(self.counts, classes, len(self.positions))
        sentences = [f'{figures}, of {self.num_samples:,} images; {self.deviation:.1%} of the labels off the curve']
        short = [
            f'{classes[c]} ({self.available[c]:,} of {self.curve[c]:,})'
            for c in np.flatnonzero(self.available < self.curve).tolist()
        ]
        if short:
            sentences.append(f'Fewer images than on the curve: {listed(short)}')
        empty = [classes[c] for c in np.flatnonzero(self.available == 0).tolist()]
        if empty:
            sentences.append(f'Without an image, and not on the curve: {listed(empty)}')
        return '. '.join(sentences)


def choose_long_tail(
    labels: np.ndarray, draws: np.ndarray, curve: ParetoCurve | None = None, *, fill_up: bool = False
) -> LongTail:
    r"""Choose samples whose class counts fall along a Pareto curve, as in VOC-LT and COCO-LT.

    The DR paper does not describe in detail how these two sets were made. Of several methods, this one came closest to
    them in images, labels an image and class counts.

    First images are added, class by class from the head of the curve (frequent classes) to its tail: those with the
    lowest random numbers, until the class has :math:`t_c` images, its count on the curve or all it has. An image counts
    for all its classes, so other counts :math:`n_c` may exceed :math:`t_c`. Then images are removed one at a time,
    always the one that reduces :math:`\sum_c |n_c - t_c| / t_c` most, until none does. Rare classes weigh more in this
    sum: the tail ends on the curve, frequent classes may fall short of it, and a class in most images may stay above.
    Images without a positive label are never chosen, and unknown labels are not counted.

    Args:
        labels: (N, C) with 1 positive, 0 negative or unobserved, -1 unknown.
        draws: (N,) random numbers that choose between images; of equal ones the first image wins.
        curve: The wanted class counts; None for a :class:`ParetoCurve` with its defaults.
        fill_up: Whether to add images in the end, from the tail to the head, where classes fell short. Only images that
            take no class above :math:`t_c` are added: counts come closer to the curve, with fewer labels an image.
    """
    curve = ParetoCurve() if curve is None else curve
    labels, draws = np.asarray(labels), np.asarray(draws)
    if labels.ndim != 2 or draws.shape != labels.shape[:1]:
        raise ValueError(f'labels must be (N, C) and draws (N,), got {labels.shape} and {draws.shape}')
    ranked = curve.rank(labels)
    if not len(ranked):
        raise ValueError('labels must have a positive to choose a long-tailed set from, got none')
    asked = np.zeros(labels.shape[1], dtype=np.int64)
    asked[ranked] = curve.counts(len(ranked))

    # In the order of the random numbers, the first of several images is the one to take.
    by_draw = np.argsort(draws, kind='stable')
    positives = labels[by_draw] == POSITIVE
    available = positives.sum(axis=0)
    targets = np.minimum(asked, available)
    rows = _add(positives, ranked, targets)
    rows = rows[_remove(positives[rows], targets)]
    if fill_up:
        rows = _fill_up(positives, rows, ranked, targets)
    return LongTail(np.sort(by_draw[rows]), len(labels), asked, available, positives[rows].sum(axis=0))


def describe_tail(counts: np.ndarray, classes: Sequence[str], num_images: int) -> str:
    """Return a log text: images, labels, rarest and most frequent class, classes in head (100+)/medium/tail (< 20)."""
    present = np.flatnonzero(counts)
    if not len(present):
        return f'{num_images:,} images without a positive label'
    rarest, most = int(present[counts[present].argmin()]), int(counts.argmax())
    groups = '/'.join(str(len(members)) for members in group_classes(counts[present]).values())
    return (
        f'{num_images:,} images with {counts.sum():,} labels, from {counts[rarest]:,} ({classes[rarest]}) to '
        f'{counts[most]:,} ({classes[most]}), head/medium/tail {groups}'
    )


def listed(names: Sequence[str]) -> str:
    """Return the names joined with commas; of more than five names, the first five and the number of all others."""
    return ', '.join(names[:5]) + (f' and {len(names) - 5} more' if len(names) > 5 else '')


def _count_joint_images(positives: np.ndarray) -> np.ndarray:
    """Return the number of images in which class i and class j are both positive, for all i and j, (C, C) int64."""
    joint = np.zeros((positives.shape[1],) * 2, dtype=np.int64)
    for start in range(0, len(positives), ROWS_AT_ONCE):
        part = positives[start : start + ROWS_AT_ONCE].astype(np.float32)
        joint += (part.T @ part).astype(np.int64)
    return joint


def _add(positives: np.ndarray, ranked: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """For each class in ``ranked``, add the first rows with it until its target is met; return all rows, ascending."""
    chosen = np.zeros(len(positives), dtype=bool)
    for number in ranked:
        members = positives[:, number]
        lacking = targets[number] - (members & chosen).sum()
        if lacking > 0:
            chosen[np.flatnonzero(members & ~chosen)[:lacking]] = True
    return np.flatnonzero(chosen)


def _remove(positives: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Remove rows of ``positives`` as :func:`choose_long_tail` does; return the indices of those left, ascending.

    How much a row reduces the sum changes only when a class comes down to its target; so rows are removed in groups.
    """
    kept = np.arange(len(positives))
    counts = positives.sum(axis=0)
    shares = PARTS // np.maximum(targets, 1)
    while True:
        above = counts > targets
        gains = positives[kept] @ np.where(above, shares, -shares)
        best = np.argsort(-gains, kind='stable')
        best = best[gains[best] > 0]
        if not len(best):
            return kept
        removed = np.cumsum(positives[kept[best]], axis=0)
        arrived = ((counts - removed <= targets) & above).any(axis=1)
        last = int(arrived.argmax()) + 1 if arrived.any() else len(best)
        counts = counts - removed[last - 1]
        kept = np.delete(kept, best[:last])


def _fill_up(positives: np.ndarray, rows: np.ndarray, ranked: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Add to ``rows`` indices of ``positives``, as ``fill_up`` of :func:`choose_long_tail`; return all, ascending."""
    chosen = np.zeros(len(positives), dtype=bool)
    chosen[rows] = True
    counts = positives[rows].sum(axis=0)
    closed = chosen | positives[:, counts >= targets].any(axis=1)
    for number in ranked[::-1]:
        while (lacking := targets[number] - counts[number]) > 0:
            candidates = np.flatnonzero(positives[:, number] & ~closed)[:lacking]
            if not len(candidates):
                break
            added = counts + np.cumsum(positives[candidates], axis=0)
            # No candidate has a class that is full already; the first one that fills a class closes others.
            filled = (added >= targets) & (counts < targets)
            last = int(filled.any(axis=1).argmax()) if filled.any() else len(candidates) - 1
            chosen[candidates[: last + 1]] = closed[candidates[: last + 1]] = True
            counts = added[last]
            closed |= positives[:, filled[last]].any(axis=1)
    return np.flatnonzero(chosen)

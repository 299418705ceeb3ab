"""Count the labels of a dataset, and compare the counts before and after labels were changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...utils.arrays import ArrayLike, as_array, row_blocks
from ...utils.frequencies import HEAD_FROM, MEDIUM_FROM, group_classes


@dataclass(frozen=True, eq=False)
class LabelStatistics:
    """Label counts of a dataset of C classes. A value above 0, also a soft one, counts as a label (a positive).

    Attributes:
        counts: (C,) number of images with a label of each class.
        unknown: (C,) number of images where the label of each class is unknown (-1).
        images_by_labels: (L + 1,) number of images with 0, 1, ..., L labels, L the most labels of an image.
        num_soft: Number of soft labels, strictly between 0 and 1.
        label_sum: Sum of all labels above 0; equal to their number if none is soft.
    """

    counts: np.ndarray
    unknown: np.ndarray
    images_by_labels: np.ndarray
    num_soft: int
    label_sum: float

    @property
    def num_classes(self) -> int:
        return len(self.counts)

    @property
    def num_images(self) -> int:
        return int(self.images_by_labels.sum())

    @property
    def num_labels(self) -> int:
        return int(self.counts.sum())

    @property
    def num_unknown(self) -> int:
        return int(self.unknown.sum())

    @property
    def labels_per_image(self) -> float:
        """Mean number of labels per image; NaN for a dataset without images."""
        return self.num_labels / self.num_images if self.num_images else float('nan')

    @property
    def range_of_labels(self) -> tuple[int, int]:
        """Pair (fewest, most) labels of an image; (0, 0) for a dataset without images."""
        numbers = np.flatnonzero(self.images_by_labels)
        return (int(numbers[0]), int(numbers[-1])) if numbers.size else (0, 0)


@dataclass(frozen=True, eq=False)
class LabelSummary:
    """Labels of a dataset before and after they were changed, for example by a dataset wrapper that hides labels.

    Attributes:
        classes: Names of the C classes.
        before: Statistics before any label was hidden and before any image was left out.
        after: Statistics of the labels that the dataset returns.
        hidden: (C,) number of positives in the returned images that the dataset returns as negative or unknown.
        hidden_as_unknown: (C,) number of ``hidden`` labels that the dataset returns as unknown.
        added: (C,) number of labels that the dataset returns as positive although they were not positive before.
        medium_from: Fewest images of a medium class; a class with fewer is a tail class.
        head_from: Fewest images of a head class.
    """

    classes: tuple[str, ...]
    before: LabelStatistics
    after: LabelStatistics
    hidden: np.ndarray
    hidden_as_unknown: np.ndarray
    added: np.ndarray
    medium_from: int = MEDIUM_FROM
    head_from: int = HEAD_FROM

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Dict from ``'head'``, ``'medium'`` and ``'tail'`` to class indices, by the label counts after the change."""
        return group_classes(self.after.counts, medium_from=self.medium_from, head_from=self.head_from)

    @cached_property
    def groups_before(self) -> dict[str, tuple[int, ...]]:
        """Dict from ``'head'``, ``'medium'`` and ``'tail'`` to class indices, by the label counts before the change."""
        return group_classes(self.before.counts, medium_from=self.medium_from, head_from=self.head_from)

    @cached_property
    def order(self) -> np.ndarray:
        """(C,) class indices by descending count after the change; ties by descending count before, then by index."""
        return np.lexsort((np.arange(len(self.classes)), -self.before.counts, -self.after.counts))

    @property
    def num_hidden(self) -> int:
        return int(self.hidden.sum())

    @property
    def num_added(self) -> int:
        return int(self.added.sum())

    @property
    def is_changed(self) -> bool:
        """Whether labels were hidden or added, or counts (of labels, unknown labels, images) or label sum differ."""
        return bool(
            self.num_hidden
            or self.num_added
            or self.before.num_images != self.after.num_images
            or (self.before.counts != self.after.counts).any()
            or (self.before.unknown != self.after.unknown).any()
            or self.before.label_sum != self.after.label_sum
        )

    def to_dict(self) -> dict:
        """Return a dict for JSON: dicts ``before`` and ``after`` with totals, numbers of changes (``num_hidden``, …).

        ``groups`` and ``groups_before`` map each group to its number of classes. The list ``classes`` holds a dict for
        each class: its name, group and counts. ``class_frequencies``, ``num_samples`` and ``known_labels``, counted
        after the change, are the values that losses read from a file of class frequencies.
        """
        group_of = {index: name for name, members in self.groups.items() for index in members}
        per_class = dict(before=self.before.counts, after=self.after.counts, unknown=self.after.unknown)
        per_class |= dict(hidden=self.hidden, hidden_as_unknown=self.hidden_as_unknown, added=self.added)
        return dict(
            class_frequencies=self.after.counts.tolist(),
            num_samples=self.after.num_images,
            known_labels=(self.after.num_images - self.after.unknown).tolist(),
            before=_totals(self.before),
            after=_totals(self.after),
            num_hidden=self.num_hidden,
            num_hidden_as_unknown=int(self.hidden_as_unknown.sum()),
            num_added=self.num_added,
            medium_from=self.medium_from,
            head_from=self.head_from,
            groups={name: len(members) for name, members in self.groups.items()},
            groups_before={name: len(members) for name, members in self.groups_before.items()},
            classes=[
                dict(name=name, group=group_of[index]) | {key: int(counts[index]) for key, counts in per_class.items()}
                for index, name in enumerate(self.classes)
            ],
        )


def label_statistics(labels: ArrayLike) -> LabelStatistics:
    """Count the labels of an (N, C) matrix: 1 positive, 0 negative or unobserved, -1 unknown, or soft in [0, 1]."""
    return _counted(_checked_labels(labels, 'labels'))


def _counted(labels: np.ndarray) -> LabelStatistics:
    counts, unknown = np.zeros((2, labels.shape[1]), dtype=np.int64)
    labels_of_images = np.zeros(len(labels), dtype=np.int64)
    num_soft, label_sum = 0, 0.0
    for rows in row_blocks(*labels.shape):
        block = labels[rows]
        present = block > 0
        counts += present.sum(axis=0)
        unknown += (block < 0).sum(axis=0)
        labels_of_images[rows] = present.sum(axis=1)
        num_soft += int((present & (block < 1)).sum())
        label_sum += float(block[present].sum(dtype=np.float64))
    return LabelStatistics(counts, unknown, np.bincount(labels_of_images, minlength=1), num_soft, label_sum)


def summarize_labels(
    classes: Sequence[str],
    observed: ArrayLike,
    true: ArrayLike | None = None,
    original: ArrayLike | None = None,
    *,
    medium_from: int = MEDIUM_FROM,
    head_from: int = HEAD_FROM,
) -> LabelSummary:
    """Summarise the labels that a dataset returns, and the labels before they were changed.

    Args:
        classes: Names of the C classes.
        observed: (N, C) labels that the dataset returns: 1, 0, -1 for unknown, or soft values in [0, 1].
        true: (N, C) labels of the same images before the change. None if no label was changed.
        original: (M, C) labels of all images, also of those left out, before the change. None if none was left out.
        medium_from: Fewest images of a medium class, by default 20; a class with fewer is a tail class.
        head_from: Fewest images of a head class, by default 100.
    """
    observed = _checked_labels(observed, 'observed')
    true = observed if true is None else _checked_labels(true, 'true')
    original = true if original is None else _checked_labels(original, 'original')
    if true.shape != observed.shape:
        raise ValueError(f'true must have the shape of observed {observed.shape}, got {true.shape}')
    for name, labels in (('observed', observed), ('original', original)):
        if labels.shape[1] != len(classes):
            raise ValueError(f'{name} must have a column for each of {len(classes)} classes, got {labels.shape[1]}')
    hidden, hidden_as_unknown, added = np.zeros((3, len(classes)), dtype=np.int64)
    for rows in row_blocks(*observed.shape):
        were, are = true[rows] > 0, observed[rows] > 0
        hidden += (were & ~are).sum(axis=0)
        hidden_as_unknown += (were & (observed[rows] < 0)).sum(axis=0)
        added += (are & ~were).sum(axis=0)
    after = _counted(observed)
    before = after if original is observed else _counted(original)
    names = tuple(map(str, classes))
    return LabelSummary(names, before, after, hidden, hidden_as_unknown, added, medium_from, head_from)


def describe_labels(summary: LabelSummary, num_extremes: int = 3) -> list[str]:
    """Return lines of text: totals, changes, class groups, and ``num_extremes`` most frequent and rarest classes."""
    after = summary.after
    lines = [_describe_totals(after, f' of {after.num_classes:,} classes')]
    if summary.is_changed:
        lines += [f'before: {_describe_totals(summary.before)}', f'changes: {_describe_changes(summary)}']
    without = int((after.counts == 0).sum())
    lines.append(
        f'{_describe_groups(summary.groups)} classes (head: {summary.head_from:,} images or more, tail: fewer than '
        f'{summary.medium_from:,}'
        + (f'; {without:,} without an image' if without else '')
        + (f'; before: {_describe_groups(summary.groups_before)}' if summary.is_changed else '')
        + ')'
    )
    lines.append(f'most frequent: {_describe_classes(summary, summary.order[:num_extremes])}')
    lines.append(f'rarest: {_describe_classes(summary, summary.order[::-1][:num_extremes])}')
    return lines


def _describe_totals(statistics: LabelStatistics, of_classes: str = '') -> str:
    fewest, most = statistics.range_of_labels
    text = f'{statistics.num_images:,} images, {statistics.num_labels:,} labels{of_classes}'
    if statistics.num_images:
        text += f', {statistics.labels_per_image:.2f} an image ({fewest:,} to {most:,})'
    if statistics.num_soft:
        text += f', {statistics.num_soft:,} of them soft (in sum {statistics.label_sum:,.1f})'
    return text + (f', {statistics.num_unknown:,} unknown' if statistics.num_unknown else '')


def _describe_changes(summary: LabelSummary) -> str:
    changes = []
    after, before = summary.after.num_images, summary.before.num_images
    if after != before:
        changes.append(f'{after:,} of {before:,} images' if after < before else f'{before:,} images become {after:,}')
    had = summary.after.num_labels - summary.num_added + summary.num_hidden
    share = f' of {had:,}' if had else ''
    as_unknown = f' ({summary.hidden_as_unknown.sum():,} as unknown)' if summary.hidden_as_unknown.any() else ''
    changes.append(f'{summary.num_hidden:,}{share} positives hidden{as_unknown}')
    changes.append(f'{summary.num_added:,} added')
    return ', '.join(changes)


def _describe_groups(groups: dict[str, tuple[int, ...]]) -> str:
    return ', '.join(f'{len(members):,} {name}' for name, members in groups.items())


def _describe_classes(summary: LabelSummary, indices: np.ndarray) -> str:
    texts = []
    for index in indices:
        after, before = summary.after.counts[index], summary.before.counts[index]
        texts.append(f'{summary.classes[index]} ({after:,}' + (f', before {before:,})' if before != after else ')'))
    return ', '.join(texts)


def _totals(statistics: LabelStatistics) -> dict:
    return dict(
        num_images=statistics.num_images,
        num_labels=statistics.num_labels,
        labels_per_image=statistics.labels_per_image if statistics.num_images else None,
        images_by_labels=statistics.images_by_labels.tolist(),
        num_unknown=statistics.num_unknown,
        num_soft=statistics.num_soft,
        label_sum=statistics.label_sum,
    )


def _checked_labels(labels: ArrayLike, name: str) -> np.ndarray:
    array = as_array(labels)
    if array.ndim != 2 or array.dtype.kind not in 'fiub':
        raise ValueError(f'{name} must be numbers of the shape (images, classes), got {array.dtype} {array.shape}')
    for rows in row_blocks(*array.shape):
        block = array[rows]
        fits = (block == -1) | ((block >= 0) & (block <= 1))
        if not fits.all():  # NaN does not fit, either
            raise ValueError(f'{name} must be 1, 0, -1 for unknown, or between 0 and 1, got {block[~fits][0]}')
    return array

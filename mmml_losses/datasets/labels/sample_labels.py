"""The labels of a dataset as one array, with a name for each sample."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

POSITIVE, NEGATIVE, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class SampleLabels:
    """Labels of a dataset, in the order of its samples.

    Attributes:
        classes: Names of the C classes.
        keys: Names of the N samples, equal on every machine, such as image paths relative to the image folder.
        labels: (N, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.
        areas: (N, C) float32 area of each class's largest object in a sample, NaN where unknown; None if all are
            unknown or were not requested. Areas of one sample are comparable, but not always between samples.
        images: Names of the images of the N samples, which samples may share; None if they are ``keys``.
        true: (N, C) int8 labels before all label wrappers; None if they are ``labels``.
    """

    classes: tuple[str, ...]
    keys: Sequence[str]
    labels: np.ndarray
    areas: np.ndarray | None = None
    images: Sequence[str] | None = None
    true: np.ndarray | None = None

    @property
    def image_names(self) -> Sequence[str]:
        """Names of the images of the N samples."""
        return self.keys if self.images is None else self.images

    @property
    def true_labels(self) -> np.ndarray:
        """Labels before all label wrappers, (N, C) int8."""
        return self.labels if self.true is None else self.true

    def take(self, positions: np.ndarray) -> 'SampleLabels':
        """Return a :class:`SampleLabels` of the samples at ``positions``, in that order; repeats are allowed."""
        return SampleLabels(
            self.classes,
            [self.keys[position] for position in positions],
            self.labels[positions],
            None if self.areas is None else self.areas[positions],
            None if self.images is None else [self.images[position] for position in positions],
            None if self.true is None else self.true[positions],
        )

    def fingerprint(self) -> dict[str, int | str]:
        """Return a dict of counts ``samples``, ``positives`` and SHA-256 sums ``keys_sha256``, ``labels_sha256``."""
        return dict(
            samples=len(self.labels),
            positives=int((self.labels == POSITIVE).sum()),
            keys_sha256=_sha256('\0'.join(self.keys).encode('utf-8', 'surrogateescape')),
            labels_sha256=_sha256(np.ascontiguousarray(self.labels, dtype=np.int8).data),
        )


def fill_rows(labels: np.ndarray, rows: Sequence[Sequence[int]], value: int) -> None:
    """Set ``labels[i, j] = value`` in place for every class index j of ``rows[i]``."""
    num_samples, num_classes = labels.shape
    if len(rows) != num_samples:
        raise ValueError(f'there must be {num_samples} rows of class indices, got {len(rows)}')
    columns = np.array(list(chain.from_iterable(rows)))
    if columns.size == 0:
        return
    if columns.dtype.kind not in 'iu':
        raise ValueError('class indices must be integers')
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=num_samples)
    samples = np.repeat(np.arange(num_samples), lengths)
    outside = (columns < 0) | (columns >= num_classes)
    if outside.any():
        first = int(outside.argmax())
        raise ValueError(
            f'class indices must be from 0 to {num_classes - 1}, got {columns[first]} for sample {samples[first]}'
        )
    labels[samples, columns] = value


def columns_of(mask: np.ndarray) -> list[list[int]]:
    """Return, for each row of a bool matrix, the list of columns that are true."""
    ends = np.cumsum(mask.sum(axis=1)).tolist()
    columns = np.nonzero(mask)[1].tolist()
    return [columns[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()

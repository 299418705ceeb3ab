"""Labels as a small json file that fits one dataset and no other."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from ..evaluation.files import replacing
from .errors import AnnotationError, MissingDataError

# Stands in each file and changes when its content does.
FORMAT = 'mmml_losses.labels/1'
POSITIVE, NEGATIVE, UNKNOWN = 1, 0, -1
VALUES = dict(positives=POSITIVE, negatives=NEGATIVE, unknown=UNKNOWN)


@dataclass(frozen=True)
class SampleLabels:
    """The labels of a dataset, in its order.

    Attributes:
        classes: Names of the C classes.
        keys: A name for each of the N samples that is the same on every machine, such as its file's below the folder
            of the images.
        labels: (N, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.
    """

    classes: tuple[str, ...]
    keys: Sequence[str]
    labels: np.ndarray

    def fingerprint(self) -> dict[str, int | str]:
        """What tells this dataset from every other one: a few numbers and two checksums."""
        return dict(
            samples=len(self.labels),
            positives=int((self.labels == POSITIVE).sum()),
            keys_sha256=_sha256('\0'.join(self.keys).encode('utf-8', 'surrogateescape')),
            labels_sha256=_sha256(np.ascontiguousarray(self.labels, dtype=np.int8)),
        )


@dataclass(frozen=True)
class LabelFile:
    """The content of a label file.

    Attributes:
        path: Where it lies.
        classes: Names of the C classes.
        labels: (N, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.
        source: The fingerprint of the dataset it was made for, see :meth:`SampleLabels.fingerprint`.
        made_by: How it was made, in words and numbers.
    """

    path: str
    classes: tuple[str, ...]
    labels: np.ndarray
    source: Mapping[str, int | str]
    made_by: Mapping

    def labels_for(self, samples: SampleLabels) -> np.ndarray:
        """The labels, if ``samples`` is the dataset that they were made for.

        Raises:
            AnnotationError: It is another one; the message says what differs.
        """
        difference = self._difference(samples)
        if difference:
            raise AnnotationError(f'{self.path} does not fit the dataset: {difference}')
        return self.labels

    def _difference(self, samples: SampleLabels) -> str:
        if len(self.classes) != len(samples.classes):
            return f'the file has {len(self.classes)} classes, the dataset {len(samples.classes)}'
        for index, (own, other) in enumerate(zip(self.classes, samples.classes, strict=True)):
            if own != other:
                return f'class {index} is {own!r} in the file and {other!r} in the dataset'
        if len(self.labels) != len(samples.labels):
            return f'the file has {len(self.labels)} samples, the dataset {len(samples.labels)}'
        found = samples.fingerprint()
        if self.source['keys_sha256'] != found['keys_sha256']:
            return 'the file was made for other images, or for the same ones in another order'
        if self.source['labels_sha256'] != found['labels_sha256']:
            return (
                f'the file was made from other labels of the same images ({self.source["positives"]} positives, '
                f'now {found["positives"]})'
            )
        return ''


def save_label_file(path: str | os.PathLike, labels: np.ndarray, samples: SampleLabels, made_by: Mapping) -> None:
    """Write labels for a dataset, whole or not at all. A file of that name is replaced.

    The file is json: positive class indices for each sample, and where there are unknown labels either those or the
    negatives, whichever are fewer. It also holds the class names, the fingerprint of the dataset and ``made_by``, and
    nothing that changes from one machine or day to the next.

    Args:
        path: Where to write; must end with ``.json``.
        labels: (N, C) with 1 positive, 0 negative or unobserved, -1 unknown.
        samples: The dataset as it is, whose samples the labels belong to.
        made_by: How the labels were made, in json's types.
    """
    path = checked_json_path(path)
    labels = np.asarray(labels)
    if labels.shape != samples.labels.shape:
        raise ValueError(f'labels must have the shape of the samples {samples.labels.shape}, got {labels.shape}')
    counts = _counts(labels)
    if sum(counts.values()) != labels.size:
        raise ValueError('labels must be 1 (positive), 0 (negative) or -1 (unknown)')
    content = dict(
        format=FORMAT,
        made_by=dict(made_by),
        classes=list(samples.classes),
        source=samples.fingerprint(),
        counts=counts,
        **{name: _rows(labels == VALUES[name]) for name in _listed(counts)},
    )
    # A line for each entry: the first ones tell a reader everything but the labels themselves.
    lines = [f'{json.dumps(key)}: {json.dumps(value, separators=(",", ":"))}' for key, value in content.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text('{\n' + ',\n'.join(lines) + '\n}\n', encoding='utf-8')


def load_label_file(path: str | os.PathLike) -> LabelFile:
    """Read the file that :func:`save_label_file` wrote; :meth:`LabelFile.labels_for` gives it to its dataset.

    Raises:
        MissingDataError: There is no such file.
        AnnotationError: It is no label file, or a damaged one.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f'label file {path} does not exist', [str(path)])
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
        if not isinstance(content, dict) or content.get('format') != FORMAT:
            found = content.get('format') if isinstance(content, dict) else None
            raise ValueError(f'its format is {found!r}, expected {FORMAT!r}')
        return _parse(str(path), content)
    except KeyError as error:
        raise AnnotationError(f'{path} is not a label file: it has no {error}') from error
    except (ValueError, TypeError, RecursionError) as error:
        raise AnnotationError(f'{path} is not a label file: {error}') from error


def checked_json_path(path: str | os.PathLike, name: str = 'path') -> Path:
    """Read a path that must end with ``.json``."""
    path = Path(path)
    if path.suffix != '.json':
        raise ValueError(f"{name} must end with '.json', got '{path}'")
    return path


def fill_rows(labels: np.ndarray, rows: Sequence[Sequence[int]], value: int) -> None:
    """Set ``labels[i, j] = value`` for every class index j in row i.

    Args:
        labels: (N, C) array, changed in place.
        rows: N lists of class indices.
        value: What to set.
    """
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


def _parse(path: str, content: dict) -> LabelFile:
    source, classes = content['source'], content['classes']
    for name, kind in dict(samples=int, positives=int, keys_sha256=str, labels_sha256=str).items():
        if not isinstance(source[name], kind):
            raise ValueError(f'{name} of its source must be {kind.__name__}, got {source[name]!r}')
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise ValueError('its classes must be a list of names')
    unlisted = UNKNOWN if 'negatives' in content else NEGATIVE
    labels = np.full((len(content['positives']), len(classes)), unlisted, dtype=np.int8)
    if len(labels) != source['samples']:
        raise ValueError(f'its labels are damaged: it has {len(labels)} samples, and once had {source["samples"]}')
    for name, value in VALUES.items():
        if name in content:
            fill_rows(labels, content[name], value)
    counts = _counts(labels)
    # Also notices an index that stands twice, or in two lists.
    if counts != content['counts']:
        raise ValueError(f'its labels are damaged: it has {counts}, and once had {content["counts"]}')
    return LabelFile(path, tuple(classes), labels, source, content['made_by'])


def _listed(counts: Mapping[str, int]) -> list[str]:
    """Which kinds of labels must be written; the others go without saying."""
    if counts['unknown'] == 0:
        return ['positives']
    return ['positives', 'unknown' if counts['unknown'] <= counts['negatives'] else 'negatives']


def _counts(labels: np.ndarray) -> dict[str, int]:
    return {name: int((labels == value).sum()) for name, value in VALUES.items()}


def _rows(mask: np.ndarray) -> list[list[int]]:
    """The column indices of each row, as plain lists."""
    ends = np.cumsum(mask.sum(axis=1)).tolist()
    columns = np.nonzero(mask)[1].tolist()
    return [columns[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sha256(content: bytes | np.ndarray) -> str:
    return hashlib.sha256(content).hexdigest()

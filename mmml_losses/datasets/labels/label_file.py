"""Label files: small json files with labels, each for one particular dataset."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...utils.arguments import check_suffix
from ...utils.errors import AnnotationError, MissingDataError
from ...utils.files import replacing
from .sample_labels import NEGATIVE, POSITIVE, UNKNOWN, SampleLabels, columns_of, fill_rows

# Written to each file; changes whenever the format does.
FORMAT = 'mmml_losses.labels/2'
VALUES = dict(positives=POSITIVE, negatives=NEGATIVE, unknown=UNKNOWN)
SOURCE = dict(samples=int, positives=int, keys_sha256=str, sorted_keys_sha256=str, labels_sha256=str)


@dataclass(frozen=True)
class LabelFile:
    """Content of a label file, which has labels for one particular dataset.

    Attributes:
        path: Path of the file.
        classes: Names of the C classes.
        labels: (K, C) int8 labels of the K stored samples: 1 positive, 0 negative or unobserved, -1 unknown.
        selected: (K,) positions of these samples in the dataset; None if they are all samples in dataset order.
        source: Counts and checksums of the dataset: :meth:`SampleLabels.fingerprint` and ``sorted_keys_sha256``.
        made_by: How the labels were made, a mapping of json values.
    """

    path: str
    classes: tuple[str, ...]
    labels: np.ndarray
    selected: np.ndarray | None
    source: Mapping[str, int | str]
    made_by: Mapping

    def check_fit(self, samples: SampleLabels) -> None:
        """Raise an AnnotationError that names the first difference if ``samples`` are of another dataset."""
        difference = self._difference(samples)
        if difference:
            raise AnnotationError(f'{self.path} does not fit the dataset: {difference}')

    def _difference(self, samples: SampleLabels) -> str:
        if len(self.classes) != len(samples.classes):
            return f'the file has {len(self.classes)} classes, the dataset {len(samples.classes)}'
        for index, (own, other) in enumerate(zip(self.classes, samples.classes, strict=True)):
            if own != other:
                return f'class {index} is {own!r} in the file and {other!r} in the dataset'
        found = _fingerprint(samples)
        texts = dict(
            samples=f'the file was made for {self.source["samples"]} samples, the dataset has {found["samples"]}',
            sorted_keys_sha256='the file was made for other images',
            keys_sha256='the file was made for the same images in another order',
            labels_sha256=f'the file was made from other labels of the same images ({self.source["positives"]} '
            f'positives, now {found["positives"]})',
        )
        return next((text for key, text in texts.items() if self.source[key] != found[key]), '')


def save_label_file(
    path: str | os.PathLike,
    labels: np.ndarray,
    samples: SampleLabels,
    made_by: Mapping,
    selected: Sequence[int] | np.ndarray | None = None,
) -> None:
    """Write labels for a dataset to a json file. An existing file is replaced only by a complete one.

    The file has the positive class indices of each sample. With unknown labels, it also has either the unknown or the
    negative labels, whichever are fewer, as class indices or, if over 1/16 of all labels, as base64 bits. It also has
    the class names, checksums of the dataset and the file's content, and ``made_by``. Equal input gives equal files.

    Args:
        path: The file to write; its name must end with ``.json``.
        labels: (K, C) labels to save: 1 positive, 0 negative or unobserved, -1 unknown.
        samples: All samples of the dataset with its own labels, from :func:`read_labels`, to identify the dataset.
        made_by: How the labels were made, a mapping of json values.
        selected: (K,) dataset position of each row of ``labels``, in any order, repeats allowed. By default the rows
            are all samples in dataset order.
    """
    path = check_suffix('path', path, '.json')
    labels = np.asarray(labels)
    selected = None if selected is None else _checked_positions(selected, len(samples.labels), 'selected')
    shape = (len(samples.labels) if selected is None else len(selected), len(samples.classes))
    if labels.shape != shape:
        raise ValueError(f'labels must have the shape of the samples {shape}, got {labels.shape}')
    counts = _counts(labels)
    if sum(counts.values()) != labels.size:
        raise ValueError('labels must be 1 (positive), 0 (negative) or -1 (unknown)')
    head = dict(
        format=FORMAT,
        made_by=json.loads(json.dumps(dict(made_by))),  # in json's types, as for the checksum of a reader
        classes=list(samples.classes),
        source=_fingerprint(samples),
        counts=counts,
    )
    body = {} if selected is None else dict(selected=selected.tolist())
    # Labels that are not listed have the third value, see _parse.
    listed = ['unknown' if counts['unknown'] <= counts['negatives'] else 'negatives'] if counts['unknown'] else []
    body |= {name: _encoded(labels == VALUES[name], name) for name in ('positives', *listed)}
    content = head | dict(content_sha256=_checksum(head | body)) | body
    # A line for each entry; the labels come last.
    lines = [f'{json.dumps(key)}: {json.dumps(value, separators=(",", ":"))}' for key, value in content.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        # As bytes, which have the same line ends on every system.
        temporary.write_bytes(('{\n' + ',\n'.join(lines) + '\n}\n').encode('ascii'))


def load_label_file(path: str | os.PathLike) -> LabelFile:
    """Read a file that :func:`save_label_file` wrote. To compare it with a dataset, call :meth:`LabelFile.check_fit`.

    Raises:
        MissingDataError: The file does not exist.
        AnnotationError: The file is not a label file, or was damaged or changed by hand.
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


def _parse(path: str, content: dict) -> LabelFile:
    source, classes = content['source'], content['classes']
    for name, kind in SOURCE.items():
        if not isinstance(source[name], kind):
            raise ValueError(f'{name} of its source must be {kind.__name__}, got {source[name]!r}')
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise ValueError('its classes must be a list of names')
    selected, count = None, source['samples']
    if 'selected' in content:
        selected = _checked_positions(content['selected'], count, 'its selected')
        count = len(selected)
    if len(content['positives']) != count:
        raise ValueError(f'its labels are damaged: it has {len(content["positives"])} samples, and once had {count}')
    unlisted = UNKNOWN if 'negatives' in content else NEGATIVE
    labels = np.full((count, len(classes)), unlisted, dtype=np.int8)
    for name, value in VALUES.items():
        if name != 'positives' and isinstance(content.get(name), str):
            labels[_from_bits(content[name], labels.shape)] = value
        elif name in content:
            fill_rows(labels, content[name], value)
    counts = _counts(labels)
    # Also detects an index that is repeated, or in two lists.
    if counts != content['counts']:
        raise ValueError(f'its labels are damaged: it has {counts}, and once had {content["counts"]}')
    if content['content_sha256'] != _checksum({key: content[key] for key in content if key != 'content_sha256'}):
        raise ValueError('it was changed after it was written: its content does not give its checksum')
    return LabelFile(path, tuple(classes), labels, selected, source, content['made_by'])


def _fingerprint(samples: SampleLabels) -> dict[str, int | str]:
    """Return ``samples.fingerprint()`` with ``sorted_keys_sha256``, the checksum of the sorted sample names."""
    ordered = SampleLabels(samples.classes, sorted(samples.keys), samples.labels[:0])
    return samples.fingerprint() | dict(sorted_keys_sha256=ordered.fingerprint()['keys_sha256'])


def _checked_positions(positions: Sequence[int] | np.ndarray, count: int, name: str) -> np.ndarray:
    positions = np.asarray(positions)
    if positions.ndim != 1 or (positions.size and positions.dtype.kind not in 'iu'):
        raise ValueError(f'{name} must be a list of positions')
    outside = positions[(positions < 0) | (positions >= count)]
    if outside.size:
        raise ValueError(f'{name} must be positions from 0 to {count - 1}, got {outside[0]}')
    return positions.astype(np.int64)


def _checksum(content: Mapping) -> str:
    """Return the SHA-256 of json content as hex digits; it does not depend on spaces or the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(',', ':')).encode('ascii')).hexdigest()


def _counts(labels: np.ndarray) -> dict[str, int]:
    return {name: int((labels == value).sum()) for name, value in VALUES.items()}


def _encoded(mask: np.ndarray, name: str) -> list[list[int]] | str:
    """Return each row's true columns, or all bits as base64 if over 1/16 is true and ``name`` not ``'positives'``."""
    if name == 'positives' or mask.sum() <= mask.size // 16:
        return columns_of(mask)
    return base64.b64encode(np.packbits(mask).tobytes()).decode('ascii')


def _from_bits(text: str, shape: tuple[int, int]) -> np.ndarray:
    bits = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    size = shape[0] * shape[1]
    if len(bits) != -(-size // 8):
        raise ValueError(f'its labels are damaged: it has {8 * len(bits)} bits, and once had {size}')
    return np.unpackbits(bits, count=size).reshape(shape).astype(bool)

"""Labels as a small json file that fits one dataset and no other."""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...utils.errors import AnnotationError, MissingDataError
from ...utils.files import replacing
from .sample_labels import NEGATIVE, POSITIVE, UNKNOWN, SampleLabels, columns_of, fill_rows

# Written to each file; changes whenever the format does.
FORMAT = 'mmml_losses.labels/2'
VALUES = dict(positives=POSITIVE, negatives=NEGATIVE, unknown=UNKNOWN)
SOURCE = dict(samples=int, positives=int, keys_sha256=str, sorted_keys_sha256=str, labels_sha256=str)


@dataclass(frozen=True)
class LabelFile:
    """The content of a label file.

    Attributes:
        path: The file.
        classes: Names of the C classes.
        labels: (K, C) int8 with 1 positive, 0 negative or unobserved, -1 unknown.
        selected: (K,) positions of the labelled samples in the dataset; None for all samples in their order.
        source: Identifies the dataset that it was made for, see :meth:`SampleLabels.fingerprint`.
        made_by: How it was made, in words and numbers.
    """

    path: str
    classes: tuple[str, ...]
    labels: np.ndarray
    selected: np.ndarray | None
    source: Mapping[str, int | str]
    made_by: Mapping

    def check_fit(self, samples: SampleLabels) -> None:
        """Raise an AnnotationError that names the difference if the labels were made for another dataset."""
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
    """Write labels for a dataset, whole or not at all. A file of that name is replaced.

    The file is json. It holds the positive class indices of each sample; and, where there are unknown labels, the
    unknown or the negative ones, whichever are fewer, as class indices or as bits if they are many. It also holds the
    class names, checksums of the dataset and of its own content, and ``made_by``. Equal labels give equal files.

    Args:
        path: Where to write; must end with ``.json``.
        labels: (K, C) with 1 positive, 0 negative or unobserved, -1 unknown.
        samples: The samples that the labels belong to, with the labels of the dataset.
        made_by: How the labels were made, in json's types.
        selected: (K,) positions of the labelled samples in the dataset, in any order and also more than once; by
            default all samples in their order.
    """
    path = checked_json_path(path)
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
    # All other labels are of the third kind.
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
    """Read the file that :func:`save_label_file` wrote; :meth:`LabelFile.check_fit` compares it with a dataset.

    Raises:
        MissingDataError: There is no such file.
        AnnotationError: It is no label file, or one that was damaged or changed by hand.
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
    """Return a path that ends with ``.json``; raise a ValueError that names the argument for another path."""
    path = Path(path)
    if path.suffix != '.json':
        raise ValueError(f"{name} must end with '.json', got '{path}'")
    return path


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
    """Return counts and checksums that identify a dataset; one checksum does not depend on the order of its samples."""
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
    """Return the checksum of json content, which does not depend on its layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(',', ':')).encode('ascii')).hexdigest()


def _counts(labels: np.ndarray) -> dict[str, int]:
    return {name: int((labels == value).sum()) for name, value in VALUES.items()}


def _encoded(mask: np.ndarray, name: str) -> list[list[int]] | str:
    """Return a mask as class indices of each sample; or as bits if far shorter, unless ``name`` is ``'positives'``."""
    if name == 'positives' or mask.sum() <= mask.size // 16:
        return columns_of(mask)
    return base64.b64encode(np.packbits(mask).tobytes()).decode('ascii')


def _from_bits(text: str, shape: tuple[int, int]) -> np.ndarray:
    bits = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    size = shape[0] * shape[1]
    if len(bits) != -(-size // 8):
        raise ValueError(f'its labels are damaged: it has {8 * len(bits)} bits, and once had {size}')
    return np.unpackbits(bits, count=size).reshape(shape).astype(bool)

"""Datasets whose labels come from a file."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from ..labels.label_file import LabelFile, load_label_file
from ..labels.sample_labels import NEGATIVE, POSITIVE, UNKNOWN, SampleLabels
from ..readers.feature_dataset import FeatureDataset
from .label_wrapper import LabelWrapper

LIST_ENDINGS = ('.txt', '.txt.gz')
# Enough for some million images; a small archive of more text could fill the memory.
LARGEST_TEXT = 2**28


@DATASETS.register_module()
class Relabelled(LabelWrapper):
    """Any multi-label dataset whose labels are replaced by the labels of a file.

    ``tools/make_labels.py`` writes labels drawn by label wrappers to a ``.json`` file, ``tools/pseudo_label.py``
    corrected labels. The file may also choose some of the samples. A file that was made for another dataset is
    rejected: with other classes, images, order, or labels before the change. So is a file that was changed afterwards.
    A ``.txt`` or ``.txt.gz`` file is a published list of positives, see :func:`read_label_list`.

    Args:
        dataset, lazy_init: The wrapped dataset, and whether to load it later, see :class:`LabelWrapper`.
        labels: Path of the label file, ``.json``, ``.txt`` or ``.txt.gz``.

    Example:
        >>> dataset = Relabelled(dict(type='mmml_losses.DigitScenes', split='train'), labels='pseudo_labels.json')
        >>> dataset.get_data_info(0)['gt_label']
        [1, 4, 7]
    """

    def __init__(self, dataset: BaseDataset | dict, labels: str | os.PathLike, lazy_init: bool = False):
        self.label_file = str(Path(labels).expanduser())
        self._content: LabelFile | None = None
        if not self.label_file.endswith(('.json', *LIST_ENDINGS)):
            raise ValueError(f"labels must be a file '.json', '.txt' or '.txt.gz', got '{self.label_file}'")
        # Fail before the wrapped dataset is read, which may take a while.
        if not lazy_init and self.missing_files():
            raise MissingDataError(f'label file {self.label_file} does not exist', self.missing_files())
        super().__init__(dataset, lazy_init=lazy_init)

    def missing_files(self) -> list[str]:
        """Return [path of the label file] if it does not exist, else []; files of ``dataset`` are not checked."""
        return [] if Path(self.label_file).is_file() else [self.label_file]

    def settings(self) -> dict:
        """Return a dict of ``type``, ``labels`` (name of the label file) and ``sha256`` (checksum of the file)."""
        file = Path(self.label_file)
        return super().settings() | dict(labels=file.name, sha256=hashlib.sha256(file.read_bytes()).hexdigest())

    def select(self, samples: SampleLabels) -> np.ndarray | None:
        """Return the indices of the samples that the label file lists, (N,), or None if it lists all.

        Raise an AnnotationError if the label file was made for another dataset.
        """
        if self.label_file.endswith(LIST_ENDINGS):
            return None
        self._content = load_label_file(self.label_file)
        self._content.check_fit(samples)
        return self._content.selected

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the labels of the samples in the label file, (N, C) int8 with 1, 0 and -1."""
        if self._content is None:
            return read_label_list(self.label_file, samples)
        labels, self._content = self._content.labels, None
        return labels


@DATASETS.register_module()
class StoredLabels(LabelWrapper):
    """A :class:`FeatureDataset` of true labels, with observed labels from another array of the same file.

    Training on the observed labels alone needs no wrapper (``FeatureDataset(labels=...)``). With this wrapper, hooks
    and analyses can read both the observed and the true labels, as with every label wrapper.

    Args:
        dataset, lazy_init: The dataset with the true labels, and whether to load it later, see :class:`LabelWrapper`.
        labels: Name of the array of the observed labels, with 1, 0 and -1.

    Example:
        >>> full = dict(type='mmml_losses.FeatureDataset', ann_file='features.npz', split='train', labels='train_full')
        >>> dataset = StoredLabels(full, labels='train_40')
    """

    arguments = ('labels',)

    def __init__(self, dataset: FeatureDataset | dict, labels: str, lazy_init: bool = False):
        self.labels = labels
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the observed labels, (N, C) int8, from the array ``labels`` of the feature file."""
        if not isinstance(self.dataset, FeatureDataset):
            raise TypeError(f'dataset must be a FeatureDataset, got {type(self.dataset).__name__}')
        labels = self.dataset.label_array(self.labels)
        if labels.dtype != np.int8:
            raise AnnotationError(f'{self.dataset.ann_file}, array {self.labels!r}: labels must be 1, 0 or -1')
        return labels


def read_label_list(path: str | os.PathLike, samples: SampleLabels) -> np.ndarray:
    """Read the labels of a dataset from a published text file that lists the positives of each image.

    The lists of the Hill and SPLC paper are of this kind: COCO's training images of 2014 with 75 % or 40 % of their
    labels, or a single one. Lines, in any order, have an image's file name (or path, as in ``samples.keys``), a comma
    and the indices of its positive classes with spaces between: ``a.jpg,0 7``. All other labels are 0, or stay unknown.

    A list only hides labels. A positive that the dataset does not have raises an AnnotationError: the list was made
    from other annotations, or has other class indices. A list of fewer or other images raises it, too.

    Args:
        path: The list, ``.txt`` or ``.txt.gz``.
        samples: The samples and labels of the dataset.

    Returns:
        (N, C) int8 with 1 positive, 0 unobserved, -1 unknown, in the order of ``samples``.
    """
    names, numbers, listed = _parse(path, _read_text(path), len(samples.classes))
    position = {name: at for at, name in enumerate(names)}
    lines = np.array([position.get(name, -1) for name in _names_of_images(path, names, samples.keys)], dtype=np.int64)
    foreign = np.setdiff1d(np.arange(len(names)), lines)
    if len(foreign):
        raise AnnotationError(
            f'{path}, line {numbers[foreign[0]]}: the dataset has no image {names[foreign[0]]!r}'
            + (f', the first of {len(foreign):,} such lines' if len(foreign) > 1 else '')
        )
    missing = np.flatnonzero(lines < 0)
    if len(missing):
        empty = not (samples.labels[missing] == POSITIVE).any()
        raise AnnotationError(
            f'{path} does not fit the dataset: it lacks {len(missing):,} of the {len(lines):,} images, the first is '
            f'{samples.keys[missing[0]]!r}'
            + ('; none of them has a label: drop_empty=True leaves such images out' if empty else '')
        )
    observed = listed[lines]
    extra = np.argwhere(observed & (samples.labels != POSITIVE))
    if len(extra):
        row, column = extra[0]
        raise AnnotationError(
            f'{path}, line {numbers[lines[row]]}: {samples.keys[row]!r} has the class {column} '
            f'({samples.classes[column]}) in the list and not in the dataset, the first of {len(extra):,} such labels; '
            'a list must name labels that the dataset has'
        )
    labels = np.where(samples.labels == UNKNOWN, np.int8(UNKNOWN), np.int8(NEGATIVE))
    labels[observed] = POSITIVE
    return labels


def _read_text(path: str | os.PathLike) -> str:
    if not Path(path).is_file():
        raise MissingDataError(f'label file {path} does not exist', [str(path)])
    try:
        with (gzip.open if os.fspath(path).endswith('.gz') else open)(path, 'rb') as file:
            content = file.read(LARGEST_TEXT + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise AnnotationError(f'{path} is not a gzip file, or a damaged one: {error}') from error
    if len(content) > LARGEST_TEXT:
        raise AnnotationError(f'{path} must be a list of at most {LARGEST_TEXT:,} bytes of text, got more')
    try:
        return content.decode('utf-8')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise AnnotationError(f'{path}, line {line}: it must be text in UTF-8, got {error}') from error


def _parse(path: str | os.PathLike, text: str, num_classes: int) -> tuple[list[str], list[int], np.ndarray]:
    """Parse ``text`` of ``path``, lines ``image,class class``; return (M names, line numbers, positives (M, C))."""
    index_of = {str(index): index for index in range(num_classes)}
    names, numbers, lengths, columns = [], [], [], []
    first: dict[str, int] = {}
    for number, line in enumerate(text.split('\n'), start=1):
        name, _, classes = line.rpartition(',')
        name = name.strip()
        if not name:
            if not line.strip():
                continue
            raise AnnotationError(
                f"{path}, line {number}: a line must be 'file name,class class', got {line[:80].strip()!r}"
            )
        try:
            indices = [index_of[index] for index in classes.split()]
        except KeyError as error:
            raise AnnotationError(
                f'{path}, line {number}: class indices must be from 0 to {num_classes - 1}, got {error}'
            ) from None
        if len(indices) > 1 and len(set(indices)) < len(indices):
            raise AnnotationError(f'{path}, line {number}: a class appears twice in {classes.strip()!r}')
        if first.setdefault(name, number) != number:
            raise AnnotationError(f'{path}, line {number}: {name!r} is in line {first[name]} already')
        names.append(name)
        numbers.append(number)
        lengths.append(len(indices))
        columns.extend(indices)
    listed = np.zeros((len(names), num_classes), dtype=bool)
    listed[np.repeat(np.arange(len(names)), lengths), np.asarray(columns, dtype=np.int64)] = True
    return names, numbers, listed


def _names_of_images(path: str | os.PathLike, listed: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return ``keys`` (paths) if any ``listed`` name has a folder, else file names; an error if paths share one."""
    if any('/' in name for name in listed):
        return list(keys)
    names = [key[key.rfind('/') + 1 :] for key in keys]
    # A dataset may have an image more than once, but not two images of one name.
    key_of = dict(zip(names, keys, strict=True))
    for name, key in zip(names, keys, strict=True):
        if key_of[name] != key:
            raise AnnotationError(
                f'{path} has no folders: it cannot tell the images {key!r} and {key_of[name]!r} apart'
            )
    return names

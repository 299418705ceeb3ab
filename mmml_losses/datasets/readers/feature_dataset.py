"""Precomputed features with labels, as a dataset; a linear or MLP head trains on them in seconds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from mmengine.dataset import force_full_init

from ...registry import DATASETS
from ...utils.errors import AnnotationError
from ...utils.files import FeatureFile
from ..labels.sample_labels import NEGATIVE, POSITIVE, UNKNOWN, columns_of
from .annotation_files import reject_repeated
from .reader import MultiLabelReader

BLOCK = 1024


@DATASETS.register_module()
class FeatureDataset(MultiLabelReader):
    """Precomputed features and labels of an ``.npz`` file, such as ``tools/extract_features.py`` writes.

    The file holds ``features``, (N, D) floats, and ``labels``, (N, C), each 1 positive, 0 negative, -1 unknown, or
    soft between 0 and 1. Optional arrays are ``ids`` (N,), sample ids as integers or text, and ``classes`` (C,), the
    class names. One file may hold several splits, as ``train_features``, ``train_labels`` and so on, which share
    ``classes``. Pickled arrays are rejected.

    Uncompressed features (``numpy.savez``) stay on disk, and dataloader workers share the system's file cache;
    compressed features are read into memory. Each sample has ``features``, (D,), copied before ``pipeline`` runs;
    ``gt_label`` and ``gt_score`` as in :class:`MultiLabelReader`; ``img_id``, the id, if the file has ids; and
    ``sample_name``, the id as text, or else the row number.

    Args:
        ann_file: The ``.npz`` file.
        split: Prefix of the default array names: ``'train'`` means ``train_features``, ``train_labels`` and
            ``train_ids``. By default there is no prefix.
        features: Full name of the feature array, in place of the default name; ``split`` adds no prefix to it.
        labels: Full name of the label array, in place of the default name.
        ids: Full name of the id array, in place of the default name; the array must then exist.
        classes: Name of the array of class names, in place of ``'classes'``; the array must then exist. In a file
            without class names, the class indices are the names.
        data_root: Folder that ``ann_file`` is relative to.
        metainfo: Dict whose ``classes`` selects some of the classes by name and fixes their order.
        pipeline: Transforms of the data info, whose ``features`` are (D,).
        **kwargs: ``drop_empty`` and further arguments of :class:`mmengine.dataset.BaseDataset`.

    Example:
        >>> dataset = FeatureDataset('features.npz', split='train')
        >>> dataset.get_data_info(0)['features'].shape
        (1280,)
    """

    def __init__(
        self,
        ann_file: str,
        split: str = '',
        *,
        features: str | None = None,
        labels: str | None = None,
        ids: str | None = None,
        classes: str | None = None,
        data_root: str = '',
        metainfo: Mapping | None = None,
        pipeline: Sequence[dict | Callable] = (),
        **kwargs,
    ):
        prefix = f'{split}_' if split else ''
        self.features_name = features or f'{prefix}features'
        self.labels_name = labels or f'{prefix}labels'
        # Only arrays with a given name must exist.
        self.ids_name, self.needs_ids = ids or f'{prefix}ids', ids is not None
        self.classes_name, self.needs_classes = classes or 'classes', classes is not None
        super().__init__(ann_file, data_root, metainfo=metainfo, pipeline=[_copy_features, *pipeline], **kwargs)

    def image_folders(self) -> list[str]:
        """Return an empty list, because a feature file needs no images."""
        return []

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each sample: sparse labels, ``row`` (index in the arrays) and, if stored, ``img_id``."""
        file = FeatureFile(self.ann_file)
        self._features = file.array(self.features_name)
        features = self._features.values
        if features.ndim != 2 or features.dtype.kind != 'f' or not features.size:
            raise self._error(self.features_name, 'features must be floats (N, D)', features)
        labels = file.array(self.labels_name).values
        if labels.ndim != 2:
            raise self._error(self.labels_name, 'labels must be (N, C)', labels)
        self._choose_columns(file, labels.shape[1])
        ids = self._read_names(file, self.ids_name, self.needs_ids, len(features))
        for row, sample in enumerate(sparse_labels(self._checked_labels(labels, self.labels_name))):
            sample['row'] = row
            if ids is not None:
                sample['img_id'] = ids[row]
            yield sample

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Return a sample's dict before ``pipeline``; do not change ``features``, (D,), a row of the stored array."""
        info = super().get_data_info(idx)
        row = info.pop('row')
        info['features'] = self._features.values[row]
        info['sample_name'] = str(info.get('img_id', row))
        return info

    @force_full_init
    def rows(self) -> np.ndarray:
        """Return each sample's row in the file's arrays, (N,) int; ``drop_empty`` and ``indices`` leave out rows."""
        return np.array([super(FeatureDataset, self).get_data_info(idx)['row'] for idx in range(len(self))], dtype=int)

    def feature_blocks(self) -> Iterator[np.ndarray]:
        """Yield the features of all samples in dataset order, as arrays (n, D) of the stored dtype, n up to 1,024."""
        for rows in _blocks(self.rows()):
            yield self._features.values[rows]

    @force_full_init
    def label_array(self, name: str) -> np.ndarray:
        """Return the array ``name`` (full name) for the dataset's samples and classes, (N, C) int8, float32 if soft."""
        labels = FeatureFile(self.ann_file).array(name).values
        return self._checked_labels(labels, name)[self.rows()]

    def _choose_columns(self, file: FeatureFile, num_classes: int) -> None:
        stored = self._read_names(file, self.classes_name, self.needs_classes, num_classes)
        names = list(map(str, range(num_classes) if stored is None else stored))
        self._columns = [names.index(name) for name in self.choose_classes(names, self.ann_file)]
        self._num_columns = num_classes

    def _read_names(self, file: FeatureFile, name: str, needed: bool, count: int) -> list[int | str] | None:
        if name not in file.names and not needed:
            return None
        names = file.array(name).values
        if names.shape != (count,) or names.dtype.kind not in 'iuU':
            raise self._error(name, f'must be integers or text ({count},)', names)
        reject_repeated(names.tolist(), self.ann_file, f'entry of {name!r}')
        return names.tolist()

    def _checked_labels(self, labels: np.ndarray, name: str) -> np.ndarray:
        """Return ``labels`` of the chosen classes, int8, float32 if soft; errors contain ``name``, the array's name."""
        expected = (len(self._features.values), self._num_columns)
        if labels.shape != expected or labels.dtype.kind not in 'biuf':
            raise self._error(name, f'labels must be numbers {expected}', labels)
        soft = labels.dtype.kind == 'f' and any((block != block.round()).any() for block in _blocks(labels))
        found = np.empty((len(labels), len(self._columns)), dtype=np.float32 if soft else np.int8)
        for start, block in zip(range(0, len(labels), BLOCK), _blocks(labels), strict=True):
            block = block[:, self._columns].astype(np.float32)
            # Written so that NaN is wrong, too.
            wrong = np.argwhere(~((block == UNKNOWN) | ((block >= NEGATIVE) & (block <= POSITIVE))))
            if len(wrong):
                row, column = wrong[0]
                raise AnnotationError(
                    f'{self.ann_file}, array {name!r}: labels must be 1, 0, -1 for unknown, or between 0 and 1, got '
                    f'{block[row, column]:g} for class {self._metainfo["classes"][column]!r} in row {start + row}'
                )
            found[start : start + len(block)] = block
        return found

    def _error(self, name: str, rule: str, got: np.ndarray) -> AnnotationError:
        return AnnotationError(f'{self.ann_file}, array {name!r}: {rule}, got {got.dtype} {got.shape}')


def sparse_labels(labels: np.ndarray) -> Iterator[dict]:
    """Yield a dict per row of ``labels`` (N, C): the class indices ``gt_label`` and, for floats, ``label_scores``.

    If any label is unknown, all dicts also have ``unknown_label`` or ``negative_label``, the rarer in ``labels``.
    """
    num_unknown = sum(int((block == UNKNOWN).sum()) for block in _blocks(labels))
    num_negative = sum(int((block == NEGATIVE).sum()) for block in _blocks(labels))
    # List the rarer of the two values; all samples list the same value.
    listed = dict(negative_label=NEGATIVE) if num_unknown > num_negative else dict(unknown_label=UNKNOWN)
    for block in _blocks(labels):
        columns = dict(gt_label=columns_of(block > NEGATIVE))
        if num_unknown:
            columns |= {key: columns_of(block == value) for key, value in listed.items()}
        for row, values in enumerate(zip(*columns.values(), strict=True)):
            sample = dict(zip(columns, values, strict=True))
            if labels.dtype.kind == 'f':
                sample['label_scores'] = block[row, sample['gt_label']].tolist()
            yield sample


def feature_statistics(datasets: Iterable[FeatureDataset]) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, population standard deviation) of each feature over all datasets' samples, both (D,) float64.

    A constant feature gets the deviation 1, for safe division. All D must be equal. NaN or inf is an AnnotationError.
    """
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    for dataset in datasets:
        for block in dataset.feature_blocks():
            block = block.astype(np.float64)
            if not np.isfinite(block).all():
                raise AnnotationError(
                    f'{dataset.ann_file}, array {dataset.features_name!r} has features that are not finite'
                )
            # Squares around the mean of each block lose fewer digits than plain sums of squares.
            block_mean = block.mean(axis=0)
            shift, total = block_mean - mean, count + len(block)
            squares = squares + np.square(block - block_mean).sum(axis=0)
            squares = squares + np.square(shift) * (count * len(block) / total)
            mean, count = mean + shift * (len(block) / total), total
    deviation = np.sqrt(squares / count)
    return mean, np.where(deviation > 0, deviation, 1.0)


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(array), BLOCK):
        yield array[start : start + BLOCK]


def _copy_features(info: dict) -> dict:
    # A view of the file must not be written to, or become a tensor.
    info['features'] = info['features'].copy()
    return info

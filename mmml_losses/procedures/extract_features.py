"""Write the frozen features of datasets into an ``.npz`` file for :class:`mmml_losses.datasets.FeatureDataset`."""

import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config, ConfigDict
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, DefaultScope
from mmengine.runner import Runner
from mmengine.utils import ProgressBar
from torch import nn

from ..datasets import AnnotationError, read_label_changes, read_labels
from ..datasets.labels.data_infos import numbered
from ..engine.config_data import forbid_replacements, label_with_the_test_run, require_data
from ..engine.resuming import Plain, WorkRecord, flat_settings
from ..engine.running import dataloader_with_defaults
from ..hosts.loss_places import type_name
from ..utils.errors import UsageError
from ..utils.files import replacing
from .feature_model import pooled_features
from .pseudo_label import shows_progress_bar

# Wrappers that give images more than once.
REPEATING = ('RepeatDataset', 'ClassBalancedDataset')
IMAGES_PER_LINE = 1024  # of the log
RECORD_FILE = 'extraction.json'


@dataclass(frozen=True)
class Split:
    """The dataset of one dataloader, prepared for extraction: each image once and in order.

    Attributes:
        name: ``'train'``, ``'val'`` or ``'test'``.
        dataset: The dataset with the test pipeline.
        loader: Dataloader config for this dataset, with the settings of the test dataloader.
        scope: The default scope (of the registries) of the config.
        classes: Names of the C classes.
        arrays: Dict with ``labels`` (N, C), ``ids`` (N,), which are image names, and ``true_labels`` (N, C) if label
            wrappers changed labels.
    """

    name: str
    dataset: BaseDataset
    loader: ConfigDict
    scope: str
    classes: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]


class FeatureParts:
    """Keep the features extracted so far in a folder next to the output file, so that an extraction can go on.

    Each split has a file of raw numbers to which batches are appended. Raise a UsageError if the extraction in the
    folder was begun with another model, checkpoint, ``dtype`` or dataset.

    Args:
        out: The ``.npz`` file to write in the end.
        settings: Everything that the features depend on, see :func:`settings_of`.
        dtype: ``'float16'`` or ``'float32'``.
    """

    def __init__(self, out: Path, settings: Mapping[str, Plain], dtype: str):
        self.out, self.dtype = out, np.dtype(dtype)
        self.folder = out.with_name(f'{out.name}.parts')
        self._record = WorkRecord(self.folder / RECORD_FILE, {**settings, 'dtype': dtype}, option='--out')

    def count(self, split: str) -> int:
        """Return how many images of a split (``'train'``, ``'val'`` or ``'test'``) have features in the folder."""
        file = self._file(split)
        return file.stat().st_size // (self._width(split) * self.dtype.itemsize) if file.is_file() else 0

    def add(self, split: str, features: np.ndarray) -> None:
        """Append the finite features (n, D) of the next n images of a split to its file; raise a UsageError for NaN."""
        with np.errstate(over='ignore'):  # the error below is clearer
            features = features.astype(self.dtype)
        if not np.isfinite(features).all():
            hint = ': they may be too large for float16, try --dtype float32' if self.dtype == np.float16 else ''
            raise UsageError(f'the model gives features that are not finite{hint}')
        done = self.count(split)
        if not done:
            self._record.finish(f'{split}_width', width=features.shape[1])
        with self._file(split).open('r+b' if done else 'wb') as file:
            file.seek(done * features[0].nbytes)  # over the beginning of a row that was cut off
            file.write(features.tobytes())

    def join(self, splits: Mapping[str, Mapping[str, np.ndarray]], **others: np.ndarray) -> None:
        """Write the ``.npz`` file and remove the folder. Features are copied without loading them all into memory.

        Args:
            splits: Dict from split to a dict of further arrays. ``labels`` of ``train`` is written as ``train_labels``.
            **others: Arrays of no split, such as class names, written under their own names.
        """
        arrays: dict[str, np.ndarray] = {}
        for split, of_split in splits.items():
            shape = (self.count(split), self._width(split))
            arrays[f'{split}_features'] = np.memmap(self._file(split), self.dtype, mode='r', shape=shape)
            arrays |= {f'{split}_{name}': array for name, array in of_split.items()}
        with replacing(self.out) as temporary, temporary.open('wb') as file:
            np.savez(file, **arrays, **others)  # type: ignore[arg-type]  # mypy takes them for allow_pickle, too
        shutil.rmtree(self.folder)

    def _file(self, split: str) -> Path:
        return self.folder / f'{split}_features.raw'

    def _width(self, split: str) -> int:
        if f'{split}_width' not in self._record.finished:
            raise UsageError(f'{self.folder / RECORD_FILE} lacks the width of the features: delete {self.folder}')
        return self._record.finished[f'{split}_width']['width']


def prepare_split(cfg: Config, name: str, config_file: str) -> Split:
    """Build the Split of a dataloader: its dataset unaugmented, in order, each image once. ``cfg`` is not changed.

    ``name`` is ``'train'``, ``'val'`` or ``'test'``; ``config_file``, the path of ``cfg``, is for missing-data errors.
    """
    cfg = deepcopy(cfg)
    loader = cfg.get(f'{name}_dataloader')
    while loader is not None and type_name(loader.dataset).rpartition('.')[2] in REPEATING:
        loader.dataset = loader.dataset.dataset
    label_with_the_test_run(cfg, name)
    require_data(cfg, config_file)
    loader = dataloader_with_defaults(cfg.test_dataloader, pin_memory=True)
    scope = cfg.get('default_scope') or 'mmpretrain'
    with DefaultScope.overwrite_default_scope(scope):
        dataset = DATASETS.build(deepcopy(loader.dataset))
    dataset.full_init()
    forbid_replacements(dataset)
    classes, arrays = _read_arrays(dataset, name)
    return Split(name, dataset, loader, scope, classes, arrays)


@torch.inference_mode()
def extract_split(model: nn.Module, split: Split, parts: FeatureParts) -> None:
    """Compute the features of the split's images that are not in ``parts`` yet, append them and show the progress."""
    done, total = parts.count(split.name), len(split.dataset)
    if done:
        print(f'{split.name}: goes on after {done:,} of {total:,} images')
    if done == total:
        return
    loader = dict(split.loader, dataset=_NamedFailures(split.dataset), sampler=range(done, total))
    with DefaultScope.overwrite_default_scope(split.scope):
        batches = Runner.build_dataloader(loader)
    bar = ProgressBar(total - done, file=sys.stderr) if shows_progress_bar() else None
    for batch in batches:
        features = pooled_features(model, model.data_preprocessor(batch, False)['inputs'])
        parts.add(split.name, features.float().cpu().numpy())
        lines_before, done = done // IMAGES_PER_LINE, done + len(features)
        if bar is not None:
            bar.update(len(features))
        elif done == total or done // IMAGES_PER_LINE > lines_before:
            print(f'{split.name}: {done:,} of {total:,} images')
    if bar is not None:
        bar.file.write('\n')


class _NamedFailures(torch.utils.data.Dataset):
    """Wrap a dataset so that an image that cannot be loaded raises an OSError with the name of the image."""

    def __init__(self, dataset: BaseDataset):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> dict:
        try:
            return self.dataset[position]
        # MMCV's error for a file that is no image, OpenCV's for an empty one, the system's or Pillow's for others.
        except (AssertionError, cv2.error, OSError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            name = self.dataset.get_data_info(position).get('img_path', f'number {position}')
            raise OSError(f'{name} cannot be loaded: {reason}') from None


def settings_of(cfg: Config, checkpoint: str, splits: Sequence[Split]) -> dict[str, Plain]:
    """Return a flat dict of everything that features depend on: settings, and SHA-256 hashes of weights and labels.

    If the checkpoint is no local file, its address is hashed instead of its content.
    """
    parts = dict(
        model={key: value for key, value in cfg.model.items() if key != 'head'},
        data_preprocessor=cfg.get('data_preprocessor'),
        checkpoint=_sha256(Path(checkpoint).read_bytes() if Path(checkpoint).is_file() else checkpoint.encode()),
    )
    for split in splits:
        checksums = {name: _sha256(np.ascontiguousarray(array).tobytes()) for name, array in split.arrays.items()}
        parts |= {f'{split.name}_dataset': split.loader.dataset, split.name: checksums}
    return flat_settings(parts)


def _read_arrays(dataset: BaseDataset, name: str) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    try:
        labels = read_label_changes(dataset)
    except (AnnotationError, TypeError) as error:
        raise UsageError(f'no features of the {name} dataset: {error}') from None
    if len(labels.observed) != len(dataset):
        raise UsageError(f'no features of the {name} dataset: it has {len(dataset)} samples of {len(labels.observed)}')
    # The names by which label wrappers draw labels, so that features get the same labels as images.
    if labels.observed.dtype == np.int8:
        names = read_labels(dataset).keys
    else:  # soft labels, which no wrapper takes
        infos = (dataset.get_data_info(position) for position in range(len(dataset)))
        names = [info.get('sample_name') or Path(info.get('img_path', str(at))).name for at, info in enumerate(infos)]
    # Datasets in a ConcatDataset may have images of the same name.
    arrays = dict(labels=labels.observed, ids=np.array(numbered(list(map(str, names))), dtype=str))
    if not np.array_equal(labels.observed, labels.true):
        arrays['true_labels'] = labels.true
    return labels.classes, arrays


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

"""Frozen features of a dataset, image by image, as one file that :class:`mmml_losses.datasets.FeatureDataset` reads."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ..datasets.labels.nesting import leaf_datasets
from ..engine.config_data import label_with_the_test_run, require_data
from ..engine.running import dataloader_with_defaults
from ..utils.errors import UsageError
from .feature_model import pooled_features
from .feature_parts import FeatureParts
from .pseudo_label import shows_progress_bar

# Ways to draw images more than once.
REPEATING = ('RepeatDataset', 'ClassBalancedDataset')


@dataclass(frozen=True)
class Split:
    """The images that one dataloader of a config has, each once and in order.

    Attributes:
        name: ``'train'``, ``'val'`` or ``'test'``.
        dataset: The dataset with the test pipeline.
        loader: Config of the test dataloader.
        scope: The project whose names the config uses.
        classes: Names of the C classes.
        arrays: What goes to the file beside the features: ``labels`` (N, C), ``ids`` (N,) and, where label wrappers
            hide some, ``true_labels`` (N, C).
    """

    name: str
    dataset: BaseDataset
    loader: ConfigDict
    scope: str
    classes: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]

    def fingerprint(self) -> str:
        """Tells its images and what is done to them from others."""
        return _sha256(
            _as_bytes(self.loader.dataset), *(np.ascontiguousarray(array).tobytes() for array in self.arrays.values())
        )


def prepare_split(cfg: Config, name: str, config_file: str) -> Split:
    """Build the dataset of a dataloader for one pass: unaugmented, in order, each image once.

    Args:
        cfg: The config, which stays as it is.
        name: Whose dataset, such as ``'train'``.
        config_file: Where the config comes from, for error messages.
    """
    cfg = deepcopy(cfg)
    loader = cfg.get(f'{name}_dataloader')
    while loader is not None and _name_of(loader.dataset.get('type')) in REPEATING:
        loader.dataset = loader.dataset.dataset
    label_with_the_test_run(cfg, name)
    require_data(cfg, config_file)
    loader = dataloader_with_defaults(cfg.test_dataloader, pin_memory=True)
    scope = cfg.get('default_scope') or 'mmpretrain'
    with DefaultScope.overwrite_default_scope(scope):
        dataset = DATASETS.build(deepcopy(loader.dataset))
    dataset.full_init()
    for leaf in leaf_datasets(dataset):
        # An image that cannot be loaded must be an error: in training, a random one would stand in for it.
        leaf.test_mode = True
    classes, arrays = _read_arrays(dataset, name)
    return Split(name, dataset, loader, scope, classes, arrays)


def extract_split(model: nn.Module, split: Split, parts: FeatureParts, say: Callable[[str], None] = print) -> None:
    """Make the features of the images that are not in the parts yet.

    Args:
        model: See :func:`mmml_losses.procedures.feature_model.build_feature_model`.
        split: The images.
        parts: Where they go, a few at a time.
        say: Told of each part that was saved, where no progress bar shows it.
    """
    done, total = parts.count(split.name), len(split.dataset)
    if done:
        say(f'{split.name}: goes on after {done:,} of {total:,} images')
    bar = ProgressBar(total - done, file=sys.stderr) if shows_progress_bar() and done < total else None
    for features in _feature_batches(model, split, start=done):
        saved = parts.add(split.name, features, last=done + len(features) == total)
        done += len(features)
        if bar is not None:
            bar.update(len(features))
        elif saved:
            say(f'{split.name}: {done:,} of {total:,} images')
    if bar is not None:
        bar.file.write('\n')


class _NamedFailures(torch.utils.data.Dataset):
    """A dataset that names the image that cannot be loaded: MMCV and OpenCV do not always."""

    def __init__(self, dataset: BaseDataset):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> dict:
        try:
            return self.dataset[position]
        # What MMCV has for a file that is no image, OpenCV for an empty one, and the system or Pillow for others.
        except (AssertionError, cv2.error, OSError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            name = self.dataset.get_data_info(position).get('img_path', f'number {position}')
            raise OSError(f'{name} cannot be loaded: {reason}') from None


@torch.inference_mode()
def _feature_batches(model: nn.Module, split: Split, start: int) -> Iterator[np.ndarray]:
    positions = range(start, len(split.dataset))
    if not positions:
        return
    loader = {key: value for key, value in split.loader.items() if key not in ('dataset', 'sampler')}
    with DefaultScope.overwrite_default_scope(split.scope):
        batches = Runner.build_dataloader(dict(loader, dataset=_NamedFailures(split.dataset), sampler=positions))
    for batch in batches:
        features = pooled_features(model, model.data_preprocessor(batch, False)['inputs'])
        yield features.float().cpu().numpy()


def fingerprint_of(cfg: Config, checkpoint: str, splits: Sequence[Split], dtype: str) -> dict[str, str]:
    """What tells this extraction from every other one, by what it is about."""
    settings = {key: value for key, value in cfg.model.items() if key != 'head'}
    file = Path(checkpoint)
    return dict(
        model=_sha256(_as_bytes([settings, cfg.get('data_preprocessor')])),
        # An address stands for what is there.
        checkpoint=_sha256(file.read_bytes() if file.is_file() else checkpoint.encode()),
        dtype=dtype,
        **{f'{split.name} data': split.fingerprint() for split in splits},
    )


def _read_arrays(dataset: BaseDataset, name: str) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    try:
        labels = read_label_changes(dataset)
    except (AnnotationError, TypeError) as error:
        raise UsageError(f'no features of the {name} dataset: {error}') from None
    if len(labels.observed) != len(dataset):
        raise UsageError(f'no features of the {name} dataset: it has {len(dataset)} samples of {len(labels.observed)}')
    arrays = dict(labels=labels.observed, ids=np.array(_sample_names(dataset, labels.observed), dtype=str))
    if not np.array_equal(labels.observed, labels.true):
        arrays['true_labels'] = labels.true
    return labels.classes, arrays


def _sample_names(dataset: BaseDataset, labels: np.ndarray) -> list[str]:
    """Names by which label wrappers know the samples, so that they draw the same labels for features as for images.

    Each stands once, as a file must have them: datasets in a ``ConcatDataset`` may have images of the same names.
    """
    if labels.dtype == np.int8:
        return numbered(list(read_labels(dataset).keys))
    # No wrapper takes soft labels.
    infos = (dataset.get_data_info(position) for position in range(len(dataset)))
    names = (info.get('sample_name') or Path(info.get('img_path', str(at))).name for at, info in enumerate(infos))
    return numbered(list(map(str, names)))


def _name_of(kind: str | type) -> str:
    # New-style configs hold classes in place of names.
    return kind.__name__ if isinstance(kind, type) else str(kind).rpartition('.')[2]


def _as_bytes(settings: object) -> bytes:
    # Classes and functions, which new-style configs hold, by their names.
    named = json.dumps(settings, sort_keys=True, default=lambda value: getattr(value, '__qualname__', str(value)))
    return named.encode()


def _sha256(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def describe_making(config_file: str, checkpoint: str) -> np.ndarray:
    """How a file was made, as json text in an array; without folders, which are others' on another machine."""
    making = dict(tool='extract_features.py', config=Path(config_file).name, checkpoint=Path(checkpoint).name)
    return np.array(json.dumps(making))

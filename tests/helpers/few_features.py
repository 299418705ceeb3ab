"""A training on a few features that takes a second, for tests of tools and hooks."""

from pathlib import Path

import numpy as np
from mmengine.config import Config

ROOT = Path(__file__).resolve().parents[2]
NUM_TRAIN, NUM_TEST, NUM_CLASSES, WIDTH = 48, 24, 5, 8


def write_features(file: Path) -> Path:
    """Write features that predict their labels, with some noise."""
    rng = np.random.RandomState(0)
    directions = rng.randn(NUM_CLASSES, WIDTH)
    arrays = dict(classes=np.array([f'class {number}' for number in range(NUM_CLASSES)]))
    for split, count in (('train', NUM_TRAIN), ('test', NUM_TEST)):
        labels = (rng.rand(count, NUM_CLASSES) < 0.4).astype(np.int8)
        features = labels @ directions + 0.3 * rng.randn(count, WIDTH)
        arrays |= {f'{split}_features': features.astype(np.float32), f'{split}_labels': labels}
    np.savez(file, **arrays)
    return file


def feature_options(file: Path, max_epochs: int = 3) -> dict:
    """Return the ``--cfg-options`` that let ``configs/bce_features.py`` train on this file."""
    return {
        'model.head.num_classes': NUM_CLASSES,
        'model.head.in_channels': WIDTH,
        'train_cfg.max_epochs': max_epochs,
        'train_cfg.val_interval': max_epochs,
        'train_dataloader.batch_size': 16,
        'optim_wrapper.optimizer.lr': 0.1,
        **{f'{name}_dataloader.dataset.ann_file': str(file) for name in ('train', 'val', 'test')},
    }


def feature_config(file: Path, work_dir: Path, max_epochs: int = 3) -> Config:
    """Return the config of such a training."""
    cfg = Config.fromfile(ROOT / 'configs' / 'bce_features.py')
    cfg.merge_from_dict(feature_options(file, max_epochs))
    cfg.work_dir = str(work_dir)
    return cfg

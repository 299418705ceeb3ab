"""The data that recalibration is fitted to during a training: held out, or a part of the training set."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from mmengine.config import Config, ConfigDict
from mmengine.registry import DATASETS
from mmengine.runner import Runner
from torch.utils.data import DataLoader, Subset

from ...datasets.labels.nesting import leaf_configs, leaf_datasets
from ...procedures.pseudo_label import label_with_the_test_run
from ...utils.errors import UsageError

# How a dataset is read, and not which one it is.
NO_IDENTITY = ('pipeline', 'test_mode', 'lazy_init', 'serialize_data')


def calibration_dataloader(runner: Runner, dataloader: dict | None, num_samples: int) -> DataLoader:
    """Build the dataloader of the calibration data.

    Args:
        runner: Of a training.
        dataloader: Config of the dataloader; by default a part of the training set is taken.
        num_samples: How many samples that part has at most.

    Raises:
        UsageError: It is the data of the test, or there is no test pipeline to read the training set with.
    """
    if dataloader is not None:
        refuse_test_data(runner.cfg, dataloader)
        return runner.build_dataloader(dataloader, seed=runner.seed)
    return runner.build_dataloader(training_part(runner.cfg, num_samples), seed=runner.seed)


def refuse_test_data(cfg: Config, dataloader: dict) -> None:
    """Refuse to fit anything to the data that it will be judged by."""
    test = [_identity(leaf) for leaf in leaf_configs((cfg.get('test_dataloader') or {}).get('dataset'))]
    if any(_identity(leaf) in test for leaf in leaf_configs(ConfigDict(dataloader).dataset)):
        raise UsageError(
            'dataloader must not be that of the test: what is fitted to the test set looks better on it than it is. '
            'Hold out data, or leave dataloader out to take a part of the training set'
        )


def training_part(cfg: Config, num_samples: int) -> dict:
    """Config of a dataloader with samples of the training set as a test would read them, evenly spread over it."""
    cfg = deepcopy(cfg)
    try:
        label_with_the_test_run(cfg, 'train')
    except UsageError as error:
        raise UsageError(f'a dataloader must be given to fit to: {error}') from None
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    dataset.full_init()
    for leaf in leaf_datasets(dataset):
        # A sample that cannot be loaded must be an error: in training, a random one would stand in for it.
        leaf.test_mode = True
    positions = np.linspace(0, len(dataset) - 1, min(num_samples, len(dataset))).round().astype(int)
    return dict(cfg.test_dataloader, dataset=Subset(dataset, positions.tolist()))


def _identity(leaf: dict) -> dict:
    return {key: value for key, value in leaf.items() if key not in NO_IDENTITY}

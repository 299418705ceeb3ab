"""Build the datasets of the configs in ``_base_/datasets`` on folders that tests make."""

from pathlib import Path

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, DefaultScope

# The configs name transforms of mmpretrain, which this import registers.
import mmml_losses.models  # noqa: F401

FOLDER = Path(__file__).resolve().parents[2] / 'configs' / '_base_' / 'datasets'


def datasets_of_config(name: str, data_root: Path, **changes) -> tuple[BaseDataset, BaseDataset]:
    """Build the training and the test dataset of a config with their pipelines, and with changed arguments."""
    cfg = Config.fromfile(FOLDER / f'{name}.py')
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        train, test = (
            DATASETS.build(cfg[loader].dataset | dict(data_root=str(data_root), **changes))
            for loader in ('train_dataloader', 'test_dataloader')
        )
    assert len(train.CLASSES) == len(test.CLASSES) == cfg.data_preprocessor.num_classes
    return train, test

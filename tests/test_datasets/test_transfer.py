"""Test the transfer to nine datasets as they are released, which MMPretrain reads."""

from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope

import mmml_losses.models  # noqa: F401 (registers the transforms of mmpretrain)
from mmml_losses.datasets import read_labels
from mmml_losses.engine.config_data import hold_out, require_data
from mmml_losses.utils.errors import MissingDataError
from tests.helpers.published.transfer import write_transfer

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
# Number of classes, and the labels of the training and test images in the helper's files.
SETS = dict(
    aircraft=(100, [0, 99], [72, 47]),
    caltech101=(102, [0, 101], [0]),
    cars=(196, [13, 195], [0, 1]),
    cub=(200, [0, 199], [0]),
    dtd=(47, [0, 46], [0, 44]),
    flowers102=(102, [76, 101, 0, 0], [4, 5]),
    food101=(101, [0, 100], [0]),
    pets=(37, [0, 36], [0]),
    sun397=(397, [0, 396], [8]),
)


def read(name: str) -> Config:
    return Config.fromfile(CONFIGS / f'two_way_imagenet_transfer_{name}.py')


@pytest.fixture
def released(tmp_path, monkeypatch):
    write_transfer(tmp_path / 'data')
    monkeypatch.chdir(tmp_path)


def test_every_config_of_a_dataset_is_tested():
    files = CONFIGS.glob('two_way_imagenet_transfer_*.py')
    assert {file.stem.removeprefix('two_way_imagenet_transfer_') for file in files} == set(SETS)


@pytest.mark.parametrize('name', SETS)
def test_the_release_is_read_with_its_classes(name, released):
    num_classes, train, test = SETS[name]
    cfg = read(name)
    assert (cfg.model.head.num_classes, cfg.data_preprocessor.num_classes) == (num_classes, num_classes)
    require_data(cfg, name)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        for loader, expected in (('train', train), ('val', test), ('test', test)):
            dataset = DATASETS.build(cfg[f'{loader}_dataloader'].dataset)
            items = [dataset[idx] for idx in range(len(dataset))]
            assert [item['data_samples'].gt_label.tolist() for item in items] == [[label] for label in expected]
            assert {tuple(item['inputs'].shape) for item in items} == {(3, 224, 224)}
            assert len(dataset.CLASSES) == num_classes


@pytest.mark.parametrize('name', sorted(set(SETS) - {'sun397'}))
def test_a_part_can_be_held_out(name, released):
    cfg = read(name)
    cfg.train_dataloader.dataset = dict(type='ConcatDataset', datasets=[cfg.train_dataloader.dataset] * 2)
    hold_out(cfg, 0.5)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        parts = [read_labels(DATASETS.build(cfg[f'{part}_dataloader'].dataset)) for part in ('train', 'val')]
    assert not set(parts[0].image_names) & set(parts[1].image_names)
    assert sum(len(part.keys) for part in parts) == 2 * len(SETS[name][1])


@pytest.mark.parametrize('name', SETS)
def test_a_missing_release_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = read(name)
    with pytest.raises(MissingDataError, match=cfg.train_dataloader.dataset.data_root):
        require_data(cfg, 'config.py')


def test_the_accuracy_is_reported():
    for name in SETS:
        (first, *_) = read(name).test_evaluator.metrics
        assert first == dict(type='mmml_losses.MultiLabelF1', items=['OP'], top_k=1)

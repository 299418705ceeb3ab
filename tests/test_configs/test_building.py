"""Test that model, optimiser, schedule and data of every config fit together."""

import re

import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

from mmml_losses.losses import MultiLabelLoss

from .conftest import CONFIGS, FOLDER, without_downloads

NETWORKS = [
    'resnet50',
    'resnet50_256',
    'resnet101',
    'resnext50',
    'densenet169',
    'regnety_32gf',
    'mobilenet_v3_large',
    'swin_s',
]
NETWORKS += ['ecaresnet50t', 'vit_b32']


@pytest.mark.parametrize('name', [config.stem for config in CONFIGS])
def test_everything_that_a_training_needs_is_built(name, ready_runner):
    runner = ready_runner(name)
    head = runner.model.head
    assert isinstance(head.loss_module, MultiLabelLoss)
    for loader in (runner.train_dataloader, runner.val_dataloader, runner.test_dataloader):
        sample = loader.dataset[0]
        assert {'inputs', 'data_samples'} <= set(sample)
        if name not in ('two_way_imagenet', 'two_way_imagenet_transfer'):  # most of its classes are missing here
            assert len(loader.dataset.CLASSES) == head.num_classes
    trained = {id(weight) for group in runner.optim_wrapper.param_groups for weight in group['params']}
    assert {id(weight) for weight in runner.model.parameters() if weight.requires_grad} <= trained


@pytest.mark.parametrize('network', NETWORKS)
def test_the_features_of_each_network_fit_its_head(network, fast_building):
    cfg = without_downloads(Config.fromfile(FOLDER / '_base_' / 'models' / f'{network}.py'))
    cfg.model.head.num_classes = 3
    model = MODELS.build(cfg.model).eval()
    with torch.no_grad():
        size = 224 if network in ('swin_s', 'vit_b32') else 64
        assert model(torch.zeros(1, 3, size, size)).shape == (1, 3)


def test_no_network_is_left_out():
    files = {file.stem for file in (FOLDER / '_base_' / 'models').glob('*.py')}
    assert files == {
        *NETWORKS,
        'resnet50_frozen',
        'resnet_digits',
        'linear_features',
        'mlp_features',
        'fusion_features',
    }


@pytest.mark.parametrize('config', CONFIGS, ids=lambda config: config.stem)
def test_every_config_lists_its_runtime(config):
    """Check that each config can be copied alone, and that none inherits two runtimes."""
    runtimes = re.findall(r"^    '_base_/(\w+_runtime)\.py',$", config.read_text(), flags=re.MULTILINE)
    assert runtimes in (['default_runtime'], ['ema_runtime'])

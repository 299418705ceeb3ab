"""Every config trains: on generated scenes, or on a few images in the format of its dataset."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmpretrain.registry import MODELS
from PIL import Image

CONFIGS = sorted((Path(__file__).resolve().parents[1] / 'configs').glob('*.py'))
DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


@pytest.fixture(scope='module')
def coco_folder(tmp_path_factory) -> Path:
    """Four images with labels in the layout of COCO 2014."""
    root = tmp_path_factory.mktemp('coco')
    rng = np.random.RandomState(0)
    (root / 'annotations').mkdir()
    for split in ('train2014', 'val2014'):
        (root / split).mkdir()
        names = [f'COCO_{split}_{number:012d}.jpg' for number in range(4)]
        for name in names:
            Image.fromarray(rng.randint(0, 256, (60, 80, 3), dtype=np.uint8)).save(root / split / name)
        annotations = [
            dict(id=number, image_id=number % 4, category_id=1 + 7 * number, bbox=[0, 0, 9, 9], area=81, iscrowd=0)
            for number in range(8)
        ]
        content = dict(
            images=[dict(id=number, file_name=name, height=60, width=80) for number, name in enumerate(names)],
            annotations=annotations,
            categories=[dict(id=number, name=f'class {number}') for number in range(1, 81)],
        )
        (root / 'annotations' / f'instances_{split}.json').write_text(json.dumps(content))
    return root


@pytest.fixture(scope='module')
def features_file(tmp_path_factory) -> Path:
    """Features of a few samples as tools/extract_features.py writes them."""
    rng = np.random.RandomState(0)
    file = tmp_path_factory.mktemp('features') / 'features.npz'
    arrays = dict(classes=np.array([f'class {number}' for number in range(80)]))
    for split in ('train', 'test'):
        labels = (rng.rand(8, 80) < 0.3).astype(np.int8)
        arrays |= {f'{split}_features': rng.randn(8, 1280).astype(np.float16), f'{split}_labels': labels}
    np.savez(file, **arrays)
    return file


@pytest.fixture
def offline(small_run, coco_folder, features_file, tmp_path):
    """Turns a config file into a config that trains here: little data, no download."""

    def make(config: Path) -> Config:
        if config.stem.endswith('_digits'):
            return small_run(config.name)
        cfg = Config.fromfile(config)
        cfg.work_dir = str(tmp_path)
        cfg.train_cfg.update(max_epochs=2, val_interval=2)
        for name in DATALOADERS:
            cfg[name].update(batch_size=2, num_workers=0)
            if config.stem.endswith('_features'):
                cfg[name].dataset.ann_file = str(features_file)
            else:
                cfg[name].dataset.data_root = str(coco_folder)
        cfg.model.backbone.pop('init_cfg', None)
        if cfg.model.backbone.type == 'TIMMBackbone':
            cfg.model.backbone.pretrained = False
        return cfg

    return make


def test_the_promised_configs_are_there():
    assert {'spa_lpr_coco', 'spa_lpr_digits', 'asl_digits', 'bce_digits'} <= {config.stem for config in CONFIGS}


@pytest.mark.parametrize('config', CONFIGS, ids=lambda config: config.stem)
def test_config_trains_and_evaluates(config, offline):
    cfg = offline(config)
    runner = Runner.from_cfg(cfg)
    weights = {name: weight for name, weight in runner.model.named_parameters() if weight.requires_grad}
    before = {name: weight.clone() for name, weight in weights.items()}
    runner.train()
    still = [name for name, weight in weights.items() if torch.equal(weight, before[name])]
    assert not still
    assert runner.message_hub.get_scalar('train/loss').current() > 0
    metrics = runner.test()
    for name in ('mAP@class', 'mAP@sample', 'ACE', 'MCE', 'ECE'):
        assert 0 <= metrics[f'multi-label/{name}'] <= 100


@pytest.mark.parametrize('name', ['spa_lpr_coco', 'spa_lpr_coco_ecaresnet50t', 'spa_lpr_coco_vit_b32'])
def test_the_recipe_is_the_papers(name):
    (config,) = [config for config in CONFIGS if config.stem == name]
    cfg = Config.fromfile(config)
    optimizer = cfg.optim_wrapper.optimizer
    assert (optimizer.type, optimizer.momentum, optimizer.weight_decay) == ('SGD', 0.9, 1e-4)
    assert cfg.train_dataloader.batch_size == 256
    assert all(pipeline[1].scale == (224, 224) for pipeline in (cfg.train_pipeline, cfg.test_pipeline))
    loss = MODELS.build(cfg.model.head.loss)
    assert list(loss.losses) == ['spa', 'lpr']
    assert list(loss.link.constants.values()) == [1, 1, 0, 5, 3, 1]


@pytest.mark.parametrize(
    ('key', 'mean'),
    [
        ('loss', True),
        ('lpr', True),
        ('train/lpr', True),
        ('lr', False),
        ('train/base_lr', False),
        ('multi-label/ACE', False),
        ('val/multi-label/ACE', False),
    ],
)
def test_parts_are_logged_as_means_like_their_sum_and_metrics_are_not(key, mean):
    pattern = Config.fromfile(CONFIGS[0]).log_processor.mean_pattern
    assert (re.search(pattern, key) is not None) is mean


def test_every_base_loss_builds():
    losses = list((CONFIGS[0].parent / '_base_' / 'losses').glob('*.py'))
    assert losses
    for file in losses:
        MODELS.build(Config.fromfile(file).loss)

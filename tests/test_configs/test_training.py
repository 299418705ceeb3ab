"""Train every ``_digits`` config on generated scenes, and every ``_features`` config on a file."""

import math
import re

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from mmml_losses.hosts.checkpoints import check_checkpoint

from .conftest import CONFIGS, DATALOADERS, FOLDER

DIGITS = [config.stem for config in CONFIGS if config.stem.endswith('_digits')]
FEATURES = [config.stem for config in CONFIGS if config.stem.endswith('_features')]
# The dataset in the name of a config.
DATASETS = (
    r'_(coco(_75|_40|_single|_lt)?|voc(07|12|12_single|_lt)|nus(_single)?|cub_single|open_images_single|wider|vispr|vaw'
    r'|imagenet(_transfer)?|vqa_features|mlp_features|features|digits)'
)


@pytest.fixture
def two_iterations(at_home, tmp_path, monkeypatch):
    """Return a function that trains a config for two epochs of one iteration: some losses depend on the epoch."""

    def train(name: str, **changes) -> Runner:
        monkeypatch.setattr(Config, 'pretty_text', '')
        cfg = Config.fromfile(FOLDER / f'{name}.py')
        cfg.update(changes)
        at_home(cfg)
        cfg.work_dir = str(tmp_path / 'work_dir')
        cfg.train_cfg.update(max_epochs=2, val_interval=2)
        for loader in DATALOADERS:
            cfg[loader].batch_size = 64
        if 'ClassAware' in cfg.train_dataloader.sampler.type:
            cfg.train_dataloader.sampler.epoch_length = 64
        if 'EMAPL' in cfg.model.head.loss.type:
            cfg.model.head.loss.warmup_epochs = 1
        runner = Runner.from_cfg(cfg)
        weights = {name: weight for name, weight in runner.model.named_parameters() if weight.requires_grad}
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        runner.train()
        still = [name for name, weight in weights.items() if torch.equal(weight, before[name])]
        assert not still
        return runner

    return train


@pytest.mark.parametrize('name', [*DIGITS, *FEATURES])
def test_config_trains_and_evaluates(name, two_iterations):
    runner = two_iterations(name)
    assert runner.iter == 2
    loss = runner.message_hub.get_scalar('train/loss').current()
    assert math.isfinite(loss)
    assert loss > 0 or name == 'em_apl_digits'  # entropies are subtracted
    metrics = {key: runner.message_hub.get_scalar(f'val/multi-label/{key}').current() for key in METRICS}
    assert all(0 <= value <= 100 for value in metrics.values()), metrics


METRICS = ('mAP@class', 'mAP@sample', 'ACE', 'MCE', 'ECE')


@pytest.mark.parametrize(('name', 'method'), [('asl_phi', 'phi'), ('two_way_temperature', 'temperature')])
def test_recalibrated_scores_are_evaluated_next_to_the_raw_ones(name, method, two_iterations):
    runner = two_iterations(f'{name}_digits')
    raw, recalibrated = (
        runner.message_hub.get_scalar(f'val/multi-label/{prefix}ACE').current() for prefix in ('', f'{method}/')
    )
    assert recalibrated != raw


def test_parts_of_a_sum_are_logged(two_iterations):
    runner = two_iterations('lasd_digits')
    for part in ('lasd', 'consistency'):
        assert runner.message_hub.get_scalar(f'train/{part}').current() >= 0


@pytest.mark.parametrize(
    ('key', 'mean'),
    [
        ('loss', True),
        ('lpr', True),
        ('train/lpr', True),
        ('lr', False),
        ('train/base_lr', False),
        ('multi-label/ACE', False),
        ('multi-label/phi/ACE', False),
        ('val/multi-label/ACE', False),
    ],
)
def test_parts_are_logged_as_means_like_their_sum_and_metrics_are_not(key, mean):
    for config in (CONFIGS[0], FOLDER / 'hill_coco_40.py'):
        pattern = Config.fromfile(config).log_processor.mean_pattern
        assert (re.search(pattern, key) is not None) is mean


def test_the_average_of_the_weights_is_what_is_evaluated_and_saved(two_iterations, tmp_path):
    """Test the hooks of the Hill recipe, whose own configs are too large to run here."""
    hooks = Config.fromfile(FOLDER / 'hill_coco_40.py').custom_hooks
    runner = two_iterations('hill_digits', custom_hooks=hooks)
    saved = check_checkpoint(tmp_path / 'work_dir' / 'epoch_2.pth')['state_dict']['head.fc.weight']
    (average,) = [hook.ema_model for hook in runner.hooks if hasattr(hook, 'ema_model')]
    assert torch.equal(saved, average.module.head.fc.weight)
    assert not torch.equal(saved, runner.model.head.fc.weight)


def test_every_method_trains_on_digits():
    methods = {
        re.sub(f'{DATASETS}(_.*)?$', '', config.stem).partition('_hill')[0].removesuffix('_code') for config in CONFIGS
    }
    siblings = {name.removesuffix('_digits') for name in DIGITS}
    assert methods - {'spa'} == siblings  # spa_vqa_features.py is SPA without LPR, which spa_lpr_digits.py has

"""Heads on frozen features, from the file to the metrics."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmpretrain.registry import MODELS

from mmml_losses.datasets import AnnotationError
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.models import FeatureBackbone, FeaturePreprocessor

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
NUM_CLASSES, WIDTH = 4, 12


def write_features(path: Path, seed: int = 0, **changes) -> Path:
    """Write features that are linear in the labels plus noise, far from zero mean and unit deviation."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(1).normal(size=(NUM_CLASSES, WIDTH))
    arrays = dict(classes=np.array(list('abcd')))
    for split, count in (('train', 200), ('test', 100)):
        labels = (rng.random((count, NUM_CLASSES)) < 0.3).astype(np.int8)
        features = 50 + 20 * (labels @ directions + 0.3 * rng.normal(size=(count, WIDTH)))
        arrays |= {f'{split}_features': features.astype(np.float16), f'{split}_labels': labels}
    np.savez(path, **(arrays | changes))
    return path


@pytest.fixture
def features_run(tmp_path):
    """Return a function that makes a config of a short training on a small file from a ``_features`` config."""

    def make(config_file: str, file: Path, max_epochs: int = 6) -> Config:
        cfg = Config.fromfile(CONFIGS / config_file)
        cfg.work_dir = str(tmp_path / 'work_dir')
        cfg.train_cfg.update(max_epochs=max_epochs, val_interval=max_epochs)
        cfg.optim_wrapper.optimizer.lr = 0.05
        for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
            cfg[name].batch_size = 20
            cfg[name].dataset.ann_file = str(file)
        (cfg.model.get('neck') or cfg.model.head).in_channels = WIDTH
        cfg.model.head.num_classes = NUM_CLASSES
        return cfg

    return make


@pytest.mark.parametrize('config', ['bce_features.py', 'bce_mlp_features.py'])
def test_a_head_learns_from_features(config, features_run, tmp_path):
    runner = Runner.from_cfg(features_run(config, write_features(tmp_path / 'features.npz')))
    runner.train()
    assert runner.test()['multi-label/mAP@class'] > 95


def test_a_test_standardises_by_the_training_set(features_run, tmp_path):
    file = write_features(tmp_path / 'features.npz')
    runner = Runner.from_cfg(features_run('bce_features.py', file, max_epochs=2))
    runner.train()
    with np.load(file, allow_pickle=False) as arrays:
        train = arrays['train_features'].astype(np.float64)
    # Another file, and no training set: the statistics come from the checkpoint.
    other = write_features(tmp_path / 'other.npz', seed=5)
    cfg = features_run('bce_features.py', other)
    cfg.train_dataloader.dataset.ann_file = 'nothing.npz'
    cfg.load_from = str(tmp_path / 'work_dir' / 'epoch_2.pth')
    assert 'data_preprocessor.feature_mean' in check_checkpoint(cfg.load_from)['state_dict']
    tester = Runner.from_cfg(cfg)
    tester.test()
    preprocessor = tester.model.data_preprocessor
    assert np.allclose(preprocessor.feature_mean.numpy(), train.mean(axis=0), rtol=1e-5)
    assert np.allclose(preprocessor.feature_deviation.numpy(), train.std(axis=0), rtol=1e-5)
    inputs = torch.from_numpy(train[:3]).half()
    found = preprocessor(dict(inputs=inputs))['inputs']
    assert np.allclose(found.numpy(), (train[:3] - train.mean(axis=0)) / train.std(axis=0), atol=1e-4)


def test_statistics_are_of_the_samples_that_are_trained_on(features_run, tmp_path):
    file = write_features(tmp_path / 'features.npz')
    cfg = features_run('bce_features.py', file, max_epochs=2)
    inner = cfg.train_dataloader.dataset
    inner.indices = 60
    wrapped = dict(type='mmml_losses.SinglePositive', dataset=inner, seed=0)
    cfg.train_dataloader.dataset = dict(type='RepeatDataset', times=2, dataset=wrapped)
    runner = Runner.from_cfg(cfg)
    runner.train()
    with np.load(file, allow_pickle=False) as arrays:
        first = arrays['train_features'][:60].astype(np.float64)
    assert np.allclose(runner.model.data_preprocessor.feature_mean.numpy(), first.mean(axis=0), rtol=1e-5)


def test_a_resumed_training_and_an_average_of_weights_keep_the_statistics(features_run, tmp_path):
    cfg = features_run('bce_features.py', write_features(tmp_path / 'features.npz'), max_epochs=2)
    cfg.custom_hooks.append(dict(type='EMAHook', momentum=0.1))
    Runner.from_cfg(cfg).train()
    cfg = features_run('bce_features.py', write_features(tmp_path / 'features.npz'), max_epochs=3)
    cfg.custom_hooks.append(dict(type='EMAHook', momentum=0.1))
    cfg.resume = True
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.epoch == 3
    assert runner.test()['multi-label/mAP@class'] > 50


def test_unknown_labels_and_stored_labels_train(features_run, tmp_path):
    labels = np.where(np.random.default_rng(3).random((200, NUM_CLASSES)) < 0.5, -1, 1).astype(np.int8)
    file = write_features(tmp_path / 'features.npz', train_partial=labels)
    cfg = features_run('bce_features.py', file, max_epochs=2)
    cfg.train_dataloader.dataset = dict(
        type='mmml_losses.StoredLabels', dataset=cfg.train_dataloader.dataset, labels='train_partial'
    )
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert torch.isfinite(runner.model.head.fc.weight).all()


def test_recovered_labels_are_counted(features_run, tmp_path):
    with np.load(write_features(tmp_path / 'plain.npz'), allow_pickle=False) as arrays:
        observed = arrays['train_labels'].copy()
    observed[::2] = 0
    cfg = features_run('bce_features.py', write_features(tmp_path / 'features.npz', observed=observed), max_epochs=3)
    cfg.train_dataloader.dataset = dict(
        type='mmml_losses.StoredLabels', dataset=cfg.train_dataloader.dataset, labels='observed'
    )
    cfg.custom_hooks.append(dict(type='mmml_losses.LabelRecoveryHook', threshold=0.3))
    runner = Runner.from_cfg(cfg)
    runner.train()
    (hook,) = [hook for hook in runner.hooks if type(hook).__name__ == 'LabelRecoveryHook']
    assert hook.recovery.num_hidden > 50
    assert hook.recovery.num_recovered > 0


def test_features_are_used_as_they_are_on_request():
    preprocessor = MODELS.build(dict(type='mmml_losses.FeaturePreprocessor', standardize=False))
    inputs = torch.arange(6.0).reshape(2, 3).half()
    batch = preprocessor(dict(inputs=inputs))
    assert batch['inputs'].dtype == torch.float32
    assert torch.equal(batch['inputs'], inputs.float())


def test_nothing_is_standardised_without_statistics():
    with pytest.raises(ValueError, match='FeaturePreprocessor does not know the mean of the features: train with'):
        FeaturePreprocessor()(dict(inputs=torch.zeros(2, 3)))


def test_the_backbone_takes_features_alone():
    features = torch.zeros(2, 3)
    assert FeatureBackbone()(features)[0] is features
    with pytest.raises(ValueError, match=r'inputs must be features \(N, D\), got \(2, 3, 8, 8\)'):
        FeatureBackbone()(torch.zeros(2, 3, 8, 8))


def test_statistics_need_features_to_train_on(small_run):
    cfg = small_run('bce_digits.py')
    cfg.custom_hooks.append(dict(type='mmml_losses.FeatureStatisticsHook'))
    cfg.model.data_preprocessor = dict(type='mmml_losses.FeaturePreprocessor')
    with pytest.raises(ValueError, match='FeatureStatisticsHook needs a FeatureDataset to train on, got DigitScenes'):
        Runner.from_cfg(cfg).train()


@pytest.mark.parametrize(
    ('head', 'problem'),
    [
        (dict(in_channels=7), 'has features of width 12, and the first layer of the model takes 7: set in_channels'),
        (dict(num_classes=80), r'has 4 classes, and the head of the model 80: set model\.head\.num_classes'),
    ],
)
def test_a_model_of_another_size_is_rejected(head, problem, features_run, tmp_path):
    cfg = features_run('bce_features.py', write_features(tmp_path / 'features.npz'))
    cfg.model.head.update(head)
    with pytest.raises(AnnotationError, match=rf'features\.npz {problem}'):
        Runner.from_cfg(cfg).train()

"""The neck that fuses the features of questions and images."""

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS
from torch import nn

from mmml_losses.datasets import AnnotationError
from tests.conftest import ROOT
from tests.helpers.training import assert_resumes, train


def build(**changes):
    settings = dict(type='mmml_losses.FeatureFusion', in_channels=(3, 5), out_channels=4)
    return MODELS.build({**settings, **changes})


def features(rows=6):
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(0))


def test_projections_are_multiplied():
    neck, rows = build(), features()
    first = rows[:, :3] @ neck.first.weight.T + neck.first.bias
    second = rows[:, 3:] @ neck.second.weight.T + neck.second.bias
    (fused,) = neck((torch.zeros(1), rows))
    torch.testing.assert_close(fused, (first * second).clamp(min=0))


def test_the_activation_is_the_configs():
    neck = build(act_cfg=dict(type='Tanh'))
    assert isinstance(neck.activation, nn.Tanh)
    (fused,) = neck((features(),))
    assert (fused < 0).any()


def test_dropout_is_for_training_alone():
    neck = build(dropout=0.5, out_channels=200, act_cfg=dict(type='Tanh'))
    (trained,) = neck((features(),))
    assert 0.4 < (trained == 0).float().mean() < 0.6
    (tested,) = neck.eval()((features(),))
    assert (tested != 0).all()


def test_gradients_reach_every_parameter():
    neck = build()
    neck((features(),))[0].sum().backward()
    assert all(parameter.grad.any() for parameter in neck.parameters())


def test_half_precision_runs():
    with torch.autocast('cpu', dtype=torch.bfloat16):
        (fused,) = build()((features(),))
    assert fused.dtype == torch.bfloat16
    assert fused.isfinite().all()


@pytest.mark.parametrize('shape', [(6, 7), (6, 8, 1, 1), (8,)])
def test_other_features_are_rejected(shape):
    with pytest.raises(
        ValueError, match=r'features must be of shape \(N, 8\), 3 of the first kind and 5 of the second'
    ):
        build()((torch.zeros(shape),))


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (dict(in_channels=8), 'in_channels must be two widths of at least 1, got 8'),
        (dict(in_channels=(3, 5, 2)), 'in_channels must be two widths'),
        (dict(in_channels=(0, 5)), 'in_channels must be two widths'),
        (dict(dropout=1.0), r'dropout must be in \[0, 1\), got 1.0'),
    ],
)
def test_bad_arguments_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


@pytest.fixture
def answers_run(tmp_path):
    """Return a function that makes a config of a training on answers that depend on both question and image."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split, score in (('train', 0.9), ('test', 1.0)):  # metrics take answers that are right or wrong
        rows = rng.normal(size=(240, 8)).astype(np.float32)
        right = rows[:, :3] * rows[:, 3:6] > 0.1
        arrays |= {f'{split}_features': rows, f'{split}_labels': score * right.astype(np.float32)}
    np.savez(tmp_path / 'answers.npz', **arrays)

    def make() -> Config:
        cfg = Config.fromfile(ROOT / 'configs' / 'bce_features.py')
        cfg.work_dir = str(tmp_path / 'work_dir')
        cfg.train_cfg.update(max_epochs=2, val_interval=2)
        cfg.optim_wrapper.optimizer.lr = 0.05
        for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
            cfg[name].batch_size = 8
            cfg[name].dataset.ann_file = str(tmp_path / 'answers.npz')
        cfg.model.neck = dict(type='mmml_losses.FeatureFusion', in_channels=(3, 5), out_channels=64, dropout=0.1)
        cfg.model.head.update(in_channels=64, num_classes=3)
        return cfg

    return make


def test_a_runner_trains_on_soft_answers_and_resumes(answers_run):
    runner = assert_resumes(answers_run)
    assert runner.message_hub.get_scalar('val/multi-label/mAP@class').current() > 75  # 45 is what knows nothing


def test_features_of_another_width_are_rejected_before_the_training(answers_run):
    cfg = answers_run()
    cfg.model.neck.in_channels = (3, 6)
    with pytest.raises(AnnotationError, match='features of width 8, and the first layer of the model takes 9'):
        train(cfg, 'wrong')

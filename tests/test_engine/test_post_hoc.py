"""Test the hook that recalibrates: fitted once, never to the test set, kept in the checkpoint."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.runner import Runner

from mmml_losses.engine.config_data import label_with_the_test_run
from mmml_losses.engine.hooks.post_hoc import PostHocCalibrationHook, averaged_weights, predict
from mmml_losses.evaluation import log_odds_of
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.losses.links import PhiLink, TemperatureLink
from mmml_losses.procedures import pseudo_label as pseudo_labels
from mmml_losses.utils.errors import UsageError
from tests.helpers.few_features import NUM_CLASSES, ROOT, feature_config, write_features
from tests.helpers.interruption import StopAfter

pytestmark = pytest.mark.usefixtures('unformatted_configs')
HOOK = 'mmml_losses.PostHocCalibrationHook'


@pytest.fixture(scope='module')
def features(tmp_path_factory) -> Path:
    return write_features(tmp_path_factory.mktemp('features') / 'features.npz')


@pytest.fixture
def config(features, tmp_path):
    """Return the config of a short training with the hook."""

    def make(loss='AsymmetricLoss', folder='run', hooks=(), **arguments):
        cfg = feature_config(features, tmp_path / folder)
        cfg.model.head.loss = ConfigDict(type=f'mmml_losses.{loss}')
        cfg.custom_hooks = [*cfg.custom_hooks, dict(type=HOOK, **arguments), *hooks]
        cfg.experiment_name = f'{tmp_path.name}_{folder}'
        return cfg

    return make


def trained(cfg):
    runner = Runner.from_cfg(cfg)
    runner.train()
    return runner


def figures(runner, method, mode='val'):
    return runner.message_hub.get_scalar(f'{mode}/multi-label/{method}ECE').current()


def hook_of(runner):
    return next(hook for hook in runner.hooks if isinstance(hook, PostHocCalibrationHook))


def run_test(cfg, checkpoint):
    cfg = deepcopy(cfg)
    cfg.load_from, cfg.experiment_name = str(checkpoint), f'{cfg.experiment_name}_test'
    runner = Runner.from_cfg(cfg)
    return runner.test(), runner


def test_the_last_validation_and_a_test_of_its_checkpoint_report_the_same(config, tmp_path):
    cfg = config(methods=['phi', 'temperature', 'platt', 'vector'])
    runner = trained(cfg)
    metrics, _ = run_test(cfg, tmp_path / 'run' / 'epoch_3.pth')
    for name in ('', 'phi/', 'temperature/', 'platt/', 'vector/'):
        assert metrics[f'multi-label/{name}ECE'] == figures(runner, name)
    assert metrics['multi-label/temperature/mAP@class'] == metrics['multi-label/mAP@class']
    assert metrics['multi-label/phi/mAP@class'] > 0
    stored = check_checkpoint(tmp_path / 'run' / 'epoch_3.pth')['post_hoc']
    assert stored['vector']['scale'].shape == (NUM_CLASSES,)
    assert 'post_hoc' not in check_checkpoint(tmp_path / 'run' / 'epoch_2.pth')


def test_the_temperature_is_the_best_for_training_samples_and_averaged_weights(config, tmp_path):
    average = dict(type='EMAHook', momentum=0.2, priority='NORMAL')
    runner = trained(config(loss='TwoWayLoss', methods=['temperature'], num_samples=20, hooks=[average]))
    hook = hook_of(runner)
    positions = hook._loader.dataset.indices
    assert len(positions) == len(set(positions)) == 20
    assert (positions[0], positions[-1]) == (0, 47)
    with averaged_weights(runner):
        predictions = predict(runner.model, hook._loader)
    expected = TemperatureLink()
    expected.fit(log_odds_of(predictions.scores), torch.from_numpy(predictions.labels).double())
    assert torch.equal(hook.links['temperature'].temperature, expected.temperature)
    assert not torch.equal(
        expected.temperature,
        fitted_to(predict(runner.model, hook._loader)),
    ), 'the average is no other than the weights themselves'


def fitted_to(predictions):
    link = TemperatureLink()
    link.fit(log_odds_of(predictions.scores), torch.from_numpy(predictions.labels).double())
    return link.temperature


def test_the_hook_leaves_the_training_as_it_is(config, tmp_path):
    first = trained(config(folder='with', methods=['temperature']))
    cfg = config(folder='without', methods=['temperature'])
    cfg.custom_hooks = cfg.custom_hooks[:-1]
    second = trained(cfg)
    states = first.model.state_dict(), second.model.state_dict()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_a_resumed_training_fits_the_same_values(config, tmp_path):
    unbroken = trained(config(folder='unbroken', methods=['platt']))
    cfg = config(folder='broken', methods=['platt'])
    runner = Runner.from_cfg(cfg)
    runner.register_hook(StopAfter(2))
    with pytest.raises(KeyboardInterrupt):
        runner.train()
    cfg.resume, cfg.experiment_name = True, f'{cfg.experiment_name}_resumed'
    resumed = trained(cfg)
    first, second = (hook_of(each).links['platt'].state_dict() for each in (unbroken, resumed))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_a_new_training_does_not_take_the_values_of_the_checkpoint_it_starts_from(config, tmp_path):
    trained(config(folder='first', methods=['temperature']))
    cfg = config(folder='second', methods=['temperature'])
    cfg.load_from = str(tmp_path / 'first' / 'epoch_3.pth')
    cfg.train_cfg.val_interval = 1
    runner = Runner.from_cfg(cfg)
    runner.register_hook(StopAfter(2))
    with pytest.raises(KeyboardInterrupt):
        runner.train()
    assert hook_of(runner).links == {}
    assert 'val/multi-label/temperature/ECE' not in runner.message_hub.log_scalars


def test_training_by_iterations_fits_at_its_end(config, tmp_path):
    cfg = config(methods=['temperature'])
    cfg.train_cfg = ConfigDict(by_epoch=False, max_iters=4, val_interval=4)
    cfg.param_scheduler = None
    cfg.train_dataloader.sampler = dict(type='InfiniteSampler', shuffle=True)
    cfg.default_hooks.checkpoint.update(by_epoch=False, interval=2)
    cfg.log_processor = dict(by_epoch=False)
    runner = trained(cfg)
    assert figures(runner, 'temperature/') >= 0
    assert 'post_hoc' in check_checkpoint(tmp_path / 'run' / 'iter_4.pth')
    assert 'post_hoc' not in check_checkpoint(tmp_path / 'run' / 'iter_2.pth')


def test_a_checkpoint_without_values_is_tested_raw_with_a_warning(config, tmp_path, capsys):
    cfg = config(methods=['temperature'])
    trained(cfg)
    metrics, _ = run_test(cfg, tmp_path / 'run' / 'epoch_2.pth')
    assert 'multi-label/ECE' in metrics
    assert not [name for name in metrics if 'temperature' in name]
    assert 'nothing is fitted for temperature, because the checkpoint has none' in capsys.readouterr().out


def test_labels_that_cannot_be_fitted_do_not_lose_the_checkpoint(config, tmp_path, capsys, monkeypatch):
    def fail(*args):
        raise ValueError('targets must hold positive and negative labels, got only one kind')

    monkeypatch.setattr(TemperatureLink, 'fit_values', fail)
    trained(config(methods=['temperature']))
    assert (tmp_path / 'run' / 'epoch_3.pth').is_file()
    assert 'No temperature scaling could be fitted: targets must hold' in capsys.readouterr().out


def test_held_out_data_is_taken_and_the_test_set_rejected(config, tmp_path):
    cfg = config(methods=['temperature'])
    held_out = deepcopy(cfg.train_dataloader)
    held_out.update(sampler=dict(type='DefaultSampler', shuffle=False))
    held_out.dataset.update(indices=list(range(10)), pipeline=cfg.test_dataloader.dataset.pipeline)
    cfg.custom_hooks[-1]['dataloader'] = held_out
    assert len(hook_of(trained(cfg))._loader.dataset) == 10
    cfg = config(folder='refused', methods=['temperature'])
    cfg.custom_hooks[-1]['dataloader'] = dict(cfg.val_dataloader, batch_size=3)
    with pytest.raises(UsageError, match='dataloader must not be that of the test'):
        trained(cfg)
    assert not list((tmp_path / 'refused').glob('*.pth'))


@pytest.mark.parametrize(
    ('loss', 'constants'),
    [
        (
            dict(type='FocalLoss', gamma=3.0, alpha=0.25),
            dict(gamma_positive=3.0, gamma_negative=3.0, margin=0.0, alpha=0.25),
        ),
        (
            dict(
                type='SumLoss',
                losses=dict(
                    lpr=dict(type='mmml_losses.LabelPairRegularizer'),
                    asl=dict(type='mmml_losses.AsymmetricLoss', gamma_negative=2.0),
                ),
            ),
            dict(gamma_positive=0.0, gamma_negative=2.0, margin=0.05, alpha=0.5),
        ),
    ],
)
def test_phi_has_the_parameters_of_the_loss(config, loss, constants):
    cfg = config(methods=['phi'])
    cfg.model.head.loss = ConfigDict({**loss, 'type': f'mmml_losses.{loss["type"]}'})
    runner = Runner.from_cfg(cfg)
    runner.call_hook('before_run')
    link = hook_of(runner).links['phi']
    assert isinstance(link, PhiLink)
    assert link.constants == constants


@pytest.mark.parametrize(
    ('loss', 'message'),
    [
        (dict(type='mmml_losses.BCELoss'), 'phi is not defined for mmml_losses.BCELoss'),
        (dict(type='mmml_losses.AsymmetricLoss', link='phi'), 'read by the sigmoid, got a loss with the link phi'),
    ],
)
def test_losses_without_phi_are_rejected_before_the_training(config, loss, message):
    cfg = config(methods=['phi'])
    cfg.model.head.loss = ConfigDict(loss)
    with pytest.raises(UsageError, match=message):
        Runner.from_cfg(cfg).call_hook('before_run')


def test_other_evaluators_are_rejected_and_runs_without_measures_left_alone(config, tmp_path):
    cfg = config(methods=['phi'])
    cfg.val_evaluator = cfg.test_evaluator = [dict(type='mmml_losses.MultiLabelAP')]
    with pytest.raises(UsageError, match=r'needs an evaluator .*MultiLabelEvaluator.*, got Evaluator'):
        trained(cfg)
    cfg = config(folder='pseudo', methods=['phi'])
    trained(cfg)
    cfg.load_from, cfg.experiment_name = str(tmp_path / 'pseudo' / 'epoch_3.pth'), 'pseudo labels'
    label_with_the_test_run(cfg, 'train')
    text = pseudo_labels.write_pseudo_labels(cfg, tmp_path / 'labels.json', 0.5, {})
    assert 'labels before' in text


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(methods=['temprature']), r"methods must be some of \('phi', 'temperature', .*got \['temprature'\]"),
        (dict(methods='phi'), 'methods must be some of'),
        (dict(methods=[]), 'methods must be some of'),
        (dict(num_samples=0), 'num_samples must be at least 1, got 0'),
    ],
)
def test_bad_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        PostHocCalibrationHook(**arguments)


def test_two_processes_fit_what_one_would(config, features, tmp_path):
    """Both fit to all samples; the weights differ, because a step sees half as many."""
    cfg = config(methods=['temperature'], num_samples=21)
    cfg.pop('experiment_name')
    cfg.dump(tmp_path / 'config.py')
    launcher = ('-m', 'torch.distributed.run', '--nproc_per_node=2', '--standalone')
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}

    def call(tool, *arguments, launcher=()):
        command = [sys.executable, '-W', 'ignore', *launcher, str(ROOT / 'tools' / tool), *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr

    folder = tmp_path / 'two'
    arguments = (tmp_path / 'config.py', '--work-dir', folder)
    assert 'fitted to 21 samples' in call('train.py', *arguments, '--launcher', 'pytorch', launcher=launcher)
    checkpoint = folder / 'epoch_3.pth'
    out = tmp_path / 'metrics.json'
    call('test.py', tmp_path / 'config.py', checkpoint, '--work-dir', folder, '--out', out, '--out-item', 'metrics')
    metrics = json.loads(out.read_text())
    assert {'multi-label/ECE', 'multi-label/temperature/ECE'} <= set(metrics)
    assert {'multi-label/CalibrationError', 'multi-label/temperature/CalibrationError'} <= set(metrics['details'])

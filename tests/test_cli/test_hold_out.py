"""Test ``--hold-out``: training, validation, test and calibration each read the right images."""

from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.dataset import RepeatDataset
from mmengine.registry import DATASETS, DefaultScope

from mmml_losses.datasets import HeldOut, read_labels
from mmml_losses.engine.config_data import hold_out, hold_out_of
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.utils.errors import UsageError
from tests.helpers.few_features import NUM_TRAIN, feature_options, write_features
from tests.helpers.tools import error_of, run_tool

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ('spa_lpr_digits', 'lasd_digits', 'hill_digits', 'role_digits', 'dr_digits')


@pytest.fixture
def features(tmp_path) -> list[str]:
    """Return the arguments of a tool that reads a small file of features."""
    options = feature_options(write_features(tmp_path / 'features.npz'))
    return ['--cfg-options', *(f'{key}={value}' for key, value in options.items())]


def digits(name: str, scenes_folder: Path, **changes) -> Config:
    cfg = Config.fromfile(ROOT / 'configs' / f'{name}.py')
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        leaf = loader.dataset
        while 'dataset' in leaf:
            leaf = leaf.dataset
        leaf.update(data_root=str(scenes_folder), num_train=64, num_test=48)
    cfg.merge_from_dict(changes)
    return cfg


def labels_of(cfg: Config, loader: str):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return read_labels(DATASETS.build(cfg[f'{loader}_dataloader'].dataset))


@pytest.mark.parametrize('name', DIGITS)
def test_the_training_set_is_split_and_the_test_set_stays(name, scenes_folder):
    whole, cfg = digits(name, scenes_folder), digits(name, scenes_folder)
    hold_out(cfg, 0.2)
    train, held_out = labels_of(cfg, 'train'), labels_of(cfg, 'val')
    assert sorted([*train.keys, *held_out.keys]) == sorted(labels_of(whole, 'train').keys)
    assert (held_out.labels == held_out.true_labels).all()
    assert cfg.test_dataloader == whole.test_dataloader
    assert cfg.train_dataloader.batch_size == whole.train_dataloader.batch_size
    leaf = cfg.val_dataloader.dataset
    while 'dataset' in leaf:
        leaf = leaf.dataset
    assert leaf.pipeline == whole.val_dataloader.dataset.pipeline
    assert leaf.test_mode


@pytest.mark.parametrize('repeat', ['RepeatDataset', RepeatDataset])
def test_a_repeated_training_set_is_split_before_it_is_repeated(scenes_folder, repeat):
    cfg = digits('bce_digits', scenes_folder)
    cfg.train_dataloader.dataset = dict(type=repeat, times=3, dataset=cfg.train_dataloader.dataset)
    hold_out(cfg, 0.25)
    train, held_out = labels_of(cfg, 'train'), labels_of(cfg, 'val')
    assert len(train.keys) == 3 * (64 - len(held_out.keys))
    assert 14 <= len(held_out.keys) <= 18


def test_the_held_out_part_is_found_by_its_class():
    assert hold_out_of(dict(dataset=dict(type=HeldOut, share=0.3, seed=2, dataset=dict(type='Any')))) == (0.3, 2)


def test_what_cannot_be_split_is_named(scenes_folder):
    cfg = digits('bce_digits', scenes_folder)
    hold_out(cfg, 0.2)
    with pytest.raises(UsageError, match='holds a part of the training set out already'):
        hold_out(cfg, 0.2)
    with pytest.raises(UsageError, match='the config has no train_dataloader'):
        hold_out(Config(dict()), 0.2)
    cfg = digits('bce_digits', scenes_folder, val_dataloader=None, test_dataloader=None)
    with pytest.raises(UsageError, match='no val_dataloader with a pipeline'):
        hold_out(cfg, 0.2)


def test_a_run_validates_and_is_tested_on_the_held_out_images(features, tmp_path, capsys):
    config, run = ROOT / 'configs' / 'bce_features.py', tmp_path / 'run'
    run_tool('train.py', config, '--hold-out', 0.25, '--work-dir', run, *features)
    checkpoint = run / 'epoch_3.pth'
    assert "part='held_out'" in check_checkpoint(checkpoint)['meta']['cfg']
    sizes = {}
    for name, arguments in (('held_out', ['--hold-out', 0.25]), ('test', [])):
        file = tmp_path / f'{name}.npz'
        run_tool('test.py', config, checkpoint, *arguments, '--work-dir', run, '--out', file, *features)
        sizes[name] = len(np.load(file)['labels'])
    assert sizes == dict(held_out=NUM_TRAIN // 4, test=24)


def test_a_checkpoint_that_saw_the_held_out_images_is_rejected(features, tmp_path):
    config = ROOT / 'configs' / 'bce_features.py'
    run_tool('train.py', config, '--no-validate', '--work-dir', tmp_path, *features)
    for tool in ('test.py', 'calibrate.py'):
        arguments = (config, tmp_path / 'epoch_3.pth', '--hold-out', 0.25, '--work-dir', tmp_path / 'out', *features)
        assert '--hold-out 0.25 must be given as in the training' in error_of(tool, *arguments)


def test_a_training_is_resumed_with_the_same_images_alone(features, tmp_path):
    config, run = ROOT / 'configs' / 'bce_features.py', tmp_path / 'run'
    run_tool('train.py', config, '--hold-out', 0.25, '--no-validate', '--work-dir', run, *features)
    for arguments in ([], ['--hold-out', 0.5]):
        message = error_of('train.py', config, '--resume', *arguments, '--work-dir', run, *features)
        assert 'holds a training with other images' in message
    run_tool('train.py', config, '--resume', '--hold-out', 0.25, '--no-validate', '--work-dir', run, *features)


def test_a_resumed_checkpoint_of_another_folder_has_not_seen_the_held_out_images(features, tmp_path):
    config = ROOT / 'configs' / 'bce_features.py'
    run_tool('train.py', config, '--no-validate', '--work-dir', tmp_path / 'first', *features)
    arguments = ('--resume', tmp_path / 'first' / 'epoch_3.pth', '--work-dir', tmp_path / 'second')
    message = error_of('train.py', config, '--hold-out', 0.25, *arguments, *features)
    assert 'epoch_3.pth holds a training with other images, which cannot be resumed' in message
    run_tool('train.py', config, '--no-validate', *arguments, *features)


def test_a_temperature_is_fitted_to_the_held_out_images(features, tmp_path, capsys):
    config = ROOT / 'configs' / 'bce_features.py'
    run_tool('train.py', config, '--hold-out', 0.25, '--no-validate', '--work-dir', tmp_path / 'run', *features)
    capsys.readouterr()
    out = tmp_path / 'calibrated.pth'
    run_tool('calibrate.py', config, tmp_path / 'run' / 'epoch_3.pth', '--out', out, '--work-dir', tmp_path, *features)
    printed = ''.join(capsys.readouterr())
    assert 'fitted to 12 images' in printed
    assert 'has the test images' not in printed
    written = Config.fromfile(out.with_suffix('.py'))
    assert written.val_dataloader.dataset.part == 'held_out'
    assert written.test_dataloader.dataset.split == 'test'


def test_a_fit_to_the_test_images_is_warned_of(features, tmp_path, capsys):
    config = ROOT / 'configs' / 'bce_features.py'
    run_tool('train.py', config, '--no-validate', '--work-dir', tmp_path / 'run', *features)
    capsys.readouterr()
    out = ('--out', tmp_path / 'calibrated.pth', '--work-dir', tmp_path)
    run_tool('calibrate.py', config, tmp_path / 'run' / 'epoch_3.pth', *out, *features)
    assert 'The val_dataloader has the test images' in ''.join(capsys.readouterr())


def test_a_hook_fits_to_the_held_out_images(features, tmp_path, capsys):
    hook = "custom_hooks=[dict(type='mmml_losses.FeatureStatisticsHook'),"
    hook += "dict(type='mmml_losses.PostHocCalibrationHook')]"
    config = tmp_path / 'config.py'
    config.write_text(f"_base_ = '{ROOT / 'configs' / 'bce_features.py'}'\n{hook}\n")
    run_tool('train.py', config, '--hold-out', 0.25, '--work-dir', tmp_path / 'run', *features)
    assert 'temperature scaling, fitted to 12 samples' in ''.join(capsys.readouterr())

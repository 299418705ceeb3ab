"""Test tools/train.py and tools/test.py as a user calls them."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import TRANSFORMS

from mmml_losses.hosts.checkpoints import check_checkpoint
from tests.helpers.tools import error_of

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / 'configs' / 'spa_lpr_digits.py'


def call(tool, *arguments, cwd=ROOT, launcher=()):
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    command = [sys.executable, '-W', 'ignore', *launcher, str(ROOT / 'tools' / tool), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def succeed(*arguments, **kwargs):
    done = call(*arguments, **kwargs)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def fail(*arguments, **kwargs):
    done = call(*arguments, **kwargs)
    assert done.returncode == 1
    assert 'Traceback' not in done.stderr
    return done.stderr


def few_scenes(scenes_folder):
    options = ['train_cfg.max_epochs=2', 'train_dataloader.batch_size=16', 'default_hooks.logger.interval=2']
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        settings = dict(data_root=scenes_folder, num_train=64, num_test=48)
        options += [f'{loader}.dataset.{key}={value}' for key, value in settings.items()]
    return ['--cfg-options', *options]


@pytest.fixture(scope='module')
def trained(scenes_folder, tmp_path_factory):
    """Train for a short time; return the folder and the output."""
    folder = tmp_path_factory.mktemp('trained')
    return folder, succeed('train.py', CONFIG, '--work-dir', folder, *few_scenes(scenes_folder))


def test_training_logs_the_parts_and_saves_a_checkpoint(trained):
    folder, output = trained
    assert (folder / 'epoch_2.pth').is_file()
    line = next(line for line in output.splitlines() if 'Epoch(train)' in line)
    assert all(f' {name}: ' in line for name in ('loss', 'spa', 'lpr'))


def test_resuming_a_finished_training_does_nothing(trained, scenes_folder):
    folder, _ = trained
    output = succeed('train.py', CONFIG, '--work-dir', folder, '--resume', *few_scenes(scenes_folder))
    assert 'resumed epoch: 2' in output
    assert 'Epoch(train)' not in output


def test_a_folder_of_another_loss_is_not_resumed(trained, scenes_folder):
    folder, _ = trained
    before = sorted(folder.rglob('*'))
    arguments = (CONFIG, '--loss', 'hill', '--work-dir', folder, '--resume')
    message = error_of('train.py', *arguments, *few_scenes(scenes_folder))
    assert message.startswith(f'{folder} holds a training with the loss SumLoss(lpr=LabelPairRegularizer, spa=SPALoss)')
    assert 'cannot be resumed with the loss HillLoss' in message
    assert '--work-dir' in message
    assert sorted(folder.rglob('*')) == before


def test_losses_of_one_config_train_in_folders_of_their_own(scenes_folder, tmp_path):
    config = ROOT / 'configs' / 'spa_lpr_digits.py'
    for arguments in ((), ('--loss', 'asl')):
        succeed('train.py', config, *arguments, '--no-validate', *few_scenes(scenes_folder), cwd=tmp_path)
    folders = {folder.name: (folder / 'epoch_2.pth').is_file() for folder in (tmp_path / 'work_dirs').iterdir()}
    assert folders == {'spa_lpr_digits': True, 'spa_lpr_digits-asl': True}


def test_predictions_and_metrics_are_saved(trained, scenes_folder, tmp_path):
    folder, _ = trained
    arguments = ('test.py', CONFIG, folder / 'epoch_2.pth', '--work-dir', tmp_path, '--out')
    succeed(*arguments, tmp_path / 'predictions.npz', *few_scenes(scenes_folder))
    with np.load(tmp_path / 'predictions.npz', allow_pickle=False) as arrays:
        assert {array.shape for array in arrays.values() if array.ndim == 2} == {(48, 10)}
    frequent = f'test_evaluator.metrics.0.class_frequencies={[200] * 10}'.replace(' ', '')
    succeed(*arguments, tmp_path / 'metrics.json', '--out-item', 'metrics', *few_scenes(scenes_folder), frequent)
    metrics = json.loads((tmp_path / 'metrics.json').read_text(), parse_constant=pytest.fail)  # NaN is no JSON
    assert metrics['multi-label/mAP@tail'] is None
    assert metrics['details']['multi-label/MultiLabelAP']['mAP@tail']['value'] is None
    assert {'multi-label/mAP@class', 'multi-label/mAP@sample', 'multi-label/ACE', 'multi-label/MCE'} <= set(metrics)
    assert len(metrics['details']['multi-label/CalibrationError']['bins']['counts']) == 10
    succeed(*arguments, tmp_path / 'predictions.pkl', '--tta', *few_scenes(scenes_folder))
    assert (tmp_path / 'predictions.pkl').is_file()


def test_a_checkpoint_of_another_loss_is_noticed(trained, scenes_folder, tmp_path):
    arguments = (trained[0] / 'epoch_2.pth', '--work-dir', tmp_path, *few_scenes(scenes_folder))
    assert 'was trained with the loss' not in succeed('test.py', CONFIG, *arguments)
    output = succeed('test.py', 'configs/asl_digits.py', *arguments)
    assert 'was trained with the loss' in output
    assert 'mmml_losses.SPALoss' in output


def test_loss_is_swapped_by_name_short_name_and_file(scenes_folder, tmp_path):
    (tmp_path / 'mine.py').write_text("loss = dict(type='mmml_losses.SPALoss', negative_scale=2.0)\n")
    for number, loss in enumerate(['AsymmetricLoss', 'asl', tmp_path / 'mine.py']):
        folder = tmp_path / str(number)
        arguments = (CONFIG, '--loss', loss, '--work-dir', folder, '--no-validate', *few_scenes(scenes_folder))
        output = succeed('train.py', *arguments)
        assert ' spa: ' not in output
    assert 'negative_scale=2.0' in next(folder.glob('*/vis_data/config.py')).read_text()


def test_a_network_is_swapped_for_training_test_and_resuming(scenes_folder, tmp_path):
    small = tmp_path / 'small.py'
    small.write_text(
        "model = dict(backbone=dict(type='ResNet', depth=34, num_stages=1, strides=(1,), dilations=(1,),"
        " out_indices=(0,)), neck=dict(type='GlobalAveragePooling'), head=dict(in_channels=64))\n"
    )
    run, scenes = tmp_path / 'run', few_scenes(scenes_folder)
    succeed('train.py', CONFIG, '--model', small, '--work-dir', run, '--no-validate', *scenes)
    weights = check_checkpoint(run / 'epoch_2.pth')['state_dict']
    assert weights['head.fc.weight'].shape == (10, 64)
    output = succeed('test.py', CONFIG, run / 'epoch_2.pth', '--model', small, '--work-dir', tmp_path / 'test', *scenes)
    assert 'weights that do not fit' not in output
    message = error_of('train.py', CONFIG, '--work-dir', run, '--resume', *scenes)
    assert "the network {'type': 'ResNet', 'depth': 34}, which cannot be resumed" in message


def test_loss_of_a_head_of_mmpretrain_is_swapped(scenes_folder, tmp_path):
    config = tmp_path / 'theirs.py'
    config.write_text(
        f"_base_ = '{ROOT / 'configs' / 'bce_digits.py'}'\n"
        "model = dict(head=dict(_delete_=True, type='MultiLabelLinearClsHead', num_classes=10, in_channels=128))\n"
    )
    output = succeed(
        'train.py', config, '--loss', 'SPALoss', '--work-dir', tmp_path / 'run', *few_scenes(scenes_folder)
    )
    assert 'Epoch(val)' in output


def test_missing_data_is_one_clear_message(tmp_path):
    message = fail('train.py', ROOT / 'configs' / 'spa_lpr_coco.py', cwd=tmp_path)
    for part in (
        'data/coco/annotations/instances_train2014.json',
        'data/coco/train2014',
        'data/coco/annotations/instances_val2014.json',
        'data/coco/val2014',
        'python tools/train.py',
        'spa_lpr_digits.py',
    ):
        assert part in message
    assert list(tmp_path.iterdir()) == []


def test_bad_calls_end_with_one_sentence(trained, tmp_path):
    folder, _ = trained
    assert 'config nothing.py does not exist' in fail('train.py', 'nothing.py')  # from a shell
    assert "did you mean 'SPALoss'" in error_of('train.py', CONFIG, '--loss', 'SPALos')
    misspelt = ('--work-dir', tmp_path, '--cfg-options', 'model.head.loss.losses.spa.type=mmml_losses.SPALos')
    assert "did you mean 'SPALoss'" in error_of('train.py', CONFIG, *misspelt)
    short = error_of('train.py', CONFIG, '--work-dir', tmp_path / 'short', '--cfg-options', 'train_cfg.max_epochs=1')
    assert 'train_cfg.max_epochs must be more than 1, where the CosineAnnealingLR of param_scheduler begins' in short
    assert not (tmp_path / 'short').exists()
    assert 'checkpoint nothing.pth does not exist' in error_of('test.py', CONFIG, 'nothing.pth')
    assert 'nothing.pth does not exist' in error_of('train.py', CONFIG, '--resume', 'nothing.pth')
    if not torch.cuda.is_available():
        assert '--amp needs a GPU' in error_of('train.py', CONFIG, '--amp')
    wrong_suffix = call('test.py', CONFIG, folder / 'epoch_2.pth', '--out', 'predictions.txt')
    assert wrong_suffix.returncode == 2
    assert '--out of pred must end in one of' in wrong_suffix.stderr


def test_augmented_tests_are_for_the_test_set(capsys):
    assert error_of('test.py', CONFIG, 'epoch_2.pth', '--tta', '--dataloader', 'train') == 2
    assert '--tta changes the pipeline of the test dataset: leave out --dataloader' in capsys.readouterr().err


class Command:
    def __reduce__(self):
        return os.system, ('echo code from a checkpoint ran',)


def test_a_checkpoint_with_code_is_rejected(tmp_path):
    torch.save(dict(state_dict={}, meta=dict(cfg=Command())), tmp_path / 'foreign.pth')
    message = fail('test.py', CONFIG, tmp_path / 'foreign.pth', '--work-dir', tmp_path / 'run')
    assert 'is rejected, loading it could run code' in message
    message = fail('train.py', CONFIG, '--resume', tmp_path / 'foreign.pth', '--work-dir', tmp_path / 'run')
    assert 'is rejected, loading it could run code' in message
    assert not (tmp_path / 'run').exists()


def test_config_text_inside_a_checkpoint_is_never_run(trained, scenes_folder, tmp_path):
    folder, _ = trained
    checkpoint = check_checkpoint(folder / 'epoch_2.pth')
    text = f'open({str(tmp_path / "ran")!r}, "w")'
    checkpoint['meta'].update(cfg=text, epoch=1)
    checkpoint['message_hub']['runtime_info']['cfg'] = text
    torch.save(checkpoint, tmp_path / 'text.pth')
    options = ('--work-dir', tmp_path / 'run', *few_scenes(scenes_folder))
    assert 'mAP@class' in succeed('test.py', CONFIG, tmp_path / 'text.pth', *options)
    assert 'resumed epoch: 1' in succeed('train.py', CONFIG, '--resume', tmp_path / 'text.pth', *options)
    checkpoint['meta']['config'] = text
    torch.save(checkpoint, tmp_path / 'text.pth')
    assert "would run the text of its meta['config']" in fail(
        'train.py', CONFIG, '--resume', tmp_path / 'text.pth', *options
    )
    assert not (tmp_path / 'ran').exists()


def test_two_processes_train_and_evaluate_without_a_gpu(scenes_folder, trained, tmp_path):
    launcher = ('-m', 'torch.distributed.run', '--nproc_per_node=2', '--standalone')
    options = few_scenes(scenes_folder)
    arguments = (CONFIG, '--launcher', 'pytorch', '--work-dir', tmp_path / 'run', *options)
    output = succeed('train.py', *arguments, launcher=launcher)
    assert '[2/2]' in output  # 64 scenes in batches of 16 on two processes
    checkpoint = trained[0] / 'epoch_2.pth'
    figures = []
    for extra, start in ((('--launcher', 'pytorch'), launcher), ((), ())):
        out = tmp_path / f'metrics{len(start)}.json'
        arguments = (CONFIG, checkpoint, '--work-dir', tmp_path / 'test', '--out', out, '--out-item', 'metrics', *extra)
        succeed('test.py', *arguments, *options, launcher=start)
        figures.append(json.loads(out.read_text())['multi-label/mAP@class'])
    assert figures[0] == pytest.approx(figures[1])


@pytest.mark.parametrize('kind', ['PackInputs', 'mmpretrain.PackInputs', TRANSFORMS.get('PackInputs')])
def test_true_labels_are_packed_by_every_form_of_a_pipeline(kind):
    cfg = Config(dict(test_dataloader=dict(dataset=dict(type='Any', pipeline=[dict(type=kind)]))))
    runpy.run_path(str(ROOT / 'tools' / 'test.py'))['pack_true_labels'](cfg)
    assert cfg.test_dataloader.dataset.pipeline == [dict(type=kind, algorithm_keys=['true_label'])]

"""Test tools/self_train.py as a user calls it, killed and called again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mmml_losses.hosts.checkpoints import check_checkpoint
from tests.helpers.few_features import feature_options, write_features
from tests.helpers.tools import error_of

ROOT = Path(__file__).resolve().parents[2]
CONFIG = 'configs/bce_features.py'
# A hook that kills its own process once, and notes it in a file.
KILLER = """
import os, pathlib, signal
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

@HOOKS.register_module()
class KillOnce(Hook):
    priority = 'LOWEST'

    def after_train_epoch(self, runner):
        folder = pathlib.Path(runner.work_dir)
        mark = folder.parents[1] / f'{folder.parent.name} was killed'
        if folder.name == 'round_1_training' and runner.epoch == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope='module')
def features(tmp_path_factory):
    return write_features(tmp_path_factory.mktemp('features') / 'features.npz')


@pytest.fixture
def call(features, tmp_path):
    """Return a function that calls the tool with a config that kills its second training once."""
    (tmp_path / 'killer.py').write_text(KILLER)
    config = tmp_path / 'config.py'
    config.write_text(
        f"_base_ = '{ROOT / CONFIG}'\n"
        "custom_imports = dict(imports=['mmml_losses', 'killer'], allow_failed_imports=False)\n"
        "custom_hooks = [*_base_.custom_hooks, dict(type='mmengine.KillOnce')]\n"
    )

    def run(folder, *arguments, config=config, launcher=()):
        environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': f'{ROOT}{os.pathsep}{tmp_path}'}
        command = [sys.executable, '-W', 'ignore', *launcher, str(ROOT / 'tools' / 'self_train.py'), str(config)]
        options = [f'{key}={value}' for key, value in feature_options(features).items()]
        arguments = ['--work-dir', tmp_path / folder, *arguments, '--cfg-options', *options]
        return subprocess.run(
            [*command, *map(str, arguments)], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def last_weights(folder):
    return check_checkpoint(folder / 'round_1_training' / 'epoch_3.pth')['state_dict']


def test_the_same_command_resumes_after_a_kill(call, tmp_path):
    (tmp_path / 'unbroken was killed').touch()
    unbroken = call('unbroken', '--loss', 'spa', '--threshold', '0.3')
    assert unbroken.returncode == 0, unbroken.stderr[-3000:]
    killed = call('broken', '--loss', 'spa', '--threshold', '0.3')
    assert killed.returncode == -signal.SIGKILL
    again = call('broken', '--loss', 'spa', '--threshold', '0.3', '--resume')
    assert again.returncode == 0, again.stderr[-3000:]
    assert 'round_0_training: finished before\n' in again.stdout
    assert 'round_1_training: goes on from epoch_2.pth\n' in again.stdout
    first, second = last_weights(tmp_path / 'unbroken'), last_weights(tmp_path / 'broken')
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    tables = [run.stdout[run.stdout.index('metric ') :] for run in (unbroken, again)]
    assert tables[0] == tables[1]
    assert tables[0].splitlines()[0].split() == ['metric', 'round', '0', 'round', '1']
    assert 'multi-label/mAP@class' in tables[0]
    refused = call('broken', '--loss', 'bce', '--threshold', '0.3')
    assert refused.returncode == 1
    assert "model.head.loss.type: 'mmml_losses.SPALoss' there, 'mmml_losses.BCELoss' now" in refused.stderr


def test_two_processes_share_the_work_and_one_alone_is_rejected(call, tmp_path):
    launcher = ('-m', 'torch.distributed.run', '--nproc_per_node=2', '--standalone')
    done = call('run', '--launcher', 'pytorch', config=ROOT / CONFIG, launcher=launcher)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count('wrote ') == done.stdout.count('\nround_1_training\n') == 1
    assert last_weights(tmp_path / 'run')
    alone = call('run', config=ROOT / CONFIG)
    assert alone.returncode == 1
    assert 'processes: 2 there, 1 now' in alone.stderr


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('--threshold', '1.4'), '--threshold must be in (0, 1), got 1.4'),
        (('--rounds', '0'), '--rounds must be at least 1, got 0'),
        (('--loss', 'SPALos'), "did you mean 'SPALoss'"),
    ],
)
def test_bad_calls_end_with_one_sentence(features, tmp_path, arguments, message):
    options = [f'{key}={value}' for key, value in feature_options(features).items()]
    work_dir = tmp_path / 'run'
    error = error_of('self_train.py', ROOT / CONFIG, '--work-dir', work_dir, *arguments, '--cfg-options', *options)
    assert message in error
    assert len(error.splitlines()) == 1
    assert not work_dir.exists()

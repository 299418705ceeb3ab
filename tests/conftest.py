"""Fixtures that several test files share."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.config import config as mmengine_config
from mmengine.registry import DefaultScope
from yapf.yapflib import yapf_api

ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser):
    parser.addoption('--fail-on-skip', action='store_true', help='fail the run if a test was skipped')


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """Fail a run in which a test was skipped, if requested: in a complete environment each skip hides a mistake."""
    reporter = session.config.pluginmanager.get_plugin('terminalreporter')
    skipped = reporter.stats.get('skipped', []) if reporter else []
    if session.config.getoption('--fail-on-skip') and skipped and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f'{len(skipped)} skipped, which --fail-on-skip counts as failed:', red=True)
        for report in skipped:
            reporter.write_line(f'  {report.nodeid}: {report.longrepr[-1]}')
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def no_default_scope():
    """Forget the default scope that a Runner of another test has left."""
    DefaultScope._instance_dict.clear()


@pytest.fixture(autouse=True)
def fixed_seed():
    """Seed all random numbers, also those of Runners without a seed, whatever test ran before."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope='session')
def scenes_folder(tmp_path_factory) -> Path:
    """Return the folder of a few digit scenes, which the first test that uses it fills."""
    return tmp_path_factory.mktemp('digit_scenes') / 'scenes'


@pytest.fixture
def small_run(scenes_folder, tmp_path):
    """Return a function that reads a ``_digits`` config and lets it train on few scenes within seconds."""

    def make(config_file: str, max_epochs: int = 2) -> Config:
        cfg = Config.fromfile(ROOT / 'configs' / config_file)
        cfg.work_dir = str(tmp_path / 'work_dir')
        cfg.train_cfg.update(max_epochs=max_epochs, val_interval=max_epochs)
        for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
            cfg[name].batch_size = 16
            cfg[name].dataset.update(data_root=str(scenes_folder), num_train=64, num_test=48)
        return cfg

    return make


@pytest.fixture(scope='module')
def unformatted_configs():
    """Switch off the formatting of the config's text, which takes longer than a short training."""
    with pytest.MonkeyPatch.context() as patch:
        # MMEngine takes the function from yapf when it is imported, onedl-mmengine when it formats.
        for module in (mmengine_config, yapf_api):
            patch.setattr(module, 'FormatCode', lambda text, **kwargs: (text, True), raising=False)
        yield

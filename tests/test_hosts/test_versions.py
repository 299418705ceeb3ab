"""Test that repairs of the installed packages change only what is broken."""

import subprocess
import sys

import pytest
import torch

from mmml_losses.hosts import versions


def test_mmpretrain_imports_in_a_fresh_interpreter():
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', 'import mmml_losses, mmpretrain.models'], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_applying_again_changes_nothing():
    before = len(versions._kept_alive)
    versions.apply()
    assert len(versions._kept_alive) == before


def test_torchvision_is_left_alone_where_it_fits_torch(monkeypatch):
    monkeypatch.setattr(versions, '_torchvision_wants_cuda', lambda: pytest.fail('looked without need'))
    monkeypatch.setattr(torch.version, 'cuda', '13.0')
    versions.define_torchvision_schemas()


def test_two_mmcvs_are_noticed(monkeypatch):
    monkeypatch.setattr(versions, 'is_installed', lambda name: True)
    with pytest.warns(UserWarning, match='mmcv and mmcv-lite are both installed'):
        versions.warn_of_two_mmcvs()

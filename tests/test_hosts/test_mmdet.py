"""What is said and known of MMDetection."""

import re

import pytest

from mmml_losses.hosts import mmdet


@pytest.mark.parametrize(
    ('installed', 'has_operators', 'expected'),
    [
        ('mmengine', True, "^pip uninstall mmcv-lite, then pip install .*'mmcv>=2.1.0,<2.2.0' 'mmdet>=3.3.0,<4.0.0'$"),
        ('onedl-mmengine', True, '^pip install onedl-mmdetection$'),
        ('onedl-mmengine', False, '^pip install .* --no-binary onedl-mmcv onedl-mmcv, then pip install onedl-mmdetect'),
    ],
)
def test_mmdetection_is_installed_from_the_packages_that_are_there(installed, has_operators, expected, monkeypatch):
    monkeypatch.setattr(mmdet, 'is_installed', lambda name: name == installed)
    assert re.search(expected, mmdet.how_to_install_mmdet(has_operators))

"""Test how configs of any project find the registered names."""

import subprocess
import sys

import pytest
from mmengine.registry import MODELS as MMENGINE_MODELS
from mmengine.registry import DefaultScope

from mmml_losses.hosts.mmdet import DETECTION_HEADS, how_to_install_mmdet
from mmml_losses.losses import SPALoss
from mmml_losses.registry import DATASETS, HOOKS, LOSSES, METRICS, MODELS


def run_python(code: str) -> str:
    """Run code in a fresh interpreter, where nothing is imported yet."""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_builds_from_mmengine_by_scoped_name():
    assert isinstance(MMENGINE_MODELS.build(dict(type='mmml_losses.SPALoss')), SPALoss)


def test_builds_from_mmpretrain_by_scoped_name():
    from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS

    assert isinstance(MMPRETRAIN_MODELS.build(dict(type='mmml_losses.SPALoss')), SPALoss)


@pytest.mark.needs_mmdet
def test_builds_from_mmdet_by_scoped_name():
    from mmdet.registry import MODELS as MMDET_MODELS

    assert isinstance(MMDET_MODELS.build(dict(type='mmml_losses.SPALoss')), SPALoss)


@pytest.mark.parametrize('host', ['mmpretrain', pytest.param('mmdet', marks=pytest.mark.needs_mmdet)])
def test_a_project_that_imports_only_the_package_can_build(host):
    code = (
        "from mmengine.utils import import_modules_from_strings; import_modules_from_strings(['mmml_losses'])\n"
        f'from {host}.registry import MODELS\n'
        "print(type(MODELS.build(dict(type='mmml_losses.SPALoss'))).__module__)"
    )
    assert run_python(code) == 'mmml_losses.losses.pointwise'


def test_full_import_paths_build():
    assert isinstance(MMENGINE_MODELS.build(dict(type='mmml_losses.losses.pointwise.SPALoss')), SPALoss)


def test_bare_names_stay_with_the_host():
    from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS

    assert MMPRETRAIN_MODELS.get('AsymmetricLoss').__module__.startswith('mmpretrain')
    assert MMENGINE_MODELS.module_dict.get('SPALoss') is None


@pytest.mark.parametrize(
    ('registry', 'name', 'near'),
    [
        (LOSSES, 'SPALos', "'SPALoss'"),
        (LOSSES, 'asymmetricloss', "'AsymmetricLoss'"),
        (MODELS, 'MultilabelHeads', "'MultiLabelHead'"),
        (METRICS, 'MultiLabelMAP', "'MultiLabelAP'"),
        (DATASETS, 'DigitsScenes', "'DigitScenes'"),
        (HOOKS, 'EpochSeed', "'EpochSeedHook'"),
    ],
)
def test_a_misspelt_name_is_answered_with_near_ones(registry, name, near):
    with pytest.raises(KeyError, match=f"'{name}' is not in the .* did you mean.*{near}"):
        registry.build(dict(type=name))
    with pytest.raises(KeyError, match=f'did you mean.*{near}'):
        registry.parent.build(dict(type=f'mmml_losses.{name}'))


def test_a_name_like_no_other_is_answered_with_the_list():
    with pytest.raises(KeyError, match=r'it has .*CocoMultiLabel, DigitScenes'):
        DATASETS.build(dict(type='Zyxwvu'))


def test_bare_names_in_our_registry_are_ours_inside_a_runner():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        assert type(LOSSES.build(dict(type='AsymmetricLoss'))).__module__ == 'mmml_losses.losses.pointwise'
        loss = LOSSES.build(dict(type='SumLoss', losses=dict(spa=dict(type='SPALoss')), link=dict(type='SigmoidLink')))
        assert isinstance(loss.losses['spa'], SPALoss)
        with pytest.raises(KeyError, match="did you mean 'SPALoss'"):
            LOSSES.build(dict(type='SPALos'))


def without(*blocked: str) -> str:
    """Return code that makes these packages or modules look absent."""
    return (
        'import sys, importlib.abc\n'
        'class Block(importlib.abc.MetaPathFinder):\n'
        '    def find_spec(self, name, path=None, target=None):\n'
        f'        if name in {blocked} or name.split(".")[0] in {blocked}: raise ModuleNotFoundError(name)\n'
        'sys.meta_path.insert(0, Block())\n'
        'import importlib.util\n'
        'find = importlib.util.find_spec\n'
        f'importlib.util.find_spec = lambda name, package=None: None if name in {blocked} else find(name, package)\n'
    )


def test_functional_needs_no_openmmlab():
    code = (
        without('mmengine', 'mmcv', 'mmpretrain', 'mmdet') + 'import torch, mmml_losses.functional as F\n'
        'print(F.spa_link(torch.zeros(1)).item() > 0, any(name.startswith("mm") and not name.startswith("mmml") '
        'and name != "mmap" for name in sys.modules))'
    )
    assert run_python(code) == 'True False'


FIND_WHAT_IS_NOT_FOR_DETECTION = (
    'import mmml_losses, sys\n'
    'assert "mmdet" not in sys.modules\n'
    'from mmml_losses.registry import DATASETS, HOOKS, METRICS, MODELS\n'
    'for registry, name in ((MODELS, "SPALoss"), (MODELS, "MultiLabelHead"), (DATASETS, "DigitScenes"), '
    '(METRICS, "DetectionCalibrationError"), (HOOKS, "DetectorCheckHook")): assert registry.get(name)\n'
    'assert "mmml_losses.models.detection" not in sys.modules\n'
)


def test_what_is_not_for_detection_does_not_import_the_heads():
    run_python(FIND_WHAT_IS_NOT_FOR_DETECTION)


@pytest.mark.parametrize(
    ('absent', 'missing'),
    [
        ('mmdet', 'MMDetection, which is not installed'),
        pytest.param(
            'mmcv._ext',
            'mmcv with its compiled operators, which the installed one has not',
            marks=pytest.mark.needs_mmdet,
        ),
    ],
)
@pytest.mark.parametrize(
    ('asked_for', 'code'),
    [
        ('mmml_losses.DETRHead', 'MODELS.build(dict(type="mmml_losses.DETRHead", num_classes=3))'),
        ('mmml_losses.models.detection', 'from mmml_losses.models.detection import LinkedScores'),
    ],
)
def test_errors_of_detection_modules_name_what_to_install(absent, missing, asked_for, code):
    said = run_python(
        without(absent) + FIND_WHAT_IS_NOT_FOR_DETECTION + 'from mmengine.registry import MODELS\n'
        f'try: {code}\n'
        'except ImportError as error: print(error)'
    )
    # The last line, because an mmcv without operators may print a line before it.
    assert said.splitlines()[-1] == f'{asked_for} needs {missing}: {how_to_install_mmdet(absent == "mmdet")}'


@pytest.mark.needs_mmdet
@pytest.mark.parametrize('name', DETECTION_HEADS)
def test_detection_heads_are_found_on_demand_next_to_mmdets(name):
    from mmdet.registry import MODELS as MMDET_MODELS

    ours, theirs = MMDET_MODELS.get(f'mmml_losses.{name}'), MMDET_MODELS.get(name)
    assert issubclass(ours, theirs)
    assert ours is not theirs
    assert ours is MODELS.get(name)


def test_detection_heads_are_among_the_near_names():
    with pytest.raises(KeyError, match=r"did you mean.*'DeformableDETRHead'"):
        MODELS.get('DeformableDetrHeads')

"""Test that MMPretrain's own classes work with this package, whatever was imported first."""

import subprocess
import sys

import pytest

from mmml_losses.hosts import mmpretrain as mmpretrain_host
from mmml_losses.hosts import versions

# A torchvision that does not fit torch has to be repaired before MMPretrain, also where this package comes later.
REPAIR = f"""
import importlib.util
spec = importlib.util.spec_from_file_location('versions', {versions.__file__!r})
versions = importlib.util.module_from_spec(spec)
spec.loader.exec_module(versions)
versions.define_torchvision_schemas()
"""
# Every order in which a program may come to have both packages. Each ends with MMPretrain's classes in use.
THEIRS = 'from mmpretrain.models import ClsDataPreprocessor, MultiLabelLinearClsHead'
ORDERS = {
    'only the package': f'import mmml_losses\n{THEIRS}',
    'losses': f'import mmml_losses.losses\n{THEIRS}',
    'datasets': f'import mmml_losses.datasets\n{THEIRS}',
    'models': f'import mmml_losses.models\n{THEIRS}',
    'registry': f'import mmml_losses.registry\n{THEIRS}',
    'mmpretrain first': f'import mmpretrain.models\nimport mmml_losses\n{THEIRS}',
    'mmpretrain without its models first': f'import mmpretrain\nimport mmml_losses\n{THEIRS}',
    'a loss made before mmpretrain': f'from mmml_losses.losses import SPALoss\nloss = SPALoss()\n{THEIRS}',
    'a head built before the package': f'{THEIRS}\nhead = MultiLabelLinearClsHead(4, 8)\nimport mmml_losses',
}
USE = """
import torch
from mmpretrain.models import CutMix, RandomBatchAugment
from mmpretrain.structures import DataSample

head = globals().get('head') or MultiLabelLinearClsHead(4, 8)
stock_loss, feats = head.loss_module, (torch.randn(2, 8),)
samples = [DataSample().set_gt_score(torch.tensor([1.0, -1.0, 0.0, 0.0])) for _ in range(2)]

def attempt(call, *arguments):
    try:
        call(*arguments)
    except ValueError as error:
        print(error)
    else:
        print('nothing was refused')

attempt(head.loss, feats, samples)
preprocessor = ClsDataPreprocessor(to_rgb=False)
views = [DataSample(metainfo=dict(num_views=2)) for _ in range(2)]
attempt(preprocessor, dict(inputs=[torch.zeros(2, 3, 8, 8)] * 2, data_samples=views))
attempt(RandomBatchAugment(CutMix(1.0)), torch.zeros(2, 3, 8, 8), torch.tensor([[1.0, -1.0], [0.0, 1.0]]))
assert torch.equal(torch.stack([each.pred_score for each in head.predict(feats)]), head(feats).sigmoid())
from mmml_losses.losses import SPALoss
head.loss_module = globals().get('loss') or SPALoss()
assert head.loss(feats, samples)['loss'].isfinite()
scores = torch.stack([each.pred_score for each in head.predict(feats)])
print(torch.allclose(scores, head.loss_module.probabilities(head(feats)), atol=1e-6))
"""


def run_python(code: str) -> str:
    """Run code in a fresh interpreter, where nothing is imported yet."""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize('order', ORDERS)
def test_the_patches_are_there_in_every_order_of_imports(order):
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', REPAIR + ORDERS[order] + USE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unknown, views, blended, through_the_link = done.stdout.strip().splitlines()[-4:]
    assert unknown.startswith('CrossEntropyLoss does not know unknown labels (-1)')
    assert views.startswith("data_preprocessor must be of type 'mmml_losses.MultiLabelPreprocessor' for several views")
    assert blended.startswith('batch_augments must be mmml_losses.UnionMixup or mmml_losses.UnionMosaic')
    assert through_the_link == 'True'


def test_importing_the_package_does_not_import_mmpretrain():
    code = 'import sys, mmml_losses.losses, mmml_losses.datasets, mmml_losses.evaluation, mmml_losses.engine\n'
    assert run_python(code + 'print("mmpretrain" in sys.modules)') == 'False'


def test_applying_again_changes_nothing():
    import mmpretrain.models  # noqa: F401, of which the classes are patched

    def methods():
        owners = [getattr(sys.modules[patch.module], patch.owner) for patch in mmpretrain_host.PATCHES]
        return [getattr(owner, patch.method) for owner, patch in zip(owners, mmpretrain_host.PATCHES, strict=True)]

    before, finders = methods(), list(sys.meta_path)
    assert all(method.patched_by_mmml_losses for method in before)
    mmpretrain_host.apply()
    assert methods() == before
    assert sys.meta_path == finders

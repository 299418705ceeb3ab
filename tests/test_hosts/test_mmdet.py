"""Test the lists of MMDetection's classes, and the advice how to install it."""

import inspect
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


# Every head of MMDetection with a classification loss, by what the check of detectors knows of it.
INVENTORY = {
    'scores through its loss': {
        *('ATSSHead', 'AnchorFreeHead', 'AnchorHead', 'BBoxHead', 'ConvFCBBoxHead', 'DDODHead'),
        *(
            'DoubleConvFCBBoxHead',
            'FCOSHead',
            'FSAFHead',
            'NASFCOSHead',
            'PISASSDHead',
            'RetinaHead',
            'RetinaSepBNHead',
        ),
        *('SCNetBBoxHead', 'SSDHead', 'Shared2FCBBoxHead', 'Shared4Conv1FCBBoxHead', 'YOLOFHead'),
    },
    'takes the sigmoid': {
        *('BoxInstBboxHead', 'CascadeRPNHead', 'CenterNetHead', 'CentripetalHead', 'CondInstBboxHead', 'CornerHead'),
        *('DDQDETRHead', 'DIIHead', 'DecoupledSOLOHead', 'DecoupledSOLOLightHead', 'GARPNHead', 'GARetinaHead'),
        *('GuidedAnchorHead', 'LADHead', 'LinearReIDHead', 'PISARetinaHead', 'RPNHead', 'SABLHead', 'SABLRetinaHead'),
        *('SOLOHead', 'SOLOV2Head', 'StageCascadeRPNHead'),
    },
    'takes the sigmoid, and there is one of ours': set(mmdet.DETECTION_HEADS),
    'needs another kind of loss': {
        *(
            'LDHead',
            'Mask2FormerHead',
            'Mask2FormerTrackHead',
            'RTMDetInsHead',
            'RTMDetInsSepBNHead',
            'RTMDetSepBNHead',
        ),
        *mmdet.UNSUITED_HEADS,
    },
}


def heads_of_mmdet() -> dict[str, type]:
    """Find the registered classes of MMDetection that mention a classification loss, themselves or in a base."""
    from mmdet import models  # noqa: F401, which registers them
    from mmdet.registry import MODELS

    return {
        name: kind
        for name, kind in MODELS.module_dict.items()
        if kind.__module__.startswith('mmdet.')
        and any('self.loss_cls' in inspect.getsource(base) for base in kind.__mro__ if 'mmdet.' in base.__module__)
    }


def row_of(name: str, kind: type) -> str:
    concrete = type(name, (kind,), {})
    concrete.__abstractmethods__ = frozenset()
    head = object.__new__(concrete)
    if mmdet.is_a(head, *mmdet.UNSUITED_HEADS):
        return 'needs another kind of loss'
    if mmdet.scores_through_loss(head):
        return 'scores through its loss'
    return 'takes the sigmoid' + ', and there is one of ours' * (name in mmdet.DETECTION_HEADS)


@pytest.mark.needs_mmdet
def test_every_head_of_the_installed_mmdetection_is_in_the_table():
    rows = {}
    for name, kind in heads_of_mmdet().items():
        rows.setdefault(row_of(name, kind), set()).add(name)
    assert rows == INVENTORY


@pytest.mark.needs_mmdet
@pytest.mark.parametrize('name', mmdet.SCORING_BASES)
def test_the_listed_bases_score_through_the_loss(name):
    from mmdet import models

    base = next(base for kind in (models.RetinaHead, models.BBoxHead) for base in kind.__mro__ if base.__name__ == name)
    assert 'self.loss_cls.get_activation(' in inspect.getsource(base._predict_by_feat_single)

"""Test the check of detectors on the heads of MMDetection, name by name."""

import pytest
from mmengine.registry import DefaultScope
from torch import nn

from mmml_losses.engine.hooks.detector_check import check_detector
from mmml_losses.losses import BCELoss
from tests.helpers.detectors import CLASSES

SPA = dict(type='mmml_losses.SPALoss', use_sigmoid=True)
UNSUITED = {
    'GFLHead': 'quality of their boxes',
    'RTMDetHead': 'quality of their boxes',
    'TOODHead': 'quality of their boxes',
    'VFNetHead': 'quality of their boxes, unless it has use_vfl=False',
    'YOLOXHead': 'quality of their boxes',
    'AutoAssignHead': 'never calls loss_cls',
    'FreeAnchorRetinaHead': 'never calls loss_cls',
    'CenterNetUpdateHead': 'probabilities of a heat map',
    'YOLOV3Head': 'in three dimensions',
    'MaskFormerHead': 'a softmax with a channel for the background',
    'MultiInstanceBBoxHead': 'a softmax with a channel for the background',
    'YOLACTHead': 'a softmax with a channel for the background',
    'ATSSVLFusionHead': 'words of a text',
    'GroundingDINOHead': 'words of a text',
}
needs_mmdet = pytest.mark.needs_mmdet


@pytest.mark.parametrize('kind', UNSUITED)
def test_heads_that_want_another_kind_of_loss_are_known_by_name(kind):
    head = type(kind, (nn.Module,), dict(num_classes=CLASSES))()
    head.loss_cls = BCELoss()
    expected = f'bbox_head.loss_cls must be a loss made for {kind}, got BCELoss: .*{UNSUITED[kind]}'
    with pytest.raises(ValueError, match=expected):
        check_detector(nn.ModuleDict(dict(bbox_head=head)))


@needs_mmdet
@pytest.mark.parametrize('kind', UNSUITED)
def test_the_names_are_mmdets(kind):
    from mmdet import models  # noqa: F401, which registers them
    from mmdet.registry import MODELS

    assert kind in MODELS.module_dict


ANCHORS = dict(anchor_generator=dict(type='AnchorGenerator', ratios=[1.0], scales=[8], strides=[8]), feat_channels=32)
YOLO = dict(
    anchor_generator=dict(type='YOLOAnchorGenerator', base_sizes=[[(8, 8)]], strides=[8]),
    bbox_coder=dict(type='YOLOBBoxCoder'),
    featmap_strides=[8],
    out_channels=[16],
    in_channels=[32],
)


def build_head(kind: str, loss: dict, **arguments) -> nn.Module:
    """Build a head of MMDetection by itself."""
    from mmdet.registry import MODELS

    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build(
            dict(type=kind, loss_cls=loss, **dict(dict(num_classes=CLASSES, in_channels=32), **arguments))
        )


@needs_mmdet
@pytest.mark.parametrize(
    ('kind', 'arguments'),
    [
        ('GFLHead', ANCHORS),
        ('FreeAnchorRetinaHead', ANCHORS),
        ('VFNetHead', {}),
        ('YOLOXHead', {}),
        ('YOLOV3Head', YOLO),
        ('MultiInstanceBBoxHead', {}),
    ],
)
def test_heads_that_want_another_kind_of_loss_are_rejected(kind, arguments):
    head = build_head(kind, SPA, **arguments)
    with pytest.raises(ValueError, match=f'bbox_head.loss_cls must be a loss made for {kind}, got SPALoss: '):
        check_detector(nn.ModuleDict(dict(bbox_head=head)))


@needs_mmdet
def test_vfnet_without_the_quality_of_boxes_is_a_head_like_others():
    head = build_head('VFNetHead', SPA, use_vfl=False, loss_cls_fl=SPA)
    check_detector(nn.ModuleDict(dict(bbox_head=head)))


@needs_mmdet
@pytest.mark.parametrize(
    ('kind', 'reduction', 'wanted'),
    [('RetinaHead', 'sum', 'mean'), ('RetinaHead', 'none', 'mean'), ('FSAFHead', 'mean', 'none')],
)
def test_a_reduction_that_the_head_cannot_use_is_rejected(kind, reduction, wanted):
    head = build_head(kind, dict(SPA, reduction=reduction))
    expected = f"bbox_head.loss_cls must have reduction='{wanted}', got '{reduction}' in SPALoss: {kind} "
    with pytest.raises(ValueError, match=expected):
        check_detector(nn.ModuleDict(dict(bbox_head=head)))
    head.loss_cls.reduction = wanted
    check_detector(nn.ModuleDict(dict(bbox_head=head)))


@needs_mmdet
def test_the_reduction_of_a_part_is_looked_at():
    parts = dict(bce=dict(type='mmml_losses.BCELoss'), hill=dict(type='mmml_losses.HillLoss', reduction='sum'))
    head = build_head('RetinaHead', dict(type='mmml_losses.SumLoss', losses=parts, use_sigmoid=True))
    with pytest.raises(ValueError, match="must have reduction='mean', got 'sum' in HillLoss"):
        check_detector(nn.ModuleDict(dict(bbox_head=head)))


@needs_mmdet
@pytest.mark.parametrize(('kind', 'reduction'), [('FSAFHead', 'none'), ('PISARetinaHead', 'mean')])
def test_more_heads_that_choose_anchors_by_their_loss_need_a_pointwise_one(kind, reduction):
    head = build_head(kind, dict(type='mmml_losses.ZLPRLoss', use_sigmoid=True, reduction=reduction))
    with pytest.raises(ValueError, match=f'must be a pointwise loss, got ZLPRLoss: {kind} chooses anchors'):
        check_detector(nn.ModuleDict(dict(bbox_head=head)))
    head.loss_cls = BCELoss(reduction=reduction)
    check_detector(nn.ModuleDict(dict(bbox_head=head)))


def ddod_head(loss: dict, alpha: float | None, reg_alpha: float | None) -> nn.ModuleDict:
    assigners = dict(
        assigner=dict(type='ATSSAssigner', topk=9, alpha=alpha),
        reg_assigner=dict(type='ATSSAssigner', topk=9, alpha=reg_alpha),
    )
    return nn.ModuleDict(dict(bbox_head=build_head('DDODHead', loss, use_dcn=False, train_cfg=assigners)))


@needs_mmdet
@pytest.mark.parametrize(('alpha', 'reg_alpha'), [(0.8, None), (None, 0.5)])
def test_anchors_must_not_be_assigned_by_the_sigmoid_for_other_links(alpha, reg_alpha):
    expected = 'must be a loss that is read by the sigmoid, got SPALoss with the link SPALink: DDODHead assigns anchors'
    with pytest.raises(ValueError, match=expected):
        check_detector(ddod_head(SPA, alpha, reg_alpha))
    check_detector(ddod_head(SPA, None, None))
    check_detector(ddod_head(dict(type='mmml_losses.BCELoss', use_sigmoid=True), alpha, reg_alpha))


@needs_mmdet
@pytest.mark.parametrize('mixed_in', [False, True])
def test_the_head_of_sparse_rcnn_must_be_read_by_the_sigmoid(mixed_in):
    from mmdet.models import DIIHead

    from mmml_losses.models.detection import LinkedScores

    head = build_head('DIIHead', SPA, in_channels=256)
    if mixed_in:  # it does not reach the RoI head around, which takes the sigmoid
        head.__class__ = type('LinkedDIIHead', (LinkedScores, DIIHead), {})
    with pytest.raises(
        ValueError, match=r'must be a loss that is read by the sigmoid, got SPALoss .* \w*DIIHead takes'
    ):
        check_detector(nn.ModuleDict(dict(bbox_head=head)))
    head.loss_cls = BCELoss()
    check_detector(nn.ModuleDict(dict(bbox_head=head)))


@needs_mmdet
def test_the_weights_of_pisa_must_be_read_by_the_sigmoid():
    detector = nn.ModuleDict(dict(bbox_head=build_head('PISARetinaHead', SPA)))
    with pytest.raises(ValueError, match='got SPALoss with the link SPALink: PISARetinaHead takes the sigmoid'):
        check_detector(detector)

"""Detectors whose heads and losses do not go together are stopped before they run."""

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import nn

from mmml_losses.engine.detector_check import check_detector
from mmml_losses.losses import BCELoss, SPALoss
from tests.test_models.detectors import CLASSES, OURS, RECIPES, build_detector, detector_config, set_loss

SPA = dict(type='mmml_losses.SPALoss', use_sigmoid=True)
needs_mmdet = pytest.mark.needs_mmdet


@needs_mmdet
@pytest.mark.parametrize('name', RECIPES)
def test_our_recipes_pass(name):
    check_detector(build_detector(detector_config(name, SPA)))


@needs_mmdet
@pytest.mark.parametrize('name', ['retinanet', 'fcos'])
def test_a_dense_head_without_use_sigmoid_is_refused(name):
    detector = build_detector(detector_config(name, dict(type='mmml_losses.BCELoss')))
    expected = (
        r'bbox_head.loss_cls must have use_sigmoid=True in its config, got none: \w+ reads it there, and has made 4'
    )
    with pytest.raises(ValueError, match=expected):
        check_detector(detector)


@needs_mmdet
@pytest.mark.parametrize('name', OURS)
def test_a_head_that_spells_the_sigmoid_is_answered_with_ours(name):
    cfg = detector_config(name, SPA)
    cfg.bbox_head.type = OURS[name]
    detector = build_detector(cfg)
    expected = (
        f"bbox_head.type must be 'mmml_losses.{OURS[name]}' for SPALoss with the link SPALink, got '{OURS[name]}', "
        'which takes the sigmoid'
    )
    with pytest.raises(ValueError, match=expected):
        check_detector(detector)
    set_loss(detector, dict(type='HillLoss'))
    check_detector(detector)  # which is read by the sigmoid


@needs_mmdet
def test_a_scaled_sigmoid_is_another_link_than_the_sigmoid():
    cfg = detector_config('detr', dict(type='mmml_losses.BCELoss', link=dict(type='mmml_losses.TemperatureLink')))
    check_detector(build_detector(cfg))
    cfg.bbox_head.type = 'DETRHead'
    with pytest.raises(ValueError, match='BCELoss with the link TemperatureLink'):
        check_detector(build_detector(cfg))


@needs_mmdet
def test_a_head_that_we_have_none_for_must_be_read_by_the_sigmoid():
    cfg = detector_config('faster_rcnn', SPA)
    cfg.rpn_head.loss_cls = SPA
    with pytest.raises(ValueError, match=r'rpn_head.loss_cls must be a loss that is read by the sigmoid, got SPALoss'):
        check_detector(build_detector(cfg))
    cfg.rpn_head.loss_cls = dict(type='mmml_losses.HillLoss', use_sigmoid=True)
    check_detector(build_detector(cfg))


@needs_mmdet
def test_mmdet_before_dense_heads_asked_the_loss_is_refused_for_other_links(monkeypatch):
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead

    monkeypatch.setattr(BaseDenseHead, '_predict_by_feat_single', lambda self, cls_score: cls_score.sigmoid())
    detector = build_detector(detector_config('retinanet', SPA))
    with pytest.raises(ValueError, match=r'SPALink, which dense heads ask for from .* 3.3 on: install mmdet>=3.3.0'):
        check_detector(detector)
    set_loss(detector, dict(type='BCELoss'))
    check_detector(detector)


@needs_mmdet
@pytest.mark.parametrize('name', ['retinanet', 'detr', 'cascade_rcnn'])
@pytest.mark.parametrize(
    ('loss', 'reason'),
    [
        (dict(type='LSEPLoss'), 'the background would never be trained'),
        (dict(type='DRLoss'), 'bucket_size must be'),
        (dict(type='EMLoss'), 'its negative term never says'),
        (dict(type='LargeLossCorrection', permanent=True), 'it remembers every sample'),
    ],
)
def test_losses_that_cannot_work_on_anchors_are_refused(name, loss, reason):
    detector = build_detector(detector_config(name, SPA))
    set_loss(detector, loss)
    with pytest.raises(ValueError, match=f'loss_cls must be a loss of anchors.*, got {loss["type"]}: .*{reason}'):
        check_detector(detector)


@needs_mmdet
@pytest.mark.parametrize('loss', [dict(type='ZLPRLoss'), dict(type='SumLoss', losses=dict(bce=dict(type='BCELoss')))])
def test_a_head_that_chooses_anchors_by_their_loss_needs_a_pointwise_one(loss):
    detector = build_detector(detector_config('paa', SPA))
    set_loss(detector, loss)
    with pytest.raises(ValueError, match=f'must be a pointwise loss, got {loss["type"]}: PAAHead chooses anchors'):
        check_detector(detector)


@needs_mmdet
def test_queries_must_not_be_matched_by_a_softmax():
    cfg = detector_config('detr', SPA)
    cfg.train_cfg.assigner.match_costs[0] = dict(type='ClassificationCost', weight=1.0)
    expected = "train_cfg.assigner.match_costs must have 'FocalLossCost' .* got 'ClassificationCost'"
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))


@needs_mmdet
def test_a_roi_head_of_fixed_width_is_refused():
    cfg = detector_config('faster_rcnn', SPA)
    cfg.roi_head.bbox_head.update(type='DoubleConvFCBBoxHead', num_convs=1, num_fcs=1, conv_out_channels=16)
    cfg.roi_head.update(type='DoubleHeadRoIHead', reg_roi_scale_factor=1.3)
    with pytest.raises(ValueError, match='DoubleConvFCBBoxHead has 4 logits for 3 classes and does not ask the loss'):
        check_detector(build_detector(cfg))


ANCHORS = dict(anchor_generator=dict(type='AnchorGenerator', ratios=[1.0], scales=[8], strides=[8]), feat_channels=32)
YOLO = dict(
    anchor_generator=dict(type='YOLOAnchorGenerator', base_sizes=[[(8, 8)]], strides=[8]),
    bbox_coder=dict(type='YOLOBBoxCoder'),
    featmap_strides=[8],
    out_channels=[16],
    in_channels=[32],
)


def build_head(kind: str, loss: dict, **arguments) -> nn.Module:
    """A head of MMDetection by itself."""
    from mmdet.registry import MODELS

    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build(
            dict(type=kind, loss_cls=loss, **dict(dict(num_classes=CLASSES, in_channels=32), **arguments))
        )


@needs_mmdet
@pytest.mark.parametrize(
    ('kind', 'arguments', 'reason'),
    [
        ('GFLHead', ANCHORS, 'quality of their boxes'),
        ('FreeAnchorRetinaHead', ANCHORS, 'never calls loss_cls'),
        ('VFNetHead', {}, 'quality of their boxes, unless it has use_vfl=False'),
        ('YOLOXHead', {}, 'quality of their boxes'),
        ('YOLOV3Head', YOLO, 'in three dimensions'),
        ('MultiInstanceBBoxHead', {}, 'a softmax with a channel for the background'),
    ],
)
def test_heads_that_want_another_kind_of_loss_are_refused(kind, arguments, reason):
    head = build_head(kind, SPA, **arguments)
    with pytest.raises(ValueError, match=f'bbox_head.loss_cls must be a loss made for {kind}, got SPALoss: .*{reason}'):
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
def test_a_reduction_that_the_head_cannot_use_is_refused(kind, reduction, wanted):
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
@pytest.mark.parametrize('name', ['faster_rcnn', 'cascade_rcnn'])
@pytest.mark.parametrize('kind', ['OHEMSampler', 'ScoreHLRSampler'])
def test_proposals_must_not_be_sampled_by_their_loss(name, kind):
    cfg = detector_config(name, SPA)
    stages = cfg.train_cfg.rcnn if name == 'cascade_rcnn' else [cfg.train_cfg.rcnn]
    stages[-1].sampler.type = kind
    expected = f"train_cfg.rcnn.sampler must be one .* such as 'RandomSampler', for SPALoss, got '{kind}'"
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))


@needs_mmdet
@pytest.mark.parametrize('other', ['CrossEntropyLoss', 'mmml_losses.HillLoss'])
def test_the_stages_of_a_cascade_must_be_read_alike(other):
    cfg = detector_config('cascade_rcnn', SPA)
    cfg.roi_head.bbox_head[1].loss_cls = dict(type=other)
    kind = other.removeprefix('mmml_losses.')
    expected = f'roi_head.bbox_head must have losses of one link in all stages, .* got SPALoss, {kind}, SPALoss'
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))


@needs_mmdet
def test_stages_of_one_link_may_have_several_losses():
    cfg = detector_config('cascade_rcnn', dict(type='mmml_losses.BCELoss'))
    cfg.roi_head.bbox_head[1].loss_cls = dict(type='mmml_losses.HillLoss')
    cfg.train_cfg = None
    check_detector(build_detector(cfg))


class Classifier(nn.Module):
    """Not a detector, but with a loss."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)
        self.head.loss_module = SPALoss()


def test_models_that_are_no_detectors_are_left_alone():
    check_detector(Classifier())


class Detector(BaseModel):
    """As little as a detector with a dense head without ``use_sigmoid`` shows of itself."""

    def __init__(self):
        super().__init__()
        self.bbox_head = nn.Linear(1, 4)
        self.bbox_head.num_classes, self.bbox_head.cls_out_channels, self.bbox_head.loss_cls = 3, 4, BCELoss()

    def forward(self, *args, **kwargs):
        raise AssertionError('the run has begun')


@pytest.mark.parametrize('task', ['train', 'val', 'test'])
def test_the_hook_stops_every_kind_of_run_before_it_begins(task, tmp_path):
    evaluator = dict(type='mmml_losses.MultiLabelAP')
    dataset = torch.utils.data.TensorDataset(torch.zeros(1))
    data = dict(batch_size=1, num_workers=0, dataset=dataset, sampler=dict(type='DefaultSampler', shuffle=False))
    optimizer = dict(optimizer=dict(type='SGD', lr=0.1))
    parts = dict(
        train=dict(train_dataloader=data, train_cfg=dict(by_epoch=True, max_epochs=1), optim_wrapper=optimizer),
        val=dict(val_dataloader=data, val_cfg=dict(), val_evaluator=evaluator),
        test=dict(test_dataloader=data, test_cfg=dict(), test_evaluator=evaluator),
    )
    hooks = [dict(type='mmml_losses.DetectorCheckHook')]
    runner = Runner(Detector(), str(tmp_path), custom_hooks=hooks, experiment_name=f'check_{task}', **parts[task])
    with pytest.raises(ValueError, match=r'bbox_head.loss_cls must have use_sigmoid=True'):
        getattr(runner, task)()

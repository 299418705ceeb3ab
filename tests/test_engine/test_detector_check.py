"""Test that detectors whose heads and losses do not fit together are rejected before they run."""

import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import nn

from mmml_losses.engine.hooks.detector_check import check_detector
from mmml_losses.losses import BCELoss, SPALoss
from tests.helpers.detectors import CLASSES, OURS, RECIPES, build_detector, detector_config, set_loss

SPA = dict(type='mmml_losses.SPALoss', use_sigmoid=True)
needs_mmdet = pytest.mark.needs_mmdet


@needs_mmdet
@pytest.mark.parametrize('name', RECIPES)
def test_our_recipes_pass(name):
    check_detector(build_detector(detector_config(name, SPA)))


@needs_mmdet
@pytest.mark.parametrize('name', ['retinanet', 'fcos'])
def test_a_dense_head_without_use_sigmoid_is_rejected(name):
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
def test_mmdet_before_3_3_is_rejected_for_links_other_than_the_sigmoid(monkeypatch):
    monkeypatch.setattr('mmdet.__version__', '3.2.0')
    detector = build_detector(detector_config('retinanet', SPA))
    with pytest.raises(ValueError, match=r'SPALink, which dense heads ask for from .* 3.3 on: install mmdet>=3.3.0'):
        check_detector(detector)
    set_loss(detector, dict(type='BCELoss'))
    check_detector(detector)


@needs_mmdet
@pytest.mark.parametrize('method', ['predict_by_feat', '_predict_by_feat_single'])
def test_a_head_with_a_score_of_its_own_has_to_declare_that_it_scores_through_the_loss(method):
    detector = build_detector(detector_config('retinanet', SPA))
    kind = type(detector.bbox_head)
    detector.bbox_head.__class__ = type('MyHead', (kind,), {method: lambda self: None})
    with pytest.raises(ValueError, match=r'MyHead takes the sigmoid .* declares it by scores_through_link = True'):
        check_detector(detector)
    detector.bbox_head.scores_through_link = True
    check_detector(detector)


@needs_mmdet
@pytest.mark.parametrize('name', ['retinanet', 'detr', 'cascade_rcnn'])
@pytest.mark.parametrize(
    ('loss', 'reason'),
    [
        (dict(type='LSEPLoss'), 'the background would never be trained'),
        (dict(type='DRLoss'), 'bucket_size must be'),
        (dict(type='EMLoss'), 'its negative term never teaches'),
        (dict(type='LargeLossCorrection', permanent=True), 'it remembers every sample'),
    ],
)
def test_losses_that_cannot_work_on_anchors_are_rejected(name, loss, reason):
    detector = build_detector(detector_config(name, SPA))
    set_loss(detector, loss)
    with pytest.raises(ValueError, match=f'loss_cls must be a loss of anchors.*, got {loss["type"]}: .*{reason}'):
        check_detector(detector)


LPR = dict(type='LabelPairRegularizer')
EPR = dict(type='ExpectedPositiveRegularizer', expected_positives=1.0)


@needs_mmdet
@pytest.mark.parametrize(
    'loss',
    [LPR, EPR, dict(type='SumLoss', losses=dict(lpr=LPR, more=dict(type='SumLoss', losses=dict(epr=EPR))))],
)
def test_regularisers_alone_are_rejected(loss):
    detector = build_detector(detector_config('retinanet', SPA))
    set_loss(detector, loss)
    with pytest.raises(ValueError, match=f'loss_cls must be a loss, or a SumLoss with one, got {loss["type"]}: '):
        check_detector(detector)
    set_loss(detector, dict(type='SumLoss', losses=dict(bce=dict(type='BCELoss'), more=loss)))
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
    expected = "^model.train_cfg.assigner.match_costs must have 'FocalLossCost' .* got 'ClassificationCost'"
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))


@needs_mmdet
def test_queries_must_be_matched_through_the_link():
    from mmdet.models import DeformableDETRHead

    from mmml_losses.models.detection import LinkedQueries, LinkedScores

    detector = build_detector(detector_config('deformable_detr', SPA))
    detector.bbox_head.__class__ = type('MyHead', (LinkedScores, DeformableDETRHead), {})
    with pytest.raises(ValueError, match=r'^MyHead must have LinkedQueries instead of LinkedScores .* for SPALoss '):
        check_detector(detector)
    detector.bbox_head.__class__ = type('MyHead', (LinkedQueries, DeformableDETRHead), {})
    check_detector(detector)
    detector.bbox_head.__class__ = type('MyHead', (LinkedScores, DeformableDETRHead), {})
    set_loss(detector, dict(type='BCELoss'))
    check_detector(detector)


@needs_mmdet
def test_a_roi_head_of_fixed_width_is_rejected():
    cfg = detector_config('faster_rcnn', SPA)
    cfg.roi_head.bbox_head.update(type='DoubleConvFCBBoxHead', num_convs=1, num_fcs=1, conv_out_channels=16)
    cfg.roi_head.update(type='DoubleHeadRoIHead', reg_roi_scale_factor=1.3)
    with pytest.raises(ValueError, match='DoubleConvFCBBoxHead has 4 logits for 3 classes and does not ask the loss'):
        check_detector(build_detector(cfg))


@needs_mmdet
@pytest.mark.parametrize('name', ['faster_rcnn', 'cascade_rcnn'])
@pytest.mark.parametrize('kind', ['OHEMSampler', 'ScoreHLRSampler'])
def test_proposals_must_not_be_sampled_by_their_loss(name, kind):
    cfg = detector_config(name, SPA)
    stages = cfg.train_cfg.rcnn if name == 'cascade_rcnn' else [cfg.train_cfg.rcnn]
    stages[-1].sampler.type = kind
    expected = f"^model.train_cfg.rcnn.sampler must be one .* such as 'RandomSampler', for SPALoss, got '{kind}'"
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))


@needs_mmdet
@pytest.mark.parametrize('side', ['pos_sampler', 'neg_sampler'])
def test_neither_side_of_a_combined_sampler_may_go_by_the_loss(side):
    cfg = detector_config('faster_rcnn', SPA)
    sides = dict(pos_sampler=dict(type='RandomSampler'), neg_sampler=dict(type='RandomSampler'))
    cfg.train_cfg.rcnn.sampler.update(type='CombinedSampler', **sides)
    check_detector(build_detector(cfg))
    cfg.train_cfg.rcnn.sampler[side].type = 'OHEMSampler'
    with pytest.raises(ValueError, match="for SPALoss, got 'OHEMSampler'"):
        check_detector(build_detector(cfg))


@needs_mmdet
def test_the_roi_head_of_pisa_is_rejected_with_any_sampler():
    cfg = detector_config('faster_rcnn', SPA)
    cfg.roi_head.type = 'PISARoIHead'
    expected = "^roi_head.type must be one .* such as 'StandardRoIHead', for SPALoss, got 'PISARoIHead', which runs"
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))
    cfg.roi_head.bbox_head.loss_cls = dict(type='CrossEntropyLoss')
    check_detector(build_detector(cfg))


@needs_mmdet
def test_soft_teacher_needs_a_background_channel():
    cfg = detector_config('faster_rcnn', SPA)
    teacher = dict(type='SoftTeacher', detector=cfg, semi_train_cfg=dict(freeze_teacher=True))
    expected = '^model.detector.roi_head.bbox_head.loss_cls must be a loss with a background channel .* got SPALoss'
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(ConfigDict(teacher)))
    cfg.roi_head.bbox_head.loss_cls = dict(type='CrossEntropyLoss')
    cfg.rpn_head.loss_cls = dict(type='mmml_losses.HillLoss', use_sigmoid=True)
    check_detector(build_detector(ConfigDict(teacher)))


@needs_mmdet
@pytest.mark.parametrize('other', ['CrossEntropyLoss', 'mmml_losses.HillLoss'])
def test_the_stages_of_a_cascade_must_be_read_alike(other):
    cfg = detector_config('cascade_rcnn', SPA)
    cfg.roi_head.bbox_head[1].loss_cls = dict(type=other)
    kind = other.removeprefix('mmml_losses.')
    expected = f'roi_head.bbox_head must have losses of one link .* in all stages, .* got SPALoss, {kind}, SPALoss'
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(cfg))


TEMPERATURE = dict(type='mmml_losses.TemperatureLink')
PHI = dict(type='mmml_losses.FocalLoss', link='phi')


@needs_mmdet
@pytest.mark.parametrize(
    ('loss', 'other'),
    [
        (SPA, dict(SPA, positive_scale=2.0)),
        (PHI, dict(PHI, gamma=3.0)),
        (dict(PHI, link=TEMPERATURE), dict(SPA, link=TEMPERATURE)),
        (dict(type='mmml_losses.BCELoss'), dict(type='mmml_losses.BCELoss', link=TEMPERATURE)),
    ],
)
def test_the_links_of_the_stages_must_have_the_same_constants(loss, other):
    cfg = detector_config('cascade_rcnn', loss)
    check_detector(build_detector(cfg))
    cfg.roi_head.bbox_head[1].loss_cls = other
    with pytest.raises(ValueError, match='must have losses of one link with the same constants in all stages'):
        check_detector(build_detector(cfg))


@needs_mmdet
@pytest.mark.parametrize('name', ['retinanet', 'faster_rcnn'])
def test_a_link_must_be_one_for_the_classes_of_the_head(name):
    vector = dict(type='mmml_losses.VectorLink', num_classes=CLASSES + 1)
    expected = rf'loss_cls.link must be one for the classes of \w+: .* each of the {CLASSES} classes, got the shapes'
    with pytest.raises(ValueError, match=expected):
        check_detector(build_detector(detector_config(name, dict(SPA, link=vector))))


@needs_mmdet
def test_the_stages_may_read_each_class_in_its_own_way():
    vector = dict(type='mmml_losses.VectorLink', num_classes=CLASSES)
    check_detector(build_detector(detector_config('cascade_rcnn', dict(SPA, link=vector))))


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

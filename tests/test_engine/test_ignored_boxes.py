"""Test that unknown boxes are ignored in training, or rejected if a detector would take them for background."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import ConcatDataset
from mmengine.registry import DATASETS, DefaultScope
from torch import nn

from mmml_losses.datasets import LabelWrapper, MissingBoxes, MissingLabels, PartialLabels, Relabelled, make_digit_scenes
from mmml_losses.datasets.labels.label_file import save_label_file
from mmml_losses.datasets.labels.reading import read_labels
from mmml_losses.engine.hooks import detector_check
from mmml_losses.engine.hooks.detector_check import _assigning_parts, _sees_ignored, check_ignored_boxes
from tests.conftest import ROOT
from tests.helpers.detectors import build_detector, detector_config

BCE = dict(type='mmml_losses.BCELoss', use_sigmoid=True)


@pytest.fixture(scope='module')
def scenes(tmp_path_factory):
    sizes = dict(num_train=24, num_test=4, image_size=96)
    folder = make_digit_scenes(tmp_path_factory.mktemp('data') / 'scenes', **sizes)
    reader = dict(type='mmml_losses.DigitScenes', data_root=str(folder), split='train', with_boxes=True)
    return DATASETS.build(reader | sizes)


def read_detector(name: str, threshold: float) -> nn.Module:
    cfg = detector_config(name, BCE)
    stages = [cfg.train_cfg.rpn, cfg.train_cfg.rcnn] if 'rcnn' in name else [cfg.train_cfg]
    for stage in stages:
        stage.assigner.ignore_iof_thr = threshold
    return build_detector(cfg)


@pytest.mark.needs_mmdet
@pytest.mark.parametrize('name', ['retinanet', 'atss', 'faster_rcnn'])
def test_a_detector_that_does_not_ignore_boxes_is_rejected(name, scenes):
    detector = read_detector(name, -1)
    wrapped = MissingBoxes(scenes, 0.5, hidden='unknown', keep_one=True)
    with pytest.raises(ValueError, match=r'MissingBoxes makes boxes unknown, and \w+Assigner would take them for'):
        check_ignored_boxes(detector, wrapped)
    check_ignored_boxes(detector, MissingBoxes(scenes, 0.5))
    check_ignored_boxes(read_detector(name, 0.5), wrapped)


@pytest.mark.needs_mmdet
def test_an_image_must_keep_a_known_box(scenes):
    seeing = read_detector('retinanet', 0.5)
    kept = MissingBoxes(scenes, 0.5, hidden='unknown', keep_one=True)
    lost = MissingBoxes(scenes, 0.5, hidden='unknown')
    images = len(lost)
    blank = sum(known_boxes(lost.get_data_info(number)) == 0 for number in range(images))
    assert 0 < blank < images
    for dataset in (lost, ConcatDataset([kept, lost])):
        expected = rf'MissingBoxes must leave a known box in each .* there is none in {blank} of \d+ such images'
        with pytest.raises(ValueError, match=expected):
            check_ignored_boxes(seeing, dataset)
    partly = PartialLabels(kept, known_ratio=0.3)
    with pytest.raises(ValueError, match='must leave a known box in each image with unknown ones'):
        check_ignored_boxes(seeing, partly)
    # The images that the dataset returns count.
    some = [number for number in range(images) if known_boxes(partly.get_data_info(number))]
    check_ignored_boxes(seeing, partly.get_subset(some))
    check_ignored_boxes(seeing, MissingLabels(scenes, 0.5, 'bernoulli', hidden='unknown', keep_one=True))


@pytest.mark.needs_mmdet
def test_boxes_that_are_not_in_the_dataset_are_not_rejected(scenes):
    """Unknown boxes of images that are left out, and unknown labels of classes without a box."""
    blind = read_detector('retinanet', -1)
    hidden = MissingBoxes(scenes, 0.3, hidden='unknown')
    whole = [
        n for n in range(len(hidden)) if not any(box['ignore_flag'] for box in hidden.get_data_info(n)['instances'])
    ]
    assert 0 < len(whole) < len(hidden)
    check_ignored_boxes(blind, hidden.get_subset(whole))
    check_ignored_boxes(blind, MissingLabels(hidden.get_subset(whole), 0.5))
    emptied = UnknownNegatives(MissingBoxes(scenes, 0.7))
    assert emptied.has_unknown()
    check_ignored_boxes(blind, emptied)


class UnknownNegatives(LabelWrapper):
    def relabel(self, samples):
        return np.where(samples.labels == 0, np.int8(-1), samples.labels)


def known_boxes(info: dict) -> int:
    return sum(not box.get('ignore_flag', 0) for box in info['instances'])


@pytest.mark.needs_mmdet
def test_unknown_boxes_of_a_label_file_are_seen(scenes, tmp_path):
    drawn = MissingLabels(scenes, 0.5, 'bernoulli', hidden='unknown', keep_one=True)
    save_label_file(tmp_path / 'labels.json', drawn.observed_labels(), read_labels(scenes), {})
    relabelled = Relabelled(scenes, labels=tmp_path / 'labels.json')
    with pytest.raises(ValueError, match='Relabelled makes boxes unknown, and MaxIoUAssigner would'):
        check_ignored_boxes(read_detector('retinanet', -1), relabelled)
    check_ignored_boxes(read_detector('retinanet', 0.5), relabelled)


@pytest.mark.needs_mmdet
def test_one_hidden_box_of_a_class_that_has_others_is_seen(scenes):
    wrapped = MissingBoxes(scenes, 0.5, hidden='unknown', keep_one=True)
    only = [number for number in range(len(wrapped)) if not (wrapped.observed_labels()[number] == -1).any()]
    assert wrapped.get_subset(only).count_boxes()[0] > 0
    with pytest.raises(ValueError, match='MissingBoxes makes boxes unknown'):
        check_ignored_boxes(read_detector('retinanet', -1), wrapped.get_subset(only))
    check_ignored_boxes(read_detector('retinanet', -1), MissingBoxes(scenes, 0.0, hidden='unknown'))


@pytest.mark.needs_mmdet
@pytest.mark.parametrize(('name', 'who'), [('fcos', 'FCOSHead'), ('deformable_detr', 'HungarianAssigner')])
def test_detectors_that_cannot_ignore_boxes_are_rejected(name, who, scenes):
    detector = build_detector(detector_config(name, BCE))
    for wrapper in (MissingLabels(scenes, 0.5, hidden='unknown'), PartialLabels(scenes, known_ratio=0.5)):
        with pytest.raises(ValueError, match=f'{type(wrapper).__name__} makes boxes unknown, and {who} would'):
            check_ignored_boxes(detector, ConcatDataset([wrapper]))
        with pytest.raises(ValueError, match='makes boxes unknown'):
            check_ignored_boxes(detector, SimpleNamespace(dataset=wrapper))  # as MMDetection's mosaics


def test_classifiers_know_unknown_labels(scenes):
    check_ignored_boxes(nn.Linear(2, 2), PartialLabels(scenes, known_ratio=0.5))


@pytest.mark.needs_mmdet
def test_every_head_is_looked_at():
    """An RPN of FCOS next to a RoI head that looks, and RepPoints, which classifies by its second assigner."""
    seeing, blind = SimpleNamespace(ignore_iof_thr=0.5), SimpleNamespace(ignore_iof_thr=-1)
    faster_rcnn = read_detector('faster_rcnn', 0.5)
    faster_rcnn.rpn_head = build_detector(detector_config('fcos', BCE)).bbox_head
    rep_points = build_detector(detector_config('reppoints', BCE))
    rep_points.bbox_head.init_assigner, rep_points.bbox_head.refine_assigner = blind, seeing
    center_region = read_detector('retinanet', -1)
    center_region.bbox_head.assigner = type('CenterRegionAssigner', (), {})()
    assert [blind_parts(model) for model in (faster_rcnn, rep_points, center_region)] == [['FCOSHead'], [], []]


@pytest.mark.needs_mmdet
@pytest.mark.parametrize(
    ('recipe', 'who'),
    [('ssd/ssd300_coco', 'MaxIoUAssigner'), ('centernet/centernet_r18_8xb16-crop512-140e_coco', 'CenterNetHead')],
)
def test_heads_without_a_loss_of_that_name_are_looked_at(recipe, who):
    import mmdet
    from mmdet.registry import MODELS

    model = Config.fromfile(Path(mmdet.__file__).parent / '.mim' / 'configs' / f'{recipe}.py').model
    model.backbone.init_cfg = None
    with DefaultScope.overwrite_default_scope('mmdet'):
        assert blind_parts(MODELS.build(model)) == [who]


def blind_parts(model: nn.Module) -> list[str]:
    return [type(part).__name__ for part in _assigning_parts(model) if not _sees_ignored(part)]


@pytest.mark.needs_mmdet
@pytest.mark.parametrize('threshold', [-1, 0.5])
def test_anchors_of_unknown_boxes_train_nothing_where_the_assigner_looks(threshold, scenes):
    """With the threshold that the message recommends, and as background without it."""
    from mmdet.registry import MODELS, TRANSFORMS

    cfg = Config.fromfile(ROOT / 'configs' / 'det' / 'retinanet_focal_digits.py')
    cfg.model.train_cfg.assigner.ignore_iof_thr = threshold
    with DefaultScope.overwrite_default_scope('mmdet'):
        detector = MODELS.build(cfg.model)
    weights = []
    detector.bbox_head.loss_cls.register_forward_pre_hook(lambda module, inputs: weights.append(inputs[2]))
    steps = [TRANSFORMS.build(step) for step in cfg.train_pipeline]
    trained = []
    for hidden in ('negative', 'unknown'):
        wrapped = MissingBoxes(scenes, 0.5, hidden=hidden, keep_one=True)
        sample = [wrapped.get_data_info(number) for number in range(len(wrapped))]
        for step in steps:
            sample = [step(each) for each in sample]
        batch = dict(inputs=[s['inputs'] for s in sample], data_samples=[s['data_samples'] for s in sample])
        detector(**detector.data_preprocessor(batch), mode='loss')
        trained.append(torch.cat(weights).sum().item())
        weights.clear()
    assert (trained[1] < trained[0]) == (threshold > 0)


def test_the_hook_checks_before_a_training(scenes, monkeypatch):
    asked = []
    monkeypatch.setattr(detector_check, 'check_ignored_boxes', lambda *arguments: asked.append(arguments))
    runner = SimpleNamespace(model=nn.Linear(2, 2), train_dataloader=SimpleNamespace(dataset=scenes))
    detector_check.DetectorCheckHook().before_train(runner)
    assert asked == [(runner.model, scenes)]

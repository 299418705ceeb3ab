"""Test that the configs of detectors fit together, and that those without a download train."""

import copy
import functools
import json
import math
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from mmml_losses.cli.losses import find_loss, swap_loss
from mmml_losses.datasets import MissingBoxes, make_digit_scenes
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

from .conftest import DATALOADERS, FOLDER, innermost, without_downloads

pytestmark = pytest.mark.needs_mmdet

CONFIGS = [config.stem for config in sorted((FOLDER / 'det').glob('*.py'))]
COCO = [name for name in CONFIGS if name.endswith('_coco')]
DIGITS = [name for name in CONFIGS if '_digits' in name]
HEADS = ('retinanet', 'fcos', 'atss', 'deformable_detr', 'faster_rcnn')
PAPERS = ('spa', 'two_way', 'lasd', 'dr', 'hill', 'splc')
JOINED_WITH_BCE = ('two_way', 'dr')
# Each head with another loss.
ONE_OF_EACH_HEAD = [
    f'{head}_{loss}_coco' for head, loss in zip(HEADS, ('spa', 'dr', 'splc', 'two_way', 'lasd'), strict=True)
]


def read(name: str) -> Config:
    return read_once(FOLDER / 'det' / f'{name}.py')


def read_once(file: Path) -> Config:
    """Return a copy of a config, which is read once because the recipes of MMDetection take a while."""
    return copy.deepcopy(parsed(file))


@functools.cache
def parsed(file: Path) -> Config:
    return Config.fromfile(file)


def head_config(cfg: Config) -> dict:
    return cfg.model.roi_head.bbox_head if 'roi_head' in cfg.model else cfg.model.bbox_head


def head_of(model: torch.nn.Module) -> torch.nn.Module:
    return model.roi_head.bbox_head if hasattr(model, 'roi_head') else model.bbox_head


@pytest.fixture(scope='session')
def few_scenes(tmp_path_factory) -> Path:
    """Make scenes of the size for detectors once."""
    settings = innermost(read('retinanet_focal_digits').train_dataloader.dataset)
    settings = {name: settings[name] for name in ('image_size', 'digit_size')}
    return make_digit_scenes(tmp_path_factory.mktemp('det') / 'scenes', num_train=16, num_test=4, **settings)


@pytest.fixture(scope='session')
def few_images(tmp_path_factory) -> Path:
    """Write COCO 2017 with two images, one of which shows a person and a crowd.

    The boxes are as wide as the image, so that the random crops of Deformable DETR never lose one.
    """
    classes = pytest.importorskip('mmdet.datasets').CocoDataset.METAINFO['classes']
    root = tmp_path_factory.mktemp('det') / 'coco'
    boxes = [(1, 0, [2, 2, 90, 30]), (1, 1, [0, 0, 96, 64]), (80, 0, [4, 20, 88, 40])]
    content = dict(
        images=[dict(id=number, file_name=f'{number:012}.jpg', height=64, width=96) for number in (1, 2)],
        annotations=[
            dict(id=i, image_id=1, category_id=label, bbox=box, area=box[2] * box[3], iscrowd=crowd)
            for i, (label, crowd, box) in enumerate(boxes, start=1)
        ],
        categories=[dict(id=number, name=name) for number, name in enumerate(classes, start=1)],
    )
    for split in ('train2017', 'val2017'):
        (root / split).mkdir(parents=True)
        (root / 'annotations').mkdir(exist_ok=True)
        (root / 'annotations' / f'instances_{split}.json').write_text(json.dumps(content))
        for image in content['images']:
            cv2.imwrite(str(root / split / image['file_name']), np.full((64, 96, 3), 100, dtype=np.uint8))
    return root


@pytest.fixture
def small(few_scenes, few_images, tmp_path, monkeypatch):
    """Return a function that lets a config train on few images, in an empty folder that becomes the current one."""
    (tmp_path / 'data').mkdir()
    (tmp_path / 'data' / 'coco').symlink_to(few_images)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Config, 'pretty_text', '')

    def make(name: str) -> Config:
        cfg = without_downloads(read(name))
        for loader in DATALOADERS:
            cfg[loader].update(batch_size=4, num_workers=0, persistent_workers=False)
            if '_digits' in name:
                innermost(cfg[loader].dataset).update(data_root=str(few_scenes), num_train=16, num_test=4)
        if '_digits' in name:
            cfg.val_evaluator[0].ann_file = str(few_scenes / 'annotations' / 'instances_test.json')
        cfg.work_dir = str(tmp_path / 'work_dir')
        return cfg

    return make


@pytest.mark.parametrize('name', ONE_OF_EACH_HEAD)
def test_everything_that_a_training_on_coco_needs_is_built(name, small, fast_building):
    """The other configs differ in the loss alone, as the tests of recipes and losses show."""
    runner = Runner.from_cfg(small(name))
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    runner._train_loop = runner.build_train_loop(runner._train_loop)
    runner._val_loop = runner.build_val_loop(runner._val_loop)
    runner._test_loop = runner.build_test_loop(runner._test_loop)
    runner.param_schedulers = runner.build_param_scheduler(runner.param_schedulers)
    head = head_of(runner.model)
    assert isinstance(head.loss_cls, MultiLabelLoss)
    assert head.loss_cls.reason_against_anchors is None
    assert head.num_classes == 80
    for loader in (runner.train_dataloader, runner.val_dataloader, runner.test_dataloader):
        sample = loader.dataset[0]['data_samples']
        assert sample.gt_instances.labels.tolist() == [0, 79]
        assert sample.ignored_instances.labels.tolist() == [0]
    trained = {id(weight) for group in runner.optim_wrapper.param_groups for weight in group['params']}
    assert {id(weight) for weight in runner.model.parameters() if weight.requires_grad} <= trained
    # Raises an error if the head does not support the loss.
    (check,) = [hook for hook in runner.hooks if type(hook).__name__ == 'DetectorCheckHook']
    check.before_run(runner)


@pytest.mark.parametrize('name', DIGITS)
def test_digit_detectors_train_and_evaluate(name, small):
    cfg = small(name)
    cfg.train_cfg.update(max_epochs=2, val_interval=2)  # of one iteration each, because some losses depend on the epoch
    cfg.train_dataloader.batch_size = 16
    test_cfg = cfg.model.test_cfg.get('rcnn', cfg.model.test_cfg)
    if 'score_thr' in test_cfg:
        test_cfg.score_thr = -1.0  # otherwise nothing is detected so early, and MMDetection has no metrics of nothing
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.iter == 2
    assert math.isfinite(runner.message_hub.get_scalar('train/loss').current())
    assert runner.message_hub.get_scalar('train/loss_cls').current() > 0
    for key in ('coco/bbox_mAP', 'coco/bbox_mAP_50', 'detection/D-ECE'):
        assert f'val/{key}' in runner.message_hub.log_scalars
    assert isinstance(runner.train_dataloader.dataset, MissingBoxes) == name.endswith('_50')


def test_every_head_has_the_losses_of_the_papers_and_a_digit_sibling():
    for head in HEADS:
        assert {f'{head}_{loss}_coco' for loss in PAPERS} <= set(COCO)
        assert any(re.fullmatch(rf'{head}_\w+_digits', name) for name in DIGITS)
    assert {'retinanet_focal_coco', 'retinanet_asl_coco'} <= set(COCO)
    assert {f'retinanet_{loss}_digits' for loss in ('focal', 'asl', 'hill', 'spa')} <= set(DIGITS)
    assert {f'retinanet_{loss}_digits_50' for loss in ('focal', 'hill', 'splc', 'lasd', 'll_r')} <= set(DIGITS)


@pytest.mark.parametrize('name', COCO)
def test_the_recipe_is_that_of_mmdetection(name):
    """Only the loss, some heads that need the sigmoid, and the evaluation are ours."""
    head = next(head for head in HEADS if name.startswith(f'{head}_'))
    theirs = dict(
        retinanet='retinanet/retinanet_r50_fpn_1x_coco',
        fcos='fcos/fcos_r50-caffe_fpn_gn-head_1x_coco',
        atss='atss/atss_r50_fpn_1x_coco',
        deformable_detr='deformable_detr/deformable-detr_r50_16xb2-50e_coco',
        faster_rcnn='faster_rcnn/faster-rcnn_r50_fpn_1x_coco',
    )[head]
    ours, theirs = read(name), read_once(mmdet_configs() / f'{theirs}.py')
    for key in ('param_scheduler', 'train_cfg', 'train_dataloader', 'val_dataloader', 'auto_scale_lr'):
        assert without_scopes(ours[key]) == without_scopes(theirs[key]), key
    assert ours.optim_wrapper.optimizer == theirs.optim_wrapper.optimizer
    assert without_scopes(ours.val_evaluator[0]) == without_scopes(theirs.val_evaluator)
    assert ours.val_evaluator[1].type == 'mmml_losses.DetectionCalibrationError'
    for cfg in (ours, theirs):
        for key in ('loss_cls', 'type', 'init_cfg'):
            head_config(cfg).pop(key, None)
    assert without_scopes(ours.model) == without_scopes(theirs.model)


def mmdet_configs() -> Path:
    return Path(pytest.importorskip('mmdet').__file__).parent / '.mim' / 'configs'


def without_scopes(node):
    """Remove the keys that MMEngine adds to configs of other projects."""
    if isinstance(node, dict):
        return {key: without_scopes(value) for key, value in node.items() if key != '_scope_'}
    return [without_scopes(each) for each in node] if isinstance(node, (list, tuple)) else node


@pytest.mark.parametrize('name', CONFIGS)
def test_losses_are_those_of_the_papers(name):
    """Compare with ``configs/_base_/losses``.

    Detectors differ in buckets, an added BCE for losses that do not fix the scores, the share of rejected labels, the
    gradient of ASL's focusing weights, and the weight against the boxes.
    """
    head = next(head for head in HEADS if name.startswith(f'{head}_'))
    loss = re.sub(r'(_phi)?_(coco|digits|digits_50)$', '', name.removeprefix(f'{head}_'))
    found = dict(head_config(read(name)).loss_cls)
    assert found.pop('use_sigmoid') is True
    weight = found.pop('loss_weight', 1.0)
    expected = dict(Config.fromfile(FOLDER / '_base_' / 'losses' / f'{loss}.py').loss)
    if loss in JOINED_WITH_BCE:
        parts = {'bce': dict(type='mmml_losses.BCELoss'), loss: expected | dict(bucket_size=4096)}
        expected = dict(type='mmml_losses.SumLoss', losses=parts)
    if loss == 'focal':
        expected['alpha'] = 0.25
        assert weight == (2.0 if head == 'deformable_detr' else 1.0)
    else:
        assert weight == dict(deformable_detr=0.5, faster_rcnn=1.0).get(head, 0.25)
    if loss == 'asl':
        assert expected.pop('detach_weight') is True
    if loss == 'll_r':
        expected['relative_increase'] = 0.0005
    if '_phi_' in name:
        expected['link'] = 'phi'
    assert found == expected
    assert LOSSES.build(head_config(read(name)).loss_cls).reason_against_anchors is None


@pytest.mark.parametrize('loss', JOINED_WITH_BCE)
def test_background_learns_where_there_is_no_object(loss):
    """Train on a pyramid level without objects, from a probability that is too high for background."""
    module = LOSSES.build(head_config(read(f'retinanet_{loss}_coco')).loss_cls)
    logits = torch.full((5000, 80), math.log(0.1 / 0.9), requires_grad=True)
    background = torch.full((5000,), 80)
    module(logits, background, weight=torch.ones(5000), avg_factor=1.0, epoch=0).backward()
    assert logits.grad.min() > 1e-4


@pytest.mark.parametrize('name', [name for name in CONFIGS if '_focal_' in name and '_phi_' not in name])
def test_another_loss_swapped_into_a_config_is_that_of_its_own_config(name):
    """Swap Focal, whose alpha is part of its weight, for the other losses of the same head and data, and back."""
    head, data = name.split('_focal_')
    siblings = [other for other in CONFIGS if re.fullmatch(rf'{head}_(?!focal)\w+?_{data}', other)]
    assert len(siblings) >= 2
    for other in siblings:
        cfg = read(name)
        loss = other.removeprefix(f'{head}_').removesuffix(f'_{data}')
        swap_loss(cfg, find_loss(loss, for_detector=True))
        assert head_config(cfg).loss_cls == head_config(read(other)).loss_cls, other
        swap_loss(cfg, find_loss('focal', for_detector=True))
        assert head_config(cfg).loss_cls == head_config(read(name)).loss_cls, other


def test_the_schedule_of_digit_detectors():
    cfg = read('retinanet_focal_digits')
    assert (cfg.train_cfg.max_epochs, cfg.train_dataloader.batch_size) == (5, 16)
    assert cfg.optim_wrapper.optimizer == dict(type='AdamW', lr=2e-3, weight_decay=0.02)
    assert [each.type for each in cfg.param_scheduler] == ['LinearLR', 'CosineAnnealingLR']
    scenes = innermost(cfg.train_dataloader.dataset)
    assert (scenes.num_train, scenes.num_test, scenes.image_size) == (6000, 1000, 96)


def test_half_of_the_boxes_are_hidden(small):
    cfg = small('retinanet_focal_digits_50')
    assert cfg.train_dataloader.dataset.missing_ratio == 0.5
    assert cfg.train_dataloader.dataset.type == 'mmml_losses.MissingBoxes'
    assert 'MissingBoxes' not in cfg.val_dataloader.dataset.type


# A detector of each head, and an AP50 that it exceeds; docs/experiments.md lists the AP50 of each.
USEFUL_AP50 = {
    'retinanet_focal_digits': 0.8,
    'fcos_hill_digits': 0.65,
    'atss_spa_digits': 0.68,
    'deformable_detr_spa_digits': 0.75,
    'faster_rcnn_spa_digits': 0.8,
}


@pytest.mark.slow
@pytest.mark.parametrize('name', USEFUL_AP50)
def test_digit_detectors_find_digits(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = read(name)
    cfg.work_dir = str(tmp_path / 'work_dir')
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.message_hub.get_scalar('val/coco/bbox_mAP_50').current() > USEFUL_AP50[name]

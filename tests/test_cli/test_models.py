"""Test ``--model``: what it finds, what it replaces in a config, and what it leaves."""

import argparse
from pathlib import Path

import pytest
import torch
from mmcv.transforms import Resize
from mmengine.config import Config
from mmpretrain.registry import MODELS

from mmml_losses.cli import launch
from mmml_losses.cli.models import find_model, models_folder, swap_model
from mmml_losses.engine.resuming import safe_checkpoint
from mmml_losses.utils.errors import UsageError
from tests.helpers.tools import run_tool

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs'
SMALL = """
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=18, out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='mmml_losses.MultiLabelHead', in_channels=512),
)
"""


def swapped(config: str, network: str) -> Config:
    cfg = Config.fromfile(CONFIGS / f'{config}.py')
    swap_model(cfg, find_model(network))
    return cfg


def test_networks_are_found_by_short_name_and_file(tmp_path):
    (tmp_path / 'small.py').write_text(SMALL)
    assert find_model('resnext50').model.backbone.type == 'ResNeXt'
    assert find_model(str(tmp_path / 'small.py')).model.backbone.depth == 18
    assert find_model(str(CONFIGS / 'hill_coco_40_swin_s.py')).model.backbone.type == 'SwinTransformer'


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        (
            'resnet5',
            r"'resnet5' is neither a network nor a file: did you mean 'resnet50'.*\(short names: densenet169, ",
        ),
        ('none.py', r"'none\.py' is neither a network nor a file"),
        (str(CONFIGS / '_base_' / 'losses' / 'bce.py'), r'bce\.py must define `model = dict\(backbone='),
    ],
)
def test_what_is_no_network_is_rejected(name, message):
    with pytest.raises(UsageError, match=message):
        find_model(name)


@pytest.mark.parametrize('network', ['resnext50', 'densenet169', 'mobilenet_v3_large', 'swin_s', 'vit_b32'])
@pytest.mark.parametrize('config', ['two_way_vaw', 'hill_voc12_single', 'role_nus_single'])
def test_a_swapped_network_has_the_classes_the_loss_and_the_head_of_the_config(config, network):
    old = Config.fromfile(CONFIGS / f'{config}.py').model
    new = swapped(config, network).model
    own = find_model(network).model
    assert dict(new.head, in_channels=0) == dict(old.head, in_channels=0)
    assert new.backbone.type == own.backbone.type
    assert new.backbone.init_cfg == own.backbone.init_cfg


@pytest.mark.parametrize(('config', 'size'), [('two_way_coco', 224), ('bce_coco', 448)])
@pytest.mark.parametrize('network', ['swin_s', 'vit_b32'])
def test_a_swapped_network_takes_images_of_the_config(config, size, network):
    cfg = swapped(config, network)
    cfg.model.backbone.init_cfg = None
    model = MODELS.build(cfg.model).eval()
    with torch.no_grad():
        assert model(torch.zeros(1, 3, size, size)).shape == (1, 80)


def test_images_are_normalised_as_the_weights_of_the_network_need_it():
    assert swapped('two_way_coco', 'vit_b32').data_preprocessor.mean == [127.5] * 3
    assert swapped('two_way_coco', 'vit_b32').data_preprocessor.num_classes == 80
    assert swapped('two_way_coco', 'swin_s').data_preprocessor == swapped('two_way_coco', 'resnet50').data_preprocessor
    with pytest.raises(UsageError, match='normalised for its own network'):
        swapped('spa_lpr_coco_vit_b32', 'resnet50')


@pytest.mark.parametrize(
    ('model', 'settings', 'read'),
    [
        (dict(data_preprocessor=dict(mean=[0.0] * 3)), dict(), lambda cfg: cfg.model.data_preprocessor),
        (dict(), dict(data_preprocessor=dict(mean=[0.0] * 3)), lambda cfg: cfg.data_preprocessor),
        (dict(), dict(), lambda cfg: cfg.data_preprocessor),
    ],
    ids=['model', 'config', 'none'],
)
def test_the_normalisation_goes_where_the_config_has_its_own(model, settings, read):
    cfg = Config(dict(model=dict(backbone=dict(type='ResNet', depth=18), head=dict(type='LinearClsHead'), **model)))
    cfg.merge_from_dict(settings)
    swap_model(cfg, find_model('vit_b32'))
    assert read(cfg).mean == [127.5] * 3
    assert ('data_preprocessor' in cfg) == (not model)


@pytest.mark.parametrize('scale', [256, (256, 256)])
@pytest.mark.parametrize('resize', ['Resize', 'mmpretrain.Resize', Resize])
def test_the_image_size_is_read_from_every_form_of_a_config(scale, resize):
    model = dict(backbone=dict(type='ResNet', depth=18), head=dict(type='LinearClsHead'))
    cfg = Config(dict(model=model, test_pipeline=[dict(type=resize, scale=scale)]))
    swap_model(cfg, find_model('vit_b32'))
    assert cfg.model.backbone.img_size == 256


@pytest.mark.parametrize('pooling', ['mmpretrain.GlobalAveragePooling', MODELS.get('GlobalAveragePooling')])
def test_average_pooling_is_known_in_every_form_of_a_config(pooling):
    model = dict(backbone=dict(type='ResNet', depth=18), neck=dict(type=pooling), head=dict(type='LinearClsHead'))
    cfg = Config(dict(model=model))
    swap_model(cfg, find_model('vit_b32'))
    assert cfg.model.get('neck') is None


@pytest.mark.parametrize(('network', 'setting'), [('densenet169', 'init_cfg'), ('regnety_32gf', 'pretrained')])
def test_training_from_scratch_stays_from_scratch(network, setting):
    assert not swapped('two_way_imagenet', network).model.backbone[setting]
    assert swapped('two_way_coco', network).model.backbone[setting]


def test_a_frozen_backbone_stays_frozen():
    backbone = swapped('two_way_imagenet_transfer', 'resnext50').model.backbone
    assert (backbone.frozen_stages, backbone.norm_eval) == (4, True)
    with pytest.raises(UsageError, match='sets frozen_stages=4, which TIMMBackbone does not take'):
        swapped('two_way_imagenet_transfer', 'regnety_32gf')


def test_a_neck_of_the_method_stays_and_fits():
    assert swapped('ml_gcn_voc_lt', 'densenet169').model.neck.type == 'mmml_losses.GlobalMaxPooling'
    assert swapped('ml_gcn_voc_lt', 'densenet169').model.head.in_channels == 1664
    experts = swapped('bal_poe_coco_lt', 'resnext50').model
    assert (experts.neck.type, experts.neck.in_channels, experts.head.in_channels) == ('LinearNeck', 2048, 256)
    assert (experts.head.type, experts.backbone.frozen_stages) == ('mmml_losses.ExpertsHead', 1)
    assert experts.backbone.norm_eval
    with pytest.raises(UsageError, match='sets norm_eval=True, which DenseNet does not take'):
        swapped('bal_poe_coco_lt', 'densenet169')
    with pytest.raises(UsageError, match=r'the neck mmml_losses\.GlobalMaxPooling of the config needs a network that'):
        swapped('ml_gcn_voc_lt', 'vit_b32')


def test_views_and_features_keep_their_classifier_and_preprocessor():
    assert swapped('lasd_coco_single', 'resnext50').model.type == 'mmml_losses.MultiViewClassifier'
    features = swapped('bce_features', 'mlp_features').model
    assert features.neck.type == 'LinearNeck'
    assert features.head.in_channels == 512


def test_a_detector_is_rejected():
    with pytest.raises(UsageError, match='--model: the config must be that of a classifier'):
        swap_model(Config(dict(model=dict(bbox_head=dict(loss_cls=dict())))), find_model('resnet50'))


@pytest.mark.parametrize(
    ('arguments', 'folder'),
    [
        (['--model', 'resnext50'], 'two_way_vaw-resnext50'),
        (['--model', 'resnext50', '--loss', 'asl'], 'two_way_vaw-resnext50-asl'),
        (['--model', '{folder}/my net.py'], 'two_way_vaw-my_net'),
        (['--model', 'resnext50', '--work-dir', 'mine'], '../mine'),
    ],
)
def test_every_network_has_a_work_folder_of_its_own(tmp_path, arguments, folder):
    (tmp_path / 'my net.py').write_text(SMALL)
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    arguments = [argument.format(folder=tmp_path) for argument in arguments]
    cfg = launch.load_config(parser.parse_args([str(CONFIGS / 'two_way_vaw.py'), *arguments]))
    assert (Path('work_dirs') / folder).resolve() == Path(cfg.work_dir).resolve()


def test_options_reach_the_network_that_was_swapped_in():
    options = {'model.backbone.init_cfg.checkpoint': 'mine.pth'}
    cfg = launch.read_config(str(CONFIGS / 'two_way_vaw.py'), options, model='resnext50')
    assert cfg.model.backbone.init_cfg == dict(type='Pretrained', checkpoint='mine.pth', prefix='backbone')


def text_of(depth: int, **changes) -> str:
    return f'model = dict(backbone=dict(type="ResNet", depth={depth}, frozen_stages={changes.get("frozen", 0)}))'


def test_a_work_folder_is_not_resumed_with_another_network(tmp_path):
    cfg = Config.fromstring(text_of(101), '.py')
    cfg.work_dir = str(tmp_path)
    checkpoint = tmp_path / 'epoch_1.pth'
    torch.save(dict(state_dict={}, meta=dict(cfg=text_of(50))), checkpoint)
    with pytest.raises(UsageError, match=r"the network \{'type': 'ResNet', 'depth': 50\}, which cannot be") as caught:
        safe_checkpoint(str(checkpoint), cfg, resume=True)
    assert all(word in str(caught.value) for word in ("'depth': 101", '--model', '--work-dir'))
    assert safe_checkpoint(str(checkpoint), cfg) == str(checkpoint)
    torch.save(dict(state_dict={}, meta=dict(cfg=text_of(101, frozen=1))), checkpoint)
    assert safe_checkpoint(str(checkpoint), cfg, resume=True) == str(checkpoint)


def test_every_short_name_is_listed_by_the_tool(capsys):
    run_tool('list.py', 'networks')
    printed = capsys.readouterr().out
    assert all(file.stem in printed for file in models_folder().glob('*.py'))

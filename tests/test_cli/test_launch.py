"""Test what the tools do before a Runner starts."""

import argparse
import copy
import functools
import http.server
import logging
import os
import re
import threading
from pathlib import Path

import pytest
import torch
from mmengine.config import Config, ConfigDict

from mmml_losses.cli import launch
from mmml_losses.cli import losses as loss_swap
from mmml_losses.cli.losses import find_loss, swap_loss
from mmml_losses.datasets import MissingDataError
from mmml_losses.engine.config_data import require_data
from mmml_losses.engine.hooks.detector_check import DetectorCheckHook
from mmml_losses.engine.model_loss import check_loss, replace_loss
from mmml_losses.engine.resuming import safe_checkpoint
from mmml_losses.engine.running import add_hook, dataloader_with_defaults
from mmml_losses.hosts import mmdet
from mmml_losses.hosts.checkpoints import CheckpointError
from mmml_losses.hosts.loss_places import is_detector
from mmml_losses.losses import HillLoss
from mmml_losses.models.word_vectors import load_word_vectors
from mmml_losses.utils.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def losses_folder(tmp_path, monkeypatch):
    """Make a folder of short names that has one loss."""
    folder = tmp_path / 'losses'
    folder.mkdir()
    (folder / 'sharp.py').write_text("loss = dict(type='mmml_losses.BCELoss', loss_weight=3.0)\n")
    monkeypatch.setattr(loss_swap, 'losses_folder', lambda: folder)
    return folder


def test_losses_are_found_by_short_name_file_and_registered_name(losses_folder, tmp_path):
    assert find_loss('sharp').loss_weight == 3.0
    assert find_loss(str(losses_folder / 'sharp.py')).loss_weight == 3.0
    assert find_loss('SPALoss') == dict(type='mmml_losses.SPALoss')
    assert find_loss('mmml_losses.SPALoss') == dict(type='mmml_losses.SPALoss')
    assert find_loss('mmpretrain.AsymmetricLoss') == dict(type='mmpretrain.AsymmetricLoss')


def test_an_unknown_loss_is_answered_with_near_names(losses_folder):
    with pytest.raises(UsageError, match=r"--loss: 'SPALos' .*'SPALoss'.*short names: sharp"):
        find_loss('SPALos')


def test_a_misspelt_short_name_is_answered_with_losses_alone(losses_folder):
    with pytest.raises(UsageError, match=r"'shrap' is not a loss: did you mean 'sharp'\? \(short names: sharp\)"):
        find_loss('shrap')
    with pytest.raises(UsageError, match="did you mean 'HillLoss'") as caught:  # and not PhiLink, which is as near
        find_loss('hil')
    assert 'Link' not in str(caught.value)


def test_what_the_package_rejects_ends_a_tool_with_one_sentence():
    with pytest.raises(SystemExit) as stopped:
        launch.exit_clearly(lambda: load_word_vectors('nothing.txt', 3))
    assert stopped.value.code == (
        "word_vectors must be a file, got 'nothing.txt', which does not exist: GloVe is at "
        'https://nlp.stanford.edu/projects/glove (glove.6B.zip), and None takes one-hot vectors'
    )


@pytest.mark.parametrize('fault', [lambda: int('x'), lambda: load_word_vectors(3, 3)])
def test_a_fault_keeps_its_traceback(fault):
    with pytest.raises((TypeError, ValueError)):
        launch.exit_clearly(fault)


def test_a_loss_file_without_a_loss_is_rejected(tmp_path):
    (tmp_path / 'other.py').write_text('model = dict()\n')
    with pytest.raises(UsageError, match=r'other\.py must define `loss = dict'):
        find_loss(str(tmp_path / 'other.py'))


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('mine.py', r'the file mine\.py does not exist'),
        ('SPALink', 'SPALink is not a loss'),
        ('MultiLabelHead', 'not a'),
    ],
)
def test_what_is_no_loss_is_rejected(losses_folder, name, message):
    with pytest.raises(UsageError, match=message):
        find_loss(name)


@pytest.mark.parametrize(
    ('model', 'read'),
    [
        (dict(head=dict(type='H', loss=dict(type='Old', old_argument=1))), lambda m: m.head.loss),
        (dict(head=dict(type='H')), lambda m: m.head.loss),
    ],
)
def test_the_loss_is_replaced_whole(model, read):
    cfg = Config(dict(model=model))
    replace_loss(cfg, dict(type='mmml_losses.SPALoss'))
    assert read(cfg.model) == dict(type='mmml_losses.SPALoss')


def swapped(old: dict, new: dict) -> dict:
    cfg = Config(dict(model=dict(head=dict(type='H', loss=old))))
    swap_loss(cfg, new)
    return cfg.model.head.loss


@pytest.mark.parametrize(
    'old',
    [
        dict(type='Old', reduction='sum'),
        dict(type='Sum', losses=dict(a=dict(type='A', reduction='sum'), b=dict(type='B', reduction='sum'))),
        dict(type='Sum', reduction='sum', losses=dict(a=dict(type='A', reduction='mean'))),
    ],
)
def test_a_swapped_loss_is_reduced_as_the_one_of_the_recipe(old):
    assert swapped(old, dict(type='mmml_losses.SPALoss')) == dict(type='mmml_losses.SPALoss', reduction='sum')


def test_a_recipe_that_sets_no_reduction_changes_nothing_in_a_swapped_loss():
    assert swapped(dict(type='Old'), dict(type='mmml_losses.SPALoss')) == dict(type='mmml_losses.SPALoss')


@pytest.mark.parametrize(
    'new',
    [
        dict(type='mmml_losses.BCELoss', reduction='mean'),
        dict(type='mmml_losses.SumLoss', losses=dict(bce=dict(type='mmml_losses.BCELoss', reduction='mean'))),
        dict(type='mmpretrain.AsymmetricLoss'),
    ],
)
def test_a_reduction_that_is_given_or_would_do_harm_stays(new):
    assert swapped(dict(type='Old', reduction='sum'), new) == new


@pytest.mark.parametrize('loss', [dict(type='mmml_losses.SPALoss'), dict(type='mmml_losses.SumLoss', losses=dict(a=1))])
def test_a_recipe_names_the_reduction_of_a_swapped_loss(loss):
    cfg = Config(dict(loss_reduction='batchmean', model=dict(head=dict(loss=dict(type='Old', reduction='sum')))))
    swap_loss(cfg, loss)
    assert cfg.model.head.loss == {**loss, 'reduction': 'batchmean'}


def test_what_happens_to_the_reduction_is_logged(monkeypatch):
    lines = []
    monkeypatch.setattr(loss_swap, 'print_log', lambda message, logger, level: lines.append((level, message)))
    sums = dict(type='Old', reduction='sum')
    swapped(sums, dict(type='mmml_losses.SPALoss'))
    swapped(sums, dict(type='mmpretrain.AsymmetricLoss'))
    swapped(dict(type='Old'), dict(type='mmml_losses.SPALoss'))
    kept, left = lines
    assert kept[0] == logging.INFO
    assert "SPALoss is reduced as the recipe wants it, reduction='sum'" in kept[1]
    assert left[0] == logging.WARNING
    assert 'AsymmetricLoss keeps its own' in left[1]


OLD = dict(type='FocalLoss', alpha=0.25, use_sigmoid=False, loss_weight=2.0)


@pytest.mark.parametrize(
    ('model', 'read'),
    [
        (dict(bbox_head=dict(type='H', loss_cls=OLD)), lambda m: [m.bbox_head]),
        (
            dict(rpn_head=dict(loss_cls=OLD), roi_head=dict(bbox_head=dict(loss_cls=OLD))),
            lambda m: [m.roi_head.bbox_head],
        ),
        (
            dict(rpn_head=dict(loss_cls=OLD), roi_head=dict(bbox_head=[dict(loss_cls=OLD) for _ in range(3)])),
            lambda m: m.roi_head.bbox_head,
        ),
    ],
)
def test_detectors_keep_the_weight_against_the_boxes_and_take_the_sigmoid(model, read):
    cfg = Config(dict(model=copy.deepcopy(model)))
    assert is_detector(cfg)
    replace_loss(cfg, dict(type='mmml_losses.FocalLoss', alpha=0.5))
    for head in read(cfg.model):
        assert head.loss_cls == dict(type='mmml_losses.FocalLoss', alpha=0.5, use_sigmoid=True, loss_weight=1.0)
    replace_loss(cfg, dict(type='mmml_losses.SPALoss', loss_weight=0.3))
    assert all(head.loss_cls.loss_weight == 0.3 for head in read(cfg.model))
    if 'rpn_head' in model:
        assert cfg.model.rpn_head.loss_cls == OLD


def test_a_loss_without_alpha_has_that_of_focal_in_its_weight():
    cfg = Config(dict(model=dict(bbox_head=dict(loss_cls=copy.deepcopy(OLD)))))
    for loss in ('SPALoss', 'HillLoss'):  # once
        replace_loss(cfg, dict(type=f'mmml_losses.{loss}'))
        assert cfg.model.bbox_head.loss_cls == dict(type=f'mmml_losses.{loss}', use_sigmoid=True, loss_weight=0.5)


def test_losses_of_other_projects_keep_the_sigmoid_of_the_head():
    cfg = Config(dict(model=dict(bbox_head=dict(loss_cls=copy.deepcopy(OLD)))))
    replace_loss(cfg, dict(type='mmdet.FocalLoss'))
    assert cfg.model.bbox_head.loss_cls == dict(type='mmdet.FocalLoss', loss_weight=2.0)
    cfg.model.bbox_head.loss_cls = dict(OLD, use_sigmoid=True)
    replace_loss(cfg, dict(type='mmdet.CrossEntropyLoss'))
    assert cfg.model.bbox_head.loss_cls == dict(type='mmdet.CrossEntropyLoss', use_sigmoid=True, loss_weight=0.5)
    replace_loss(cfg, dict(type='mmdet.FocalLoss', alpha=0.0))
    assert cfg.model.bbox_head.loss_cls.loss_weight == 0.5
    cfg = Config(dict(model=dict(roi_head=dict(bbox_head=dict(loss_cls=dict(type='mmml_losses.SPALoss'))))))
    replace_loss(cfg, dict(type='mmml_losses.HillLoss'))
    replace_loss(cfg, dict(type='mmdet.CrossEntropyLoss'))  # of which a RoI head takes the softmax
    assert cfg.model.roi_head.bbox_head.loss_cls == dict(type='mmdet.CrossEntropyLoss')


@pytest.mark.parametrize('focal', [dict(type='mmdet.FocalLoss'), dict(type='mmml_losses.FocalLoss', alpha=0.25)])
def test_a_loss_swapped_for_focal_and_back_has_the_weight_that_it_had(focal):
    cfg = Config(dict(model=dict(bbox_head=dict(loss_cls=dict(type='mmml_losses.SPALoss', loss_weight=0.5)))))
    replace_loss(cfg, focal)
    assert cfg.model.bbox_head.loss_cls.loss_weight == 2
    replace_loss(cfg, dict(type='mmml_losses.DBFocalLoss', alpha=0.1))  # which is no weight of positives
    assert cfg.model.bbox_head.loss_cls.loss_weight == 0.5


def test_configs_of_pure_python_have_classes_for_types():
    class FocalLoss:
        """As MMDetection's, which those configs import."""

    cfg = Config(dict(model=dict(bbox_head=dict(loss_cls=dict(OLD, type=FocalLoss)))))
    replace_loss(cfg, dict(type=HillLoss))
    assert cfg.model.bbox_head.loss_cls == dict(type=HillLoss, use_sigmoid=True, loss_weight=0.5)


@pytest.mark.parametrize('name', ['mmpretrain.AsymmetricLos', 'nowhere.FocalLoss', './my_loss'])
def test_a_misspelt_loss_of_another_project_is_one_sentence(name, tmp_path):
    expected = f"--loss: '{name}' is not a loss: '{name.split('.')[0]}' has none of that name, or is not installed"
    with pytest.raises(UsageError, match=re.escape(expected)):
        find_loss(name)


@pytest.mark.parametrize('name', ['mmpretrain.AsymmetricLoss', 'mmml_losses.losses.SPALoss'])
def test_losses_may_be_named_with_their_project_or_module(name, tmp_path):
    assert find_loss(name) == dict(type=name)


def test_a_hook_is_added_once():
    cfg = Config(dict(custom_hooks=[dict(type=DetectorCheckHook)]))
    add_hook(cfg, 'DetectorCheckHook')
    assert len(cfg.custom_hooks) == 1
    for _ in range(2):
        add_hook(cfg, 'EpochSeedHook')
    assert [hook['type'] for hook in cfg.custom_hooks] == [DetectorCheckHook, 'mmml_losses.EpochSeedHook']


def test_detectors_are_known_also_inside_test_time_augmentation():
    detector = dict(bbox_head=dict(loss_cls=OLD))
    assert is_detector(Config(dict(model=dict(type='DetTTAModel', module=detector))))
    for model in (dict(head=dict(loss=OLD)), dict(module=dict(head=dict(loss=OLD)))):
        assert not is_detector(Config(dict(model=model)))


def test_losses_for_detectors_come_before_those_of_classifiers():
    assert find_loss('focal', for_detector=True).alpha == 0.25
    assert 'alpha' not in find_loss('focal')
    assert find_loss('dr', for_detector=True).losses.dr.bucket_size == 4096
    assert find_loss('hill', for_detector=True) == find_loss('hill')


def test_a_wrong_loss_of_any_stage_is_named():
    stages = [dict(loss_cls=dict(type='mmml_losses.HillLoss')), dict(loss_cls=dict(type='mmml_losses.HillLoss', lam=1))]
    with pytest.raises(UsageError, match=r'model\.roi_head\.bbox_head\.loss_cls of the config, mmml_losses\.HillLoss'):
        check_loss(Config(dict(model=dict(roi_head=dict(bbox_head=stages)))))


def test_a_model_without_a_classification_loss_is_rejected():
    with pytest.raises(UsageError, match=r'looked for model\.head\.loss, model\.bbox_head\.loss_cls'):
        replace_loss(Config(dict(model=dict(type='GAN'))), dict(type='x'))


@pytest.mark.parametrize(
    ('base', 'absent', 'message'),
    [
        ('', 'mmdet', r'detector\.py needs MMDetection, which is not installed: .*pip install .*mmdet'),
        ("_base_ = 'mmdet::a.py'\n", 'mmdet', r'detector\.py needs MMDetection, which is not installed'),
        ('', 'mmcv._ext', r'detector\.py needs mmcv with its compiled operators, .*pip install'),
    ],
)
def test_the_config_of_a_detector_names_what_to_install(tmp_path, monkeypatch, base, absent, message):
    def find(name, package=None):
        return None if name == absent else True

    def get_path(self, name, *args):
        raise ModuleNotFoundError('mmdet is not installed, please install mmdet manually')

    monkeypatch.setattr(mmdet, 'find_spec', find)
    if base:
        monkeypatch.setattr(Config, '_get_cfg_path', get_path)
    file = tmp_path / 'detector.py'
    file.write_text(f"{base}model = dict(bbox_head=dict(loss_cls=dict(type='mmml_losses.HillLoss')))\n")
    with pytest.raises(SystemExit, match=message):
        launch.exit_clearly(lambda: launch.read_config(str(file)))


def coco(root, **kwargs):
    return dict(type='mmml_losses.CocoMultiLabel', ann_file='a.json', data_root=str(root), data_prefix='img', **kwargs)


def test_missing_data_names_files_and_a_config_that_needs_none(tmp_path):
    (tmp_path / 'spa_digits.py').touch()
    cfg = Config(
        dict(
            train_dataloader=dict(dataset=dict(type='RepeatDataset', times=2, dataset=coco(tmp_path / 'train'))),
            val_dataloader=dict(dataset=coco(tmp_path / 'val', pipeline=[dict(type='NotBuilt')])),
            test_dataloader=None,
        )
    )
    with pytest.raises(MissingDataError) as caught:
        require_data(cfg, str(tmp_path / 'spa_coco.py'))
    message = str(caught.value)
    for part in ('train/a.json', 'train/img', 'val/a.json', 'val/img', 'python tools/train.py', 'spa_digits.py'):
        assert part in message
    assert len(caught.value.missing) == 4


def test_a_dataset_that_cannot_be_built_is_one_sentence(tmp_path):
    scenes = dict(type='mmml_losses.DigitScenes', data_root=str(tmp_path), class_frequencies=[0.5])
    with pytest.raises(UsageError, match='a DigitScenes that cannot be built: class_frequencies must be 10 numbers'):
        require_data(Config(dict(train_dataloader=dict(dataset=scenes))), 'x.py')


def test_a_wrapper_that_cannot_be_built_is_one_sentence(tmp_path):
    single = dict(type='mmml_losses.SinglePositive', num_train=5, dataset=dict(type='mmml_losses.DigitScenes'))
    with pytest.raises(UsageError, match=r"a SinglePositive that cannot be built: .*argument 'num_train'"):
        require_data(Config(dict(train_dataloader=dict(dataset=single))), 'x.py')


def test_complete_data_passes(tmp_path):
    (tmp_path / 'img').mkdir()
    (tmp_path / 'img' / '1.png').touch()
    (tmp_path / 'a.json').touch()
    require_data(Config(dict(train_dataloader=dict(dataset=coco(tmp_path)))), 'x.py')


@pytest.mark.parametrize(('head', 'collate'), [('head', 'default_collate'), ('bbox_head', 'pseudo_collate')])
def test_detectors_batch_images_of_several_sizes(head, collate, tmp_path):
    file = tmp_path / 'config.py'
    file.write_text(f'model = dict({head}=dict(type="H"))\ntrain_dataloader = dict(num_workers=0)\n')
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    cfg = launch.load_config(parser.parse_args([str(file)]))
    assert cfg.train_dataloader.collate_fn == dict(type=collate)


def test_dataloader_defaults_give_way_to_the_config():
    assert dataloader_with_defaults(ConfigDict(num_workers=0), pin_memory=True).persistent_workers is False
    assert dataloader_with_defaults(ConfigDict(num_workers=2), pin_memory=True).persistent_workers is True
    settings = ConfigDict(num_workers=2, persistent_workers=False, pin_memory=True)
    assert dataloader_with_defaults(settings, pin_memory=True) == dict(
        num_workers=2, persistent_workers=False, pin_memory=True, collate_fn=dict(type='default_collate')
    )
    assert dataloader_with_defaults(settings, pin_memory=False).pin_memory is False


@pytest.mark.parametrize(
    ('arguments', 'folder'),
    [
        ([], 'config'),
        (['--loss', 'asl'], 'config-asl'),
        (['--loss', 'SPALoss'], 'config-SPALoss'),
        (['--loss', 'mmml_losses.SPALoss'], 'config-SPALoss'),
        (['--loss', 'mmml_losses.losses.SPALoss'], 'config-SPALoss'),
        (['--loss', 'mmpretrain.AsymmetricLoss'], 'config-mmpretrain.AsymmetricLoss'),
        (['--loss', '{folder}/my loss, v2.py'], 'config-my_loss_v2'),
        (['--loss', 'asl', '--work-dir', 'mine'], '../mine'),
        (['--loss', 'asl', '--cfg-options', 'work_dir=mine'], '../mine'),
    ],
)
def test_every_loss_has_a_work_folder_of_its_own(tmp_path, arguments, folder):
    (tmp_path / 'config.py').write_text("model = dict(head=dict(loss=dict(type='mmml_losses.BCELoss')))\n")
    (tmp_path / 'my loss, v2.py').write_text("loss = dict(type='mmml_losses.SPALoss')\n")
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    arguments = [argument.format(folder=tmp_path) for argument in arguments]
    cfg = launch.load_config(parser.parse_args([str(tmp_path / 'config.py'), *arguments]))
    assert Path(cfg.work_dir) == Path(os.path.normpath(f'work_dirs/{folder}'))


def test_a_missing_config_is_one_sentence(tmp_path):
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    with pytest.raises(UsageError, match=r'config nothing\.py does not exist'):
        launch.load_config(parser.parse_args(['nothing.py']))


def test_options_come_before_the_defaults_that_depend_on_them(tmp_path):
    (tmp_path / 'config.py').write_text('train_dataloader = dict(num_workers=2)\n')
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    args = parser.parse_args([str(tmp_path / 'config.py'), '--cfg-options', 'train_dataloader.num_workers=0'])
    cfg = launch.load_config(args)
    assert cfg.train_dataloader.persistent_workers is False


@pytest.fixture
def server(tmp_path):
    """Serve a folder on this machine, and return it with its address."""
    folder = tmp_path / 'served'
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield folder, f'http://127.0.0.1:{httpd.server_port}'
        httpd.shutdown()


class Foreign:
    pass


def test_a_checkpoint_behind_a_url_is_checked_like_a_local_one(server, tmp_path, monkeypatch):
    folder, address = server
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'hub'))
    torch.save(dict(state_dict={}), folder / 'good.pth')
    torch.save(dict(state_dict=Foreign()), folder / 'foreign.pth')
    local = safe_checkpoint(f'{address}/good.pth', Config())
    assert torch.load(local, weights_only=True) == dict(state_dict={})
    with pytest.raises(CheckpointError, match=r'foreign\.pth is rejected'):
        safe_checkpoint(f'{address}/foreign.pth', Config())
    with pytest.raises(UsageError, match=r'missing\.pth could not be downloaded'):
        safe_checkpoint(f'{address}/missing.pth', Config())
    with pytest.raises(UsageError, match='must be a local file or an http'):
        safe_checkpoint('s3://bucket/good.pth', Config())


def test_options_reach_the_loss_that_was_swapped_in(tmp_path):
    config = tmp_path / 'config.py'
    config.write_text("model = dict(head=dict(loss=dict(type='mmml_losses.SPALoss', positive_scale=2.0)))\n")
    options = {'model.head.loss.threshold': 0.9, 'model.head.topk': 3}
    cfg = launch.read_config(str(config), options, loss='SPLCLoss')
    assert cfg.model.head.loss == dict(type='mmml_losses.SPLCLoss', threshold=0.9)
    assert cfg.model.head.topk == 3


@pytest.mark.parametrize(
    ('loss', 'message'),
    [
        (dict(type='mmml_losses.HillLoss', gama=2), r'HillLoss, cannot be built: .*HillLoss takes lamb, margin, gamma'),
        (dict(type='mmml_losses.ROLELoss'), r'ROLELoss, cannot be built: .*num_samples'),
        (dict(type='mmml_losses.SPLCLoss', threshold=1.5), r'threshold must be in \(0, 1\], got 1.5'),
    ],
)
def test_a_loss_that_cannot_be_built_ends_a_tool_in_one_sentence(loss, message):
    with pytest.raises(UsageError, match=rf'model\.head\.loss of the config, mmml_losses\..*{message}'):
        check_loss(Config(dict(model=dict(head=dict(loss=loss)))))


@pytest.mark.parametrize(
    'model', [dict(head=dict(loss=dict(type='mmpretrain.Whatever', x=1))), dict(head=dict()), dict(), None]
)
def test_losses_of_other_projects_are_not_built(model):
    check_loss(Config(dict(model=model)))

"""What the tools do before a Runner starts."""

import argparse

import pytest
from mmengine.config import Config, ConfigDict

from mmml_losses.datasets import MissingDataError
from mmml_losses.engine import launch


@pytest.fixture
def losses_folder(tmp_path):
    folder = tmp_path / 'losses'
    folder.mkdir()
    (folder / 'sharp.py').write_text("loss = dict(type='mmml_losses.BCELoss', loss_weight=3.0)\n")
    return folder


def test_losses_are_found_by_short_name_file_and_registered_name(losses_folder, tmp_path):
    assert launch.find_loss('sharp', losses_folder).loss_weight == 3.0
    assert launch.find_loss(str(losses_folder / 'sharp.py'), tmp_path).loss_weight == 3.0
    assert launch.find_loss('SPALoss', losses_folder) == dict(type='mmml_losses.SPALoss')
    assert launch.find_loss('mmml_losses.SPALoss', losses_folder) == dict(type='mmml_losses.SPALoss')


def test_an_unknown_loss_is_answered_with_near_names(losses_folder):
    with pytest.raises(launch.UsageError, match=r"--loss SPALos: .*'SPALoss'.*short names: sharp"):
        launch.find_loss('SPALos', losses_folder)


def test_a_loss_file_without_a_loss_is_refused(tmp_path):
    (tmp_path / 'other.py').write_text('model = dict()\n')
    with pytest.raises(launch.UsageError, match=r'other\.py must define `loss = dict'):
        launch.find_loss(str(tmp_path / 'other.py'), tmp_path)


@pytest.mark.parametrize(
    ('model', 'read'),
    [
        (dict(head=dict(type='H', loss=dict(type='Old', old_argument=1))), lambda m: m.head.loss),
        (dict(head=dict(type='H')), lambda m: m.head.loss),
        (dict(bbox_head=dict(type='H', loss_cls=dict(type='Old'))), lambda m: m.bbox_head.loss_cls),
        (
            dict(rpn_head=dict(), roi_head=dict(bbox_head=dict(loss_cls=dict(type='Old')))),
            lambda m: m.roi_head.bbox_head.loss_cls,
        ),
    ],
)
def test_the_loss_is_replaced_whole(model, read):
    cfg = Config(dict(model=model))
    launch.replace_loss(cfg, dict(type='mmml_losses.SPALoss'))
    assert read(cfg.model) == dict(type='mmml_losses.SPALoss')


def test_a_model_without_a_classification_loss_is_refused():
    with pytest.raises(launch.UsageError, match=r'it looks for model\.head\.loss, model\.bbox_head\.loss_cls'):
        launch.replace_loss(Config(dict(model=dict(type='GAN'))), dict(type='x'))


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
        launch.require_data(cfg, str(tmp_path / 'spa_coco.py'))
    message = str(caught.value)
    for part in ('train/a.json', 'train/img', 'val/a.json', 'val/img', 'python tools/train.py', 'spa_digits.py'):
        assert part in message
    assert len(caught.value.missing) == 4


def test_complete_data_passes(tmp_path):
    (tmp_path / 'img').mkdir()
    (tmp_path / 'img' / '1.png').touch()
    (tmp_path / 'a.json').touch()
    launch.require_data(Config(dict(train_dataloader=dict(dataset=coco(tmp_path)))), 'x.py')


def test_dataloader_defaults_give_way_to_the_config():
    assert launch.dataloader_with_defaults(ConfigDict(num_workers=0), pin_memory=True).persistent_workers is False
    assert launch.dataloader_with_defaults(ConfigDict(num_workers=2), pin_memory=True).persistent_workers is True
    settings = ConfigDict(num_workers=2, persistent_workers=False, pin_memory=True)
    assert launch.dataloader_with_defaults(settings, pin_memory=True) == dict(
        num_workers=2, persistent_workers=False, pin_memory=True, collate_fn=dict(type='default_collate')
    )
    assert launch.dataloader_with_defaults(settings, pin_memory=False).pin_memory is False


def test_a_missing_config_is_one_sentence(tmp_path):
    parser = argparse.ArgumentParser()
    parser.add_argument('config')
    launch.add_common_arguments(parser)
    with pytest.raises(launch.UsageError, match=r'config nothing\.py does not exist'):
        launch.load_config(parser.parse_args(['nothing.py']), tmp_path)

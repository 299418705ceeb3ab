"""Test tools/browse_labels.py as a user calls it."""

import json
import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.evaluation import summarize_labels
from tests.helpers.published.coco import coco_content
from tests.helpers.tools import TOOLS, error_of, run_tool

CONFIG = """
default_scope = 'mmpretrain'
custom_imports = dict(imports=['mmml_losses'], allow_failed_imports=False)
train_dataloader = dict(
    dataset=dict(
        type='mmml_losses.SinglePositive',
        dataset=dict(
            type='RepeatDataset',
            times=1,
            dataset=dict(
                type='mmml_losses.CocoMultiLabel', ann_file='instances.json', data_root={root!r}, data_prefix='train',
                pipeline=[dict(type='LoadImageFromFile')],
            ),
        ),
    ),
)
val_dataloader = dict(
    dataset=dict(
        type='mmml_losses.CocoMultiLabel', ann_file='absent.json', data_root={root!r}, data_prefix='train',
    ),
)
"""


@pytest.fixture
def config(tmp_path):
    """Write a config with a training set without images and a validation set without any file."""
    (tmp_path / 'coco').mkdir()
    (tmp_path / 'coco' / 'instances.json').write_text(json.dumps(coco_content()))
    file = tmp_path / 'config.py'
    file.write_text(CONFIG.format(root=str(tmp_path / 'coco')))
    return file


call = partial(run_tool, 'browse_labels.py')
fail = partial(error_of, 'browse_labels.py')


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_labels_are_shown_and_written(config, tmp_path, capsys):
    call(config, '--out', 'new/counts.png', '--json', 'new/counts.json', '--head-from', 3, '--medium-from', 2)
    printed = capsys.readouterr().out
    assert printed.startswith(
        '4 images, 3 labels of 3 classes, 0.75 an image (0 to 1)\n'
        'before: 4 images, 5 labels, 1.25 an image (0 to 2)\n'
        'changes: 2 of 5 positives hidden, 0 added\n'
    )
    assert (
        'labels of an image  before  after\n0                        1      1\n1                        1      3\n'
        in printed
    )
    assert '\nclass   before  after  ' in printed
    content = json.loads((tmp_path / 'new' / 'counts.json').read_text())
    assert [each['name'] for each in content['classes']] == ['cat', 'car', 'person']
    assert [each['before'] for each in content['classes']] == [2, 2, 1]
    assert sum(each['after'] for each in content['classes']) == 3
    assert content['head_from'] == 3
    with Image.open(tmp_path / 'new' / 'counts.png') as image:
        assert image.format == 'PNG'
        image.verify()
    assert 'wrote new/counts.json\nwrote new/counts.png\n' in printed


def test_classes_can_be_listed_or_not(config, capsys):
    call(config, '--classes', 'all')
    everything = capsys.readouterr().out
    assert all(f'\n{name} ' in everything for name in ('cat', 'car', 'person'))
    call(config, '--classes', 0)
    assert '\nclass ' not in capsys.readouterr().out


@pytest.mark.parametrize(
    ('num_shown', 'names'),
    [
        (None, ['f', 'e', 'd', 'c', 'b', 'a']),
        (3, ['f', 'e', 'd', 'c', 'b', 'a']),
        (2, ['f', 'e', '… 2 more …', 'b', 'a']),
    ],
)
def test_classes_in_the_middle_are_left_out(num_shown, names):
    class_rows = runpy.run_path(str(TOOLS / 'browse_labels.py'))['class_rows']
    summary = summarize_labels('abcdef', np.tri(6, dtype=np.int8)[:, ::-1])
    rows = class_rows(summary, num_shown)
    assert [row['class'] for row in rows] == names
    assert rows[0] == {'class': 'f', 'images': '6', 'group': 'tail'}


def test_images_with_many_labels_share_a_line():
    image_rows = runpy.run_path(str(TOOLS / 'browse_labels.py'))['image_rows']
    labels = np.tri(20, dtype=np.int8)
    rows = image_rows(summarize_labels([str(index) for index in range(20)], labels))
    assert rows[1] == {'labels of an image': '1', 'images': '1'}
    assert rows[-1] == {'labels of an image': '15 or more', 'images': '6'}
    assert len(rows) == 16


def test_options_change_the_config(config, capsys):
    call(config, '--cfg-options', 'train_dataloader.dataset.dataset.dataset.drop_empty=True')
    assert '3 images, 3 labels of 3 classes, 1.00 an image (1 to 1)' in capsys.readouterr().out
    assert Path('label_counts.png').is_file()


def test_other_folders_stay_where_images_are_missing(tmp_path, capsys):
    for folder in ('ImageSets/Main', 'Annotations'):
        (tmp_path / 'voc' / folder).mkdir(parents=True)
    (tmp_path / 'voc' / 'ImageSets' / 'Main' / 'train.txt').write_text('2008_000001\n')
    (tmp_path / 'voc' / 'Annotations' / '2008_000001.xml').write_text(
        '<annotation><size><width>9</width><height>9</height></size><object><name>dog</name><bndbox><xmin>1</xmin>'
        '<ymin>1</ymin><xmax>5</xmax><ymax>5</ymax></bndbox></object></annotation>'
    )
    config = tmp_path / 'voc.py'
    # A relative root must not be put before a path that starts with it.
    config.write_text(
        "custom_imports = dict(imports=['mmml_losses'])\n"
        "train_dataloader = dict(dataset=dict(type='mmml_losses.VOC', data_root='voc', split='train'))\n"
    )
    call(config)
    assert capsys.readouterr().out.startswith('1 images, 1 labels of 20 classes')


def test_a_terminal_gets_a_framed_table(config, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: True, raising=False)
    monkeypatch.setenv('COLUMNS', '100')
    call(config)
    printed = capsys.readouterr().out
    assert '┃' in printed
    assert '│ person ' in printed


def test_missing_annotations_of_the_dataloader_are_named(config, tmp_path):
    message = fail(config, '--dataloader', 'val')
    assert 'absent.json' in message
    assert 'instances.json' not in message
    (tmp_path / 'coco' / 'instances.json').unlink()
    message = fail(config)
    assert 'instances.json' in message
    assert 'absent.json' not in message
    assert not (tmp_path / 'label_counts.png').exists()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--dataloader', 'test'], 'has no test_dataloader with a dataset'),
        (['--medium-from', '200'], r'--medium-from must be in [0, --head-from = 100], got 200'),
        (['--json', 'labels.txt'], '--json must'),
        (['--cfg-options', 'train_dataloader.dataset.dataset.dataset.drop_empt=True'], 'cannot be built'),
    ],
)
def test_what_cannot_be_done_is_one_line(config, tmp_path, arguments, message):
    assert message in fail(config, *arguments)
    assert not (tmp_path / 'label_counts.png').exists()


@pytest.mark.parametrize('arguments', [['--out', 'picture.gif'], ['--classes', 'some'], ['--dataloader', 'all']])
def test_arguments_are_checked_by_the_parser(config, capsys, arguments):
    assert fail(config, *arguments) == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_config_that_is_not_there():
    assert fail('nowhere.py') == 'config nowhere.py does not exist'

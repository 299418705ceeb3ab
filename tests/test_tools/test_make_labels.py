"""Test tools/make_labels.py as a user calls it, and the config that it prints."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import CocoMultiLabel, DigitScenes, Relabelled
from mmml_losses.datasets.labels.reading import read_labels
from mmml_losses.engine.config_data import load_dataset
from tests.helpers.tools import error_of, run_tool

ROOT = Path(__file__).resolve().parents[2]
WRAPPERS = dict(
    missing="dict(type='mmml_losses.MissingLabels', missing_ratio=0.8, seed=3, dataset=inner)",
    nested="dict(type='mmml_losses.SinglePositive', dataset=dict(type='mmml_losses.LongTailed', largest=20, smallest=3,"
    ' dataset=inner))',
    partial="dict(type='mmml_losses.PartialLabels', known_ratio=0.5, dataset=inner)",
    balanced="dict(type='ClassBalancedDataset', oversample_thr=0.3, dataset=dict(type='mmml_losses.SinglePositive', "
    'dataset=inner))',
    joined="dict(type='mmml_losses.MissingLabels', missing_ratio=1, dataset=dict(type='ConcatDataset', datasets=["
    "dict(type='mmml_losses.LongTailed', largest=20, smallest=3, dataset=inner), dict(inner, split='test')]))",
)


@pytest.fixture
def write_config(scenes_folder, tmp_path):
    """Return a function that writes a config with a few scenes in label wrappers, and only their annotations."""

    def write(dataset):
        config = tmp_path / 'config.py'
        config.write_text(
            f"_base_ = '{ROOT / 'configs' / 'bce_digits.py'}'\n"
            f"inner = dict(type='mmml_losses.DigitScenes', split='train', data_root='{scenes_folder}', num_train=64, "
            'num_test=48, pipeline=_base_.train_pipeline)\n'
            f'train_dataloader = dict(dataset=dict({dataset}, _delete_=True))\n'
            'val_dataloader = dict(dataset=dict(data_root="/nowhere/to/be/found"))\n'
        )
        return config

    return write


call = partial(run_tool, 'make_labels.py')
fail = partial(error_of, 'make_labels.py')


@pytest.mark.parametrize('name', WRAPPERS)
def test_the_printed_config_has_the_drawn_labels(capsys, write_config, tmp_path, name):
    config, out = write_config(WRAPPERS[name]), tmp_path / 'made' / 'labels.json'
    call(config, '--out', out)
    printed = capsys.readouterr().out
    (tmp_path / 'fixed.py').write_text(printed[printed.index('_base_ = ') :])
    drawing, stored = (
        load_dataset(Config.fromfile(tmp_path / file), 'train', file) for file in ('config.py', 'fixed.py')
    )
    assert len(drawing) == len(stored) > 0
    for idx in range(len(drawing)):
        one, other = drawing.get_data_info(idx), stored.get_data_info(idx)
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key]) for key in one)
    assert 'Relabelled' in str(Config.fromfile(tmp_path / 'fixed.py').train_dataloader)
    assert 'MissingLabels' not in str(Config.fromfile(tmp_path / 'fixed.py').train_dataloader)


def test_file_and_summary(capsys, write_config, scenes_folder, tmp_path):
    out = tmp_path / 'labels.json'
    call(write_config(WRAPPERS['missing']), '--out', out)
    source = DigitScenes('train', str(scenes_folder), num_train=64, num_test=48)
    before, after = read_labels(source).labels, Relabelled(source, out).observed_labels()
    assert capsys.readouterr().out.splitlines()[-12:-7] == [
        'images before   64',
        'images after    64',
        f'labels before   {before.sum()} ({before.sum() / 64:.2f} per image)',
        f'labels after    {after.sum()} ({after.sum() / 64:.2f} per image)',
        f'wrote {out}. A config next to {tmp_path / "config.py"} that trains on it:',
    ]
    content = json.loads(out.read_text())
    assert content['made_by'] == dict(
        tool='make_labels.py',
        config='config.py',
        dataloader='train',
        dataset=dict(
            type='MissingLabels',
            missing_ratio=0.8,
            rule='floor',
            order='random',
            keep_one=False,
            hidden='negative',
            seed=3,
            dataset=dict(type='DigitScenes'),
        ),
    )
    assert content['source'].items() > read_labels(source).fingerprint().items()
    assert 'selected' not in content
    assert str(tmp_path.parent.parent) not in out.read_text()


def test_another_run_writes_the_same_bytes_and_another_seed_others(write_config, tmp_path):
    config = write_config(WRAPPERS['nested'])
    call(config, '--out', tmp_path / 'first.json')
    command = [sys.executable, '-W', 'ignore', str(ROOT / 'tools' / 'make_labels.py'), str(config)]
    environment = {**os.environ, 'PYTHONHASHSEED': '5', 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    command += ['--out', str(tmp_path / 'second.json'), '--dataloader', 'train']
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    first = (tmp_path / 'first.json').read_bytes()
    assert (tmp_path / 'second.json').read_bytes() == first
    options = ('--cfg-options', 'train_dataloader.dataset.seed=1')
    call(config, '--out', tmp_path / 'second.json', '--overwrite', *options)
    contents = [json.loads((tmp_path / f'{name}.json').read_text()) for name in ('first', 'second')]
    assert contents[0]['selected'] == contents[1]['selected']
    assert contents[0]['positives'] != contents[1]['positives']
    assert contents[1]['made_by']['dataset']['seed'] == 1


def test_bad_calls_end_with_one_sentence(write_config, tmp_path):
    out = tmp_path / 'new' / 'labels.json'
    config = write_config('inner')
    assert fail(config, '--out', out) == (
        f'the dataset of train_dataloader in {config} draws no labels: it must have a label wrapper, such as '
        'mmml_losses.MissingLabels, around it'
    )
    config = write_config(WRAPPERS['missing'])
    (tmp_path / 'old.json').write_text('an older file')
    old = tmp_path / 'old.json'
    assert fail(config, '--out', old) == f'--out: {old} exists, pass --overwrite to replace it'
    assert old.read_text() == 'an older file'
    assert fail(config, '--out', 'labels.txt') == "--out must end with '.json', got 'labels.txt'"
    (tmp_path / 'folder.json').mkdir()
    folder = tmp_path / 'folder.json'
    assert fail(config, '--out', folder, '--overwrite') == f'--out: {folder} is a folder'
    assert fail('nothing.py', '--out', out) == 'config nothing.py does not exist'
    assert fail(config, '--out', old / 'labels.json').startswith(f'--out: the folder {old} cannot be made')
    options = ('--cfg-options', 'train_dataloader.dataset.missing_ratio=1.4')
    assert 'missing_ratio must be in [0, 1], got 1.4' in fail(config, '--out', out, *options)
    options = ('--cfg-options', 'test_dataloader=None')
    assert fail(config, '--out', out, '--dataloader', 'test', *options) == (
        f'config {config} has no test_dataloader with a dataset'
    )
    assert not out.exists()


def test_no_image_is_needed_and_missing_annotations_are_named(tmp_path):
    config, coco = tmp_path / 'coco.py', tmp_path / 'coco'
    config.write_text(
        "custom_imports = dict(imports=['mmml_losses'])\n"
        "train_dataloader = dict(dataset=dict(type='mmml_losses.SinglePositive', dataset=dict("
        f"type='mmml_losses.CocoMultiLabel', data_root='{coco}', ann_file='a.json', data_prefix='img')))\n"
    )
    message = fail(config, '--out', tmp_path / 'labels.json')
    assert message.startswith(f'The data of {config} is not complete.')
    assert message.endswith(f'\n  {coco}/a.json\n  {coco}/img')
    coco.mkdir()
    (coco / 'a.json').write_text(
        json.dumps(
            dict(
                images=[dict(id=1, file_name='1.jpg'), dict(id=2, file_name='2.jpg')],
                annotations=[dict(id=n, image_id=n % 2 + 1, category_id=n, area=1) for n in (1, 2, 3)],
                categories=[dict(id=n, name=str(n)) for n in (1, 2, 3)],
            )
        )
    )
    call(config, '--out', tmp_path / 'labels.json')
    # The folder of the images does not change the names of the samples.
    (coco / 'img').mkdir()
    (coco / 'img' / '1.jpg').touch()
    call(config, '--out', tmp_path / 'again.json')
    assert (tmp_path / 'again.json').read_bytes() == (tmp_path / 'labels.json').read_bytes()
    inner = CocoMultiLabel('a.json', str(coco), 'img')
    assert Relabelled(inner, tmp_path / 'labels.json').observed_labels().sum(axis=1).tolist() == [1, 1]
    (coco / 'a.json').write_text('{}')
    assert 'is not a COCO annotation file' in fail(config, '--out', tmp_path / 'labels.json', '--overwrite')

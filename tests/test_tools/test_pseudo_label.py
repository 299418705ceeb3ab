"""Test tools/pseudo_label.py as a user calls it, and a second training on its file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset, ConcatDataset

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import DigitScenes, Relabelled
from mmml_losses.datasets.labels.reading import read_labels
from mmml_losses.datasets.labels.sample_labels import SampleLabels
from mmml_losses.engine.config_data import label_with_the_test_run
from mmml_losses.procedures import pseudo_label as pseudo_labels
from mmml_losses.procedures.pseudo_label import correct_labels, describe_correction
from mmml_losses.utils.errors import UsageError
from tests.helpers.tools import error_of

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / 'configs' / 'spa_lpr_digits.py'
# The probabilities are around it after such a short training.
THRESHOLD = 0.3
# An odd number, so that two processes get different numbers of scenes.
COUNT = 63
# The place of the dataset in the config of the second training.
INNER = 'train_dataloader.dataset.dataset'


def call(tool, *arguments, launcher=()):
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    command = [sys.executable, '-W', 'ignore', *launcher, str(ROOT / 'tools' / tool), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def succeed(*arguments, **kwargs):
    done = call(*arguments, **kwargs)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def few_scenes(folder, train_dataset='train_dataloader.dataset'):
    options = ['train_cfg.max_epochs=2', 'train_dataloader.batch_size=16', f'{train_dataset}.indices={COUNT}']
    for dataset in (train_dataset, 'val_dataloader.dataset', 'test_dataloader.dataset'):
        settings = dict(data_root=folder, num_train=64, num_test=48)
        options += [f'{dataset}.{key}={value}' for key, value in settings.items()]
    return ['--cfg-options', *options]


def training_set(folder, **kwargs):
    return DigitScenes('train', str(folder), num_train=64, num_test=48, indices=COUNT, **kwargs)


@pytest.fixture(scope='module')
def checkpoint(scenes_folder, tmp_path_factory):
    """Train for a short time and return the checkpoint."""
    folder = tmp_path_factory.mktemp('trained')
    succeed('train.py', CONFIG, '--work-dir', folder, '--no-validate', *few_scenes(scenes_folder))
    return folder / 'epoch_2.pth'


@pytest.fixture(scope='module')
def labelled(checkpoint, scenes_folder, tmp_path_factory):
    """Run the tool and return the label file and the output."""
    out = tmp_path_factory.mktemp('labelled') / 'folder' / 'labels.json'
    arguments = ('--out', out, '--threshold', THRESHOLD, '--work-dir', out.parent / 'run')
    return out, succeed('pseudo_label.py', CONFIG, checkpoint, *arguments, *few_scenes(scenes_folder))


def test_what_the_trained_model_finds_probable_becomes_positive(labelled, checkpoint, scenes_folder):
    from mmml_losses.models import MultiLabelInferencer

    dataset = training_set(scenes_folder)
    source = read_labels(dataset).labels
    # The inferencer reads the files itself, with the test pipeline and through the link of the loss.
    paths = [dataset.get_data_info(idx)['img_path'] for idx in range(COUNT)]
    results = MultiLabelInferencer(str(ROOT / CONFIG), checkpoint)(paths, batch_size=16)
    probabilities = np.stack([result['scores'] for result in results])
    expected = np.where((source == 1) | (probabilities > THRESHOLD), 1, 0)
    assert 0 < (expected != source).sum() < (source == 0).sum()
    relabelled = Relabelled(dataset, labelled[0])
    assert np.array_equal(relabelled.observed_labels(), expected)
    assert np.array_equal(relabelled.source_labels(), source)


def test_the_file_names_its_making_and_no_folders(labelled, tmp_path):
    content = json.loads(labelled[0].read_text())
    assert content['made_by'] == dict(
        tool='pseudo_label.py',
        config='spa_lpr_digits.py',
        checkpoint='epoch_2.pth',
        dataloader='train',
        threshold=THRESHOLD,
    )
    assert str(tmp_path.parent.parent) not in labelled[0].read_text()


def test_the_summary_counts_the_changes(labelled, scenes_folder):
    before = read_labels(training_set(scenes_folder)).labels
    after = Relabelled(training_set(scenes_folder), labelled[0]).observed_labels()
    lines = labelled[1].splitlines()
    assert f'labels before   {before.sum()} ({before.sum() / COUNT:.2f} per image)' in lines
    assert (
        f'labels added    {after.sum() - before.sum()} ({(after.sum() - before.sum()) / COUNT:.2f} per image)' in lines
    )
    assert f'wrote {labelled[0]}' in lines


@pytest.fixture
def second(labelled, tmp_path):
    """Write the config of a training on the corrected labels, as in docs/labels.md."""
    config = tmp_path / 'second.py'
    config.write_text(
        f"_base_ = '{ROOT / CONFIG}'\n"
        'train_dataloader = dict(\n'
        '    dataset=dict(\n'
        '        _delete_=True,\n'
        "        type='mmml_losses.Relabelled',\n"
        '        dataset=_base_.train_dataloader.dataset,\n'
        "        labels='nothing.json',\n"
        '    )\n'
        ')\n'
    )
    return config


def test_a_second_training_reads_the_file(second, labelled, scenes_folder, tmp_path):
    options = [*few_scenes(scenes_folder, INNER), f'train_dataloader.dataset.labels={labelled[0]}']
    output = succeed('train.py', second, '--no-validate', '--work-dir', tmp_path / 'run', *options)
    assert (tmp_path / 'run' / 'epoch_2.pth').is_file()
    assert 'mmml_losses.Relabelled' in output


def test_another_round_starts_from_the_corrected_labels(second, labelled, checkpoint, scenes_folder, tmp_path):
    options = [*few_scenes(scenes_folder, INNER), f'train_dataloader.dataset.labels={labelled[0]}']
    out = tmp_path / 'labels.json'
    arguments = ('--out', out, '--threshold', 0.2, '--work-dir', tmp_path / 'run', *options)
    output = succeed('pseudo_label.py', second, checkpoint, *arguments)
    first = Relabelled(training_set(scenes_folder), labelled[0])
    assert f'labels before   {first.observed_labels().sum()} (' in output
    assert (Relabelled(first, out).observed_labels() >= first.observed_labels()).all()


def test_two_processes_write_the_same_file(labelled, checkpoint, scenes_folder, tmp_path):
    launcher = ('-m', 'torch.distributed.run', '--nproc_per_node=2', '--standalone')
    (tmp_path / 'labels.json').write_text('an older file')
    arguments = ('--out', tmp_path / 'labels.json', '--threshold', THRESHOLD, '--work-dir', tmp_path / 'run')
    options = ('--overwrite', '--launcher', 'pytorch', *few_scenes(scenes_folder))
    succeed('pseudo_label.py', CONFIG, checkpoint, *arguments, *options, launcher=launcher)
    assert (tmp_path / 'labels.json').read_bytes() == labelled[0].read_bytes()


def test_bad_calls_end_with_one_sentence(second, labelled, checkpoint, scenes_folder, tmp_path):
    before = labelled[0].read_bytes()
    out = tmp_path / 'new' / 'labels.json'
    options = ('--work-dir', tmp_path / 'run', *few_scenes(scenes_folder))

    def fail_with(checkpoint, out, *more):
        return error_of('pseudo_label.py', CONFIG, checkpoint, '--out', out, *more, *options)

    assert fail_with(checkpoint, labelled[0]) == f'--out: {labelled[0]} exists, pass --overwrite to replace it'
    assert fail_with(checkpoint, out, '--threshold', 1.4) == '--threshold must be in (0, 1), got 1.4'
    assert fail_with(checkpoint, 'labels.pkl') == "--out must end with '.json', got 'labels.pkl'"
    assert fail_with('nothing.pth', out) == 'checkpoint nothing.pth does not exist'
    blocked = fail_with(checkpoint, labelled[0] / 'labels.json')
    assert blocked.startswith(f'--out: the folder {labelled[0]} cannot be made: ')
    assert labelled[0].read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ['second.py']
    options = ('--work-dir', tmp_path / 'run', *few_scenes(scenes_folder, INNER))
    message = error_of('train.py', second, *options)
    assert message.splitlines()[1:] == [
        '  nothing.json',
        'tools/make_labels.py writes labels that a config draws, tools/pseudo_label.py corrected ones.',
    ]


def test_only_unobserved_labels_above_the_threshold_change():
    labels = np.array([[1, 0, 0, -1, -1, 1]], dtype=np.int8)
    probabilities = np.array([[0.01, 0.5, 0.51, 0.51, 0.5, 0.99]])
    before = labels.copy()
    corrected = correct_labels(labels, probabilities, threshold=0.5)
    assert corrected.tolist() == [[1, 0, 1, 1, -1, 1]]
    assert corrected.dtype == np.int8
    assert np.array_equal(labels, before)


@pytest.mark.parametrize('threshold', [0, 1, -0.1, float('nan')])
def test_a_threshold_that_is_no_probability_is_rejected(threshold):
    with pytest.raises(ValueError, match=r'threshold must be in \(0, 1\), got'):
        correct_labels(np.zeros((1, 1), dtype=np.int8), np.zeros((1, 1)), threshold)
    with pytest.raises(ValueError, match=r'probabilities must have the shape of the labels \(1, 2\), got \(1, 1\)'):
        correct_labels(np.zeros((1, 2), dtype=np.int8), np.zeros((1, 1)), 0.5)


def test_the_summary_counts_unknown_labels_and_names_classes():
    before = np.array([[1, 0, -1], [0, 0, -1], [0, 1, 0]], dtype=np.int8)
    after = np.array([[1, 0, 1], [1, 0, -1], [1, 1, 0]], dtype=np.int8)
    assert describe_correction(before, after, ('cat', 'car', 'traffic light and sign')).splitlines() == [
        'images          3, of which 3 have new labels',
        'labels before   2 (0.67 per image)',
        'labels added    3 (1.00 per image)',
        'labels after    5 (1.67 per image)',
        'labels unknown  2, of which 1 became positive',
        'most corrected             before      added',
        'cat                             1          2',
        'traffic light and sign          0          1',
    ]
    assert describe_correction(before, before, 'abc').splitlines()[-1].startswith('labels unknown')


def test_the_run_is_unaugmented_in_order_and_complete():
    cfg = Config.fromfile(ROOT / 'configs' / 'bce_digits.py')
    leaf = cfg.train_dataloader.dataset
    cfg.train_dataloader = dict(
        batch_size=5,
        drop_last=True,
        sampler=dict(type='InfiniteSampler', shuffle=True),
        dataset=dict(type='RepeatDataset', times=2, dataset=dict(type='ConcatDataset', datasets=[leaf, leaf])),
    )
    cfg.test_dataloader.update(drop_last=True, num_batch_per_epoch=3)
    cfg.test_dataloader.sampler.update(round_up=False)
    label_with_the_test_run(cfg, 'train')
    loader = cfg.test_dataloader
    assert loader.dataset.keys() == {'type', 'times', 'dataset'}
    assert loader.batch_size != 5
    assert loader.sampler == dict(type='DefaultSampler', shuffle=False)
    assert not loader.drop_last
    assert 'num_batch_per_epoch' not in loader
    for part in loader.dataset.dataset.datasets:
        assert part.pipeline == cfg.test_pipeline
        assert {key: part[key] for key in part if key != 'pipeline'} == {
            key: leaf[key] for key in leaf if key != 'pipeline'
        }
    assert leaf.pipeline == cfg.train_pipeline
    assert cfg.train_dataloader is cfg.val_dataloader is cfg.optim_wrapper is None


def test_configs_without_what_is_needed_are_named():
    cfg = Config.fromfile(ROOT / 'configs' / 'bce_digits.py')
    cfg.train_dataloader = None
    with pytest.raises(UsageError, match='the config has no train_dataloader'):
        label_with_the_test_run(cfg, 'train')
    cfg = Config.fromfile(ROOT / 'configs' / 'bce_digits.py')
    cfg.test_dataloader = cfg.val_dataloader = None
    with pytest.raises(UsageError, match='the config has no test_dataloader with a pipeline'):
        label_with_the_test_run(cfg, 'train')


class Unlabelled(BaseDataset):
    METAINFO = dict(classes=('cat',))

    def load_data_list(self):
        return [dict(img_path='0.jpg')]


def test_a_dataset_without_labels_is_named():
    runner = SimpleNamespace(test_loop=SimpleNamespace(dataloader=SimpleNamespace(dataset=Unlabelled())))
    with pytest.raises(UsageError, match='no pseudo labels for this dataset: Unlabelled has no labels'):
        pseudo_labels.predict_labels(runner)


def test_a_sample_that_cannot_be_loaded_is_an_error_and_not_another_sample(scenes_folder):
    dataset = ConcatDataset([training_set(scenes_folder, pipeline=[lambda results: None])])
    runner = SimpleNamespace(
        test_loop=SimpleNamespace(dataloader=SimpleNamespace(dataset=dataset)),
        test_evaluator=SimpleNamespace(metrics=[]),
        test=lambda: dataset[0],
    )
    with pytest.raises(Exception, match='should not get `None`'):
        pseudo_labels.predict_labels(runner)


def keep(labels, samples):
    """Pass samples with these labels and random scores to the keeper."""
    keeper = pseudo_labels.PredictionKeeper(samples)
    scores = torch.rand(labels.shape, generator=torch.Generator().manual_seed(0))
    keeper.process(
        None, [dict(pred_score=s, gt_score=torch.tensor(row)) for s, row in zip(scores, labels, strict=True)]
    )
    keeper.evaluate(len(samples.labels))
    return keeper.probabilities, scores.numpy()


def test_misplaced_scores_are_rejected():
    labels = np.array([[1, 0], [0, 1], [0, -1]], dtype=np.int8)
    samples = SampleLabels(('cat', 'car'), ('a', 'b', 'c'), labels)
    kept, scores = keep(labels, samples)
    assert np.array_equal(kept, scores)
    # Samples after the last were added by a sampler, so that all ranks have the same number.
    kept, scores = keep(np.concatenate([labels, labels[:1]]), samples)
    assert np.array_equal(kept, scores[:3])
    for wrong in (labels[::-1], labels[:2]):
        with pytest.raises(UsageError, match='labels that came through the test pipeline are not those of the dataset'):
            keep(wrong, samples)
    with pytest.raises(UsageError, match='the model scores 3 classes, and the dataset has 2'):
        keep(np.zeros((3, 3), dtype=np.int8), samples)

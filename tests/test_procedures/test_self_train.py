"""Test that an interrupted self-training ends with the weights of an uninterrupted one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict

from mmml_losses.datasets import FeatureDataset, MissingLabels, Relabelled
from mmml_losses.engine import running
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.procedures import pseudo_label as pseudo_labels
from mmml_losses.procedures import self_train as self_training
from mmml_losses.procedures.self_train import SelfTraining
from mmml_losses.procedures.stages import repeatable
from mmml_losses.utils.errors import UsageError
from tests.helpers.few_features import feature_config, write_features
from tests.helpers.interruption import StopAfter

pytestmark = pytest.mark.usefixtures('unformatted_configs')

THRESHOLD = 0.4
STAGES = ['round_0_training', 'round_0_test', 'round_1_labels', 'round_1_training', 'round_1_test']


@pytest.fixture(scope='module')
def features(tmp_path_factory) -> Path:
    return write_features(tmp_path_factory.mktemp('features') / 'features.npz')


def config(features, folder, seed=0):
    """Return the config of a training in which half of the labels are hidden."""
    cfg = feature_config(features, folder)
    cfg.launcher = 'none'
    cfg.randomness.seed = seed
    cfg.train_dataloader.dataset = ConfigDict(
        type='mmml_losses.MissingLabels', dataset=cfg.train_dataloader.dataset, missing_ratio=0.5
    )
    return cfg


def run(cfg, threshold=THRESHOLD, rounds=1):
    said = []
    training = SelfTraining(cfg, threshold, rounds, 'config.py', said.append)
    return training, training.run(), said


def weights(training, number=1):
    return check_checkpoint(training.checkpoint_of(number))['state_dict']


def assert_same_weights(first, second, number=1):
    first, second = weights(first, number), weights(second, number)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.fixture(scope='module')
def unbroken(features, tmp_path_factory, unformatted_configs):
    """Run without interruption, and return the training, its figures and its log lines."""
    return run(config(features, tmp_path_factory.mktemp('unbroken') / 'run'))


@pytest.fixture
def stop_in(monkeypatch):
    """Interrupts a stage of the next run."""

    def arrange(stage, epochs):
        build_runner = running.build_runner

        def build(cfg, datasets=()):
            runner = build_runner(cfg, datasets)
            if Path(cfg.work_dir).name == stage:
                runner.register_hook(StopAfter(epochs))
            return runner

        monkeypatch.setattr(running, 'build_runner', build)

    return arrange


def test_the_second_training_has_the_corrected_labels(unbroken, features):
    training, figures, _ = unbroken
    hidden = MissingLabels(FeatureDataset(str(features), 'train'), missing_ratio=0.5)
    corrected = Relabelled(hidden, training.labels_of(1))
    before, after = hidden.observed_labels(), corrected.observed_labels()
    assert (after >= before).all()
    assert 0 < (after != before).sum() < (before == 0).sum()
    assert [stage for stage in STAGES if stage not in training.record.finished] == []
    for figure, stage in zip(figures, ('round_0_test', 'round_1_test'), strict=True):
        saved = json.loads((training.folder / stage / 'metrics.json').read_text())
        assert {name: saved[name] for name in figure} == figure
        assert 'multi-label/mAP@class' in figure
    # From the start, on other labels, and not on from the first training.
    assert check_checkpoint(training.checkpoint_of(1))['meta']['epoch'] == 3
    assert not torch.equal(weights(training, 0)['head.fc.weight'], weights(training, 1)['head.fc.weight'])


def test_the_label_file_records_its_making_without_folders(unbroken, tmp_path):
    training, *_ = unbroken
    text = training.labels_of(1).read_text()
    assert json.loads(text)['made_by'] == dict(
        tool='self_train.py', config='config.py', checkpoint='round_0_training/epoch_3.pth', threshold=THRESHOLD
    )
    assert str(tmp_path.parent.parent) not in text


@pytest.mark.parametrize(
    ('stage', 'epochs'), [('round_0_training', 2), ('round_1_training', 1), ('round_1_training', 3)]
)
def test_an_interrupted_training_goes_on(unbroken, features, tmp_path, stop_in, monkeypatch, stage, epochs):
    stop_in(stage, epochs)
    with pytest.raises(KeyboardInterrupt):
        run(config(features, tmp_path))
    monkeypatch.undo()
    resumed, figures, said = run(config(features, tmp_path))
    assert f'{stage}: goes on from epoch_{epochs}.pth' in said
    assert_same_weights(unbroken[0], resumed)
    assert figures == unbroken[1]


def test_an_interrupted_correction_is_made_again(unbroken, features, tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(pseudo_labels, 'save_label_file', stop)
        with pytest.raises(KeyboardInterrupt):
            run(config(features, tmp_path))
    resumed, _, said = run(config(features, tmp_path))
    assert said[0] == 'round_0_training: finished before'
    assert resumed.labels_of(1).read_bytes() == unbroken[0].labels_of(1).read_bytes()
    assert_same_weights(unbroken[0], resumed)


def test_a_lost_checkpoint_starts_its_stage_anew(unbroken, features, tmp_path, stop_in, monkeypatch):
    stop_in('round_0_training', 1)
    with pytest.raises(KeyboardInterrupt):
        run(config(features, tmp_path))
    monkeypatch.undo()
    (tmp_path / 'round_0_training' / 'epoch_1.pth').unlink()  # as by a hook that deletes before it writes
    resumed, *_ = run(config(features, tmp_path))
    assert_same_weights(unbroken[0], resumed)


def test_a_finished_run_does_nothing_even_where_it_was_moved_to(unbroken, features, tmp_path, monkeypatch):
    training, figures, _ = unbroken
    shutil.copytree(training.folder, tmp_path / 'moved')
    monkeypatch.setattr(running, 'build_runner', lambda cfg: pytest.fail('a stage is repeated'))
    _, again, said = run(config(features, tmp_path / 'moved'))
    assert again == figures
    assert said == [f'{stage}: finished before' for stage in STAGES]


def test_more_rounds_go_on_from_the_last(unbroken, features, tmp_path):
    shutil.copytree(unbroken[0].folder, tmp_path / 'more')
    more, figures, said = run(config(features, tmp_path / 'more'), rounds=2)
    assert len(figures) == 3
    assert said[: len(STAGES)] == [f'{stage}: finished before' for stage in STAGES]
    first = Relabelled(
        MissingLabels(FeatureDataset(str(features), 'train'), missing_ratio=0.5), unbroken[0].labels_of(1)
    )
    assert (Relabelled(first, more.labels_of(2)).observed_labels() >= first.observed_labels()).all()


def test_other_settings_are_rejected_with_what_differs(unbroken, features):
    folder = unbroken[0].folder
    before = {file: file.read_bytes() for file in folder.rglob('*') if file.is_file()}
    cfg = config(features, folder)
    cfg.optim_wrapper.optimizer.lr = 0.2
    cfg.model.head.loss = ConfigDict(type='mmml_losses.HillLoss')
    with pytest.raises(UsageError) as caught:
        run(cfg, threshold=0.6)
    message = str(caught.value)
    assert str(folder) in message
    for line in (
        '  optim_wrapper.optimizer.lr: 0.1 there, 0.2 now',
        "  model.head.loss.type: 'mmml_losses.BCELoss' there, 'mmml_losses.HillLoss' now",
        '  threshold: 0.4 there, 0.6 now',
    ):
        assert line in message.splitlines()
    assert {file: file.read_bytes() for file in folder.rglob('*') if file.is_file()} == before


def test_a_record_that_cannot_be_read_is_rejected(features, tmp_path):
    (tmp_path / self_training.RECORD_FILE).write_text('{"settings": {')
    with pytest.raises(UsageError, match=r'self_training\.json cannot be read'):
        run(config(features, tmp_path))


def test_a_random_seed_stays_that_of_the_folder(features, tmp_path):
    first, *_ = run(config(features, tmp_path / 'first', seed=None))
    seed = first.record.draws['seed']
    # What is lost after the first training is made again with the same seed.
    shutil.copytree(tmp_path / 'first', tmp_path / 'second')
    record = json.loads((tmp_path / 'second' / self_training.RECORD_FILE).read_text())
    del record['finished']['round_1_training'], record['finished']['round_1_test']
    (tmp_path / 'second' / self_training.RECORD_FILE).write_text(json.dumps(record))
    shutil.rmtree(tmp_path / 'second' / 'round_1_training')
    second, *_ = run(config(features, tmp_path / 'second', seed=None))
    assert second.record.draws['seed'] == seed
    assert_same_weights(first, second)


@pytest.mark.parametrize(
    ('change', 'arguments', 'message'),
    [
        ({}, dict(threshold=1.4), r'--threshold must be in \(0, 1\), got 1.4'),
        ({}, dict(rounds=0), '--rounds must be at least 1, got 0'),
        ({'default_hooks.checkpoint': None}, {}, 'must save the last checkpoint'),
        ({'default_hooks.checkpoint.save_last': False}, {}, 'must save the last checkpoint'),
        ({'default_hooks.checkpoint.out_dir': 'there'}, {}, 'out_dir must not be set, got there'),
        ({'test_dataloader': None}, {}, 'the config has no test_dataloader'),
    ],
)
def test_bad_calls_are_rejected_before_anything_is_written(features, tmp_path, change, arguments, message):
    cfg = config(features, tmp_path / 'run')
    cfg.merge_from_dict(change)
    with pytest.raises(UsageError, match=message):
        run(cfg, **arguments)
    assert not (tmp_path / 'run').exists()


def test_the_hook_for_repeatable_epochs_is_added_where_it_is_missing(features, tmp_path):
    cfg = config(features, tmp_path)
    hooks = [hook.type for hook in repeatable(cfg).custom_hooks]
    assert hooks.count('mmml_losses.EpochSeedHook') == 1
    cfg.custom_hooks = [hook for hook in cfg.custom_hooks if hook.type != 'mmml_losses.EpochSeedHook']
    cfg.train_dataloader.update(num_workers=2, persistent_workers=True)
    changed = repeatable(cfg)
    assert [hook['type'] for hook in changed.custom_hooks][-1] == 'mmml_losses.EpochSeedHook'
    assert changed.train_dataloader.persistent_workers is False
    assert np.all([hook.type != 'mmml_losses.EpochSeedHook' for hook in cfg.custom_hooks])

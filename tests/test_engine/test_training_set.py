"""Test the hook that shows the training set to the losses."""

import copy
import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.runner import Runner
from torch import nn

from mmml_losses.engine.hooks import training_set
from mmml_losses.engine.hooks.training_set import TrainingSetHook, read_training_set
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.losses.large_loss import LargeLossCorrection
from mmml_losses.losses.pointwise import BCELoss
from mmml_losses.losses.reweighted import CBFocalLoss, DBFocalLoss
from mmml_losses.losses.sum import SumLoss
from mmml_losses.registry import LOSSES

HOOK = dict(type='mmml_losses.TrainingSetHook')
DB_FOCAL = dict(type='mmml_losses.DBFocalLoss')


class Listed(BaseDataset):
    """A dataset of the data infos that it is given."""

    def __init__(self, infos, classes=('a', 'b', 'c'), **kwargs):
        self.infos = infos
        super().__init__(metainfo=dict(classes=classes) if classes else None, **kwargs)

    def load_data_list(self):
        return copy.deepcopy(self.infos)

    def get_cat_ids(self, idx):
        return self.get_data_info(idx)['gt_label']


class Sharing(BCELoss):
    """Count the calls of ``synchronize``."""

    def __init__(self):
        super().__init__()
        self.register_buffer('shared', torch.zeros(()))

    def synchronize(self):
        self.shared += 1


class Collect(logging.Handler):
    """Keeps the messages of a logger."""

    def __init__(self, messages: list[str]):
        super().__init__()
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def logged(monkeypatch) -> list[str]:
    messages = []
    monkeypatch.setattr(training_set, 'print_log', lambda message, logger: messages.append(message))
    return messages


@pytest.fixture
def cfg(small_run):
    cfg = small_run('bce_digits.py', max_epochs=2)
    cfg.model.head.loss = DB_FOCAL
    cfg.custom_hooks = [HOOK]
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    return cfg


def fake_runner(dataset, *losses, num_classes=None):
    model = nn.ModuleList(losses)
    if num_classes is not None:
        model.num_classes = num_classes
    return SimpleNamespace(model=model, train_dataloader=SimpleNamespace(dataset=dataset))


def labels_of(dataset, num_classes=None):
    found = read_training_set(dataset, num_classes)
    return found.observed, found.sample_idx


def build_runner(cfg, name, **changes) -> Runner:
    cfg = cfg.copy()
    cfg.update(changes)
    cfg.experiment_name = name
    return Runner.from_cfg(cfg)


def expected_counts(runner):
    counts = [0] * 10
    dataset = runner.train_dataloader.dataset
    for idx in range(len(dataset)):
        for label in dataset.get_data_info(idx)['gt_label']:
            counts[label] += 1
    return counts


def test_a_runner_counts_once_and_the_checkpoint_carries_it(cfg, logged):
    runner = build_runner(cfg, 'counted')
    runner.train()
    frequencies = runner.model.head.loss_module.frequencies
    counts = expected_counts(runner)
    assert frequencies.counts.tolist() == counts
    assert frequencies.num_samples == 64
    assert frequencies.source == 'training set'
    assert logged == ['Training set shown to DBFocalLoss: 64 images, 10 classes']
    checkpoint = Path(cfg.work_dir, 'epoch_2.pth')
    saved = check_checkpoint(checkpoint)['state_dict']
    assert saved['head.loss_module.frequencies.counts'].tolist() == counts

    no_training = dict.fromkeys(('train_cfg', 'train_dataloader', 'optim_wrapper', 'param_scheduler'))
    tested = build_runner(cfg, 'tested', load_from=str(checkpoint), **no_training)
    tested.test()
    frequencies = tested.model.head.loss_module.frequencies
    assert (frequencies.counts.tolist(), frequencies.num_samples.item()) == (counts, 64)
    assert frequencies.source == 'checkpoint'
    assert len(logged) == 1


def test_a_test_of_a_training_config_reads_no_training_set(cfg, logged):
    runner = build_runner(cfg, 'only_tested')
    runner.test()
    assert not logged
    assert not runner.model.head.loss_module.frequencies.known


def test_without_the_hook_the_error_names_it(cfg):
    with pytest.raises(ValueError, match=r'class frequencies are not known yet: .*mmml_losses\.TrainingSetHook'):
        build_runner(cfg, 'without', custom_hooks=[]).train()


def test_resumed_and_averaged_models_have_the_counts(cfg, logged):
    hooks = [dict(type='EMAHook'), HOOK]
    build_runner(cfg, 'first', custom_hooks=hooks).train()
    train_cfg = dict(by_epoch=True, max_epochs=3)
    resumed = build_runner(cfg, 'resumed', custom_hooks=hooks, resume=True, train_cfg=train_cfg)
    resumed.train()
    assert resumed.epoch == 3
    counts = expected_counts(resumed)
    assert resumed.model.head.loss_module.frequencies.counts.tolist() == counts
    saved = check_checkpoint(Path(cfg.work_dir, 'epoch_3.pth'))
    for weights in (saved['state_dict'], {k.removeprefix('module.'): v for k, v in saved['ema_state_dict'].items()}):
        assert weights['head.loss_module.frequencies.counts'].tolist() == counts
    # Without the hook the checkpoint is enough.
    alone = build_runner(
        cfg, 'alone', custom_hooks=[], load_from=str(Path(cfg.work_dir, 'epoch_3.pth')), work_dir=cfg.work_dir + '_2'
    )
    alone.train()
    assert alone.model.head.loss_module.frequencies.counts.tolist() == counts
    assert len(logged) == 2


def test_losses_share_before_the_checkpoint_is_saved(cfg):
    LOSSES.register_module(module=Sharing, force=True)
    try:
        cfg.model.head.loss = dict(type='mmml_losses.Sharing')
        build_runner(cfg, 'sharing').train()
    finally:
        LOSSES.module_dict.pop('Sharing')
    for epoch in (1, 2):
        saved = check_checkpoint(Path(cfg.work_dir, f'epoch_{epoch}.pth'))['state_dict']
        assert saved['head.loss_module.shared'] == epoch


def test_all_losses_that_request_labels_are_shown_the_same(logged, monkeypatch):
    dataset = Listed([dict(gt_label=[0, 2]), dict(gt_label=[2])])
    losses = DBFocalLoss(), SumLoss(losses=dict(cb=CBFocalLoss(), bce=BCELoss())), DBFocalLoss([1, 1, 1], 5)
    runner = fake_runner(dataset, *losses)
    hook = TrainingSetHook()
    hook.before_train(runner)
    assert losses[0].frequencies.counts.tolist() == [1, 0, 2]
    assert losses[1].losses['cb'].frequencies.counts.tolist() == [1, 0, 2]
    assert losses[2].frequencies.counts.tolist() == [1, 1, 1]
    assert [line.split(':')[0] for line in logged] == ['Training set shown to CBFocalLoss, DBFocalLoss']
    # Asked again, it reads nothing.
    monkeypatch.setattr(training_set, 'read_training_set', None)
    hook.before_train(runner)


class Curious(nn.Module):
    """No loss, and wants to see labels."""

    num_classes = 4
    wants_training_labels = True

    def see_training_labels(self, labels, sample_idx):
        self.seen = labels.tolist(), sample_idx.tolist()
        self.wants_training_labels = False


def test_any_module_that_requests_labels_is_shown_them(logged):
    head = Curious()
    head.frequencies = CBFocalLoss().frequencies  # is asked by its owner, and cannot be shown anything itself
    runner = fake_runner(Listed([dict(gt_label=[0, 2]), dict(gt_label=[2])], classes=None), head)
    TrainingSetHook().before_train(runner)
    assert head.seen == ([[1, 0, 1, 0], [0, 0, 1, 0]], [0, 1])
    assert logged == ['Training set shown to Curious: 2 images, 4 classes']


def test_nothing_is_read_for_losses_that_request_nothing(monkeypatch):
    monkeypatch.setattr(training_set, 'read_training_set', None)
    TrainingSetHook().before_train(fake_runner(None, BCELoss(), DBFocalLoss([1, 2], 3)))


@pytest.mark.parametrize('serialize_data', [True, False])
def test_labels_are_read_in_every_form(serialize_data):
    infos = [
        dict(gt_label=[0, 2, 2]),
        dict(gt_label=[]),
        dict(gt_label=1),
        dict(gt_label=np.array([1, 2])),
        dict(gt_score=[1, 0, -1]),
        dict(gt_score=np.array([0, 1, 1]), gt_label=[0]),
        dict(instances=[dict(bbox_label=2), dict(bbox_label=2, ignore_flag=0), dict(bbox_label=0, ignore_flag=1)]),
        dict(instances=[]),
    ]
    labels, sample_idx = labels_of(Listed(infos, serialize_data=serialize_data), 3)
    assert labels.dtype == np.int8
    assert labels.tolist() == [
        [1, 0, 1],
        [0, 0, 0],
        [0, 1, 0],
        [0, 1, 1],
        [1, 0, -1],
        [0, 1, 1],
        [0, 0, 1],
        [0, 0, 0],
    ]
    assert sample_idx.tolist() == list(range(8))


def test_soft_labels_stay_soft():
    labels, _ = labels_of(Listed([dict(gt_score=[0.25, 1, -1]), dict(gt_label=[1])]), 3)
    assert labels.dtype == np.float32
    assert labels.tolist() == [[0.25, 1, -1], [0, 1, 0]]


def test_every_image_counts_once_in_wrappers():
    first = dict(type=Listed, infos=[dict(gt_label=[0]), dict(gt_label=[1])])
    second = dict(type=Listed, infos=[dict(gt_label=[2]), dict(gt_label=[2]), dict(gt_label=[1])])
    repeated = dict(type=RepeatDataset, dataset=first, times=3)
    balanced = dict(type=ClassBalancedDataset, dataset=second, oversample_thr=0.9)
    wrapped = ConcatDataset([repeated, balanced])
    assert len(wrapped) > 8  # the wrappers do repeat
    labels, sample_idx = labels_of(wrapped, 3)
    assert labels.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert sample_idx.tolist() == [0, 1, 0, 1, 2]


def test_data_infos_come_from_a_dataset_with_its_own():
    class Relabelled(Listed):
        def get_data_info(self, idx):
            return {**super().get_data_info(idx), 'gt_label': [2], 'sample_idx': 10 + idx}

    labels, sample_idx = labels_of(Relabelled([dict(gt_label=[0])], serialize_data=False), 3)
    assert labels.tolist() == [[0, 0, 1]]
    assert sample_idx.tolist() == [10]


def test_subsets_are_read_as_subsets():
    infos = [dict(gt_label=[0]), dict(gt_label=[1]), dict(gt_label=[2])]
    for serialize_data in (True, False):
        labels, _ = labels_of(Listed(infos, indices=[2, 0], serialize_data=serialize_data), 3)
        assert labels.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_unserialised_data_are_not_copied(monkeypatch):
    dataset = Listed([dict(gt_label=[0])], serialize_data=False)
    monkeypatch.setattr(BaseDataset, 'get_data_info', None)  # which would copy
    assert labels_of(dataset, 3)[0].tolist() == [[1, 0, 0]]


def test_the_head_knows_the_classes_where_the_dataset_does_not(logged):
    loss = DBFocalLoss()
    TrainingSetHook().before_train(fake_runner(Listed([dict(gt_label=[1])], classes=None), loss, num_classes=4))
    assert loss.frequencies.counts.tolist() == [0, 1, 0, 0]
    assert logged[0].endswith(': 1 images, 4 classes')
    scores = Listed([dict(gt_score=[0, 1])], classes=None)
    other = DBFocalLoss()
    TrainingSetHook().before_train(fake_runner(scores, other))
    assert other.frequencies.counts.tolist() == [0, 1]


@pytest.mark.parametrize(
    ('infos', 'classes', 'message'),
    [
        (
            [dict(gt_label=[0]), dict(gt_label=[1, 3])],
            3,
            r'Listed has labels that cannot be read: class indices must be from 0 to 2, got 3 for sample 1',
        ),
        ([dict(gt_label=[-1])], 3, r'class indices must be from 0 to 2, got -1 for sample 0'),
        ([dict(instances=[dict(bbox_label=7)])], 3, r'class indices must be from 0 to 2, got 7'),
        ([dict(gt_score=[1, 0])], 3, r'gt_score must have one entry for each of the 3 classes, got the shape \(2,\)'),
        (
            [dict(gt_label=[0]), dict(gt_score=[1, 0, 2])],
            3,
            r'gt_score must be 1 .* between 0 and 1 where it is soft, got 2.0 for class 2 of sample 1',
        ),
        ([dict(gt_score=[1, 0, float('nan')])], 3, r'gt_score must be 1 .* got nan'),
        (
            [dict(img_path='a.jpg')],
            3,
            r'Listed has no labels: sample 0 has neither gt_label nor',
        ),
        ([dict(gt_label=[0])], None, r"classes must be in the metainfo of Listed, or num_classes in the model's head"),
    ],
)
def test_bad_labels_are_rejected(infos, classes, message):
    with pytest.raises(ValueError, match=message):
        labels_of(Listed(infos, classes=None), classes)


def test_datasets_of_another_kind_are_rejected():
    dataset = torch.utils.data.TensorDataset(torch.zeros(3))
    with pytest.raises(ValueError, match=r'dataset of MMEngine.s kind.*got TensorDataset: give class_frequencies as a'):
        TrainingSetHook().before_train(fake_runner(dataset, DBFocalLoss()))


def test_samples_that_share_an_index_are_rejected_for_losses_that_remember_them():
    dataset = ConcatDataset([Listed([dict(gt_label=[0]), dict(gt_label=[1])]) for _ in range(2)])
    message = 'sample_idx must name one image each for LargeLossCorrection, got 0 for 2 images: .* ConcatDataset'
    with pytest.raises(ValueError, match=message):
        TrainingSetHook().before_train(fake_runner(dataset, LargeLossCorrection(permanent=True)))
    TrainingSetHook().before_train(fake_runner(dataset, LargeLossCorrection()))
    repeated = RepeatDataset(dataset.datasets[0], 2)
    TrainingSetHook().before_train(fake_runner(repeated, LargeLossCorrection(permanent=True)))


@pytest.mark.parametrize(('loss', 'warned'), [('SPLCLoss', True), ('LargeLossRejection', True), ('HillLoss', False)])
def test_training_by_iterations_is_warned_of_where_epochs_count(cfg, loss, warned):
    cfg.model.head.loss = dict(type=f'mmml_losses.{loss}')
    cfg.train_cfg = dict(by_epoch=False, max_iters=1, val_interval=1)
    cfg.param_scheduler = []
    cfg.default_hooks.logger = dict(type='LoggerHook', log_metric_by_epoch=False)
    cfg.train_dataloader.sampler.type = 'InfiniteSampler'
    runner = Runner.from_cfg(cfg)
    messages = []
    runner.logger.addHandler(Collect(messages))
    runner.train()
    assert any(f'{loss} goes by epochs, and the training is by iterations' in message for message in messages) is warned

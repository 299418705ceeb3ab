"""Test the summary of the labels when a training starts."""

from types import SimpleNamespace

import numpy as np
import pytest
from mmengine.dataset import BaseDataset, RepeatDataset
from mmengine.runner import Runner
from torch import nn

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import MissingBoxes
from mmml_losses.engine import LabelSummaryHook
from mmml_losses.engine.hooks import label_summary
from mmml_losses.losses import BCELoss


class Toy(BaseDataset):
    METAINFO = dict(classes=('cat', 'dog'))

    def __init__(self, rows=((0,), (0, 1), ()), **kwargs):
        self.rows = rows
        super().__init__(**kwargs)

    def load_data_list(self):
        infos = [row if isinstance(row, dict) else dict(gt_label=list(row)) for row in self.rows]
        return [info | dict(img_path=f'{number}.jpg') for number, info in enumerate(infos)]


@pytest.fixture
def logged(monkeypatch) -> list[str]:
    messages = []
    monkeypatch.setattr(label_summary, 'print_log', lambda message, logger: messages.append(message))
    return messages


def start(dataset, model=None, **settings):
    hook = LabelSummaryHook(**settings)
    hook.before_train(SimpleNamespace(train_dataloader=SimpleNamespace(dataset=dataset), model=model or nn.Module()))
    return hook


def test_labels_are_described_in_a_few_lines(logged):
    hook = start(Toy(), medium_from=1, head_from=2)
    assert logged == [
        'Labels of the training set: 3 images, 3 labels of 2 classes, 1.00 an image (0 to 2)\n'
        '    1 head, 1 medium, 0 tail classes (head: 2 images or more, tail: fewer than 1)\n'
        '    most frequent: cat (2), dog (1)\n'
        '    rarest: dog (1), cat (2)'
    ]
    assert hook.summary.after.counts.tolist() == [2, 1]


def test_images_count_once_however_often_they_are_drawn(logged):
    assert start(RepeatDataset(Toy(), 5)).summary.after.num_images == 3


def test_the_head_knows_the_classes_where_the_dataset_does_not(logged):
    class Nameless(Toy):
        METAINFO = {}

    head = nn.ModuleList([BCELoss()])
    head.num_classes = 4
    assert start(Nameless(), head).summary.classes == ('class 0', 'class 1', 'class 2', 'class 3')


class Captions(Toy):
    def load_data_list(self):
        return [dict(caption='a cat')]


class WithoutEnd(Toy):
    def __len__(self):
        raise TypeError('nobody knows how many there are')


class Broken(Toy):
    def get_data_info(self, idx):
        raise RuntimeError('the store is closed')


@pytest.mark.parametrize(
    ('dataset', 'reason'),
    [
        ([1, 2], 'got list'),
        (Captions(), 'AnnotationError: Captions has no labels'),
        (Broken(), 'RuntimeError: the store is closed'),
        (Toy([[7]]), 'class indices must be from 0 to 1, got 7'),
        (iter([1]), 'cannot be read'),
        (WithoutEnd(), 'TypeError: nobody knows how many there are'),
    ],
    ids=lambda case: case if isinstance(case, str) else type(case).__name__,
)
def test_labels_that_cannot_be_read_stop_no_training(logged, dataset, reason):
    hook = start(dataset)
    (message,) = logged
    assert message.startswith('Labels of the training set: they cannot be read (')
    assert '\n' not in message
    assert reason in message
    assert hook.summary is None


def test_too_many_labels_are_left_alone(logged):
    assert start(Toy(), max_entries=6).summary is not None
    assert start(Toy(), max_entries=5).summary is None
    assert logged[1] == (
        'Labels of the training set: not counted, since images times classes are 6, above max_entries=5'
    )


def test_only_the_main_process_speaks(logged, monkeypatch):
    monkeypatch.setattr('mmengine.dist.utils.get_rank', lambda group=None: 1)
    start(Toy())
    assert logged == []


def test_limits_are_checked():
    with pytest.raises(ValueError, match=r'medium_from must be in \[0, head_from = 100\], got 200'):
        LabelSummaryHook(medium_from=200)


def test_a_training_logs_what_was_hidden(small_run, logged):
    cfg = small_run('bce_digits.py')
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    inner = cfg.train_dataloader.dataset
    cfg.train_dataloader.dataset = dict(type='mmml_losses.MissingLabels', missing_ratio=1.0, dataset=inner)
    runner = Runner.from_cfg(cfg)
    runner.train()
    dataset = runner.train_dataloader.dataset
    before, after = dataset.true_labels(), dataset.observed_labels()
    (message,) = logged
    lines = message.split('\n')
    assert f'64 images, {after.sum()} labels of 10 classes' in lines[0]
    assert f'before: 64 images, {before.sum()} labels' in lines[1]
    assert f'{before.sum() - after.sum()} of {before.sum()} positives hidden' in lines[2]
    np.testing.assert_array_equal(after.sum(axis=1), np.minimum(before.sum(axis=1), 1))


def test_hidden_boxes_are_counted(logged):
    boxes = [dict(bbox=[0, 0, 4, 4], bbox_label=0, ignore_flag=ignore) for ignore in (0, 0, 1)]
    hidden = MissingBoxes(Toy([dict(instances=boxes)] * 3), 1, 'floor')
    start(RepeatDataset(hidden, 2))
    assert logged[0].endswith('\n    MissingBoxes hides 3 of 6 boxes')
    start(Toy())
    assert 'boxes' not in logged[1]

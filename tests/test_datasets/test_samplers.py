"""The class-aware sampler: balance, order, processes and resumed trainings."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.hooks import Hook
from mmengine.registry import DATA_SAMPLERS as MMENGINE_DATA_SAMPLERS
from mmengine.runner import Runner

import mmml_losses  # noqa: F401 (repairs the import of torchvision that mmpretrain needs)
from mmml_losses.datasets import LabelWrapper, samplers
from mmml_losses.datasets.samplers import ClassAwareSampler
from mmml_losses.registry import DATA_SAMPLERS
from tests.helpers.interruption import StopAfter

# Class 0 has one image, class 1 five, class 2 two, class 3 none; image 3 has no label.
ROWS = [[0, 1], [1], [1, 2], [], [1], [2, 1]]
# Two epochs of nine turns with two images each. In the first, the classes are 1, 2, 0, then 2, 1, 0, then 0, 1, 2.
FROZEN = [
    [1, 4, 2, 5, 0, 0, 2, 5, 0, 5, 0, 0, 0, 0, 2, 2, 5, 2],
    [0, 0, 5, 4, 5, 2, 1, 2, 2, 5, 0, 0, 5, 2, 0, 4, 0, 0],
]


class Toy(BaseDataset):
    METAINFO = dict(classes=('a', 'b', 'c', 'd'))

    def __init__(self, rows=ROWS, key='gt_label', **kwargs):
        self.rows, self.key = rows, key
        super().__init__(**kwargs)

    def load_data_list(self):
        return [{self.key: row, 'img_path': f'{number}.jpg'} for number, row in enumerate(self.rows)]

    def get_cat_ids(self, idx):
        return self.get_data_info(idx)['gt_label']


class OnlyLast(LabelWrapper):
    """Keeps the last label of each image."""

    def relabel(self, samples):
        labels = np.zeros_like(samples.labels)
        for row, label in enumerate(samples.labels):
            labels[row, np.flatnonzero(label == 1)[-1:]] = 1
        return labels


class Foreign:
    """A dataset that only has the classes of its samples."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def get_cat_ids(self, idx):
        return self.rows[idx]


@pytest.fixture
def processes(monkeypatch):
    """Make the sampler of each of some processes."""

    def make(world_size, dataset, **kwargs):
        made = []
        for rank in range(world_size):
            monkeypatch.setattr(samplers, 'get_dist_info', lambda rank=rank: (rank, world_size))
            made.append(ClassAwareSampler(dataset, **kwargs))
        return made

    return make


def random_rows(num_images=300, num_classes=12, seed=0):
    rng = np.random.default_rng(seed)
    rates = np.geomspace(0.5, 0.01, num_classes)
    return [np.flatnonzero(row).tolist() for row in rng.random((num_images, num_classes)) < rates]


def images_of(rows):
    images = {}
    for image, row in enumerate(rows):
        for label in row:
            images.setdefault(label, []).append(image)
    return images


def repeat_of_concat(kind):
    return RepeatDataset(dict(type=ConcatDataset, datasets=[kind(), kind([[3], [0]])]), 2)


def turns_of(sampler, rows):
    """Return the classes in the order of their turns: a naive replay of the definition."""
    images = images_of(rows)
    sequence = sampler.sequence().tolist()
    size = sampler.num_samples_cls
    turns = [sequence[start : start + size] for start in range(0, len(sequence), size)]
    return [{label for label, members in images.items() if set(turn) <= set(members)} for turn in turns]


def test_the_sequence_is_frozen():
    # The draws are part of the promise: no version of Python or NumPy changes a training.
    sampler = ClassAwareSampler(Toy(), num_samples_cls=2, epoch_length=18, seed=0)
    epochs = []
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    assert epochs == FROZEN


@pytest.mark.parametrize('num_samples_cls', [1, 2, 3])
def test_each_class_has_equally_many_turns_and_gives_all_its_images_equally_often(num_samples_cls):
    # With one label for each image the class of every draw is known.
    rows = [[0]] * 1 + [[1]] * 7 + [[2]] * 40 + [[]] * 3 + [[4]] * 12
    owner = {image: row[0] for image, row in enumerate(rows) if row}
    sampler = ClassAwareSampler(Foreign(rows), num_samples_cls=num_samples_cls, epoch_length=600, seed=3)
    sequence = sampler.sequence().tolist()
    classes = [owner[image] for image in sequence]
    turns = classes[::num_samples_cls]
    assert classes == list(chain.from_iterable([label] * num_samples_cls for label in turns))
    cycles = [turns[start : start + 4] for start in range(0, len(turns), 4)]
    assert all(sorted(cycle) == [0, 1, 2, 4] for cycle in cycles)
    assert len({tuple(cycle) for cycle in cycles}) > 10
    for label, members in images_of(rows).items():
        drawn = [image for image in sequence if owner[image] == label]
        assert len(drawn) == 150
        rounds = [drawn[start : start + len(members)] for start in range(0, len(drawn), len(members))]
        assert all(sorted(each) == members for each in rounds[:-1])
        assert len(set(rounds[-1])) == len(rounds[-1])
        if len(members) == 12:
            assert len({tuple(each) for each in rounds[:-1]}) == len(rounds) - 1


def test_images_with_several_labels_come_in_the_turns_of_each():
    rows = random_rows()
    sampler = ClassAwareSampler(Foreign(rows), epoch_length=12 * 3 * 50, seed=1)
    possible = turns_of(sampler, rows)
    assert all(possible)
    # Each cycle can be read as one turn of each class.
    for start in range(0, len(possible), 12):
        assert has_perfect_matching(possible[start : start + 12])


def has_perfect_matching(choices):
    from scipy.optimize import linear_sum_assignment

    cost = np.array([[0 if label in choice else 1 for label in range(len(choices))] for choice in choices])
    return cost[linear_sum_assignment(cost)].sum() == 0


def test_shuffled_orders_are_uniform():
    # The first image of a class of four, over 1,000 epochs: chi-square with 3 degrees of freedom, limit at 0.1 %.
    sampler = ClassAwareSampler(Foreign([[0]] * 4), num_samples_cls=1, epoch_length=4, seed=0)
    orders = []
    for epoch in range(1000):
        sampler.set_epoch(epoch)
        orders.append(tuple(sampler))
    firsts = Counter(order[0] for order in orders)
    assert sum((firsts[image] - 250) ** 2 / 250 for image in range(4)) < 16.3
    assert len(set(orders)) == 24


@pytest.mark.parametrize(
    ('settings', 'length'),
    [
        (dict(), 3),  # 5 images x 3 classes // 4
        (dict(reduce=1), 15),
        (dict(reduce=100), 1),
        (dict(epoch_length='dataset'), 6),
        (dict(epoch_length=1000), 1000),
    ],
)
def test_epoch_lengths(settings, length):
    sampler = ClassAwareSampler(Toy(), seed=0, **settings)
    assert len(sampler) == len(list(sampler)) == len(sampler.sequence()) == length


@pytest.mark.parametrize(
    ('largest', 'num_classes', 'length'), [(775, 20, 3875), (1128, 80, 22560)], ids=['VOC-LT', 'COCO-LT']
)
def test_epochs_of_the_published_sets(largest, num_classes, length):
    rows = [[0]] * largest + [[label] for label in range(1, num_classes)]
    assert len(ClassAwareSampler(Foreign(rows), seed=0)) == length


def test_what_has_no_label_never_comes_and_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(samplers, 'print_log', lambda message, logger: said.append(message))
    sampler = ClassAwareSampler(Toy(), epoch_length=200, seed=0)
    assert set(sampler) == {0, 1, 2, 4, 5}
    assert said == [
        'ClassAwareSampler: 200 samples an epoch from 6 images, 3 classes in turn with 3 images each; classes left out '
        'because they have no image: 1; images that never come because they have no label: 1'
    ]
    ClassAwareSampler(Toy([[0], [1], [2], [3]]), num_samples_cls=1, epoch_length=8, seed=0)
    assert said[1] == 'ClassAwareSampler: 8 samples an epoch from 4 images, 4 classes in turn with 1 image each'


@pytest.mark.parametrize('world_size', [1, 2, 3, 7])
def test_processes_share_one_sequence(processes, world_size):
    rows = random_rows()
    alone = ClassAwareSampler(Foreign(rows), epoch_length=1000, seed=5)
    made = processes(world_size, Foreign(rows), epoch_length=1000, seed=5)
    for epoch in (0, 4):
        alone.set_epoch(epoch)
        for sampler in made:
            sampler.set_epoch(epoch)
        parts = [list(sampler) for sampler in made]
        assert {len(part) for part in parts} == {len(made[0])} == {-(-1000 // world_size)}
        together = np.stack(parts, axis=1).ravel()  # one of each process in turn
        np.testing.assert_array_equal(together[:1000], alone.sequence())


def test_a_longer_sequence_begins_with_the_shorter_one():
    sampler = ClassAwareSampler(Foreign(random_rows()), epoch_length=5000, seed=2)
    np.testing.assert_array_equal(sampler.sequence(777), sampler.sequence()[:777])


def test_seeds_and_epochs_differ_and_nothing_else_does():
    orders = {}
    for seed in (0, 1, 2**32 - 1):
        sampler = ClassAwareSampler(Foreign(random_rows()), epoch_length=200, seed=seed)
        for epoch in (0, 1, 7):
            sampler.set_epoch(epoch)
            orders[seed, epoch] = tuple(sampler)
            np.random.seed(0)
            assert tuple(sampler) == orders[seed, epoch]
    assert len(set(orders.values())) == 9


def test_without_a_seed_processes_agree_on_one(monkeypatch):
    monkeypatch.setattr(samplers, 'sync_random_seed', lambda: 11)
    unseeded, seeded = ClassAwareSampler(Toy(), reduce=1), ClassAwareSampler(Toy(), reduce=1, seed=11)
    assert list(unseeded) == list(seeded)


def test_mmengine_wrappers_repeat_images():
    repeated = repeat_of_concat(Toy)
    assert set(ClassAwareSampler(repeated, epoch_length=400, seed=0)) == set(range(16)) - {3, 11}
    balanced = ClassBalancedDataset(Toy([[0], [1], [1], [1]]), oversample_thr=0.9)
    assert len(balanced) > 4
    drawn = set(ClassAwareSampler(balanced, epoch_length=400, seed=0))
    assert drawn == set(range(len(balanced)))


def test_label_wrappers_count_with_their_own_labels():
    dataset = OnlyLast(Toy([[0, 1], [1], [0], [0, 2], []]))
    sampler = ClassAwareSampler(dataset, num_samples_cls=1, epoch_length=300, seed=0)
    counts = Counter(sampler)
    assert counts == {0: 50, 1: 50, 2: 100, 3: 100}


def test_classes_of_boxes_count_once_an_image_and_ignored_ones_not():
    def boxes(*labels):
        return [dict(bbox=[0, 0, 1, 1], bbox_label=label, ignore_flag=int(label == 2)) for label in labels]

    dataset = Toy([boxes(0, 0, 0), boxes(0), boxes(1), boxes(2), boxes()], key='instances')
    assert Counter(ClassAwareSampler(dataset, num_samples_cls=1, epoch_length=400, seed=0)) == {0: 100, 1: 100, 2: 200}


def test_unknown_labels_are_of_no_class():
    scores = np.array([[1, 0, -1, 0], [-1, 1, 0, 0], [-1, -1, -1, -1]], dtype=np.float32)
    dataset = Toy(list(scores), key='gt_score')
    assert Counter(ClassAwareSampler(dataset, num_samples_cls=1, epoch_length=20, seed=0)) == {0: 10, 1: 10}


def test_datasets_of_other_kinds_have_their_classes():
    rows = [[0, 0, 1], [1], [5]]
    sampler = ClassAwareSampler(RepeatDataset(Toy(), 1), epoch_length=9, seed=0)
    assert list(sampler) == list(ClassAwareSampler(Foreign(ROWS), epoch_length=9, seed=0))
    assert Counter(ClassAwareSampler(Foreign(rows), num_samples_cls=1, epoch_length=300, seed=0))[2] == 100


def test_wrappers_around_datasets_of_other_kinds():
    class OwnItems(Toy):
        def __getitem__(self, idx):
            return self.get_data_info(idx)

    own, plain = (ClassAwareSampler(repeat_of_concat(kind), seed=0) for kind in (OwnItems, Toy))
    assert list(own) == list(plain)


def test_soft_labels_are_what_get_cat_ids_returns():
    class Soft(Toy):
        def get_cat_ids(self, idx):
            return np.flatnonzero(self.get_data_info(idx)['gt_score'] > 0).tolist()

    dataset = Soft([np.float32([0.3, 0, 0, 0]), np.float32([0, 1, 0, 0])], key='gt_score')
    assert Counter(ClassAwareSampler(dataset, num_samples_cls=1, epoch_length=20, seed=0)) == {0: 10, 1: 10}


@pytest.mark.parametrize(
    ('dataset', 'settings', 'message'),
    [
        (Toy([[], []]), {}, 'dataset must have labels to sample by, got none in 2 samples'),
        (Toy(), dict(num_samples_cls=0), 'num_samples_cls must be at least 1, got 0'),
        (Toy(), dict(reduce=0.5), 'reduce must be a whole number, got 0.5'),
        (
            Toy(),
            dict(epoch_length='images'),
            "epoch_length must be 'largest_class', 'dataset' or a number, got 'images'",
        ),
        (Toy(), dict(epoch_length=0), 'epoch_length must be at least 1, got 0'),
        (Toy(), dict(epoch_length=10**9), 'at most 100,000,000 samples, got 1,000,000,000 by 1000000000'),
        (Toy(), dict(seed=-1), 'seed must be at least 0, got -1'),
    ],
)
def test_what_cannot_be_sampled_is_rejected(dataset, settings, message):
    with pytest.raises(ValueError, match=message):
        ClassAwareSampler(dataset, **{'seed': 0, **settings})


def test_datasets_without_classes_are_rejected():
    with pytest.raises(TypeError, match=r"must be one of MMEngine's kind.* got list"):
        ClassAwareSampler([1, 2], seed=0)


def test_hosts_build_it_by_its_scoped_name():
    settings = dict(type='mmml_losses.ClassAwareSampler', epoch_length=5)
    built = MMENGINE_DATA_SAMPLERS.build(settings, default_args=dict(dataset=Toy(), seed=0))
    assert isinstance(built, ClassAwareSampler)
    assert DATA_SAMPLERS.get('ClassAwareSampler') is ClassAwareSampler


class Record(Hook):
    """Notes which samples each batch has."""

    def __init__(self):
        self.batches = {}

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        indices = [sample.sample_idx for sample in data_batch['data_samples']]
        self.batches.setdefault(runner.epoch, []).append(indices)


def train(cfg, name, *, stop_after=None, resume=False):
    cfg = cfg.copy()
    cfg.work_dir += name
    cfg.resume, cfg.experiment_name = resume, f'{name}_{stop_after}_{resume}'
    runner, record = Runner.from_cfg(cfg), Record()
    runner.register_hook(record)
    if stop_after is None:
        runner.train()
    else:
        runner.register_hook(StopAfter(stop_after))
        with pytest.raises(KeyboardInterrupt):
            runner.train()
    return record.batches


def test_a_resumed_training_gets_the_same_batches(small_run):
    cfg = small_run('bce_digits.py', max_epochs=3)
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    cfg.train_dataloader.sampler = dict(type='mmml_losses.ClassAwareSampler', epoch_length=40)
    cfg.train_dataloader.dataset.pipeline[-1].meta_keys = ('sample_idx',)
    unbroken = train(cfg, 'unbroken')
    assert {epoch: list(map(len, batches)) for epoch, batches in unbroken.items()} == {
        epoch: [16, 16, 8] for epoch in range(3)
    }
    assert len({str(batches) for batches in unbroken.values()}) == 3
    train(cfg, 'broken', stop_after=2)
    assert train(cfg, 'broken', resume=True) == {2: unbroken[2]}


def test_a_training_by_iterations_goes_on_in_the_middle_of_an_epoch(small_run):
    cfg = small_run('bce_digits.py')
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = cfg.param_scheduler = None
    cfg.custom_hooks = []
    cfg.train_dataloader.sampler = dict(type='mmml_losses.ClassAwareSampler', epoch_length=40)
    cfg.train_dataloader.dataset.pipeline[-1].meta_keys = ('sample_idx',)
    cfg.default_hooks.checkpoint = dict(type='CheckpointHook', by_epoch=False, interval=5)

    def batches(name, max_iters, resume=False):
        cfg.train_cfg = dict(type='IterBasedTrainLoop', max_iters=max_iters)
        return list(chain.from_iterable(train(cfg, name, resume=resume).values()))

    unbroken = batches('unbroken', 8)
    assert list(map(len, unbroken)) == [16, 16, 8, 16, 16, 8, 16, 16]
    assert unbroken[:3] != unbroken[3:6]
    assert batches('broken', 5) == unbroken[:5]
    assert batches('broken', 8, resume=True) == unbroken[5:]

import hashlib
import json
import logging
import pickle
import re
import shutil
from collections import Counter

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.logging import MMLogger
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

import mmml_losses.models  # noqa: F401 (the configs take transforms by the names of mmpretrain, which it imports)
from mmml_losses.datasets import (
    VOC,
    AnnotationError,
    LongTailed,
    MissingLabels,
    PartialLabels,
    read_label_changes,
    read_labels,
)
from mmml_losses.datasets.wrappers.long_tailed import SPLITS, load_split
from mmml_losses.datasets.wrappers.pareto import ParetoCurve
from mmml_losses.utils.frequencies import group_classes, load_class_frequencies
from tests.helpers.base_config import FOLDER
from tests.helpers.published.long_tailed import rows_with_frequencies, write_coco_images, write_voc_images

CURVE = dict(largest=60, smallest=4)


class Named(BaseDataset):
    """Samples without pixels: names of files, and the classes of each."""

    def __init__(self, names, rows, num_classes, img_ids=None, **kwargs):
        self.names, self.rows, self.img_ids = names, rows, img_ids
        metainfo = dict(classes=tuple(f'class {c}' for c in range(num_classes)))
        super().__init__(metainfo=metainfo, data_prefix=dict(img_path='images'), **kwargs)

    def load_data_list(self):
        infos = [dict(img_path=f'images/{name}', gt_label=row) for name, row in zip(self.names, self.rows, strict=True)]
        for info, img_id in zip(infos, self.img_ids or (), strict=bool(self.img_ids)):
            info['img_id'] = img_id
        return infos

    def get_cat_ids(self, idx):
        return self.get_data_info(idx)['gt_label']


def random_set(num_samples=500, num_classes=6, **kwargs):
    rng = np.random.RandomState(0)
    labels = rng.rand(num_samples, num_classes) < np.linspace(0.5, 0.1, num_classes)
    rows = [np.flatnonzero(row).tolist() for row in labels]
    return Named([f'{number}.jpg' for number in range(num_samples)], rows, num_classes, **kwargs)


def names_of(dataset):
    return [dataset.get_data_info(idx)['img_path'].removeprefix('images/') for idx in range(len(dataset))]


@pytest.fixture
def log():
    """Collect the messages of the current logger in a list."""
    messages = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = MMLogger.get_current_instance()
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    ('name', 'num_images', 'smallest', 'largest', 'groups', 'form', 'checksum'),
    [
        ('voc-lt', 1142, 4, 775, (6, 6, 8), r'20(08|09|10|11)_00\d{4}', '21d64ee973b786502cf5fc25a05edd27'),
        ('coco-lt', 1909, 6, 1128, (22, 33, 25), r'[1-9]\d{0,5}', '03ca967da27204f543e74499dcccebe5'),
    ],
)
def test_the_published_splits_are_shipped(name, num_images, smallest, largest, groups, form, checksum):
    split = load_split(name)
    assert len(split.ids) == len(set(split.ids)) == num_images
    assert all(re.fullmatch(form, image_id) for image_id in split.ids)
    assert hashlib.sha256('\n'.join(split.ids).encode()).hexdigest().startswith(checksum)
    frequencies = split.class_frequencies
    assert (frequencies.min(), frequencies.max()) == (smallest, largest)
    assert tuple(len(members) for members in group_classes(frequencies).values()) == groups


def test_the_splits_are_class_frequencies_for_losses_and_metrics():
    folder = FOLDER.parents[2] / 'mmml_losses' / 'datasets' / 'wrappers' / 'splits'
    for name in SPLITS:
        file = folder / f'{name.replace("-", "_")}.json'
        assert load_class_frequencies(file).tolist() == load_split(name).class_frequencies.tolist()


@pytest.mark.parametrize(
    ('name', 'form'),
    [
        ('voc-lt', '{}.jpg'),
        ('voc-lt', 'JPEGImages/{}.png'),
        ('coco-lt', '{:0>12}.jpg'),
        ('coco-lt', 'COCO_train2014_{:0>12}.jpg'),
        ('coco-lt', 'val/COCO_val2014_{:0>12}.jpg'),
    ],
)
def test_a_split_has_exactly_the_published_images_in_the_published_order(name, form, log):
    split = load_split(name)
    num_classes = len(split.class_frequencies)
    labels = dict(zip(split.ids, rows_with_frequencies(split.class_frequencies, len(split.ids)), strict=True))
    others = ['2008_999999', '7777777', '2099_000001', '999999999999']
    names = [*split.ids, *others]
    np.random.RandomState(0).shuffle(names)
    dataset = Named([form.format(each) for each in names], [labels.get(each, [0]) for each in names], num_classes)
    tail = LongTailed(dataset, split=name)
    assert names_of(tail) == [form.format(each) for each in split.ids]
    assert [tail.get_data_info(idx)['gt_label'] for idx in range(9)] == [labels[each] for each in split.ids[:9]]
    assert tail.observed_labels().sum(axis=0).tolist() == split.class_frequencies.tolist()
    assert f'{split.name}: {len(split.ids):,} images with ' in log[-1]
    assert log[-1].endswith('; all class frequencies as published')


def test_the_log_reports_when_a_reader_counts_otherwise(log):
    split = load_split('voc-lt')
    rows = rows_with_frequencies(split.class_frequencies, len(split.ids))
    rows[0] = rows[0][1:]  # class 0 of one image
    names = [f'{image_id}.jpg' for image_id in split.ids]
    LongTailed(Named(names, rows, 20), split='voc-lt')
    assert log[-1].endswith('; class frequencies other than the published ones: class 0 (5, published 6)')
    LongTailed(Named(names, [row[-1:] for row in rows_with_frequencies([1200], len(names))], 1), split='voc-lt')
    assert log[-1].endswith('published with 20 classes, of which the dataset has 1')


def test_images_of_other_names_are_found_by_their_ids():
    split = load_split('coco-lt')
    names = [f'{number}.jpg' for number in range(len(split.ids))]
    dataset = Named(names, [[0]] * len(names), 80, img_ids=[int(image_id) for image_id in split.ids])
    assert names_of(LongTailed(dataset, split='coco-lt')) == names


def test_train2014_and_val2014_make_coco_lt_together_and_neither_alone():
    split = load_split('coco-lt')
    train = Named([f'COCO_train2014_{each:0>12}.jpg' for each in split.ids[519:]], [[0]] * 1390, 80)
    val = Named([f'COCO_val2014_{each:0>12}.jpg' for each in split.ids[:519]], [[1]] * 519, 80)
    tail = LongTailed(ConcatDataset([train, val]), split='coco-lt')
    assert [re.search(r'0*(\d+)\.jpg', name)[1] for name in names_of(tail)] == list(split.ids)
    message = (
        r'COCO-LT needs 1,909 images of train2017 of COCO \(.*val2014\), and the dataset lacks 519 of them: '
        r'554625, 118113, 281534, \.\.\.$'
    )
    with pytest.raises(AnnotationError, match=message):
        LongTailed(train, split='coco-lt')
    with pytest.raises(AnnotationError, match=r'lacks 1 of them: 2008_000023$'):
        LongTailed(Named([f'{each}.jpg' for each in load_split('voc-lt').ids[1:]], [[0]] * 1141, 20), split='voc-lt')


def test_repeated_images_of_a_split_are_chosen_as_often():
    split = load_split('voc-lt')
    dataset = Named([f'{each}.jpg' for each in split.ids], [[0]] * 1142, 20)
    tail = LongTailed(RepeatDataset(dataset, times=2), split='voc-lt')
    assert len(tail) == 2284
    assert Counter(names_of(tail)) == {f'{each}.jpg': 2 for each in split.ids}


def test_the_curve_is_met_and_the_labels_stay():
    dataset = random_set()
    tail = LongTailed(dataset, fill_up=True, **CURVE)
    source = read_labels(dataset).labels
    positions = tail.positions()
    assert (np.diff(positions) > 0).all()
    assert (tail.observed_labels() == source[positions]).all()
    assert (tail.true_labels() == source[positions]).all()
    counts = np.sort(tail.observed_labels().sum(axis=0))[::-1]
    assert np.abs(counts - ParetoCurve(**CURVE).counts(6)).sum() <= 2
    for idx in (0, 5, -1):
        info = tail.get_data_info(idx)
        assert info['img_path'] == f'images/{positions[idx]}.jpg'
        assert info['gt_label'] == dataset.get_data_info(int(positions[idx]))['gt_label']


def test_the_choice_follows_from_the_seed_and_the_names():
    first = set(names_of(LongTailed(random_set(), **CURVE)))
    assert first == set(names_of(LongTailed(random_set(), seed=0, **CURVE)))
    assert first != set(names_of(LongTailed(random_set(), seed=1, **CURVE)))
    dataset = random_set()
    shuffled = np.random.RandomState(1).permutation(500)
    other = Named([dataset.names[each] for each in shuffled], [dataset.rows[each] for each in shuffled], 6)
    assert first == set(names_of(LongTailed(other, **CURVE)))


def test_the_choice_is_the_same_for_ever():
    # All images show the first class, every third one the second, every seventh one the third.
    rows = [[0] + [1] * (number % 3 == 0) + [2] * (number % 7 == 0) for number in range(60)]
    tail = LongTailed(Named([f'{number}.png' for number in range(60)], rows, 3), largest=9, smallest=2, seed=5)
    assert tail.positions().tolist() == [6, 7, 24, 25, 34, 35, 37, 51, 54]


@pytest.mark.parametrize('serialize_data', [True, False])
def test_workers_return_the_same_samples(serialize_data):
    tail = LongTailed(random_set(serialize_data=serialize_data), **CURVE)
    alone = [tail[idx]['img_path'] for idx in range(len(tail))]
    loader = DataLoader(tail, batch_size=None, num_workers=2)
    assert [each['img_path'] for each in loader] == alone == [f'images/{name}' for name in names_of(tail)]
    assert names_of(pickle.loads(pickle.dumps(tail))) == names_of(tail)


def test_around_missing_labels_the_curve_is_of_the_observed_ones():
    dataset = random_set()
    inner = MissingLabels(dataset, missing_ratio=0.5)
    tail = LongTailed(inner, **CURVE)
    positions = tail.positions()
    assert (tail.observed_labels() == inner.observed_labels()[positions]).all()
    true = read_labels(dataset).labels[positions]
    assert (tail.true_labels() == true).all()
    assert (tail.observed_labels() != true).any()
    info = tail.get_data_info(3)
    assert (info['true_label'] == true[3]).all()
    assert info['gt_label'] == np.flatnonzero(tail.observed_labels()[3]).tolist()


def test_inside_missing_labels_the_curve_is_of_the_true_ones():
    dataset = random_set()
    tail = LongTailed(dataset, **CURVE)
    outer = MissingLabels(tail, missing_ratio=1)
    assert names_of(outer) == names_of(tail)
    assert (outer.true_labels() == tail.observed_labels()).all()
    assert (outer.observed_labels().sum(axis=1) == 1).all()
    changes = read_label_changes(outer)
    assert (changes.true == tail.observed_labels()).all()
    assert len(changes.original) == len(dataset)


def test_unknown_labels_stay_unknown_and_are_not_counted():
    inner = PartialLabels(random_set(), known_ratio=0.7)
    tail = LongTailed(inner, fill_up=True, **CURVE)
    assert (tail.observed_labels() == inner.observed_labels()[tail.positions()]).all()
    counts = np.sort((tail.observed_labels() == 1).sum(axis=0))[::-1]
    assert np.abs(counts - ParetoCurve(**CURVE).counts(6)).sum() <= 2
    assert (tail.get_data_info(0)['gt_score'] == tail.observed_labels()[0]).all()


def test_with_the_wrappers_of_mmengine():
    tail = LongTailed(random_set(), **CURVE)
    assert len(RepeatDataset(tail, times=3)) == 3 * len(tail)
    balanced = ClassBalancedDataset(tail, oversample_thr=0.5)
    assert len(balanced) > len(tail)
    assert balanced[0]['img_path'] == tail[0]['img_path']
    both = ConcatDataset([tail, random_set()])
    assert len(both) == len(tail) + 500
    inside = LongTailed(ConcatDataset([random_set(300), Named(['x.jpg'] * 9, [[5]] * 9, 6)]), **CURVE)
    assert inside.observed_labels().shape == (len(inside), 6)
    subset = tail.get_subset(5)
    assert names_of(subset) == names_of(tail)[:5]


def test_a_config_builds_it_lazily(log):
    # A dataset of the host project, built as it builds its own.
    MMENGINE_DATASETS.register_module(name='NamedForLongTailed', module=Named, force=True)
    try:
        tail = MMENGINE_DATASETS.build(
            dict(
                type='mmml_losses.LongTailed',
                dataset=dict(type='NamedForLongTailed', names=['a.jpg', 'b.jpg'], rows=[[0], []], num_classes=2),
                lazy_init=True,
            )
        )
    finally:
        MMENGINE_DATASETS._module_dict.pop('NamedForLongTailed')
    assert not log
    assert len(tail) == 1
    assert 'Fewer images than on the curve: class 0 (1 of 700)' in log[-1]
    assert log[-1].endswith('Without an image, and not on the curve: class 1')


def test_settings_are_what_determines_the_samples():
    dataset = random_set(lazy_init=True)
    assert LongTailed(dataset, split='voc-lt', lazy_init=True).settings() == dict(type='LongTailed', split='voc-lt')
    settings = LongTailed(dataset, smallest=np.int64(9), seed=3, lazy_init=True).settings()
    assert json.loads(json.dumps(settings)) == dict(
        type='LongTailed', largest=700, smallest=9, shape=6.0, order='co-occurrence', fill_up=False, seed=3
    )


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(split='nus-lt'), "split must be one of 'coco-lt', 'voc-lt', got 'nus-lt'"),
        (dict(split='voc-lt', shape=3), "shape must not be given with split='voc-lt'"),
        (dict(split='voc-lt', largest=9, fill_up=False), 'largest, fill_up must not be given with split'),
        (dict(largest=3, smallest=4), r'smallest must be in \[1, largest = 3\], got 4'),
        (dict(seed=0.5), 'seed must be a whole number, got 0.5'),
        (dict(fill_up='no'), "fill_up must be True or False, got 'no'"),
    ],
)
def test_wrong_arguments_are_rejected_before_anything_is_read(arguments, message):
    with pytest.raises(ValueError, match=message):
        LongTailed(dict(type='there is no such dataset'), **arguments)


def datasets_of(cfg):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return [MMENGINE_DATASETS.build(cfg[name].dataset) for name in ('train_dataloader', 'test_dataloader')]


def check_config(cfg, name, log):
    split = load_split(name)
    assert cfg.class_frequencies == split.class_frequencies.tolist()
    assert cfg.train_dataloader.batch_size == 32
    train, test = datasets_of(cfg)
    assert f'{split.name}: {len(split.ids):,} images' in log[-1]
    assert log[-1].endswith('all class frequencies as published')
    assert len(train) == len(split.ids)
    assert tuple(train[0]['inputs'].shape) == tuple(test[0]['inputs'].shape) == (3, 224, 224)
    assert train[0]['data_samples'].gt_label.tolist() == train.get_data_info(0)['gt_label']
    (metric,) = [each for each in cfg.val_evaluator.metrics if each.type.endswith('MultiLabelAP')]
    assert metric.class_frequencies == cfg.class_frequencies


def test_the_config_of_voc_lt(tmp_path, log):
    split = load_split('voc-lt')
    rows = rows_with_frequencies(split.class_frequencies, len(split.ids))
    # The dataset has one more image, and another order.
    write_voc_images(tmp_path / 'VOC2012', ['2008_000001', *sorted(split.ids)][::-1], [*rows, [0]])
    write_voc_images(tmp_path / 'VOC2007', ['000001', '000002'], [[0], [1, 2]])
    cfg = Config.fromfile(FOLDER / 'voc_lt.py')
    cfg.train_dataloader.dataset.dataset.data_root = str(tmp_path / 'VOC2012')
    cfg.test_dataloader.dataset.data_root = str(tmp_path / 'VOC2007')
    shutil.copy(
        tmp_path / 'VOC2007' / 'JPEGImages' / '000001.jpg',
        tmp_path / 'VOC2012' / 'JPEGImages' / f'{split.ids[0]}.jpg',
    )
    check_config(cfg, 'voc-lt', log)
    # Without the difficult objects, here those of every other class, the frequencies are not the published ones.
    LongTailed(VOC(str(tmp_path / 'VOC2012')), split='voc-lt')
    assert 'other than the published ones: bicycle (0, published 34), boat (0, published 14), ' in log[-1]
    assert log[-1].endswith(' and 5 more')


def test_the_config_of_coco_lt(tmp_path, log):
    split = load_split('coco-lt')
    rows = rows_with_frequencies(split.class_frequencies, len(split.ids))
    write_coco_images(tmp_path, ['9', *split.ids][::-1], [*rows, [0]], 'train2017')
    write_coco_images(tmp_path, ['139', '285'], [[0], []], 'val2017')
    cfg = Config.fromfile(FOLDER / 'coco_lt.py')
    cfg.train_dataloader.dataset.dataset.data_root = cfg.test_dataloader.dataset.data_root = str(tmp_path)
    shutil.copy(tmp_path / 'val2017' / f'{139:012}.jpg', tmp_path / 'train2017' / f'{split.ids[0]:0>12}.jpg')
    check_config(cfg, 'coco-lt', log)
    assert len(datasets_of(cfg)[1]) == 2  # also the image without a label


def test_the_config_of_digit_scenes(tmp_path):
    cfg = Config.fromfile(FOLDER / 'digit_scenes_lt.py')
    settings = cfg.train_dataloader.dataset
    assert cfg.class_frequencies == ParetoCurve(settings.largest, settings.smallest).counts(10).tolist()
    for dataset in (settings.dataset, cfg.test_dataloader.dataset):
        dataset.update(data_root=str(tmp_path / 'scenes'), num_train=300, num_test=10)
    settings.largest = 60
    train, test = datasets_of(cfg)
    counts = train.observed_labels().sum(axis=0)
    assert np.abs(np.sort(counts)[::-1] - ParetoCurve(60, 5).counts(10)).sum() <= 3
    assert len(test) == 10
    assert tuple(train[0]['inputs'].shape) == tuple(test[0]['inputs'].shape) == (3, 64, 64)

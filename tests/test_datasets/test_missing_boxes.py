"""MissingBoxes hides the documented number and choice of boxes, and the same ones every time."""

import pickle
from itertools import chain

import numpy as np
import pytest
from mmengine.dataset import ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.registry import DATASETS
from torch.utils.data import DataLoader

from mmml_losses.datasets import (
    AnnotationError,
    MissingBoxes,
    MissingLabels,
    SinglePositive,
    read_label_changes,
    read_labels,
)
from mmml_losses.datasets.wrappers.drawn_labels import read_drawn_labels
from mmml_losses.datasets.wrappers.missing_labels import num_left
from tests.helpers.toy import CLASSES, ROWS, Chosen, Toy, box, detection

FROZEN_BERNOULLI = [[1], [], [2], [], [0, 2, 3, 4, 6, 7], [0, 1, 3]]
FROZEN_FLOOR = [[0, 2, 4, 5], [], [1, 2, 3], [0, 1], [1, 4, 5, 6, 7], [0, 1, 2]]


def crowded(num_images=200, seed=0, **kwargs):
    """Images with up to eleven boxes, each of a width of its own, so that it tells which box it is."""
    rng = np.random.RandomState(seed)
    rows = []
    for count in rng.randint(0, 12, num_images):
        labels, ignored = rng.randint(0, 4, count), rng.rand(count) < 0.2
        boxes = [
            box(int(label), size + 1, int(ignore))
            for size, (label, ignore) in enumerate(zip(labels, ignored, strict=True))
        ]
        rows.append(dict(instances=[boxes[place] for place in rng.permutation(count)]))
    return Toy(rows, **kwargs)


def width(instance):
    return instance['bbox'][2] - instance['bbox'][0]


def widths(dataset, ignore=0):
    """Which boxes the items of a dataset have."""
    items = (dataset[idx] for idx in range(len(dataset)))
    return [[width(each) for each in item['instances'] if each['ignore_flag'] == ignore] for item in items]


def numbers(dataset):
    """Return the positions of the remaining boxes among the boxes of the wrapped dataset."""
    pairs = zip((dataset.dataset[idx] for idx in range(len(dataset))), dataset, strict=True)
    return [
        [number for number, each in enumerate(source['instances']) if each in item['instances']]
        for source, item in pairs
    ]


def counts(dataset):
    return np.array([len(row) for row in widths(dataset)])


@pytest.mark.parametrize('missing_ratio', [0, 0.3, 0.5, 0.8, 1])
def test_floor_leaves_each_image_its_number_of_boxes(missing_ratio):
    dataset = crowded()
    found = MissingBoxes(dataset, missing_ratio, 'floor')
    assert np.array_equal(counts(found), num_left(counts(dataset), missing_ratio))
    for left, source in zip(widths(found), widths(dataset), strict=True):
        assert [each for each in source if each in left] == left  # in the same order


def test_one_box_is_left_of_all():
    dataset = crowded()
    assert counts(MissingBoxes(dataset, 1, 'floor')).tolist() == (counts(dataset) > 0).astype(int).tolist()


def test_bernoulli_hides_each_box_with_the_probability():
    dataset = crowded(800)
    wrapper = MissingBoxes(dataset, 0.3)
    total, left = counts(dataset), counts(wrapper)
    assert wrapper.rule == 'bernoulli'
    assert 1 - left.sum() / total.sum() == pytest.approx(0.3, abs=0.03)
    # Independently: the number in an image is binomial.
    five = total == 5
    assert left[five].var() == pytest.approx(5 * 0.3 * 0.7, rel=0.3)
    assert counts(MissingBoxes(dataset, 0.0)).sum() == total.sum()
    assert counts(MissingBoxes(dataset, 1.0)).sum() == 0


def test_every_box_is_as_likely_to_stay():
    dataset = Toy([dict(instances=[box(0, size) for size in (1, 2, 3, 4)])] * 4000)
    found = np.bincount(list(chain.from_iterable(widths(MissingBoxes(dataset, 1, 'floor', seed=5)))))[1:]
    # The quantile 0.999 of chi-square with 3 degrees of freedom.
    assert ((found - 1000) ** 2 / 1000).sum() < 16.27


@pytest.mark.parametrize('rule', ['floor', 'bernoulli'])
@pytest.mark.parametrize('order', ['random', 'smallest_first'])
def test_a_larger_ratio_hides_more_of_the_same(rule, order):
    few, some, most = (widths(MissingBoxes(crowded(), ratio, rule, order=order)) for ratio in (0.2, 0.5, 0.9))
    for rows in zip(few, some, most, strict=True):
        assert set(rows[0]) >= set(rows[1]) >= set(rows[2])
    assert few != some != most


def test_seeds_differ():
    first, second, again = (widths(MissingBoxes(crowded(), 0.5, seed=seed)) for seed in (1, 2, 1))
    assert first == again
    assert first != second


def test_the_boxes_are_these_forever():
    assert numbers(MissingBoxes(detection(), 0.5)) == FROZEN_BERNOULLI
    assert numbers(MissingBoxes(detection(), 0.5, 'floor', seed=1)) == FROZEN_FLOOR


def test_boxes_do_not_depend_on_the_order_of_the_images_or_on_others():
    dataset = crowded()
    whole, part = MissingBoxes(dataset, 0.5), MissingBoxes(crowded(indices=50), 0.5)
    assert widths(whole)[:50] == widths(part)
    assert widths(MissingBoxes(Chosen(crowded()), 0.5, seed=3)) != widths(whole)[:4]
    repeated = widths(MissingBoxes(RepeatDataset(crowded(), 2), 0.5))
    assert repeated == widths(whole) * 2


@pytest.mark.parametrize('rates', [[0.0, 1.0, 0.5, 0.0], {'car': 1, 'person': 0.5}])
def test_classes_have_rates_of_their_own(rates):
    dataset = MissingBoxes(Toy([dict(instances=[box(label) for label in range(4)])] * 1000), rates)
    shares = dataset.observed_labels().mean(axis=0)
    assert shares[[0, 1, 3]].tolist() == [1, 0, 1]
    assert shares[2] == pytest.approx(0.5, abs=0.06)


def test_small_boxes_are_missed_first():
    dataset = crowded()
    source = widths(dataset)
    for rule in ('floor', 'bernoulli'):
        found = widths(MissingBoxes(dataset, 0.5, rule, order='smallest_first'))
        drawn = counts(MissingBoxes(dataset, 0.5, rule))
        for row, left, count in zip(source, found, drawn, strict=True):
            assert sorted(left) == sorted(row)[len(row) - count :]


def test_bernoulli_can_leave_one():
    dataset = crowded()
    free, kept = (counts(MissingBoxes(dataset, 0.8, keep_one=keep)) for keep in (False, True))
    has_any = counts(dataset) > 0
    assert not free[has_any].all()
    assert kept[has_any].all()
    assert np.array_equal(kept[free > 0], free[free > 0])


def test_what_the_annotation_ignores_stays_and_does_not_count():
    dataset = crowded()
    for wrapper in (MissingBoxes(dataset, 1), MissingBoxes(dataset, 0.5, 'floor')):
        assert widths(wrapper, ignore=1) == widths(dataset, ignore=1)
    assert MissingBoxes(dataset, 1).count_boxes() == (counts(dataset).sum(),) * 2
    only = Toy([dict(instances=[box(0, ignore=1), box(1)])])
    assert widths(MissingBoxes(only, 1), ignore=1) == [[4]]


def test_hidden_boxes_can_be_ignored_instead():
    dataset = crowded()
    gone, ignored = MissingBoxes(dataset, 0.5), MissingBoxes(dataset, 0.5, hidden='unknown')
    assert widths(gone) == widths(ignored)
    for source, left, more in zip(widths(dataset), widths(gone), widths(ignored, ignore=1), strict=True):
        assert set(source) - set(left) <= set(more)
    assert np.array_equal(gone.observed_labels() == 1, ignored.observed_labels() == 1)
    assert np.array_equal(ignored.observed_labels() == -1, gone.observed_labels() < gone.true_labels())
    assert not {'gt_label', 'gt_score'} & ignored[0].keys()


def test_a_class_is_hidden_where_all_its_boxes_are():
    dataset = MissingBoxes(crowded(), 0.6)
    expected = np.zeros((len(dataset), 4), dtype=np.int8)
    for row, item in zip(expected, dataset, strict=True):
        row[[each['bbox_label'] for each in item['instances'] if not each['ignore_flag']]] = 1
    assert np.array_equal(read_labels(dataset).labels, expected)
    assert np.array_equal(dataset.true_labels(), read_labels(crowded()).labels)
    changes = read_label_changes(dataset)
    assert np.array_equal(changes.observed, expected)
    assert (changes.true.sum(), changes.original.sum()) == (dataset.true_labels().sum(),) * 2
    assert (expected.sum(axis=1) < dataset.true_labels().sum(axis=1)).any()
    assert dataset.get_cat_ids(3) == np.flatnonzero(expected[3]).tolist()
    assert np.array_equal(dataset[3]['true_label'], dataset.true_labels()[3])


def test_areas_are_of_the_boxes_that_are_left():
    dataset = MissingBoxes(crowded(), 0.6)
    areas = read_labels(dataset, with_areas=True).areas
    for idx, item in enumerate(dataset):
        for label in range(4):
            left = [
                width(each) ** 2
                for each in item['instances']
                if each['bbox_label'] == label and not each['ignore_flag']
            ]
            assert areas[idx, label] == max(left) if left else np.isnan(areas[idx, label])
    assert np.isnan(read_labels(MissingBoxes(crowded(), 1), with_areas=True).areas).all()


def test_labels_next_to_boxes_follow():
    rows = [dict(gt_label=[0, 2], instances=[box(0), box(2)])] * 20
    for item in MissingBoxes(Toy(rows), 0.5):
        assert item['gt_label'] == [each['bbox_label'] for each in item['instances']]


@pytest.mark.parametrize('serialize_data', [True, False])
def test_the_wrapped_dataset_keeps_its_boxes(serialize_data):
    inner = crowded(serialize_data=serialize_data)
    before = widths(inner)
    dataset = MissingBoxes(inner, 0.5)
    assert widths(dataset) == widths(MissingBoxes(crowded(), 0.5))
    assert widths(inner) == before


def test_subsets_keep_the_boxes_that_were_drawn():
    dataset = MissingBoxes(crowded(), 0.5)
    whole = widths(dataset)
    part = dataset.get_subset([5, 2, 9])
    assert widths(part) == [whole[5], whole[2], whole[9]]
    assert widths(part.get_subset(-1)) == [whole[9]]
    source = counts(crowded())[[5, 2, 9]].sum()
    assert part.count_boxes() == (source - counts(part).sum(), source)
    assert widths(dataset) == whole
    assert [width(each) for each in dataset[-1]['instances'] if not each['ignore_flag']] == whole[-1]


def test_inside_and_around_other_wrappers():
    parts = ConcatDataset([crowded(30), crowded(20, seed=1, folder='more')])
    around = MissingBoxes(parts, 0.5)
    assert widths(around) == widths(MissingBoxes(crowded(30), 0.5)) + widths(
        MissingBoxes(crowded(20, seed=1, folder='more'), 0.5)
    )
    inside = ConcatDataset([MissingBoxes(crowded(30), 0.5), crowded(20, seed=1)])
    assert counts(inside)[30:].sum() == counts(crowded(20, seed=1)).sum()
    balanced = ClassBalancedDataset(MissingBoxes(crowded(30), 0.5), oversample_thr=0.9)
    assert len(widths(balanced)) == len(balanced)
    assert np.array_equal(read_labels(balanced).labels.shape, (len(balanced), 4))
    of_balanced = MissingBoxes(ClassBalancedDataset(SinglePositive(detection()), 0.9), 0.5)
    assert all(len({each['bbox_label'] for each in item['instances']}) <= 1 for item in of_balanced)


def test_label_wrappers_see_the_boxes_that_are_left():
    boxes = MissingBoxes(crowded(), 0.5)
    dataset = MissingLabels(boxes, 1, order='smallest_first')
    for item, left in zip(dataset, widths(boxes), strict=True):
        found = [each for each in item['instances'] if not each['ignore_flag']]
        assert len({each['bbox_label'] for each in found}) == bool(left)
        assert not left or max(width(each) for each in found) == max(left)
    twice = MissingBoxes(boxes, 0.5)
    assert all(set(row) <= set(left) for row, left in zip(widths(twice), widths(boxes), strict=True))
    # Drawn by themselves: as many go again.
    assert counts(twice).sum() / counts(boxes).sum() == pytest.approx(0.5, abs=0.06)
    assert np.array_equal(twice.true_labels(), read_labels(crowded()).labels)


def test_workers_return_the_same():
    dataset = MissingBoxes(crowded(40), 0.5)
    for workers in (0, 2):
        loader = DataLoader(dataset, batch_size=7, num_workers=workers, collate_fn=list)
        items = list(chain.from_iterable(loader))
        assert [item['instances'] for item in items] == [item['instances'] for item in dataset]
    assert widths(pickle.loads(pickle.dumps(dataset))) == widths(dataset)


def test_it_is_built_from_a_config():
    DATASETS.register_module(name='ToyBoxes', module=lambda: detection(), force=True)
    try:
        dataset = DATASETS.build(
            dict(type='mmml_losses.MissingBoxes', missing_ratio=0.5, dataset=dict(type='ToyBoxes'), lazy_init=True)
        )
        assert dataset.CLASSES == CLASSES
        assert numbers(dataset) == FROZEN_BERNOULLI
    finally:
        DATASETS.module_dict.pop('ToyBoxes')


def test_settings_have_what_determines_the_boxes():
    assert MissingBoxes(detection(), 0.5).settings() == dict(
        type='MissingBoxes', missing_ratio=0.5, rule='bernoulli', order='random', keep_one=False, hidden='negative',
        seed=0,
    )  # fmt: skip


def test_empty_datasets_and_images():
    assert widths(MissingBoxes(Toy([dict(instances=[])] * 2), 0.5)) == [[], []]
    assert len(MissingBoxes(Toy([]), 0.5)) == 0


def test_labels_without_boxes_are_rejected():
    message = r"MissingBoxes needs a dataset with boxes \(instances\), and sample 0 \('0.jpg'\) of Toy has none"
    with pytest.raises(AnnotationError, match=message):
        MissingBoxes(Toy(ROWS), 0.5)
    with pytest.raises(AnnotationError, match=r'sample 6 .* of ConcatDataset has none'):
        MissingBoxes(ConcatDataset([detection(), Toy()]), 0.5)


def test_a_label_file_of_them_is_rejected():
    with pytest.raises(AnnotationError, match=r'label file, which cannot hold single boxes, got MissingBoxes'):
        read_drawn_labels(MissingLabels(MissingBoxes(detection(), 0.5), 0.5))


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(missing_ratio=1.4), r'missing_ratio must be in \[0, 1\], got 1.4'),
        (dict(missing_ratio='half'), r"missing_ratio must be a number, or a list or dict .* got 'half'"),
        (dict(missing_ratio=[0.1] * 4, rule='floor'), r"missing_ratio must be one number for rule='floor'"),
        (dict(missing_ratio=[0.1] * 3), r'missing_ratio must have a rate for each of 4 classes, got 3'),
        (dict(missing_ratio=dict(cow=1)), r'missing_ratio must name classes of the dataset, got cow'),
        (dict(missing_ratio=0.5, rule='half'), r"rule must be one of 'floor', 'bernoulli', got 'half'"),
        (dict(missing_ratio=0.5, order='big'), r"order must be one of 'random', 'smallest_first', got 'big'"),
        (dict(missing_ratio=0.5, hidden='gone'), r"hidden must be one of 'negative', 'unknown', got 'gone'"),
        (dict(missing_ratio=0.5, rule='floor', keep_one=True), r"keep_one must be False for rule='floor'"),
        (dict(missing_ratio=0.5, seed=0.5), r'seed must be a whole number, got 0.5'),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MissingBoxes(detection(), **arguments)


def test_areas_of_labels_next_to_boxes_are_areas_of_the_boxes_that_are_left():
    row = dict(gt_label=[0, 1], label_areas=[0.9, 0.1], instances=[box(0, 9), box(0, 1), box(1, 3)])
    dataset = MissingBoxes(Toy([row] * 20), 0.5, 'floor')
    areas = read_labels(dataset, with_areas=True).areas
    assert {1, 81} == set(areas[:, 0][~np.isnan(areas[:, 0])].tolist())
    assert 'label_areas' not in dataset[0]

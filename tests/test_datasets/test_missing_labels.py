"""MissingLabels hides the documented number and choice of positives, and the same ones every time."""

import math

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, MissingLabels
from mmml_losses.datasets.wrappers.missing_labels import num_left
from tests.helpers.toy import ROWS, Toy, detection, many, served, with_areas

# How many images of COCO train2014 have how many labels.
COCO_LABELS_PER_IMAGE = {
    1: 16813, 2: 25053, 3: 16837, 4: 9830, 5: 5910, 6: 3364, 7: 1988, 8: 1076, 9: 598, 10: 315, 11: 164, 12: 75,
    13: 36, 14: 12, 15: 7, 16: 2, 18: 1,
}  # fmt: skip

FROZEN_FLOOR = [[1, 2], [], [1, 2], [2], [0, 2, 3], [0, 3]]
FROZEN_BERNOULLI = [[], [], [2], [2], [2, 3], [0, 3]]


def labels_of(dataset):
    return dataset.observed_labels()


@pytest.mark.parametrize(('missing_ratio', 'total'), [(0, 241035), (0.5, 181422), (0.8, 96251), (1, 82081)])
def test_coco_keeps_as_many_labels_as_the_published_lists(missing_ratio, total):
    counts = np.repeat(list(COCO_LABELS_PER_IMAGE), list(COCO_LABELS_PER_IMAGE.values()))
    assert (len(counts), counts.sum()) == (82081, 241035)
    assert num_left(counts, missing_ratio).sum() == total


@pytest.mark.parametrize(('missing_ratio', 'total'), [(0.5, 181422), (0.8, 96251), (1, 82081)])
def test_the_wrapper_leaves_these_labels(missing_ratio, total):
    # One image for each number of labels: the others are like them.
    dataset = Toy(
        [range(number) for number in COCO_LABELS_PER_IMAGE], metainfo=dict(classes=tuple('abcdefghijklmnopqr'))
    )
    left = labels_of(MissingLabels(dataset, missing_ratio)).sum(axis=1)
    assert sum(number * images for number, images in zip(left, COCO_LABELS_PER_IMAGE.values(), strict=True)) == total


def test_floor_is_of_the_exact_product():
    assert num_left(np.array([0, 1, 4, 5, 10]), 0.8).tolist() == [0, 1, 1, 2, 3]
    # In floating point 10 * (1 - 0.9) is less than 1.
    assert num_left(np.array([10, 20, 30]), 0.9).tolist() == [2, 3, 4]
    assert num_left(np.array([4000]), 0.12345678901234567).tolist() == [
        math.floor(4000 * (1 - 0.12345678901234567)) + 1
    ]
    assert num_left(np.array([3, 7]), 0).tolist() == [3, 7]


@pytest.mark.parametrize('missing_ratio', [0, 0.3, 0.5, 0.8, 1])
def test_each_sample_keeps_its_number_of_positives(missing_ratio):
    dataset = many()
    found, true = labels_of(MissingLabels(dataset, missing_ratio)), MissingLabels(dataset, 0).true_labels()
    assert np.array_equal(found.sum(axis=1), num_left(true.sum(axis=1), missing_ratio))
    assert ((found == 1) <= (true == 1)).all()


def test_every_positive_is_as_likely_to_stay():
    dataset = Toy([range(4)] * 4000)
    counts = labels_of(MissingLabels(dataset, 1, seed=5)).sum(axis=0)
    # The quantile 0.999 of chi-square with 3 degrees of freedom.
    assert ((counts - 1000) ** 2 / 1000).sum() < 16.27
    pairs = labels_of(MissingLabels(dataset, 0.75, seed=5))
    assert (pairs.sum(axis=1) == 2).all()
    codes, counts = np.unique(pairs @ [1, 2, 4, 8], return_counts=True)
    assert len(codes) == 6
    assert ((counts - 4000 / 6) ** 2 / (4000 / 6)).sum() < 20.52  # with 5 degrees of freedom


@pytest.mark.parametrize('rule', ['floor', 'bernoulli'])
def test_a_larger_ratio_hides_more_of_the_same(rule):
    dataset = many()
    found = [labels_of(MissingLabels(dataset, ratio, rule)) for ratio in (0.2, 0.5, 0.9)]
    assert (found[0] >= found[1]).all()
    assert (found[1] >= found[2]).all()
    assert not np.array_equal(found[0], found[1])


def test_seeds_differ():
    first, second, again = (labels_of(MissingLabels(many(), 0.5, seed=seed)) for seed in (1, 2, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)


def test_bernoulli_hides_each_positive_with_the_probability():
    dataset = many(2000, 10, share=0.5)
    wrapper = MissingLabels(dataset, 0.3, 'bernoulli')
    true = wrapper.true_labels()
    hidden = (true == 1) & (labels_of(wrapper) == 0)
    assert hidden.sum() / true.sum() == pytest.approx(0.3, abs=0.02)
    # Independently: the numbers of two classes in one image do not go together.
    both = (true[:, 0] == 1) & (true[:, 1] == 1)
    share = (hidden[both, 0] & hidden[both, 1]).mean()
    assert share == pytest.approx(0.09, abs=0.04)
    assert labels_of(MissingLabels(dataset, 0.0, 'bernoulli')).sum() == true.sum()
    assert labels_of(MissingLabels(dataset, 1.0, 'bernoulli')).sum() == 0


def test_bernoulli_can_leave_one():
    free, kept = (labels_of(MissingLabels(many(), 0.8, 'bernoulli', keep_one=keep)) for keep in (False, True))
    true = MissingLabels(many(), 0).true_labels()
    has_any = true.any(axis=1)
    assert not free[has_any].any(axis=1).all()
    assert kept[has_any].any(axis=1).all()
    lost = has_any & ~free.any(axis=1)
    assert (kept[lost].sum(axis=1) == 1).all()
    assert np.array_equal(kept[~lost], free[~lost])
    assert (labels_of(MissingLabels(many(), 1, 'bernoulli', keep_one=True)).sum(axis=1) == has_any).all()


@pytest.mark.parametrize(
    'rates', [[0.0, 1.0, 0.5, 0.0], (0, 1, 0.5, 0), {'car': 1, 'person': 0.5}, np.array([0, 1, 0.5, 0])]
)
def test_classes_have_rates_of_their_own(rates):
    wrapper = MissingLabels(Toy([range(4)] * 1000), rates, 'bernoulli')
    shares = labels_of(wrapper).mean(axis=0)
    assert shares[[0, 1, 3]].tolist() == [1, 0, 1]
    assert shares[2] == pytest.approx(0.5, abs=0.06)
    assert wrapper.settings()['missing_ratio'] in ([0, 1, 0.5, 0], dict(car=1, person=0.5))


def test_small_objects_are_missed_first():
    # cat 0.1, person 0.2, dog 0.3, car 0.4
    assert served(MissingLabels(with_areas(), 0.5, order='smallest_first')) == [
        [1, 2],
        [],
        [1, 2],
        [2],
        [1, 2, 3],
        [0, 3],
    ]
    assert served(MissingLabels(with_areas(), 1, order='smallest_first')) == [[1], [], [1], [2], [1], [3]]
    for seed in range(3):
        found = labels_of(MissingLabels(with_areas(), 0.5, 'bernoulli', order='smallest_first', seed=seed))
        expected = labels_of(MissingLabels(with_areas(), 0.5, 'bernoulli', seed=seed)).sum(axis=1)
        assert found.sum(axis=1).tolist() == expected.tolist()
        assert (found[4] == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]]).all(axis=1).any()


def test_objects_of_one_size_are_drawn_among():
    dataset = with_areas([range(4)] * 2000, areas=(0.1, 0.2, 0.2, 0.3))
    found = labels_of(MissingLabels(dataset, 0.75, order='smallest_first'))
    assert found.sum(axis=0)[[0, 3]].tolist() == [0, 2000]
    assert abs(found.sum(axis=0)[1] - 1000) < 4 * math.sqrt(500)


def test_boxes_have_areas():
    # Boxes of later classes are larger.
    boxes = [
        [box['bbox_label'] for box in item['instances']]
        for item in MissingLabels(detection(), 1, order='smallest_first')
    ]
    assert boxes == [[row[-1]] * 2 if row else [] for row in ROWS]


@pytest.mark.parametrize(
    'rows', [ROWS, [dict(gt_label=[1], label_areas=[0.5]), dict(gt_label=[0, 2], label_areas=[0.1, math.nan])]]
)
def test_areas_that_are_not_known_are_an_error(rows):
    with pytest.raises(
        AnnotationError, match=r'MissingLabels needs the area of each positive.* sample [01] .* has none'
    ):
        MissingLabels(Toy(rows), 0.5, order='smallest_first')


def test_hidden_labels_can_be_unknown():
    negative, unknown = (labels_of(MissingLabels(many(), 0.5, hidden=hidden)) for hidden in ('negative', 'unknown'))
    true = MissingLabels(many(), 0).true_labels()
    assert np.array_equal(unknown == 1, negative == 1)
    assert np.array_equal(unknown == -1, (true == 1) & (negative == 0))
    item = MissingLabels(Toy(), 1, hidden='unknown')[0]
    assert sorted(item['gt_score'].tolist()) == [-1, -1, 0, 1]


def test_unknown_labels_stay_unknown_and_do_not_count():
    rows = [dict(gt_score=np.array(row, dtype=np.float32)) for row in ([1, -1, 1, 1], [-1, -1, 0, 0], [1, 1, -1, -1])]
    found = labels_of(MissingLabels(Toy(rows), 1))
    assert np.array_equal(found == -1, [[0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    assert (found == 1).sum(axis=1).tolist() == [1, 0, 1]


def test_the_labels_are_these_forever():
    assert served(MissingLabels(Toy(), 0.5)) == FROZEN_FLOOR
    assert served(MissingLabels(Toy(), 0.5, 'bernoulli', seed=1)) == FROZEN_BERNOULLI


def test_settings_have_what_determines_the_labels():
    assert MissingLabels(Toy(), 0.5).settings() == dict(
        type='MissingLabels', missing_ratio=0.5, rule='floor', order='random', keep_one=False, hidden='negative', seed=0
    )


def test_empty_datasets_and_rows():
    assert served(MissingLabels(Toy([[], []]), 0.5)) == [[], []]
    assert len(MissingLabels(Toy([]), 0.5)) == 0


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(missing_ratio=1.4), r'missing_ratio must be in \[0, 1\], got 1.4'),
        (dict(missing_ratio=math.nan), r'missing_ratio must be in \[0, 1\], got nan'),
        (dict(missing_ratio=True), r'missing_ratio must be in \[0, 1\], got True'),
        (dict(missing_ratio='half'), r"missing_ratio must be a number, or a list or dict .* got 'half'"),
        (dict(missing_ratio=[0.1] * 4), r"missing_ratio must be one number for rule='floor'"),
        (dict(missing_ratio=[0.1, 2], rule='bernoulli'), r'missing_ratio of class 1 must be in \[0, 1\], got 2'),
        (dict(missing_ratio=dict(cat=-1), rule='bernoulli'), r"missing_ratio of 'cat' must be in \[0, 1\], got -1"),
        (
            dict(missing_ratio=[0.1] * 3, rule='bernoulli'),
            r'missing_ratio must have a rate for each of 4 classes, got 3',
        ),
        (dict(missing_ratio=dict(cow=1), rule='bernoulli'), r'missing_ratio must name classes of the dataset, got cow'),
        (
            dict(missing_ratio=[0.1] * 4, rule='bernoulli', order='smallest_first'),
            r"missing_ratio must be one number for order='smallest_first'",
        ),
        (dict(missing_ratio=0.5, rule='half'), r"rule must be one of 'floor', 'bernoulli', got 'half'"),
        (dict(missing_ratio=0.5, order='big'), r"order must be one of 'random', 'smallest_first', got 'big'"),
        (dict(missing_ratio=0.5, hidden='gone'), r"hidden must be one of 'negative', 'unknown', got 'gone'"),
        (dict(missing_ratio=0.5, keep_one=True), r"keep_one must be False for rule='floor'"),
        (dict(missing_ratio=0.5, rule='bernoulli', keep_one='no'), r"keep_one must be True or False, got 'no'"),
        (dict(missing_ratio=0.5, seed=0.5), r'seed must be a whole number, got 0.5'),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MissingLabels(Toy(), **arguments)


def test_soft_labels_are_rejected():
    rows = [dict(gt_score=np.array([1, 0.3, 0, 0], dtype=np.float32))]
    with pytest.raises(AnnotationError, match=r'gt_score must be 1 .* got the soft label 0.3 for class 1 of sample 0'):
        MissingLabels(Toy(rows), 0.5)

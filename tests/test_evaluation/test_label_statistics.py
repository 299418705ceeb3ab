"""Tests of the counts of labels before and after they were changed."""

import json

import numpy as np
import pytest
import torch

from mmml_losses.evaluation import describe_labels, label_statistics, summarize_labels
from mmml_losses.utils import arrays

CLASSES = ('cat', 'dog', 'cow')
TRUE = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, -1]], dtype=np.int8)
# One positive hidden as negative, one as unknown, one negative made unknown, one label added.
OBSERVED = np.array([[1, 0, 0], [-1, 0, 1], [0, -1, 0], [1, 1, -1]], dtype=np.int8)
# Two more images that were left out.
ORIGINAL = np.vstack([TRUE, [[1, 1, 1], [0, 1, 0]]]).astype(np.int8)


def naive(labels):
    """Count labels by loops."""
    num_classes = len(labels[0])
    counts, unknown, per_image, num_soft, total = [0] * num_classes, [0] * num_classes, [], 0, 0.0
    for row in labels.tolist():
        per_image.append(0)
        for index, label in enumerate(row):
            unknown[index] += label == -1
            if label > 0:
                counts[index] += 1
                per_image[-1] += 1
                num_soft += label < 1
                total += label
    return counts, unknown, [per_image.count(number) for number in range(max(per_image) + 1)], num_soft, total


@pytest.fixture(params=[1, 7, 1 << 20])
def blocks(request, monkeypatch):
    """Read arrays in blocks of several sizes."""
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', request.param)


@pytest.mark.usefixtures('blocks')
@pytest.mark.parametrize('dtype', [np.int8, np.int64, np.float32, np.float64])
def test_counts_are_those_of_a_loop(dtype):
    labels = np.random.default_rng(0).integers(-1, 2, (30, 5)).astype(dtype)
    found = label_statistics(labels)
    counts, unknown, images_by_labels, num_soft, total = naive(labels)
    assert found.counts.tolist() == counts
    assert found.unknown.tolist() == unknown
    assert found.images_by_labels.tolist() == images_by_labels
    assert (found.num_soft, found.label_sum) == (num_soft, total) == (0, sum(counts))
    assert (found.num_images, found.num_classes, found.num_labels) == (30, 5, sum(counts))
    assert found.num_unknown == sum(unknown)
    assert found.labels_per_image == sum(counts) / 30


@pytest.mark.usefixtures('blocks')
def test_soft_labels_count_where_they_are_above_zero():
    labels = np.random.default_rng(1).choice([-1, 0, 0.3, 0.75, 1], (30, 5)).astype(np.float32)
    found = label_statistics(labels)
    counts, unknown, images_by_labels, num_soft, total = naive(labels)
    assert found.counts.tolist() == counts
    assert found.unknown.tolist() == unknown
    assert found.images_by_labels.tolist() == images_by_labels
    assert found.num_soft == num_soft > 0
    assert found.label_sum == pytest.approx(total)
    text = describe_labels(summarize_labels(list('abcde'), labels))[0]
    assert f'{num_soft} of them soft (in sum {total:.1f})' in text


@pytest.mark.parametrize('labels', [TRUE.tolist(), torch.from_numpy(TRUE), TRUE.astype(np.float16)])
def test_lists_and_tensors_will_do(labels):
    assert label_statistics(labels).counts.tolist() == [3, 2, 0]


def test_boolean_labels_will_do():
    assert label_statistics(TRUE == 1).counts.tolist() == [3, 2, 0]


@pytest.mark.usefixtures('blocks')
def test_changes_add_up_from_before_to_after():
    summary = summarize_labels(CLASSES, OBSERVED, TRUE, ORIGINAL)
    assert summary.before.counts.tolist() == [4, 4, 1]
    assert summary.after.counts.tolist() == [2, 1, 1]
    assert summary.after.unknown.tolist() == [1, 1, 1]
    assert summary.hidden.tolist() == [1, 1, 0]
    assert summary.hidden_as_unknown.tolist() == [1, 0, 0]
    assert summary.added.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(label_statistics(TRUE).counts - summary.hidden + summary.added, summary.after.counts)
    assert summary.order.tolist() == [0, 1, 2]  # dogs were more than cows
    assert summary.is_changed


def test_labels_as_they_were():
    summary = summarize_labels(CLASSES, TRUE)
    assert not summary.is_changed
    assert summary.before is summary.after
    assert summary.num_hidden == summary.num_added == 0
    again = summarize_labels(CLASSES, TRUE, TRUE.copy(), TRUE.copy())
    assert not again.is_changed


@pytest.mark.parametrize(
    'change', [dict(original=ORIGINAL), dict(true=np.where(TRUE == -1, 0, TRUE)), dict(true=1 - np.abs(TRUE))]
)
def test_any_change_is_one(change):
    assert summarize_labels(CLASSES, TRUE, **change).is_changed


def test_groups_are_of_the_returned_labels():
    original = np.repeat(np.array([[1, 1, 1, 0]], dtype=np.int8), 30, axis=0)
    observed = original.copy()
    observed[4:, 1] = 0
    observed[10:, 2] = -1
    summary = summarize_labels('abcd', observed, original, medium_from=5, head_from=20)
    assert summary.groups == {'head': (0,), 'medium': (2,), 'tail': (1, 3)}
    assert summary.groups_before == {'head': (0, 1, 2), 'medium': (), 'tail': (3,)}


def test_description_has_all_counts():
    assert describe_labels(summarize_labels(CLASSES, OBSERVED, TRUE, ORIGINAL), num_extremes=2) == [
        '4 images, 4 labels of 3 classes, 1.00 an image (0 to 2), 3 unknown',
        'before: 6 images, 9 labels, 1.50 an image (0 to 3), 1 unknown',
        'changes: 4 of 6 images, 2 of 5 positives hidden (1 as unknown), 1 added',
        '0 head, 0 medium, 3 tail classes (head: 100 images or more, tail: fewer than 20; before: 0 head, 0 medium, '
        '3 tail)',
        'most frequent: cat (2, before 4), dog (1, before 4)',
        'rarest: cow (1), dog (1, before 4)',
    ]
    assert describe_labels(summarize_labels(CLASSES, TRUE)) == [
        '4 images, 5 labels of 3 classes, 1.25 an image (0 to 2), 1 unknown',
        '0 head, 0 medium, 3 tail classes (head: 100 images or more, tail: fewer than 20; 1 without an image)',
        'most frequent: cat (3), dog (2), cow (0)',
        'rarest: cow (0), dog (2), cat (3)',
    ]


def test_more_images_than_before_are_described():
    lines = describe_labels(summarize_labels(CLASSES, np.vstack([TRUE, TRUE]), None, TRUE))
    assert lines[2] == 'changes: 4 images become 8, 0 of 10 positives hidden, 0 added'


def test_nothing_at_all_is_described():
    summary = summarize_labels(CLASSES, np.zeros((0, 3), dtype=np.int8))
    assert describe_labels(summary)[0] == '0 images, 0 labels of 3 classes'
    assert np.isnan(summary.after.labels_per_image)
    assert summary.after.range_of_labels == (0, 0)
    json.dumps(summary.to_dict(), allow_nan=False)


def test_json_has_all_of_it():
    content = json.loads(json.dumps(summarize_labels(CLASSES, OBSERVED, TRUE, ORIGINAL).to_dict(), allow_nan=False))
    assert content['before']['num_images'] == 6
    assert content['after']['images_by_labels'] == [1, 2, 1]
    assert (content['num_hidden'], content['num_hidden_as_unknown'], content['num_added']) == (2, 1, 1)
    assert content['groups'] == dict(head=0, medium=0, tail=3)
    assert content['classes'][0] == dict(
        name='cat', group='tail', before=4, after=2, unknown=1, hidden=1, hidden_as_unknown=1, added=0
    )


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ((CLASSES, [[2, 0, 0]]), 'observed must be 1, 0, -1 for unknown, or between 0 and 1, got 2'),
        ((CLASSES, [[np.nan, 0, 0]]), 'observed must be 1, 0, -1 for unknown, or between 0 and 1, got nan'),
        ((CLASSES, [[-0.5, 0, 0]]), 'got -0.5'),
        ((CLASSES, [1, 0, 0]), r'observed must be numbers of the shape \(images, classes\), got int64 \(3,\)'),
        ((CLASSES, [['a', 'b', 'c']]), 'observed must be numbers'),
        ((CLASSES, TRUE, TRUE[:2]), r'true must have the shape of observed \(4, 3\), got \(2, 3\)'),
        ((('a', 'b'), TRUE), 'observed must have a column for each of 2 classes, got 3'),
        ((CLASSES, TRUE, TRUE, TRUE[:, :2]), 'original must have a column for each of 3 classes, got 2'),
    ],
)
def test_bad_labels_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        summarize_labels(*arguments)

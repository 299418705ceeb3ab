import json

import numpy as np
import pytest
import torch

from mmml_losses.evaluation import (
    average_precision,
    group_classes,
    load_class_frequencies,
    mean_average_precision,
    mean_average_precision_of_groups,
)
from mmml_losses.utils.frequencies import checked_groups

# Training images of the classes of VOC-LT, and the groups that were published with it.
VOC_LT = [6, 34, 8, 14, 154, 17, 249, 29, 479, 4, 240, 48, 11, 20, 775, 100, 5, 82, 7, 64]
VOC_LT_GROUPS = {
    'head': (4, 6, 8, 10, 14, 15),
    'medium': (1, 7, 11, 13, 17, 19),
    'tail': (0, 2, 3, 5, 9, 12, 16, 18),
}


@pytest.mark.parametrize('make', [list, np.array, torch.tensor])
def test_default_rule_gives_the_published_groups(make):
    assert group_classes(make(VOC_LT)) == VOC_LT_GROUPS


def test_limits_belong_to_the_larger_group():
    assert group_classes([100, 99, 20, 19]) == {'head': (0,), 'medium': (1, 2), 'tail': (3,)}
    assert group_classes([5, 4, 3], medium_from=4, head_from=5) == {'head': (0,), 'medium': (1,), 'tail': (2,)}


def test_means_are_over_the_classes_of_each_group():
    rng = np.random.default_rng(0)
    scores, labels = rng.random((50, 20)), rng.integers(0, 2, (50, 20))
    labels[:, 4] = 0
    precisions = average_precision(scores, labels)
    means = mean_average_precision_of_groups(precisions, VOC_LT_GROUPS)
    for name, members in VOC_LT_GROUPS.items():
        expected = mean_average_precision(scores[:, list(members)], labels[:, list(members)])
        assert means[name] == pytest.approx(expected)
    assert means['head'].num_empty == means['head'].num_skipped == 1
    zeros = mean_average_precision_of_groups(precisions, VOC_LT_GROUPS, empty='zero')
    assert zeros['head'].value == pytest.approx(means['head'].value * 5 / 6)
    with pytest.raises(ValueError, match='1 of 6 head classes have no positive label'):
        mean_average_precision_of_groups(precisions, VOC_LT_GROUPS, empty='error')


def test_groups_may_overlap_and_be_empty():
    means = mean_average_precision_of_groups([0.5, 1.0], {'all': [0, 1], 'last': [1], 'none': []})
    assert means['all'].value == 0.75
    assert means['last'].value == 1.0
    assert np.isnan(means['none'].value)
    assert means['none'].num_averaged == 0


@pytest.mark.parametrize('precisions', [0.5, [[0.5, 1.0], [0.2, 0.3]]])
def test_precisions_are_one_for_each_class(precisions):
    with pytest.raises(ValueError, match=r'precisions must have the shape \(classes,\), got'):
        mean_average_precision_of_groups(precisions, {'all': [0]})


def test_a_name_of_two_classes_is_rejected():
    assert checked_groups({'rare': ['cat', 1]}, 3, ['dog', 'dog', 'cat']) == {'rare': (2, 1)}
    with pytest.raises(ValueError, match=r"groups\['rare'\] must name one class by 'dog', got several"):
        checked_groups({'rare': ['dog']}, 3, ['dog', 'dog', 'cat'])


@pytest.mark.parametrize('content', [VOC_LT, {'class_frequencies': VOC_LT}, {'class_freq': VOC_LT, 'ids': []}])
def test_frequencies_are_read_from_json(content, tmp_path):
    path = tmp_path / 'frequencies.json'
    path.write_text(json.dumps(content))
    assert load_class_frequencies(path).tolist() == VOC_LT


@pytest.mark.parametrize(
    ('frequencies', 'message'),
    [
        ([[1, 2]], 'class_frequencies must be one number for each class'),
        ([[1], [2, 3]], 'class_frequencies must be a list of numbers'),
        (['a'], r"class_frequencies must be a list of numbers, got \['a'\]"),
        ([1, -2], 'class_frequencies must be counts of at least 0, got -2 for class 1'),
        ([1, float('nan')], 'class_frequencies must be counts of at least 0, got nan for class 1'),
    ],
)
def test_bad_frequencies_are_rejected(frequencies, message):
    with pytest.raises(ValueError, match=message):
        group_classes(frequencies)


def test_bad_limits_and_files_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r'medium_from must be in \[0, head_from = 10\], got 20'):
        group_classes([1], medium_from=20, head_from=10)
    path = tmp_path / 'frequencies.json'
    path.write_text('{"counts": [1]}')
    with pytest.raises(ValueError, match=r"with a list or with one of the keys .*, got '.*' with \['counts'\]"):
        load_class_frequencies(path)


@pytest.mark.parametrize(
    ('members', 'message'),
    [
        ([0, 2], r"groups\['rare'\] must hold class indices from 0 to 1 or class names, got 2"),
        ([-1], 'got -1'),
        ([0.5], 'got 0.5'),
        (['cat'], "got 'cat'"),
        ([1, 1], r"groups\['rare'\] must name each class once, got \[1, 1\]"),
        ('01', r"groups\['rare'\] must be a list of classes, got '01'"),
    ],
)
def test_bad_groups_are_rejected(members, message):
    with pytest.raises(ValueError, match=message):
        mean_average_precision_of_groups([0.5, 1.0], {'rare': members})

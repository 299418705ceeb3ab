"""Walks through datasets inside each other, and through their configs."""

from types import SimpleNamespace

import pytest
from mmengine.config import ConfigDict
from mmengine.dataset import ConcatDataset, RepeatDataset

from mmml_losses.datasets import MissingLabels, SinglePositive
from mmml_losses.datasets.labels.nesting import (
    any_parts_of,
    count_views,
    leaf_configs,
    leaf_datasets,
    outermost_views,
    source_datasets,
    walk,
    walk_configs,
)
from tests.helpers.toy import Toy, more

FIRST, SECOND, THIRD = Toy(), more(), Toy()
HIDDEN = MissingLabels(RepeatDataset(FIRST, 2), 0.5)
TWICE = SinglePositive(ConcatDataset([HIDDEN, SECOND]))
WHOLE = ConcatDataset([TWICE, THIRD])


def same(found, expected):
    return [id(dataset) for dataset in found] == [id(dataset) for dataset in expected]


def test_a_walk_visits_every_dataset_from_the_outside_in():
    assert same(walk(WHOLE), [WHOLE, TWICE, TWICE.dataset, HIDDEN, HIDDEN.dataset, FIRST, SECOND, THIRD])
    assert same(leaf_datasets(WHOLE), [FIRST, SECOND, THIRD])
    assert same(walk(FIRST), [FIRST])


def test_label_wrappers_inside_each_other_are_counted_along_one_line():
    assert count_views(WHOLE) == count_views(TWICE) == 2
    assert count_views(ConcatDataset([HIDDEN, MissingLabels(SECOND, 0.5)])) == 1
    assert count_views(FIRST) == 0


def test_outermost_label_wrappers_come_with_what_has_none():
    assert same(outermost_views(WHOLE), [TWICE, THIRD])
    assert same(outermost_views(RepeatDataset(HIDDEN, 2)), [HIDDEN])


def test_sources_are_the_largest_datasets_without_a_label_wrapper():
    assert same(source_datasets(WHOLE), [HIDDEN.dataset, SECOND, THIRD])
    joined = ConcatDataset([FIRST, SECOND])
    assert same(source_datasets(joined), [joined])


def test_wrappers_of_other_projects_are_entered_on_request():
    mosaic = SimpleNamespace(dataset=TWICE)
    assert same(walk(mosaic), [mosaic])
    assert same(walk(mosaic, any_parts_of), [mosaic, *walk(TWICE)])
    assert same(outermost_views(mosaic), [TWICE])


@pytest.mark.parametrize('as_config', [False, True])
def test_configs_are_walked_as_datasets_are(as_config):
    leaves = [dict(type='Toy', ann_file='a'), dict(type='Toy', ann_file='b'), dict(ann_file='c')]
    hidden = dict(type='MissingLabels', dataset=dict(type='RepeatDataset', dataset=leaves[0]))
    config = dict(type='ConcatDataset', datasets=[hidden, dict(type='SinglePositive', dataset=leaves[1]), leaves[2]])
    if as_config:
        config = ConfigDict(config)
    assert list(leaf_configs(config)) == leaves
    types = [part.get('type') for part in walk_configs(config)]
    assert types == ['ConcatDataset', 'MissingLabels', 'RepeatDataset', 'Toy', 'SinglePositive', 'Toy', None]
    assert list(leaf_configs(None)) == list(walk_configs(None)) == []
    assert list(leaf_configs(leaves)) == leaves


def test_a_dataset_that_is_built_already_has_no_config():
    config = dict(type='MissingLabels', dataset=Toy())
    assert list(walk_configs(config)) == [config]
    assert list(leaf_configs(config)) == []

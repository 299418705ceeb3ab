"""PartialLabels keeps each label known with the same probability, whatever it is."""

import math

import numpy as np
import pytest

from mmml_losses.datasets import MissingLabels, PartialLabels
from mmml_losses.utils import arrays
from tests.helpers.toy import CLASSES, ROWS, Toy, array, many

FROZEN = [[-1, -1, 1, -1], [0, -1, -1, -1], [-1, 1, -1, 0], [-1, -1, -1, -1], [-1, -1, -1, 1], [1, 0, 0, 1]]


def test_positives_and_negatives_alike_become_unknown():
    wrapper = PartialLabels(many(1000, 20), 0.3)
    found, true = wrapper.observed_labels(), wrapper.true_labels()
    known = found != -1
    assert np.array_equal(found[known], true[known])
    for value in (0, 1):
        assert known[true == value].mean() == pytest.approx(0.3, abs=0.03)
    # Each class and each image for itself.
    assert np.abs(known.mean(axis=0) - 0.3).max() < 0.08
    assert known.sum(axis=1).std() == pytest.approx(math.sqrt(20 * 0.3 * 0.7), rel=0.1)


def test_samples_have_scores():
    item = PartialLabels(Toy(), 0.5)[4]
    assert item['gt_score'].dtype == np.float32
    assert set(item['gt_score'].tolist()) <= {-1, 0, 1}
    assert item['gt_label'] == np.flatnonzero(item['gt_score'] == 1).tolist()
    assert item['true_label'].tolist() == [1, 1, 1, 1]


def test_all_or_nothing():
    assert np.array_equal(PartialLabels(Toy(), 1).observed_labels(), array(ROWS))
    assert 'gt_score' not in PartialLabels(Toy(), 1)[0]
    assert (PartialLabels(Toy(), 0).observed_labels() == -1).all()


def test_a_larger_ratio_shows_more_of_the_same():
    small, large = (PartialLabels(many(), ratio).observed_labels() != -1 for ratio in (0.2, 0.6))
    assert (small <= large).all()
    assert small.sum() < large.sum()


def test_unknown_labels_stay_unknown():
    rows = [dict(gt_score=np.array(row, dtype=np.float32)) for row in ([1, -1, 1, 0], [-1, -1, 0, 0])]
    assert np.array_equal(PartialLabels(Toy(rows), 1).observed_labels(), [[1, -1, 1, 0], [-1, -1, 0, 0]])
    nested = PartialLabels(PartialLabels(many(1000), 0.5), 0.5).observed_labels()
    # Two wrappers of one seed are independent of each other.
    assert (nested != -1).mean() == pytest.approx(0.25, abs=0.02)
    hidden = MissingLabels(PartialLabels(many(), 0.5), 0.5)
    assert np.array_equal(hidden.observed_labels() == -1, hidden.source_labels() == -1)


def test_blocks_make_no_difference(monkeypatch):
    whole = PartialLabels(many(), 0.4).observed_labels()
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 100)
    assert np.array_equal(PartialLabels(many(), 0.4).observed_labels(), whole)


def test_the_labels_are_these_forever():
    assert PartialLabels(Toy(), 0.5).observed_labels().tolist() == FROZEN
    assert PartialLabels(Toy([]), 0.5).observed_labels().shape == (0, len(CLASSES))


def test_settings_and_wrong_arguments():
    assert PartialLabels(Toy(), 0.25, seed=9).settings() == dict(type='PartialLabels', known_ratio=0.25, seed=9)
    with pytest.raises(ValueError, match=r'known_ratio must be in \[0, 1\], got 1.5'):
        PartialLabels(Toy(), 1.5)
    with pytest.raises(ValueError, match=r'seed must be a whole number, got None'):
        PartialLabels(Toy(), 0.5, seed=None)

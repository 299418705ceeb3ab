"""SinglePositive leaves one positive, drawn as documented."""

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, MissingLabels, SinglePositive
from tests.helpers.toy import ROWS, Toy, detection, many, served, with_areas

# The quantile 0.999 of chi-square, by degrees of freedom.
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 15: 37.70}
FROZEN = [[2], [], [1], [2], [2], [0]]


def chi_square(counts, expected):
    return ((np.asarray(counts) - expected) ** 2 / expected).sum()


def test_each_sample_with_positives_keeps_one():
    wrapper = SinglePositive(many())
    found, true = wrapper.observed_labels(), wrapper.true_labels()
    assert np.array_equal(found.sum(axis=1), true.any(axis=1))
    assert (found <= true).all()
    assert not true.any(axis=1).all()


def test_the_positive_is_drawn_uniformly():
    # Images of two to six labels, 2000 of each kind: the degrees of freedom add up, and so do the statistics.
    total = 0
    for number in range(2, 7):
        dataset = Toy([range(number)] * 2000, metainfo=dict(classes=tuple('abcdef')), folder=f'folder{number}')
        counts = SinglePositive(dataset).observed_labels().sum(axis=0)[:number]
        assert counts.sum() == 2000
        statistic = chi_square(counts, 2000 / number)
        assert statistic < CHI_SQUARE[number - 1]
        total += statistic
    assert total < CHI_SQUARE[15]


def test_which_one_does_not_depend_on_the_class():
    # On average over many images, the first, second and third label of an image stay equally often.
    labels = np.random.RandomState(0).rand(3000, 30).argsort(axis=1)[:, :3]
    dataset = Toy(np.sort(labels).tolist(), metainfo=dict(classes=tuple(map(str, range(30)))))
    found = np.array(served(SinglePositive(dataset)))
    places = (np.sort(labels) == found).argmax(axis=1)
    assert chi_square(np.bincount(places), 1000) < CHI_SQUARE[2]


def test_seeds_and_nested_wrappers_draw_independently():
    first, second, again = (SinglePositive(many(), seed=seed).observed_labels() for seed in (0, 1, 0))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    # Among those that were left, the second wrapper does not simply choose as it would have among all.
    dataset = Toy([range(4)] * 3000)
    inner = MissingLabels(dataset, 0.75)
    assert (inner.observed_labels().sum(axis=1) == 2).all()
    chosen = SinglePositive(inner).observed_labels()
    assert chi_square(chosen.sum(axis=0), 750) < CHI_SQUARE[3]
    agreement = (chosen == SinglePositive(dataset).observed_labels()).all(axis=1).mean()
    assert agreement == pytest.approx(0.25, abs=0.04)


def test_by_area_larger_objects_are_likelier():
    dataset = with_areas([range(4)] * 4000)
    counts = SinglePositive(dataset, by='area').observed_labels().sum(axis=0)
    assert counts.sum() == 4000
    assert chi_square(counts, 4000 * np.array([0.1, 0.4, 0.2, 0.3])) < CHI_SQUARE[3]


def test_by_area_of_boxes():
    dataset = detection([[0, 3]] * 3000)
    counts = SinglePositive(dataset, by='area').observed_labels().sum(axis=0)
    # The larger boxes are squares of side 4 and 7.
    assert chi_square(counts[[0, 3]], 3000 * np.array([16, 49]) / 65) < CHI_SQUARE[1]


def test_objects_without_an_area():
    assert SinglePositive(with_areas([range(4)] * 50, areas=(0, 0, 1, 0)), by='area').observed_labels().sum(
        axis=0
    ).tolist() == [
        0,
        0,
        50,
        0,
    ]
    counts = SinglePositive(with_areas([range(4)] * 2000, areas=(0, 0, 0, 0)), by='area').observed_labels().sum(axis=0)
    assert chi_square(counts, 500) < CHI_SQUARE[3]


def test_areas_that_are_not_known_are_an_error():
    message = r"SinglePositive needs the area of each positive, .* 'cat' of sample 0 \('0.jpg'\) has none"
    with pytest.raises(AnnotationError, match=message):
        SinglePositive(Toy(), by='area')


def test_hidden_labels_can_be_unknown():
    negative, unknown = (SinglePositive(many(), hidden=hidden) for hidden in ('negative', 'unknown'))
    assert np.array_equal(unknown.observed_labels() == 1, negative.observed_labels() == 1)
    hidden = (negative.true_labels() == 1) & (negative.observed_labels() == 0)
    assert np.array_equal(unknown.observed_labels() == -1, hidden)


def test_unknown_labels_stay_unknown():
    rows = [dict(gt_score=np.array(row, dtype=np.float32)) for row in ([1, -1, 1, 1], [-1, -1, 0, 0], [1, 1, -1, -1])]
    found = SinglePositive(Toy(rows)).observed_labels()
    assert np.array_equal(found == -1, [[0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    assert (found == 1).sum(axis=1).tolist() == [1, 0, 1]


def test_the_labels_are_these_forever():
    assert served(SinglePositive(Toy())) == FROZEN
    assert served(SinglePositive(Toy([[], []]))) == [[], []]
    assert len(SinglePositive(Toy([]))) == 0


def test_settings_and_wrong_arguments():
    assert SinglePositive(Toy(ROWS), seed=3).settings() == dict(
        type='SinglePositive', by='uniform', hidden='negative', seed=3
    )
    for arguments, message in (
        (dict(by='size'), r"by must be one of 'uniform', 'area', got 'size'"),
        (dict(hidden=0), r"hidden must be one of 'negative', 'unknown', got 0"),
        (dict(seed='0'), r"seed must be a whole number, got '0'"),
    ):
        with pytest.raises(ValueError, match=message):
            SinglePositive(Toy(), **arguments)

"""The random numbers of the label wrappers belong to samples and classes, and never change."""

import sys
from hashlib import blake2b

import numpy as np
import pytest

from mmml_losses.datasets.labels.random_numbers import uniform_numbers

KEYS = [f'COCO_train2014_{number:012d}.jpg' for number in range(500)]
ROWS, COLUMNS = (index.ravel() for index in np.indices((500, 40)))

FROZEN = [0.4388826161645395, 0.14275658065327435, 0.7521853871705636, 0.31160566498417663]
FROZEN_OTHER_SEED = [0.6509020456073912]


def naive_draw(seed, stream, key, column):
    """Compute the same with Python's integers, one at a time."""
    secret = blake2b(f'[{seed}, "{stream}"]'.encode(), digest_size=16).digest()
    bits = int.from_bytes(blake2b(key.encode(), digest_size=8, key=secret).digest(), 'little')
    bits = (bits + column * 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return ((bits ^ (bits >> 31)) >> 11) / 2**53


def test_the_numbers_are_these_forever():
    keys = ['a.jpg', 'b/c.jpg', 'ä.jpg', '']
    assert uniform_numbers(0, 'MissingLabels/0', keys, np.arange(4), np.array([0, 1, 79, 2])).tolist() == FROZEN
    assert uniform_numbers(-7, 's', ['a.jpg'], np.array([0]), np.array([3])).tolist() == FROZEN_OTHER_SEED


def test_they_are_made_of_integers():
    found = uniform_numbers(5, 'x', KEYS, ROWS[:400], COLUMNS[:400])
    assert found.dtype == np.float64
    pairs = zip(ROWS[:400], COLUMNS[:400], strict=True)
    assert found.tolist() == [naive_draw(5, 'x', KEYS[row], int(column)) for row, column in pairs]


def test_a_number_does_not_depend_on_what_else_is_drawn():
    everything = uniform_numbers(3, 'x', KEYS, ROWS, COLUMNS).reshape(500, 40)
    some = np.random.RandomState(0).permutation(500)[:50]
    found = uniform_numbers(3, 'x', [KEYS[row] for row in some], np.arange(50)[:, None], np.array([7, 0, 39]))
    assert np.array_equal(found, everything[some][:, [7, 0, 39]])


@pytest.mark.parametrize('change', [dict(seed=4), dict(stream='y'), dict(keys=[f'{key}#2' for key in KEYS])])
def test_other_seeds_streams_and_names_are_independent(change):
    arguments = dict(seed=3, stream='x', keys=KEYS, rows=ROWS, columns=COLUMNS)
    first, second = uniform_numbers(**arguments), uniform_numbers(**arguments | change)
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(first))


def test_the_numbers_are_uniform_and_classes_independent():
    draws = uniform_numbers(0, 'x', KEYS, ROWS, COLUMNS)
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.histogram(draws, bins=100, range=(0, 1))[0]
    expected = len(draws) / 100
    # The quantile 0.999 of chi-square with 99 degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 148.2
    correlation = np.corrcoef(draws.reshape(500, 40).T) - np.eye(40)
    assert np.abs(correlation).max() < 5 / np.sqrt(500)


def test_nothing_to_draw():
    assert uniform_numbers(0, 'x', [], np.array([], dtype=int), np.array([], dtype=int)).shape == (0,)


def test_the_former_place_and_name_work_with_one_warning(monkeypatch):
    monkeypatch.delitem(sys.modules, 'mmml_losses.datasets.labels.draws', raising=False)
    with pytest.warns(UserWarning, match='is now labels.random_numbers.uniform_numbers') as caught:
        from mmml_losses.datasets.labels.draws import uniform_draws
    assert uniform_draws is uniform_numbers
    assert len(caught) == 1

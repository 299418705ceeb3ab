"""Test the split of a training set into a part to train on and a held-out part."""

import numpy as np
import pytest
from mmengine.dataset import ConcatDataset, RepeatDataset

from mmml_losses.datasets import (
    ClassAwareSampler,
    HeldOut,
    LabelWrapper,
    LongTailed,
    MissingLabels,
    PartialLabels,
    SinglePositive,
    read_labels,
)
from mmml_losses.datasets.wrappers.held_out import choose_held_out
from mmml_losses.utils.errors import AnnotationError
from tests.helpers.toy import Toy, many


def names(dataset) -> list[str]:
    return list(read_labels(dataset).keys)


def both(dataset, **kwargs) -> tuple[HeldOut, HeldOut]:
    return HeldOut(dataset, **kwargs), HeldOut(dataset, part='held_out', **kwargs)


class Backwards(LabelWrapper):
    """The same samples in the opposite order."""

    def select(self, samples):
        return np.arange(len(samples.labels))[::-1]


def test_every_sample_is_in_one_part_in_its_order():
    train, held_out = both(many())
    assert sorted(names(train) + names(held_out)) == sorted(names(many()))
    assert names(train) == [name for name in names(many()) if name in set(names(train))]
    assert abs(len(held_out) - 80) <= 1
    assert [info['sample_idx'] for info in map(held_out.get_data_info, range(3))] == [0, 1, 2]


def test_the_split_depends_on_seed_and_share_alone():
    assert names(HeldOut(many())) == names(HeldOut(many()))
    assert names(HeldOut(many())) != names(HeldOut(many(), seed=1))
    # The images may come in another order.
    assert sorted(names(HeldOut(Backwards(many())))) == sorted(names(HeldOut(many())))


def test_a_set_sorted_by_class_loses_a_share_of_every_class():
    rows = [[index // 50] for index in range(400)]
    sorted_set = Toy(rows, metainfo=dict(classes=tuple('abcdefgh')))
    assert HeldOut(sorted_set, part='held_out').observed_labels().sum(axis=0).tolist() == [10] * 8
    assert HeldOut(sorted_set, 0.5).observed_labels().sum(axis=0).tolist() == [25] * 8


def long_tail(num_samples=2000) -> np.ndarray:
    rates = 0.6 / np.arange(1, 31) ** 1.2
    return np.random.RandomState(0).rand(num_samples, 30) < rates


@pytest.mark.parametrize('share', [0.1, 0.2, 0.5, 0.8])
def test_rare_and_frequent_classes_come_within_one_label_of_their_share(share):
    positives = long_tail()
    chosen = choose_held_out(positives, np.arange(len(positives)), share)
    assert abs(positives[chosen].sum(axis=0) - share * positives.sum(axis=0)).max() <= 1
    assert abs(chosen.sum() - share * len(chosen)) <= 1


def dense_labels() -> tuple[np.ndarray, np.ndarray]:
    """Return labels (4000, 300) with about 30 positives each, alike in blocks of 20, and groups of 1 to 8 samples."""
    random = np.random.RandomState(0)
    rates = np.repeat(random.beta(0.25, 2.2, (200, 300)), 20, axis=0)
    groups = np.repeat(np.arange(4000), random.randint(1, 9, 4000))[:4000]
    return random.permutation(random.rand(4000, 300) < rates), groups


def test_dense_labels_in_groups_come_nearer_than_by_chance():
    positives, groups = dense_labels()
    chosen = choose_held_out(positives, groups, 0.2)
    by_chance = np.random.RandomState(1).rand(groups.max() + 1)[groups] < 0.2

    def deviations(part):
        return abs(positives[part].sum(axis=0) - 0.2 * positives.sum(axis=0))

    assert 25 < positives.sum(axis=1).mean() < 35
    assert deviations(chosen).mean() < deviations(by_chance).mean() / 2
    assert deviations(chosen).max() < deviations(by_chance).max() / 2
    assert abs(chosen.sum() - 0.2 * len(chosen)) <= 10


@pytest.mark.parametrize('share', [0.3, 0.5])
def test_the_choice_is_that_of_the_plain_rule(share):
    positives = long_tail(200)
    groups = np.random.RandomState(1).permutation(np.arange(200) // 3)
    for numbers in (np.arange(200), groups):
        assert choose_held_out(positives, numbers, share).tolist() == plain_choice(positives, numbers, share)


def plain_choice(positives: np.ndarray, groups: np.ndarray, share: float) -> list[bool]:
    """Place the groups by the sum of squared deviations with the group in either part, written out in full."""
    counts = [[*positives[groups == g].sum(axis=0).tolist(), int((groups == g).sum())] for g in range(max(groups) + 1)]
    totals = [sum(column) for column in zip(*counts, strict=True)]
    rarest = [min((t for a, t in zip(row[:-1], totals, strict=False) if a), default=np.inf) for row in counts]
    parts = {True: [0] * len(totals), False: [0] * len(totals)}
    held_out = {}
    for group in sorted(range(len(counts)), key=lambda g: (rarest[g], g)):
        costs = {}
        for choice in (False, True):
            cost = 0
            for c, total in enumerate(totals):
                held = parts[True][c] + counts[group][c] * choice
                seen = parts[True][c] + parts[False][c] + counts[group][c]
                cost += (held - share * seen) ** 2 / total if total else 0
            costs[choice] = cost
        held_out[group] = costs[True] < costs[False] - 1e-9
        part = parts[held_out[group]]
        part[:] = [a + b for a, b in zip(part, counts[group], strict=True)]
    return [held_out[group] for group in groups.tolist()]


def test_the_persons_of_one_image_stay_together():
    persons = [
        dict(gt_label=[index % 4], img_path=f'images/{index // 3}.jpg', sample_name=f'person {index}')
        for index in range(60)
    ]
    train, held_out = both(Toy(persons))
    images = [{dataset.get_data_info(idx)['img_path'] for idx in range(len(dataset))} for dataset in (train, held_out)]
    assert not images[0] & images[1]
    assert len(images[0] | images[1]) == 20
    assert len(held_out) == 12


def test_a_repeated_image_is_in_one_part():
    train, held_out = both(RepeatDataset(many(100), 2))
    assert (len(train), len(held_out)) == (160, 40)
    first = [name.partition('#')[0] for name in names(train)]
    assert not set(first) & {name.partition('#')[0] for name in names(held_out)}


@pytest.mark.parametrize(
    'wrap',
    [
        SinglePositive,
        lambda dataset: MissingLabels(dataset, 0.8),
        lambda dataset: PartialLabels(MissingLabels(dataset, 0.5), 0.3),
        lambda dataset: ConcatDataset([SinglePositive(dataset), many(40, folder='more', seed=2)]),
    ],
    ids=['single', 'missing', 'partial', 'concatenated'],
)
def test_labels_are_hidden_in_the_part_to_train_on_alone(wrap):
    wrapped = wrap(many())
    train, held_out = both(wrapped)
    observed, true = by_path(wrapped), by_path(wrapped, 'true_label')
    assert by_path(train) == {path: observed[path] for path in by_path(train)}
    assert by_path(held_out) == {path: true[path] for path in by_path(held_out)}
    assert any(true[path] != observed[path] for path in by_path(held_out))


def by_path(dataset, key: str = 'gt_score') -> dict[str, list]:
    """Return the labels of the items of a dataset by the paths of their images."""
    found = {}
    for item in (dataset[idx] for idx in range(len(dataset))):
        row = np.zeros(8)
        row[item['gt_label']] = 1
        found[item['img_path']] = np.asarray(item.get(key, row), dtype=int).tolist()
    return found


def test_hidden_labels_do_not_change_the_split():
    assert names(HeldOut(SinglePositive(many()))) == names(HeldOut(many()))


def test_a_long_tail_can_be_split_and_sampled_by_class():
    tail = LongTailed(many(2000), largest=200, smallest=10)
    train, held_out = both(tail)
    assert len(train) + len(held_out) == len(tail)
    sampler = ClassAwareSampler(train, epoch_length=50, seed=0)
    assert max(sampler) < len(train)


@pytest.mark.parametrize('share', [0, 1, -0.2, 20, float('nan')])
def test_a_share_must_be_a_fraction(share):
    with pytest.raises(ValueError, match=r'share must be between 0 and 1, got'):
        HeldOut(many(), share)


def test_a_set_that_is_too_small_is_rejected():
    with pytest.raises(ValueError, match=r'share must leave samples in both parts, got 0.2 of 1 samples'):
        HeldOut(Toy([[0]]))


@pytest.mark.parametrize('part', ['train', 'held_out'])
def test_soft_labels_cannot_be_held_out(part):
    soft = Toy([dict(gt_score=np.array([1, 0, 0.3, 0], dtype=np.float32)), dict(gt_score=np.zeros(4))])
    message = r'--hold-out \(HeldOut\) needs hard labels, 1 .*, got the soft label 0.3 for class 2 of sample 0'
    with pytest.raises(AnnotationError, match=message):
        HeldOut(soft, part=part)

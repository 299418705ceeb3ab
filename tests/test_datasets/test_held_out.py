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


def test_the_choice_is_that_of_the_plain_algorithm():
    positives = long_tail(200)
    expected = plain_iterative_stratification(positives, 0.3)
    assert choose_held_out(positives, np.arange(200), 0.3).tolist() == expected


def plain_iterative_stratification(positives: np.ndarray, share: float) -> list[bool]:
    """Follow Algorithm 1 of Sechidis et al. literally, with two subsets."""
    waiting, held_out = set(range(len(positives))), [False] * len(positives)
    wanted = [[part * count for count in positives.sum(axis=0)] for part in (1 - share, share)]
    sizes = [(1 - share) * len(positives), share * len(positives)]
    while waiting:
        left = {c: [i for i in sorted(waiting) if positives[i, c]] for c in range(positives.shape[1])}
        left = {c: members for c, members in left.items() if members}
        rarest = min(left, key=lambda c: (len(left[c]), c)) if left else None
        for i in left[rarest] if left else sorted(waiting):
            wishes = [(round(wanted[k][rarest], 6) if left else 0, round(sizes[k], 6)) for k in (0, 1)]
            part = int(wishes[1] > wishes[0])
            held_out[i] = part == 1
            waiting.discard(i)
            sizes[part] -= 1
            for c in np.flatnonzero(positives[i]):
                wanted[part][c] -= 1
    return held_out


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

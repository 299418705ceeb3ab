import numpy as np
import pytest

from mmml_losses.datasets.wrappers.pareto import LongTail, ParetoCurve, choose_long_tail


def random_labels(num_samples=400, num_classes=6, seed=0, unknown=0.0):
    """Classes that come with each other, from frequent to rare; some images show nothing."""
    rng = np.random.RandomState(seed)
    mood = rng.rand(num_samples, 1)
    rates = np.linspace(0.6, 0.1, num_classes) * (0.3 + mood)
    labels = (rng.rand(num_samples, num_classes) < rates).astype(np.int8)
    labels[rng.rand(num_samples, num_classes) < unknown] = -1
    return labels, rng.rand(num_samples)


def distance(counts, targets):
    return sum(abs(int(count) - int(target)) / int(target) for count, target in zip(counts, targets, strict=True))


def naive_choice(labels, draws, curve, fill_up):
    """Run the algorithm as it is described, one image at a time, with plain lists."""
    positives = labels == 1
    available = positives.sum(axis=0)
    order = sorted(range(labels.shape[1]), key=lambda c: -naive_company(positives, c))
    targets = dict(zip(order, curve.counts(len(order)).tolist(), strict=True))
    targets = np.array([min(targets[c], available[c]) for c in range(labels.shape[1])])
    queue = sorted(range(len(labels)), key=lambda image: draws[image])
    chosen = []
    for c in order:
        for image in queue:
            if sum(positives[each, c] for each in chosen) >= targets[c]:
                break
            if positives[image, c] and image not in chosen:
                chosen.append(image)
    while True:
        counts = positives[chosen].sum(axis=0)
        gains = {
            image: distance(counts, targets) - distance(counts - positives[image], targets)
            for image in queue
            if image in chosen
        }
        best = max(gains, key=lambda image: round(gains[image], 9))  # of equal ones the first in the queue
        if gains[best] < 1e-9:
            break
        chosen.remove(best)
    for c in reversed(order) if fill_up else ():
        for image in queue:
            counts = positives[chosen].sum(axis=0)
            fits = (counts + positives[image] <= targets).all()
            if positives[image, c] and image not in chosen and counts[c] < targets[c] and fits:
                chosen.append(image)
    return sorted(chosen)


def naive_company(positives, c):
    return sum(
        (positives[:, c] & positives[:, other]).sum() / positives[:, other].sum()
        for other in range(positives.shape[1])
        if other != c
    )


@pytest.mark.parametrize('fill_up', [False, True])
@pytest.mark.parametrize('smallest', [3, 40])  # the latter is more than the rarest class has
@pytest.mark.parametrize('seed', range(4))
def test_the_fast_choice_is_the_choice_one_by_one(seed, smallest, fill_up):
    labels, draws = random_labels(250, seed=seed)
    curve = ParetoCurve(largest=60, smallest=smallest, shape=4)
    tail = choose_long_tail(labels, draws, curve, fill_up=fill_up)
    assert tail.positions.tolist() == naive_choice(labels, draws, curve, fill_up)


def test_the_curve_falls_like_a_pareto_density():
    curve = ParetoCurve(largest=775, smallest=4, shape=6).counts(20)
    assert curve.tolist() == [775, 519, 355, 247, 176, 127, 93, 69, 52, 39, 30, 23, 18, 14, 11, 9, 7, 6, 5, 4]
    steep, flat = (ParetoCurve(largest=1000, smallest=10, shape=shape).counts(11) for shape in (1, 1000))
    assert steep[[0, -1]].tolist() == flat[[0, -1]].tolist() == [1000, 10]
    assert (steep[1:-1] < flat[1:-1]).all()
    assert flat[5] == pytest.approx(100, rel=0.01)  # nearly geometric
    assert ParetoCurve(largest=7, smallest=7).counts(3).tolist() == [7, 7, 7]


def test_the_order_is_by_company_or_by_frequency():
    # Class 2 is in few images, but in all with class 0; class 1 is in most images, and alone.
    labels = np.array([[1, 0, 1]] * 3 + [[0, 1, 0]] * 9 + [[0, 0, 1]], dtype=np.int8)
    assert ParetoCurve(order='frequency').rank(labels).tolist() == [1, 2, 0]
    assert ParetoCurve(order='co-occurrence').rank(labels).tolist() == [2, 0, 1]


def test_classes_of_equal_rank_keep_their_order():
    labels = np.tile(np.eye(4, dtype=np.int8), (3, 1))
    for order in ('frequency', 'co-occurrence'):
        assert ParetoCurve(order=order).rank(labels).tolist() == [0, 1, 2, 3]


def test_the_tail_is_on_the_curve_and_filled_up_every_class_is():
    labels, draws = random_labels(4000)
    curve = ParetoCurve(largest=400, smallest=5)
    tail = choose_long_tail(labels, draws, curve)
    assert (tail.counts == labels[tail.positions].sum(axis=0)).all()
    rare = tail.targets < 20
    assert rare.any()
    assert (tail.counts == tail.targets)[rare].all()
    filled = choose_long_tail(labels, draws, curve, fill_up=True)
    assert set(tail.positions) < set(filled.positions)
    assert filled.deviation < tail.deviation
    assert (filled.counts <= np.maximum(filled.targets, tail.counts)).all()


def test_labels_without_company_meet_the_curve_exactly():
    labels = np.eye(5, dtype=np.int8)[np.random.RandomState(0).randint(5, size=2000)]
    tail = choose_long_tail(labels, np.random.RandomState(1).rand(2000), ParetoCurve(largest=200, smallest=2))
    assert sorted(tail.counts.tolist(), reverse=True) == ParetoCurve(largest=200, smallest=2).counts(5).tolist()
    assert tail.deviation == 0


def test_the_order_of_the_images_does_not_matter():
    labels, draws = random_labels()
    shuffle = np.random.RandomState(5).permutation(len(labels))
    curve = ParetoCurve(largest=80, smallest=4)
    expected = choose_long_tail(labels, draws, curve).positions
    assert np.sort(shuffle[choose_long_tail(labels[shuffle], draws[shuffle], curve).positions]).tolist() == (
        expected.tolist()
    )


def test_no_more_images_than_there_are():
    labels, draws = random_labels(100)
    tail = choose_long_tail(labels, draws, ParetoCurve(largest=90, smallest=60))
    assert (tail.curve > tail.available).any()
    assert (tail.targets <= tail.available).all()
    assert (tail.counts <= tail.available).all()
    description = tail.describe([f'class {c}' for c in range(6)])
    assert 'Fewer images than on the curve: ' in description
    worst = int((tail.curve - tail.available).argmax())
    assert f'class {worst} ({tail.available[worst]} of {tail.curve[worst]})' in description


def test_the_only_image_of_a_class_is_not_given_up_for_others():
    alone = np.eye(4, dtype=np.int8)[[1, 2, 3] * 20]
    labels = np.vstack([alone, np.ones((1, 4), dtype=np.int8)])
    tail = choose_long_tail(labels, np.linspace(0, 0.9, 61), ParetoCurve(largest=10, smallest=10))
    assert tail.targets.tolist() == tail.counts.tolist() == [1, 10, 10, 10]


def test_a_class_without_images_has_no_place_on_the_curve():
    labels, draws = random_labels(num_classes=6)
    labels[:, 2] = 0
    curve = ParetoCurve(largest=50, smallest=4)
    tail = choose_long_tail(labels, draws, curve)
    without = choose_long_tail(np.delete(labels, 2, axis=1), draws, curve)
    assert tail.positions.tolist() == without.positions.tolist()
    assert tail.curve[2] == tail.counts[2] == 0
    assert sorted(np.delete(tail.curve, 2), reverse=True) == curve.counts(5).tolist()
    assert tail.describe('abcdef').endswith('. Without an image, and not on the curve: c')


def test_unknown_labels_count_for_nothing():
    labels, draws = random_labels(unknown=0.2)
    assert (labels == -1).any()
    curve = ParetoCurve(largest=50, smallest=4)
    expected = choose_long_tail(labels.clip(min=0), draws, curve)
    assert choose_long_tail(labels, draws, curve).positions.tolist() == expected.positions.tolist()


@pytest.mark.parametrize('fill_up', [False, True])
def test_images_without_a_positive_are_never_chosen(fill_up):
    labels, draws = random_labels()
    labels[::3] = np.where(labels[::3] == 1, -1, 0)
    tail = choose_long_tail(labels, draws, ParetoCurve(largest=300, smallest=300), fill_up=fill_up)
    assert (labels[tail.positions] == 1).any(axis=1).all()
    assert not np.isin(tail.positions, np.arange(0, len(labels), 3)).any()


def test_a_single_class():
    labels = np.array([[1], [0], [1], [1], [-1]], dtype=np.int8)
    tail = choose_long_tail(labels, np.array([0.5, 0.1, 0.9, 0.2, 0.0]), ParetoCurve(largest=2, smallest=1))
    assert tail.positions.tolist() == [0, 3]
    assert 'head/medium/tail 0/0/1' in tail.describe(['cat'])


def test_equal_draws_take_the_first_images():
    labels = np.ones((6, 1), dtype=np.int8)
    assert choose_long_tail(labels, np.zeros(6), ParetoCurve(largest=3, smallest=3)).positions.tolist() == [0, 1, 2]


def test_many_names_are_cut_short():
    zeros = np.zeros(9, dtype=np.int64)
    ones = np.ones(9, dtype=np.int64)
    description = LongTail(np.arange(9), 9, ones * 2, ones, ones).describe('abcdefghi')
    assert description.endswith(': a (1 of 2), b (1 of 2), c (1 of 2), d (1 of 2), e (1 of 2) and 4 more')
    assert LongTail(np.arange(0), 9, ones, ones, zeros).describe('abcdefghi').startswith('0 images without a positive')


def test_figures_of_a_choice():
    tail = LongTail(np.arange(150), 1000, np.array([140, 20, 0]), np.array([400, 30, 0]), np.array([133, 21, 0]))
    assert tail.deviation == pytest.approx(8 / 160)
    assert tail.describe(['cat', 'car', 'cow']) == (
        '150 images with 154 labels, from 21 (car) to 133 (cat), head/medium/tail 1/1/0, of 1,000 images; 5.0% of the '
        'labels off the curve. Without an image, and not on the curve: cow'
    )


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(largest=3, smallest=4), r'smallest must be in \[1, largest = 3\], got 4'),
        (dict(smallest=0), r'smallest must be in \[1, largest = 700\], got 0'),
        (dict(largest=10.5), 'largest must be a whole number, got 10.5'),
        (dict(shape=0), 'shape must be a positive and finite number, got 0'),
        (dict(shape=float('nan')), 'shape must be a positive and finite number, got nan'),
        (dict(shape='6'), "shape must be a positive and finite number, got '6'"),
        (dict(order='name'), "order must be one of 'co-occurrence', 'frequency', got 'name'"),
    ],
)
def test_wrong_curves_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        ParetoCurve(**arguments)


def test_labels_that_give_nothing_to_choose_from_are_rejected():
    with pytest.raises(ValueError, match='labels must have a positive'):
        choose_long_tail(np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(ValueError, match='labels must have a positive'):
        choose_long_tail(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(ValueError, match=r'draws \(N,\), got \(4, 3\) and \(3,\)'):
        choose_long_tail(np.ones((4, 3)), np.zeros(3))

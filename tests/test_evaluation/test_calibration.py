import json
import tracemalloc

import numpy as np
import pytest
import torch

from mmml_losses.evaluation import (
    ReliabilityBins,
    calibration_errors,
    class_calibration_errors,
    class_reliability_bins,
    reliability_bins,
)
from mmml_losses.utils import arrays

BINNINGS = ('width', 'mass')


def naive_bins(probabilities, labels, num_bins, binning='width'):
    """Put one pair after the other into lists."""
    pairs = [(p, y) for p, y in zip(np.ravel(probabilities).tolist(), np.ravel(labels).tolist(), strict=True) if y >= 0]
    starts = [b / num_bins for b in range(num_bins)]
    if binning == 'mass':
        ordered = sorted(p for p, _ in pairs)
        starts = [0.0] + [ordered[b * len(ordered) // num_bins] for b in range(1, num_bins)]
    members = [[] for _ in range(num_bins)]
    for p, y in pairs:
        members[max(b for b in range(num_bins) if p >= starts[b])].append((p, y))
    return members


def some_case(dtype=np.float64, shape=(80, 6)):
    rng = np.random.default_rng(0)
    probabilities = (rng.random(shape) ** 3).astype(dtype)
    probabilities[:5] = np.arange(5 * shape[1]).reshape(5, -1) / (5 * shape[1])
    return probabilities, rng.integers(-1, 2, shape)


def peer_case(kind, dtype):
    """Make probabilities away from the limits of ten bins, where libraries agree, and known labels."""
    rng = np.random.default_rng(1)
    probabilities = {
        'random': rng.random((300, 7)),
        'tied': rng.integers(0, 20, (300, 7)) / 20 + 0.027,
        'constant': np.full((300, 7), 0.37),
        'extreme': rng.choice([1e-7, 2e-3, 0.995], (300, 7)),
    }[kind].astype(dtype)
    labels = (rng.random(probabilities.shape) < probabilities**1.5).astype(np.int8)
    return probabilities, labels


PEER_CASES = pytest.mark.parametrize('kind', ['random', 'tied', 'constant', 'extreme'])
DTYPES = pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])


@pytest.mark.parametrize('binning', BINNINGS)
@pytest.mark.parametrize('num_bins', [1, 10, 15, 100])
@DTYPES
def test_bins_and_errors_equal_a_naive_loop(num_bins, dtype, binning, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 64)
    probabilities, labels = some_case(dtype)
    members = naive_bins(probabilities, labels, num_bins, binning)

    bins = reliability_bins(probabilities, labels, num_bins, binning)
    assert bins.counts.tolist() == [len(pairs) for pairs in members]
    means = np.array([np.mean(pairs, axis=0) if pairs else (np.nan, np.nan) for pairs in members])
    np.testing.assert_allclose(bins.mean_probability, means[:, 0], rtol=1e-12)
    np.testing.assert_allclose(bins.positive_rate, means[:, 1], rtol=1e-12)

    gaps = [(abs(rate - mean), len(pairs)) for (mean, rate), pairs in zip(means, members, strict=True) if pairs]
    errors = calibration_errors(bins)
    assert errors.ace == pytest.approx(sum(gap for gap, _ in gaps) / len(gaps))
    assert errors.mce == pytest.approx(max(gap for gap, _ in gaps))
    assert errors.ece == pytest.approx(sum(gap * count for gap, count in gaps) / sum(count for _, count in gaps))
    assert calibration_errors(bins, ace='all').ace == pytest.approx(sum(gap for gap, _ in gaps) / num_bins)


def test_errors_of_a_case_done_by_hand():
    # Bin 0: two pairs at 0.05, none positive (gap 0.05). Bin 9: one pair at 0.95, negative (gap 0.95). Eight empty.
    bins = reliability_bins([[0.05, 0.05, 0.95]], [[0, 0, 0]])
    errors = calibration_errors(bins)
    assert errors.ace == pytest.approx((0.05 + 0.95) / 2)
    assert errors.mce == pytest.approx(0.95)
    assert errors.ece == pytest.approx((2 * 0.05 + 0.95) / 3)
    assert np.isnan(bins.positive_rate[1:9]).all()


def test_the_three_variants_of_ace_differ():
    # Equal width: gaps 0.05 (three pairs), 0.95 (one) and eight empty bins. Two bins of equal mass: two pairs at 0.05
    # would be the first, but the third one ties with them, so all three go to the second.
    probabilities, labels = [[0.05, 0.05, 0.05, 0.95]], [[0, 0, 0, 0]]
    by_width, by_mass = reliability_bins(probabilities, labels), reliability_bins(probabilities, labels, 2, 'mass')
    assert calibration_errors(by_width, 'non-empty').ace == pytest.approx(0.5)
    assert calibration_errors(by_width, 'all').ace == pytest.approx(0.1)
    assert by_mass.counts.tolist() == [0, 4]
    assert calibration_errors(by_mass, 'adaptive').ace == pytest.approx((3 * 0.05 + 0.95) / 4)
    with pytest.raises(ValueError, match=r"ace='adaptive' must be read from bins made with binning='mass'"):
        calibration_errors(by_width, 'adaptive')
    with pytest.raises(ValueError, match=r"ace must be one of .*, got 'mean'"):
        calibration_errors(by_width, 'mean')


def test_values_on_a_limit_go_to_the_bin_above_and_one_to_the_last():
    limits = np.arange(101) / 100
    bins = reliability_bins(limits[None], np.zeros((1, 101)), num_bins=100)
    assert bins.counts.tolist() == [1] * 99 + [2]
    np.testing.assert_array_equal(bins.edges, limits)


@DTYPES
def test_bins_of_equal_mass_hold_equally_many_where_nothing_ties(dtype):
    values = np.random.default_rng(0).permutation(np.linspace(0, 1, 600).astype(dtype))
    bins = reliability_bins(values.reshape(100, 6), np.zeros((100, 6)), 12, 'mass')
    assert bins.counts.tolist() == [50] * 12
    np.testing.assert_array_equal(bins.edges, [0, *np.sort(values)[50::50], 1])


def test_ties_share_a_bin_whatever_the_order():
    rng = np.random.default_rng(0)
    probabilities = rng.choice([0.0, -0.0, 1e-30, 0.2, 0.2, 0.2, 0.7, 1.0], (90, 4))
    labels = rng.integers(-1, 2, probabilities.shape)
    bins = reliability_bins(probabilities, labels, 6, 'mass')
    shuffled = rng.permutation(probabilities.size)
    again = reliability_bins(
        probabilities.ravel()[shuffled].reshape(4, 90), labels.ravel()[shuffled].reshape(4, 90), 6, 'mass'
    )
    np.testing.assert_array_equal(bins.counts, again.counts)
    np.testing.assert_array_equal(bins.edges, again.edges)
    known = probabilities[labels >= 0]
    for value in np.unique(known):
        number = np.searchsorted(bins.edges[1:-1], value, side='right')
        assert bins.counts[number] >= (known == value).sum()


@pytest.mark.parametrize('binning', BINNINGS)
@DTYPES
def test_bins_of_a_class_are_those_of_its_column(binning, dtype, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 200)
    probabilities, labels = some_case(dtype)
    labels[:, 2] = -1
    by_class = class_reliability_bins(probabilities, labels, 7, binning)
    errors = class_calibration_errors(by_class)
    assert len(by_class) == 6
    for index in range(6):
        expected = reliability_bins(probabilities[:, [index]], labels[:, [index]], 7, binning)
        for name in ('counts', 'edges'):
            np.testing.assert_array_equal(getattr(by_class[index], name), getattr(expected, name))
        for name in ('mean_probability', 'positive_rate'):
            np.testing.assert_allclose(getattr(by_class[index], name), getattr(expected, name), rtol=1e-12)
        np.testing.assert_allclose(
            [values[index] for values in errors], calibration_errors(expected), rtol=1e-12, equal_nan=True
        )
    assert errors.num_skipped == 1
    np.testing.assert_allclose(errors.mean, [np.nanmean(values) for values in errors])


def test_adaptive_error_over_classes_equals_its_definition():
    # Nixon et al.: mean over classes and ranges, each range the next n / R of the sorted predictions of a class.
    rng = np.random.default_rng(0)
    probabilities = rng.random((120, 5))
    labels = (rng.random((120, 5)) < 0.4).astype(int)
    gaps = []
    for p, y in zip(probabilities.T, labels.T, strict=True):
        order = np.argsort(p)
        gaps += [abs(y[part].mean() - p[part].mean()) for part in order.reshape(8, 15)]
    errors = class_calibration_errors(class_reliability_bins(probabilities, labels, 8, 'mass'), 'adaptive')
    assert errors.mean.ace == pytest.approx(np.mean(gaps))


@PEER_CASES
@DTYPES
def test_pooled_errors_equal_netcal(kind, dtype):
    netcal = pytest.importorskip('netcal.metrics')
    probabilities, labels = peer_case(kind, dtype)
    errors = calibration_errors(reliability_bins(probabilities, labels))
    # In double precision: netcal moves the ends of [0, 1] inwards by the epsilon of the type.
    flat, truth = probabilities.ravel().astype(np.float64), labels.ravel()
    for name, ours in zip(('ACE', 'MCE', 'ECE'), errors, strict=True):
        assert ours == pytest.approx(getattr(netcal, name)(10).measure(flat, truth), abs=1e-12)


def test_errors_of_equal_mass_equal_netcal_where_nothing_ties_and_bins_are_full():
    netcal = pytest.importorskip('netcal.metrics')
    probabilities, labels = peer_case('random', np.float64)
    errors = calibration_errors(reliability_bins(probabilities, labels, 12, 'mass'), 'adaptive')
    for name, ours in zip(('ACE', 'MCE', 'ECE'), errors, strict=True):
        theirs = getattr(netcal, name)(12, equal_intervals=False).measure(probabilities.ravel(), labels.ravel())
        assert ours == pytest.approx(theirs, abs=1e-12)


@PEER_CASES
@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_pooled_errors_equal_torchmetrics(kind, dtype):
    torchmetrics = pytest.importorskip('torchmetrics.functional.classification')
    probabilities, labels = peer_case(kind, dtype)
    labels[::5, 2] = -1
    errors = calibration_errors(reliability_bins(probabilities, labels))
    flat, truth = torch.from_numpy(probabilities).flatten().double(), torch.from_numpy(labels).flatten().long()
    for norm, ours in (('l1', errors.ece), ('max', errors.mce)):
        theirs = torchmetrics.binary_calibration_error(flat, truth, n_bins=10, norm=norm, ignore_index=-1)
        assert ours == pytest.approx(theirs.item(), abs=1e-12)


def test_certain_probabilities_belong_to_the_last_bin():
    # torchmetrics opens an eleventh bin for p = 1: its largest gap here is 1 (the wrong certainty on its own).
    errors = calibration_errors(reliability_bins([[1.0, 0.95, 0.95, 0.95]], [[0, 1, 1, 1]]))
    assert errors.mce == pytest.approx(abs(3 / 4 - 3.85 / 4))


def test_true_probabilities_have_small_errors():
    rng = np.random.default_rng(0)
    probabilities = rng.random((20_000, 10))
    labels = rng.random(probabilities.shape) < probabilities
    assert calibration_errors(reliability_bins(probabilities, labels)).mce < 0.01


def test_tensors_give_the_same_as_arrays():
    probabilities = torch.rand(50, 4, generator=torch.manual_seed(0))
    labels = torch.randint(-1, 2, probabilities.shape)
    ours, theirs = reliability_bins(probabilities, labels), reliability_bins(probabilities.numpy(), labels.numpy())
    np.testing.assert_array_equal(ours.counts, theirs.counts)
    np.testing.assert_array_equal(ours.mean_probability, theirs.mean_probability)


@pytest.mark.parametrize('binning', BINNINGS)
def test_bins_survive_json(binning):
    bins = reliability_bins([[0.05, 0.05, 0.95]], [[0, 1, 0]], 4, binning)
    again = ReliabilityBins.from_dict(json.loads(json.dumps(bins.to_dict())))
    assert again.binning == binning
    for name in ('counts', 'mean_probability', 'positive_rate', 'edges'):
        np.testing.assert_array_equal(getattr(again, name), getattr(bins, name))


@pytest.mark.parametrize('binning', BINNINGS)
@pytest.mark.parametrize('function', [reliability_bins, class_reliability_bins])
def test_no_second_score_matrix(function, binning, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 1 << 14)
    rng = np.random.default_rng(0)
    probabilities = rng.random((2_000, 500), dtype=np.float32)
    labels = rng.integers(-1, 2, probabilities.shape, dtype=np.int8)
    tracemalloc.start()
    function(probabilities, labels, 10, binning)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < probabilities.nbytes / 2


def test_input_stays_as_it_was():
    probabilities, labels = some_case()
    copies = probabilities.copy(), labels.copy()
    for binning in BINNINGS:
        reliability_bins(probabilities, labels, 10, binning)
        class_reliability_bins(probabilities, labels, 10, binning)
    np.testing.assert_array_equal(probabilities, copies[0])
    np.testing.assert_array_equal(labels, copies[1])


@pytest.mark.parametrize('binning', BINNINGS)
@pytest.mark.parametrize('shape', [(0, 3), (0, 0), (2, 3)])
def test_no_known_pair_gives_nan(shape, binning):
    probabilities, labels = np.full(shape, 0.4), np.full(shape, -1)
    bins = reliability_bins(probabilities, labels, 5, binning)
    assert bins.counts.sum() == 0
    np.testing.assert_allclose(bins.edges, np.arange(6) / 5)
    assert np.isnan(calibration_errors(bins)).all()
    assert np.isnan(calibration_errors(bins, 'all')).all()
    by_class = class_calibration_errors(class_reliability_bins(probabilities, labels, 5, binning))
    assert by_class.num_skipped == shape[1]
    assert np.isnan(by_class.mean).all()


@pytest.mark.parametrize('binning', BINNINGS)
def test_one_class_is_enough(binning):
    bins = reliability_bins([[0.2], [0.6]], [[0], [1]], 2, binning)
    assert bins.counts.tolist() == [1, 1]
    assert calibration_errors(bins).ace == pytest.approx(0.3)


@pytest.mark.parametrize(
    ('probabilities', 'message'),
    [
        ([[0.5, 1.4]], r'probabilities must lie in \[0, 1\], got 1.4'),
        ([[-3.0, 0.4]], r'probabilities must lie in \[0, 1\], got -3'),
        ([[0.5, np.nan]], r'probabilities must not hold NaN, got NaN at \(0, 1\)'),
        ([[0.5]], r'labels must have the shape of probabilities \(1, 1\), got \(1, 2\)'),
        ([0.5, 0.5], r'probabilities must have the shape \(samples, classes\), got \(2,\)'),
    ],
)
@pytest.mark.parametrize('function', [reliability_bins, class_reliability_bins])
def test_bad_probabilities_are_rejected(function, probabilities, message):
    with pytest.raises(ValueError, match=message):
        function(probabilities, [[0, 1]])


@pytest.mark.parametrize('function', [reliability_bins, class_reliability_bins])
def test_bad_labels_and_arguments_are_rejected(function):
    with pytest.raises(ValueError, match='labels must be 1'):
        function([[0.5, 0.5]], [[0, 2]])
    with pytest.raises(ValueError, match='num_bins must be at least 1, got 0'):
        function([[0.5]], [[1]], num_bins=0)
    for wrong in (2.5, '10', None, True):
        with pytest.raises(ValueError, match=f'num_bins must be a whole number, got {wrong!r}'):
            function([[0.5]], [[1]], num_bins=wrong)
    assert len(function([[0.5]], [[1]], num_bins=np.int64(3)).counts.reshape(-1)) == 3
    with pytest.raises(ValueError, match=r"binning must be one of \('width', 'mass'\), got 'equal'"):
        function([[0.5]], [[1]], binning='equal')

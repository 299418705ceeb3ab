import numpy as np
import pytest
import torch

from mmml_losses.evaluation import arrays, calibration_errors, reliability_bins


def naive_bins(probabilities, labels, num_bins):
    """One pair after the other into lists."""
    members = [[] for _ in range(num_bins)]
    for p, y in zip(np.ravel(probabilities).tolist(), np.ravel(labels).tolist(), strict=True):
        if y >= 0:
            members[max(b for b in range(num_bins) if p >= b / num_bins)].append((p, y))
    return members


@pytest.mark.parametrize('num_bins', [1, 10, 15])
@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_bins_and_errors_equal_a_naive_loop(num_bins, dtype, monkeypatch):
    monkeypatch.setattr(arrays, 'BLOCK_ENTRIES', 64)
    rng = np.random.default_rng(0)
    probabilities = (rng.random((80, 6)) ** 3).astype(dtype)
    probabilities[:5] = np.arange(30).reshape(5, 6) / 30
    labels = rng.integers(-1, 2, probabilities.shape)
    members = naive_bins(probabilities, labels, num_bins)

    bins = reliability_bins(probabilities, labels, num_bins)
    assert bins.counts.tolist() == [len(pairs) for pairs in members]
    means = np.array([np.mean(pairs, axis=0) if pairs else (np.nan, np.nan) for pairs in members])
    np.testing.assert_allclose(bins.mean_probability, means[:, 0], rtol=1e-12)
    np.testing.assert_allclose(bins.positive_rate, means[:, 1], rtol=1e-12)

    gaps = [(abs(rate - mean), len(pairs)) for (mean, rate), pairs in zip(means, members, strict=True) if pairs]
    errors = calibration_errors(bins)
    assert errors.ace == pytest.approx(sum(gap for gap, _ in gaps) / len(gaps))
    assert errors.mce == pytest.approx(max(gap for gap, _ in gaps))
    assert errors.ece == pytest.approx(sum(gap * count for gap, count in gaps) / sum(count for _, count in gaps))


def test_errors_of_a_case_done_by_hand():
    # Bin 0: two pairs at 0.05, none positive (gap 0.05). Bin 9: one pair at 0.95, negative (gap 0.95). Eight empty.
    bins = reliability_bins([[0.05, 0.05, 0.95]], [[0, 0, 0]])
    errors = calibration_errors(bins)
    assert errors.ace == pytest.approx((0.05 + 0.95) / 2)
    assert errors.mce == pytest.approx(0.95)
    assert errors.ece == pytest.approx((2 * 0.05 + 0.95) / 3)
    assert np.isnan(bins.positive_rate[1:9]).all()


def test_values_on_a_limit_go_to_the_bin_above_and_one_to_the_last():
    limits = np.arange(101) / 100
    bins = reliability_bins(limits[None], np.zeros((1, 101)), num_bins=100)
    assert bins.counts.tolist() == [1] * 99 + [2]
    np.testing.assert_array_equal(bins.edges, limits)


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


def test_no_known_pair_gives_nan():
    errors = calibration_errors(reliability_bins([[0.4, 0.6]], [[-1, -1]]))
    assert np.isnan(errors).all()


@pytest.mark.parametrize(
    ('probabilities', 'message'),
    [
        ([[0.5, 1.4]], r'probabilities must lie in \[0, 1\], got 1.4'),
        ([[-3.0, 0.4]], r'probabilities must lie in \[0, 1\], got -3'),
        ([[0.5, np.nan]], r'probabilities must not hold NaN, got NaN at \(0, 1\)'),
        ([[0.5]], r'labels must have the shape of probabilities \(1, 1\), got \(1, 2\)'),
    ],
)
def test_bad_probabilities_are_refused(probabilities, message):
    with pytest.raises(ValueError, match=message):
        reliability_bins(probabilities, [[0, 1]])


def test_number_of_bins_must_be_positive():
    with pytest.raises(ValueError, match='num_bins must be at least 1, got 0'):
        reliability_bins([[0.5]], [[1]], num_bins=0)

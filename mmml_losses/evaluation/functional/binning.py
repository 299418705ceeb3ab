"""Cutting [0, 1] into bins, and sums over what falls into them, block by block."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ...utils.arrays import check_whole_number, row_blocks

Binning: TypeAlias = Literal['width', 'mass']
BINNINGS = ('width', 'mass')

# Up to this many limits, comparing with each of them is faster than a binary search.
FEW_LIMITS = 64
# Bits that one pass over the values settles when it looks for those at given positions.
DIGIT_BITS = 11


class BinSums(NamedTuple):
    """What bins hold, group by group.

    Attributes:
        counts: (G, B) number of known pairs.
        positives: (G, B) number of positive pairs.
        probability: (G, B) sum of the predicted probabilities.
    """

    counts: np.ndarray
    positives: np.ndarray
    probability: np.ndarray


def check_binning(num_bins: int, binning: str) -> None:
    """Refuse a number of bins or a way of binning that does not exist."""
    check_whole_number('num_bins', num_bins, 1)
    if binning not in BINNINGS:
        raise ValueError(f'binning must be one of {BINNINGS}, got {binning!r}')


def equal_width_limits(num_bins: int) -> np.ndarray:
    """(B - 1,) limits between bins of equal width."""
    return np.arange(1, num_bins) / num_bins


def pooled_limits(probabilities: np.ndarray, labels: np.ndarray, num_bins: int, binning: Binning) -> np.ndarray:
    """(B - 1,) limits between the bins of all known pairs together."""
    return equal_width_limits(num_bins) if binning == 'width' else equal_mass_limits(probabilities, labels, num_bins)


def class_limits(probabilities: np.ndarray, labels: np.ndarray, num_bins: int, binning: Binning) -> np.ndarray:
    """Limits between the bins of each class: (B - 1,) if all have the same, else (B - 1, C)."""
    if binning == 'width':
        return equal_width_limits(num_bins)
    return class_equal_mass_limits(probabilities, labels, num_bins)


def equal_mass_limits(probabilities: np.ndarray, labels: np.ndarray, num_bins: int) -> np.ndarray:
    r"""(B - 1,) limits between bins that hold equally many of the n known pairs, as far as ties allow.

    Bin :math:`b` starts with the value at position :math:`\lfloor b n / B \rfloor` of the sorted pairs, so equal values
    share a bin, whatever the order of the pairs. A value that is more frequent than a bin is large leaves bins empty.
    """
    num_known = sum(int((labels[rows] >= 0).sum()) for rows in row_blocks(*labels.shape))
    if num_known == 0 or num_bins == 1:
        return equal_width_limits(num_bins)
    return values_at(probabilities, labels, np.arange(1, num_bins) * num_known // num_bins)


def class_equal_mass_limits(probabilities: np.ndarray, labels: np.ndarray, num_bins: int) -> np.ndarray:
    """(B - 1, C) limits as :func:`equal_mass_limits` finds them, for each class on its own."""
    num_samples, num_classes = probabilities.shape
    limits = np.empty((num_bins - 1, num_classes))
    for columns in row_blocks(num_classes, num_samples):
        unknown = labels[:, columns].T < 0
        values = np.array(probabilities[:, columns].T, dtype=_working_type(probabilities.dtype), order='C')
        values[unknown] = np.inf  # behind all others
        values.sort(axis=1)
        num_known = num_samples - unknown.sum(axis=1, keepdims=True)
        positions = np.arange(1, num_bins) * num_known // num_bins
        if num_samples:
            limits[:, columns] = np.take_along_axis(values, positions, axis=1).T
        limits[:, columns][:, num_known[:, 0] == 0] = equal_width_limits(num_bins)[:, None]
    return limits


def values_at(probabilities: np.ndarray, labels: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Values at given positions of the sorted known probabilities, exact and without sorting or copying them all.

    The bit patterns of floats that are not negative are ordered like the floats themselves. Each pass counts the next
    digit of the patterns that begin like a wanted one, and so settles this digit of each wanted pattern.

    Args:
        probabilities: (N, C) numbers in [0, 1].
        labels: (N, C); pairs with -1 are left out.
        positions: (K,) positions from 0, below the number of known pairs.
    """
    kind = _working_type(probabilities.dtype)
    bits = np.dtype(f'u{np.dtype(kind).itemsize}')
    patterns, positions = np.zeros(len(positions), dtype=bits), positions.copy()
    for shift in reversed(range(0, 8 * bits.itemsize, DIGIT_BITS)):
        beginnings = np.unique(patterns)
        counts = np.zeros(len(beginnings) << DIGIT_BITS, dtype=np.int64)
        for rows in row_blocks(*probabilities.shape):
            # Adding 0 turns -0.0, whose pattern is far from that of 0.0, into 0.0.
            values = (probabilities[rows][labels[rows] >= 0].astype(kind) + kind(0)).view(bits)
            leading = values >> bits.type(shift)
            begins = leading >> bits.type(DIGIT_BITS)
            place = np.minimum(np.searchsorted(beginnings, begins), len(beginnings) - 1)
            wanted = beginnings[place] == begins
            digit = (leading[wanted] & bits.type((1 << DIGIT_BITS) - 1)).astype(np.int64)
            counts += np.bincount((place[wanted] << DIGIT_BITS) | digit, minlength=len(counts))
        up_to = counts.reshape(len(beginnings), -1).cumsum(axis=1)
        for index, place in enumerate(np.searchsorted(beginnings, patterns)):
            digit = np.searchsorted(up_to[place], positions[index], side='right')
            positions[index] -= up_to[place][digit - 1] if digit else 0
            patterns[index] = (int(patterns[index]) << DIGIT_BITS) | int(digit)
    return patterns.view(kind).astype(np.float64)


def bin_numbers(values: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Number of the bin of each value: how many limits do not exceed it.

    Args:
        values: (n, C) float64.
        limits: (B - 1,) rising limits, or (B - 1, C) with those of each class.
    """
    if limits.ndim == 1 and len(limits) > FEW_LIMITS:
        return np.searchsorted(limits, values, side='right')
    numbers = np.zeros(values.shape, dtype=np.uint8 if len(limits) < 256 else np.int32)
    for limit in limits:
        numbers += values >= limit
    return numbers


def sums_in_bins(
    probabilities: np.ndarray, labels: np.ndarray, limits: np.ndarray, by: Literal['all', 'class', 'sample'] = 'all'
) -> BinSums:
    """Count and add up the known pairs in each bin.

    Args:
        probabilities: (N, C) numbers in [0, 1].
        labels: (N, C) with 1, 0 and -1 (unknown, left out).
        limits: (B - 1,) limits between the bins, or (B - 1, C) with those of each class.
        by: Which pairs make a group: all of them (G = 1), those of a class (G = C) or those of a sample (G = N).
    """
    num_bins = len(limits) + 1
    num_groups = {'all': 1, 'class': labels.shape[1], 'sample': labels.shape[0]}[by]
    counts = np.zeros((num_groups, num_bins, 2), dtype=np.int64)
    total = np.zeros((num_groups, num_bins))
    for rows in row_blocks(*labels.shape):
        known = labels[rows] >= 0
        values = probabilities[rows].astype(np.float64)
        bins = bin_numbers(values, limits)[known].astype(np.intp)
        if by != 'all':
            bins += num_bins * np.nonzero(known)[1 if by == 'class' else 0]
        target = rows if by == 'sample' else slice(None)
        local = num_bins * counts[target].shape[0]
        total[target] += np.bincount(bins, weights=values[known], minlength=local).reshape(-1, num_bins)
        bins *= 2
        bins += labels[rows][known]
        counts[target] += np.bincount(bins, minlength=2 * local).reshape(-1, num_bins, 2)
    return BinSums(counts.sum(axis=2), counts[..., 1], total)


def _working_type(dtype: np.dtype) -> type[np.floating]:
    """A type that holds every value of another and that numpy sorts and views quickly."""
    return np.float32 if dtype in (np.float16, np.float32) else np.float64

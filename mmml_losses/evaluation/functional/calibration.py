r"""Reliability bins of probabilities, and the calibration errors computed from them.

The gap of a bin is :math:`|\text{positive rate} - \text{mean probability}|`. Every calibration error here is a mean or
maximum of gaps. Published code calls several errors ACE. The argument ``ace`` selects one of :data:`ACE_VARIANTS`:

- ``'non-empty'``: unweighted mean over bins with known labels (average calibration error of Neumann et al. 2018, the
  ACE of the SPA paper and of netcal). The default.
- ``'all'``: unweighted mean over all bins, where an empty bin counts as 0. More bins make this mean smaller.
- ``'adaptive'``: unweighted mean over non-empty bins of equal mass, from ``binning='mass'`` (adaptive calibration error
  of Nixon et al. 2019, who average it over classes). Ties of probabilities can leave bins of equal mass empty.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ...utils.arguments import check_whole_number
from ...utils.arrays import ArrayLike, as_labels_of, as_probabilities, row_blocks

AceVariant: TypeAlias = Literal['non-empty', 'all', 'adaptive']
ACE_VARIANTS = ('non-empty', 'all', 'adaptive')
Binning: TypeAlias = Literal['width', 'mass']
BINNINGS = ('width', 'mass')
# Up to this many limits, comparing with each limit is faster than a binary search.
FEW_LIMITS = 64
# Bits that one pass over the values determines in the search for the values at given positions.
DIGIT_BITS = 11


@dataclass(frozen=True)
class ReliabilityBins:
    """Mean predicted probability and rate of positive labels in each of B bins of the predicted probability.

    Attributes:
        counts: (B,) number of (sample, class) pairs with a known label in each bin.
        mean_probability: (B,) mean predicted probability; NaN in an empty bin.
        positive_rate: (B,) fraction of positive labels; NaN in an empty bin.
        edges: (B + 1,) bin edges, ascending from 0 to 1. None is replaced by the edges of equally wide bins.
        binning: ``'width'`` for bins of equal width, ``'mass'`` for bins of about equally many pairs.
    """

    counts: np.ndarray
    mean_probability: np.ndarray
    positive_rate: np.ndarray
    edges: np.ndarray | None = None
    binning: Binning = 'width'

    def __post_init__(self):
        if self.edges is None:
            edges = np.arange(self.num_bins + 1) / self.num_bins
            object.__setattr__(self, 'edges', np.tile(edges, (*self.counts.shape[:-1], 1)))

    @property
    def num_bins(self) -> int:
        return self.counts.shape[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON from attribute name to a list (``binning``: a string), with None for NaN."""
        values = {'binning': self.binning, 'edges': np.asarray(self.edges).tolist(), 'counts': self.counts.tolist()}
        for name in ('mean_probability', 'positive_rate'):
            array = getattr(self, name)
            values[name] = np.where(np.isnan(array), np.array(None), array).tolist()
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> 'ReliabilityBins':
        """Rebuild reliability bins from ``values``, the result of :meth:`to_dict`."""
        names = ('mean_probability', 'positive_rate', 'edges')
        arrays = {name: np.array(values[name], dtype=np.float64) for name in names}
        return cls(np.array(values['counts'], dtype=np.int64), **arrays, binning=values['binning'])


class ClassReliabilityBins(ReliabilityBins):
    """ReliabilityBins with a row per class: (C, B) arrays, (C, B + 1) edges; ``bins[c]`` are those of class c alone."""

    edges: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: int) -> ReliabilityBins:
        counts, means, rates = self.counts[index], self.mean_probability[index], self.positive_rate[index]
        return ReliabilityBins(counts, means, rates, self.edges[index], self.binning)


class CalibrationErrors(NamedTuple):
    r"""Three calibration errors in [0, 1], from the gaps :math:`|\text{positive rate} - \text{mean probability}|`.

    Attributes:
        ace: Average calibration error: unweighted mean gap of the non-empty bins, or another variant of ACE.
        mce: Maximum calibration error: largest gap of the non-empty bins.
        ece: Expected calibration error: mean gap weighted by the number of pairs in each bin.
    """

    ace: float
    mce: float
    ece: float


class ClassCalibrationErrors(NamedTuple):
    """Calibration errors of each of C classes, NaN for a class without a known label.

    Attributes:
        ace: (C,) average calibration errors: unweighted mean gaps of the non-empty bins, or another variant of ACE.
        mce: (C,) maximum calibration errors: largest gaps of the non-empty bins of a class.
        ece: (C,) expected calibration errors: mean gaps weighted by the number of samples in each bin.
    """

    ace: np.ndarray
    mce: np.ndarray
    ece: np.ndarray

    @property
    def num_skipped(self) -> int:
        """Number of classes without a known label, which :attr:`mean` leaves out."""
        return int(np.isnan(self.mce).sum())

    @property
    def mean(self) -> CalibrationErrors:
        """Unweighted mean of each error over the classes with a known label; NaN if no class has one."""
        counted = ~np.isnan(self.mce)
        return CalibrationErrors(*(float(v[counted].mean()) if counted.any() else float('nan') for v in self))


def reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 10, binning: Binning = 'width'
) -> ReliabilityBins:
    r"""Group all (sample, class) pairs with a known label into bins by predicted probability.

    With ``binning='width'``, bin :math:`b` of :math:`B` holds :math:`b/B \le p < (b+1)/B`; the last bin also holds
    :math:`p = 1`. Edges are compared in float64: float32's 0.7 is a little less than 0.7 and falls into the bin below.

    With ``binning='mass'``, bins hold equally many pairs as far as ties allow. Of the :math:`n` sorted probabilities,
    the one at position :math:`\lfloor b n / B \rfloor` is the lower edge of bin :math:`b > 0`. Pairs of equal
    probability always share a bin, so a frequent one leaves others empty. Without known pairs, bins have equal width.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        num_bins: Number of bins B.
        binning: ``'width'`` for bins of equal width, ``'mass'`` for bins of equally many pairs.
    """
    counts, means, rates, edges = _bins_of(probabilities, labels, num_bins, binning, 'all')
    return ReliabilityBins(counts[0], means[0], rates[0], edges[0], binning)


def class_reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 10, binning: Binning = 'width'
) -> ClassReliabilityBins:
    """Group the samples of each class into reliability bins, by the rules of :func:`reliability_bins`.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        num_bins: Number of bins of each class.
        binning: ``'width'`` gives all classes the same edges; ``'mass'`` computes separate edges for each class.
    """
    return ClassReliabilityBins(*_bins_of(probabilities, labels, num_bins, binning, 'class'), binning)


def _bins_of(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int, binning: Binning, by: Literal['all', 'class']
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute reliability bins of all pairs (G = 1 group) or of each class (G = C groups).

    Return (counts, mean probabilities, positive rates, edges): three (G, B) arrays and the (G, B + 1) bin edges.
    """
    check_binning(num_bins, binning)
    probabilities = as_probabilities(probabilities)
    labels = as_labels_of(probabilities, labels, 'probabilities')
    limits = bin_limits(probabilities, labels, num_bins, binning, by)
    counts, positives, total = sums_in_bins(probabilities, labels, limits, by)
    outer = np.ones((1, *limits.shape[1:]))
    edges = np.concatenate([0 * outer, limits, outer]).T
    with np.errstate(invalid='ignore'):
        return counts, total / counts, positives / counts, np.broadcast_to(edges, (len(counts), num_bins + 1))


def calibration_errors(bins: ReliabilityBins, ace: AceVariant = 'non-empty') -> CalibrationErrors:
    """Compute ACE, MCE and ECE from reliability bins; all three are NaN when every bin is empty.

    For bins of equal width, the results equal netcal's ACE, MCE and ECE, and torchmetrics' binary calibration error
    with norm ``max`` (MCE) and ``l1`` (ECE), on pooled pairs. Only probabilities exactly on a bin edge differ: netcal
    moves 0 and 1 inwards by an epsilon; torchmetrics gives p = 1 its own bin and rounds edges to the input's dtype.

    Args:
        bins: Result of :func:`reliability_bins`.
        ace: Variant of ACE: ``'non-empty'`` (mean gap of non-empty bins), ``'all'`` (mean gap of all bins), or
            ``'adaptive'`` (non-empty bins of equal mass); see :mod:`mmml_losses.evaluation.functional.calibration`.
    """
    check_ace(ace, bins.binning)
    errors = errors_of(bins.counts, bins.mean_probability, bins.positive_rate, ace)
    return CalibrationErrors(*map(float, errors))


def class_calibration_errors(bins: ClassReliabilityBins, ace: AceVariant = 'non-empty') -> ClassCalibrationErrors:
    """Compute ACE, MCE and ECE of each class; the attribute ``mean`` of the result averages them over classes.

    Args:
        bins: Result of :func:`class_reliability_bins`.
        ace: Variant of ACE: ``'non-empty'``, ``'all'`` or ``'adaptive'``, see :func:`calibration_errors`. The ``mean``
            of ``'adaptive'`` is the adaptive calibration error as Nixon et al. define it.
    """
    check_ace(ace, bins.binning)
    return ClassCalibrationErrors(*errors_of(bins.counts, bins.mean_probability, bins.positive_rate, ace))


def check_ace(ace: str, binning: str = 'mass') -> None:
    """Raise a ValueError if ``ace`` is no variant of ACE, or is ``'adaptive'`` while ``binning`` is not ``'mass'``."""
    if ace not in ACE_VARIANTS:
        raise ValueError(f'ace must be one of {ACE_VARIANTS}, got {ace!r}')
    if ace == 'adaptive' and binning != 'mass':
        raise ValueError(f"ace='adaptive' must be read from bins made with binning='mass', got bins of {binning!r}")


def errors_of(
    counts: np.ndarray, mean_probability: np.ndarray, positive_rate: np.ndarray, ace: AceVariant
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (ACE of variant ``ace``, MCE, ECE), each (...), from (..., B) statistics of bins; NaN if all are empty."""
    gaps = np.where(counts > 0, np.abs(positive_rate - mean_probability), 0.0)
    num_pairs = counts.sum(axis=-1)
    num_bins = counts.shape[-1] if ace == 'all' else (counts > 0).sum(axis=-1)
    empty = np.where(num_pairs > 0, 0.0, np.nan)
    with np.errstate(invalid='ignore'):
        mean_gap = gaps.sum(axis=-1) / num_bins + empty
        return mean_gap, gaps.max(axis=-1) + empty, (gaps * counts).sum(axis=-1) / num_pairs


def check_binning(num_bins: int, binning: str) -> None:
    """Raise a ValueError if ``num_bins`` is no positive integer, or ``binning`` neither ``'width'`` nor ``'mass'``."""
    check_whole_number('num_bins', num_bins, 1)
    if binning not in BINNINGS:
        raise ValueError(f'binning must be one of {BINNINGS}, got {binning!r}')


def equal_width_limits(num_bins: int) -> np.ndarray:
    """Return the (B - 1,) inner edges of B bins of equal width, without 0 and 1."""
    return np.arange(1, num_bins) / num_bins


def bin_limits(
    probabilities: np.ndarray, labels: np.ndarray, num_bins: int, binning: Binning, by: Literal['all', 'class'] = 'all'
) -> np.ndarray:
    """Compute the inner edges (without 0 and 1) of the bins of :func:`reliability_bins`, ascending.

    Return shape (B - 1,), or (B - 1, C) for ``binning='mass'`` with ``by='class'``, where each class has its own edges.
    """
    if binning == 'width':
        return equal_width_limits(num_bins)
    if by == 'class':
        return class_equal_mass_limits(probabilities, labels, num_bins)
    num_known = sum(int((labels[rows] >= 0).sum()) for rows in row_blocks(*labels.shape))
    if num_known == 0 or num_bins == 1:
        return equal_width_limits(num_bins)
    return values_at(probabilities, labels, np.arange(1, num_bins) * num_known // num_bins)


def class_equal_mass_limits(probabilities: np.ndarray, labels: np.ndarray, num_bins: int) -> np.ndarray:
    """Return the (B - 1, C) inner edges of B equal-mass bins of each class, of equal width if it has no known label."""
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
    """Return the (K,) float64 values at ``positions`` of the ascending known probabilities, by radix selection.

    ``positions`` (K,) count from 0 and are below the number of known pairs. Sorting would need a copy of all values.
    Bit patterns of non-negative floats sort like the floats. Each pass fixes the next bits of every wanted value: it
    counts the values whose leading bits agree with those found so far.
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
    """Return the bin index of each (n, C) value: how many inner edges ``limits``, (B - 1,) or (B - 1, C), are <= it."""
    if limits.ndim == 1 and len(limits) > FEW_LIMITS:
        return np.searchsorted(limits, values, side='right')
    numbers = np.zeros(values.shape, dtype=np.uint8 if len(limits) < 256 else np.int32)
    for limit in limits:
        numbers += values >= limit
    return numbers


def sums_in_bins(
    probabilities: np.ndarray, labels: np.ndarray, limits: np.ndarray, by: Literal['all', 'class', 'sample'] = 'all'
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count known pairs and add up their probabilities in B bins with inner edges ``limits``, see :func:`bin_limits`.

    ``by`` defines G groups: ``'all'`` pairs (G = 1), one group per ``'class'`` (G = C) or per ``'sample'`` (G = N).
    Return (number of pairs, number of positive pairs, sum of probabilities), each of shape (G, B).
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
    return counts.sum(axis=2), counts[..., 1], total


def _working_type(dtype: np.dtype) -> type[np.floating]:
    """Return the dtype to sort probabilities in, fast in numpy: float32 for float16 and float32, else float64."""
    return np.float32 if dtype in (np.float16, np.float32) else np.float64

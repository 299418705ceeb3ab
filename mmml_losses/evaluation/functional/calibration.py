r"""Reliability bins of probabilities, and the calibration errors computed from them.

Every error here summarises the gaps :math:`|\text{positive rate} - \text{mean probability}|` of the bins. Public code
calls several errors ACE. :data:`ACE_VARIANTS` names the variants, and every function that computes one takes its name:

- ``'non-empty'``: unweighted mean over the bins that hold a pair (average calibration error of Neumann et al. 2018, the
  ACE of the SPA paper and of netcal). The default.
- ``'all'``: unweighted mean over all bins, where an empty one counts as 0. More bins make it smaller.
- ``'adaptive'``: unweighted mean over bins of equal mass (adaptive calibration error of Nixon et al. 2019, who average
  it over classes). Needs bins made with ``binning='mass'``; bins that are empty because of ties are left out.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ...utils.arrays import ArrayLike, as_labels_of, as_probabilities, check_whole_number, row_blocks

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
    """Mean predicted probability and share of positive labels in each of B bins of the probability.

    Attributes:
        counts: (B,) number of known (sample, class) pairs in each bin.
        mean_probability: (B,) mean predicted probability; NaN in an empty bin.
        positive_rate: (B,) share of positive labels; NaN in an empty bin.
        edges: (B + 1,) limits of the bins, from 0 to 1; of equal width by default.
        binning: ``'width'`` or ``'mass'``.
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
        """Return the attributes as lists and numbers for JSON, with None for NaN."""
        values = {'binning': self.binning, 'edges': np.asarray(self.edges).tolist(), 'counts': self.counts.tolist()}
        for name in ('mean_probability', 'positive_rate'):
            array = getattr(self, name)
            values[name] = np.where(np.isnan(array), np.array(None), array).tolist()
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> 'ReliabilityBins':
        """Rebuild the bins from the result of :meth:`to_dict`."""
        names = ('mean_probability', 'positive_rate', 'edges')
        arrays = {name: np.array(values[name], dtype=np.float64) for name in names}
        return cls(np.array(values['counts'], dtype=np.int64), **arrays, binning=values['binning'])


class ClassReliabilityBins(ReliabilityBins):
    """Reliability bins of each class, in arrays with C rows; ``bins[c]`` are the bins of class c."""

    edges: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: int) -> ReliabilityBins:
        counts, means, rates = self.counts[index], self.mean_probability[index], self.positive_rate[index]
        return ReliabilityBins(counts, means, rates, self.edges[index], self.binning)


class CalibrationErrors(NamedTuple):
    r"""Calibration errors in [0, 1]: summaries of the :math:`|\text{positive rate} - \text{mean probability}|` of bins.

    Attributes:
        ace: Unweighted mean over the non-empty bins, or another variant of ACE; see :func:`calibration_errors`.
        mce: Maximum over the non-empty bins.
        ece: Mean weighted by the number of pairs in each bin.
    """

    ace: float
    mce: float
    ece: float


class ClassCalibrationErrors(NamedTuple):
    """Calibration errors of each of C classes, NaN for a class without a known label.

    Attributes:
        ace: (C,) unweighted means over the bins.
        mce: (C,) maxima over the non-empty bins.
        ece: (C,) means weighted by the number of samples in each bin.
    """

    ace: np.ndarray
    mce: np.ndarray
    ece: np.ndarray

    @property
    def num_skipped(self) -> int:
        """Number of classes without a known label."""
        return int(np.isnan(self.mce).sum())

    @property
    def mean(self) -> CalibrationErrors:
        """Unweighted means over the classes that have a known label; NaN if no class has one."""
        counted = ~np.isnan(self.mce)
        return CalibrationErrors(*(float(v[counted].mean()) if counted.any() else float('nan') for v in self))


def reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 10, binning: Binning = 'width'
) -> ReliabilityBins:
    r"""Sort all known (sample, class) pairs into bins by predicted probability.

    With ``binning='width'``, bin :math:`b` of :math:`B` holds :math:`b/B \le p < (b+1)/B`; the last one also holds
    :math:`p = 1`. Limits are compared in double precision: float32's 0.7 is a little less than 0.7 and belongs to the
    bin below.

    With ``binning='mass'``, bins hold equally many pairs as far as ties allow: bin :math:`b` starts with the value at
    position :math:`\lfloor b n / B \rfloor` of the :math:`n` sorted pairs, and pairs of equal probability always share
    a bin. Frequent values therefore leave bins empty. The order of the pairs changes nothing.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        num_bins: Number of bins.
        binning: ``'width'`` or ``'mass'``.
    """
    counts, means, rates, edges = _bins_of(probabilities, labels, num_bins, binning, 'all')
    return ReliabilityBins(counts[0], means[0], rates[0], edges[0], binning)


def class_reliability_bins(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 10, binning: Binning = 'width'
) -> ClassReliabilityBins:
    """Sort the known samples of each class into bins of its own, as :func:`reliability_bins` does for all pairs.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        num_bins: Number of bins.
        binning: ``'width'``, with the same limits for all classes, or ``'mass'``, with limits of each class.
    """
    return ClassReliabilityBins(*_bins_of(probabilities, labels, num_bins, binning, 'class'), binning)


def _bins_of(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int, binning: Binning, by: Literal['all', 'class']
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute the bins of all pairs (G = 1) or of each class (G = C).

    Returns the (G, B) counts of known pairs, mean probabilities and positive rates, and the (G, B + 1) limits.
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
    """Compute the calibration errors from reliability bins; all NaN when every bin is empty.

    On pooled labels and bins of equal width they are netcal's ACE, MCE and ECE and torchmetrics' binary calibration
    error of norm ``max`` and ``l1``. Those differ where a probability lies on a limit of a bin: netcal moves 0 and 1
    inwards by an epsilon, torchmetrics gives p = 1 a bin of its own and rounds the limits to the type of the input.

    Args:
        bins: Result of :func:`reliability_bins`.
        ace: Variant of ACE: ``'non-empty'``, ``'all'`` or, for bins of equal mass, ``'adaptive'``; see
            :mod:`mmml_losses.evaluation.functional.calibration`.
    """
    check_ace(ace, bins.binning)
    errors = errors_of(bins.counts, bins.mean_probability, bins.positive_rate, ace)
    return CalibrationErrors(*map(float, errors))


def class_calibration_errors(bins: ClassReliabilityBins, ace: AceVariant = 'non-empty') -> ClassCalibrationErrors:
    """Compute the calibration errors of each class; ``mean`` averages them over the classes.

    Args:
        bins: Result of :func:`class_reliability_bins`.
        ace: Variant of ACE, as for :func:`calibration_errors`. With ``'adaptive'``, the mean over the classes is the
            adaptive calibration error as Nixon et al. define it.
    """
    check_ace(ace, bins.binning)
    return ClassCalibrationErrors(*errors_of(bins.counts, bins.mean_probability, bins.positive_rate, ace))


def check_ace(ace: str, binning: str = 'mass') -> None:
    """Raise if ``ace`` is not a variant of ACE, or is ``'adaptive'`` without bins of equal mass."""
    if ace not in ACE_VARIANTS:
        raise ValueError(f'ace must be one of {ACE_VARIANTS}, got {ace!r}')
    if ace == 'adaptive' and binning != 'mass':
        raise ValueError(f"ace='adaptive' must be read from bins made with binning='mass', got bins of {binning!r}")


def errors_of(
    counts: np.ndarray, mean_probability: np.ndarray, positive_rate: np.ndarray, ace: AceVariant
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute ACE, MCE and ECE from (..., B) values of B bins; NaN where every bin is empty."""
    gaps = np.where(counts > 0, np.abs(positive_rate - mean_probability), 0.0)
    num_pairs = counts.sum(axis=-1)
    num_bins = counts.shape[-1] if ace == 'all' else (counts > 0).sum(axis=-1)
    empty = np.where(num_pairs > 0, 0.0, np.nan)
    with np.errstate(invalid='ignore'):
        mean_gap = gaps.sum(axis=-1) / num_bins + empty
        return mean_gap, gaps.max(axis=-1) + empty, (gaps * counts).sum(axis=-1) / num_pairs


def check_binning(num_bins: int, binning: str) -> None:
    """Raise if ``num_bins`` is not a positive whole number, or ``binning`` is not a kind of binning."""
    check_whole_number('num_bins', num_bins, 1)
    if binning not in BINNINGS:
        raise ValueError(f'binning must be one of {BINNINGS}, got {binning!r}')


def equal_width_limits(num_bins: int) -> np.ndarray:
    """Return the (B - 1,) limits between bins of equal width."""
    return np.arange(1, num_bins) / num_bins


def bin_limits(
    probabilities: np.ndarray, labels: np.ndarray, num_bins: int, binning: Binning, by: Literal['all', 'class'] = 'all'
) -> np.ndarray:
    """Find the limits between the bins of :func:`reliability_bins`: (B - 1,) if all classes share them, or (B - 1, C).

    The limits of equal mass are exact, whatever the order of the pairs.
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
    """Find the (B - 1, C) limits between the bins of equal mass of each class."""
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
    """Find the values at given positions of the sorted known probabilities, without sorting or copying them all.

    The bit patterns of floats that are not negative have the order of the floats themselves. Each pass counts the next
    digit of the patterns that begin like a wanted one, and so determines this digit of each wanted pattern.

    Positions (K,) count from 0 and are below the number of known pairs; pairs with the label -1 are left out.
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
    """Return the bin number of each (n, C) value: the number of limits, (B - 1,) or (B - 1, C), at or below it."""
    if limits.ndim == 1 and len(limits) > FEW_LIMITS:
        return np.searchsorted(limits, values, side='right')
    numbers = np.zeros(values.shape, dtype=np.uint8 if len(limits) < 256 else np.int32)
    for limit in limits:
        numbers += values >= limit
    return numbers


def sums_in_bins(
    probabilities: np.ndarray, labels: np.ndarray, limits: np.ndarray, by: Literal['all', 'class', 'sample'] = 'all'
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count and add up the known pairs in each bin, for groups of pairs.

    A group is all pairs (G = 1), the pairs of a class (G = C) or the pairs of a sample (G = N). Returns the (G, B)
    numbers of known pairs and of positive ones, and the sums of the predicted probabilities.
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
    """Return float32 for float16 and float32, else float64; numpy sorts both quickly."""
    return np.float32 if dtype in (np.float16, np.float32) else np.float64

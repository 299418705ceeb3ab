"""Bootstrap confidence intervals of calibration measures, by resampling images."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...utils import arrays
from ...utils.arguments import check_whole_number
from ...utils.arrays import ArrayLike, as_labels_of, as_probabilities
from .calibration import AceVariant, Binning, bin_limits, check_ace, check_binning, errors_of, sums_in_bins
from .scores import clip_of, clipped_log_loss, fit_line, line_sums, sample_sums, squared_error

BIN_MEASURES = ('ace', 'mce', 'ece')
LINE_MEASURES = ('slope', 'intercept')
MEASURES = (*BIN_MEASURES, 'brier', 'nll', *LINE_MEASURES)


class ImageSums(NamedTuple):
    """K statistics of each image in ``sums``; ``read`` computes measures from their totals over resampled images."""

    sums: np.ndarray  # (N, K)
    read: Callable[[np.ndarray], dict[str, np.ndarray]]  # from (R, K) sums of R resamples to (R,) values by measure
    whole: dict[str, float] | None = None  # measures of the whole dataset; None: ``read`` computes them, too


class Interval(NamedTuple):
    """Bootstrap interval: ``value`` on the whole dataset, ``lower`` and ``upper`` quantile of values on resamples."""

    value: float
    lower: float
    upper: float


def calibration_intervals(
    probabilities: ArrayLike,
    labels: ArrayLike,
    num_bins: int = 10,
    binning: Binning = 'width',
    ace: AceVariant = 'non-empty',
    *,
    measures: Sequence[str] = BIN_MEASURES,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Compute percentile bootstrap intervals of pooled calibration measures.

    Each resample draws N of the N images with replacement. Images are resampled and not single pairs, because the
    labels of an image depend on each other. Each image is binned once, since all measures use sums over images.

    With ``binning='mass'``, all resamples use the bin edges of the whole dataset. Slope and intercept of a resample are
    approximate: two Newton steps from the fit to the whole dataset, with derivatives up to the third at this fit. The
    errors ACE, MCE and ECE use absolute gaps, which noise enlarges. Resamples of a well calibrated model therefore have
    greater errors than the model itself, so that ``value`` may lie near or below ``lower``.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1], one row for each image.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        num_bins: Number of bins of the predicted probability, for ACE, MCE and ECE.
        binning: ``'width'`` for bins of equal width, ``'mass'`` for bins of equally many pairs.
        ace: Variant of ACE; see :func:`~mmml_losses.evaluation.calibration_errors`.
        measures: Any of ``'ace', 'mce', 'ece'`` (the default), ``'brier', 'nll', 'slope', 'intercept'``.
        num_resamples: Number of resamples.
        confidence: Fraction of the resamples between ``lower`` and ``upper``: for 0.95, the quantiles 0.025 and 0.975.
        seed: Seed of the random resamples.

    Returns:
        Dict from measure name to :class:`Interval`, all NaN without a known pair. Without a converged recalibration
        line, slope and intercept keep the values of :func:`~mmml_losses.evaluation.calibration_line`, with NaN bounds.
    """
    check_binning(num_bins, binning)
    check_ace(ace, binning)
    check_resampling(measures, num_resamples, confidence, seed)
    probabilities = as_probabilities(probabilities)
    labels = as_labels_of(probabilities, labels, 'probabilities')

    limits = bin_limits(probabilities, labels, num_bins, binning)
    clip = clip_of(probabilities, None)
    parts = [_binned(probabilities, labels, limits, ace)]
    if {'brier', 'nll'} & set(measures):
        parts.append(_scored(probabilities, labels, clip))
    if set(LINE_MEASURES) & set(measures):
        parts.append(_lined(probabilities, labels, clip))

    whole, resamples = dict[str, float](), dict[str, np.ndarray]()
    sums = np.concatenate([part.sums for part in parts], axis=1)
    drawn = np.concatenate([weights @ sums for weights in _draws(len(sums), num_resamples, seed)])
    starts = np.cumsum([0] + [part.sums.shape[1] for part in parts])
    for part, start in zip(parts, starts, strict=False):
        of_all = part.sums.sum(axis=0, keepdims=True)
        whole |= part.whole or {name: values[0] for name, values in part.read(of_all).items()}
        resamples |= part.read(drawn[:, start : start + part.sums.shape[1]])
    return {name: _interval(whole[name], resamples[name], confidence) for name in measures}


def check_resampling(measures: Sequence[str], num_resamples: int, confidence: float, seed: int = 0) -> None:
    """Raise a ValueError if one of these arguments of :func:`calibration_intervals` is invalid."""
    unknown = [name for name in measures if name not in MEASURES]
    if unknown or isinstance(measures, str):
        raise ValueError(f'measures must be some of {MEASURES}, got {measures!r}')
    check_whole_number('num_resamples', num_resamples, 1)
    check_whole_number('seed', seed, 0)
    if not 0 < confidence < 1:
        raise ValueError(f'confidence must lie between 0 and 1, got {confidence}')


def _binned(probabilities: np.ndarray, labels: np.ndarray, limits: np.ndarray, ace: AceVariant) -> ImageSums:
    num_bins = len(limits) + 1

    def read(sums: np.ndarray) -> dict[str, np.ndarray]:
        counts, positives, total = sums.reshape(len(sums), 3, num_bins).transpose(1, 0, 2)
        with np.errstate(invalid='ignore'):
            errors = errors_of(counts, total / counts, positives / counts, ace)
        return dict(zip(BIN_MEASURES, errors, strict=True))

    sums = np.concatenate(sums_in_bins(probabilities, labels, limits, by='sample'), axis=1, dtype=np.float64)
    return ImageSums(sums, read)


def _scored(probabilities: np.ndarray, labels: np.ndarray, clip: float) -> ImageSums:
    def read(sums: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(invalid='ignore'):
            return {'brier': sums[:, 0] / sums[:, 2], 'nll': sums[:, 1] / sums[:, 2]}

    scores = [sample_sums(probabilities, labels, score) for score in (squared_error, clipped_log_loss(clip))]
    counts = sample_sums(probabilities, labels, lambda p, positive: np.ones_like(p))
    return ImageSums(np.stack([*scores, counts], axis=1), read)


def _lined(probabilities: np.ndarray, labels: np.ndarray, clip: float) -> ImageSums:
    line = fit_line(probabilities, labels, clip)
    whole = {'slope': line.slope, 'intercept': line.intercept}
    if line.status != 'fitted':  # there is no line to step away from
        nothing = np.zeros((len(labels), 0))
        return ImageSums(nothing, lambda sums: {name: np.full(len(sums), np.nan) for name in LINE_MEASURES}, whole)

    def read(sums: np.ndarray) -> dict[str, np.ndarray]:
        first, second, third = sums.T[:2], sums.T[2:5], sums.T[5:]
        with np.errstate(invalid='ignore', divide='ignore', over='ignore'):
            a, b = -_solved(second, first)
            # After the first step, the first derivatives are half of the third ones times its square.
            change = a * third[:3] + b * third[1:]
            rest = (a * change[:2] + b * change[1:]) / 2
            curvature = second + change
            # Where the third derivatives turn the likelihood into a saddle, there is no second step.
            is_convex = (curvature[0] > 0) & (curvature[0] * curvature[2] > curvature[1] ** 2)
            da, db = np.where(is_convex, _solved(curvature, rest), 0)
        return {'intercept': line.intercept + a - da, 'slope': line.slope + b - db}

    return ImageSums(line_sums(probabilities, labels, clip, line), read, whole)


def _solved(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Solve R symmetric 2x2 systems H x = g: (3, R) H00, H01, H11 and (2, R) g give (2, R) x; inf, NaN if singular."""
    h00, h01, h11 = matrices
    g0, g1 = vectors
    return np.stack([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0]) / (h00 * h11 - h01**2)


def _draws(num_images: int, num_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield resamples with replacement, in blocks (k, N) float64: how often each of k draws each of N images."""
    rng = np.random.default_rng(seed)
    step = max(1, arrays.BLOCK_ENTRIES // max(1, num_images))
    for start in range(0, num_resamples, step):
        size = min(step, num_resamples - start)
        drawn = rng.integers(max(1, num_images), size=(size, num_images)) + num_images * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * num_images)
        yield counts.reshape(size, num_images).astype(np.float64)


def _interval(value: float, resamples: np.ndarray, confidence: float) -> Interval:
    resamples = resamples[np.isfinite(resamples)]
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    lower, upper = np.quantile(resamples, ends) if resamples.size else (np.nan, np.nan)
    return Interval(float(value), float(lower), float(upper))

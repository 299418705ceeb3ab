"""Proper scores of probabilities: Brier score and negative log-likelihood.

Both are least in expectation for the true probabilities, so they judge calibration and sharpness together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...utils.arrays import ArrayLike, as_labels_of, as_probabilities, as_scores, row_blocks

# A score of each pair from (n, C) float64 values and which of them are positive.
PairScore = Callable[[np.ndarray, np.ndarray], np.ndarray]


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Mean of :math:`(p - y)^2` over all known (sample, class) pairs, in [0, 1]; NaN without one.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
    """
    return _mean_of(*_sums(as_probabilities(probabilities), labels, squared_error))


def class_brier_scores(probabilities: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """(C,) Brier scores of the classes, as :func:`brier_score`; NaN for a class without a known label."""
    return _ratio(*_sums(as_probabilities(probabilities), labels, squared_error))


def negative_log_likelihood(probabilities: ArrayLike, labels: ArrayLike, clip: float | None = None) -> float:
    r"""Log loss in nats: the mean of :math:`-\log p` over positive and :math:`-\log(1 - p)` over negative known pairs.

    A wrong probability of exactly 0 or 1 would cost infinitely much. As in scikit-learn's ``log_loss``, probabilities
    are therefore clipped to [clip, 1 - clip], by default with the machine epsilon of their own type: about 2e-16 for
    float64, 1e-7 for float32 and 1e-3 for float16. Log-odds need no clipping:
    :func:`negative_log_likelihood_of_log_odds`.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        clip: Smallest probability that is told from 0, below 0.5; 0 does not clip.

    Returns:
        The mean; NaN without a known pair.
    """
    probabilities = as_probabilities(probabilities)
    return _mean_of(*_sums(probabilities, labels, clipped_log_loss(clip_of(probabilities, clip))))


def class_negative_log_likelihoods(
    probabilities: ArrayLike, labels: ArrayLike, clip: float | None = None
) -> np.ndarray:
    """(C,) values of the classes, as :func:`negative_log_likelihood`; NaN for a class without a known label."""
    probabilities = as_probabilities(probabilities)
    return _ratio(*_sums(probabilities, labels, clipped_log_loss(clip_of(probabilities, clip))))


def negative_log_likelihood_of_log_odds(log_odds: ArrayLike, labels: ArrayLike) -> float:
    r"""Mean of :math:`\log(1 + e^{\mp x})` over the known pairs, :math:`-` for positives: exact, without clipping.

    Args:
        log_odds: (N, C) log-odds :math:`x = \log(p / (1 - p))`; infinite ones say that the model is certain.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.

    Returns:
        The mean in nats; NaN without a known pair, infinite where a certain model is wrong.
    """
    return _mean_of(*_sums(as_scores(log_odds, 'log_odds'), labels, _logistic_loss, 'log_odds'))


def squared_error(p: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Brier score of each pair."""
    return np.square(p - positive)


def clipped_log_loss(clip: float) -> PairScore:
    """Negative log-likelihood of each pair, with probabilities clipped to [clip, 1 - clip]."""

    def log_loss(p: np.ndarray, positive: np.ndarray) -> np.ndarray:
        p = np.clip(p, clip, 1 - clip)
        with np.errstate(divide='ignore'):  # unclipped, a wrong certainty costs infinitely much
            return -np.log(np.where(positive, p, 1 - p))

    return log_loss


def clip_of(probabilities: np.ndarray, clip: float | None) -> float:
    """The smallest probability told from 0: what the caller says, or the machine epsilon of the type."""
    if clip is None:
        kind = probabilities.dtype if probabilities.dtype.kind == 'f' else np.dtype(np.float64)
        return float(np.finfo(kind).eps)
    if not 0 <= clip < 0.5:
        raise ValueError(f'clip must lie in [0, 0.5), got {clip}')
    return clip


def sample_sums(values: np.ndarray, labels: np.ndarray, score: PairScore) -> np.ndarray:
    """(N,) sums of a score over the known pairs of each sample."""
    return np.concatenate([np.zeros(0), *(block.sum(axis=1) for block in _scored(values, labels, score))])


def _logistic_loss(log_odds: np.ndarray, positive: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, np.where(positive, -log_odds, log_odds))


def _sums(
    values: np.ndarray, labels: ArrayLike, score: PairScore, name: str = 'probabilities'
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of a score and number of known pairs, both for each class."""
    labels = as_labels_of(values, labels, name)
    totals, counts = np.zeros(values.shape[1]), np.zeros(values.shape[1], dtype=np.int64)
    for block in _scored(values, labels, score):
        totals += block.sum(axis=0)
    for rows in row_blocks(*labels.shape):
        counts += (labels[rows] >= 0).sum(axis=0)
    return totals, counts


def _scored(values: np.ndarray, labels: np.ndarray, score: PairScore):
    """The scores block by block, 0 for unknown pairs."""
    for rows in row_blocks(*values.shape):
        scores = score(values[rows].astype(np.float64), labels[rows] == 1)
        yield np.where(labels[rows] >= 0, scores, 0.0)


def _mean_of(totals: np.ndarray, counts: np.ndarray) -> float:
    return float(_ratio(totals.sum(), counts.sum()))


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    with np.errstate(invalid='ignore'):
        return np.true_divide(total, count)

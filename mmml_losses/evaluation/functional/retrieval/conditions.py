"""Conditions of queries as numbers: how likely each image meets each one, and whether it does."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from ....utils.arrays import ArrayLike, as_labels_of, as_probabilities, as_scores

Scale = Literal['probability', 'logit']


class ConditionTable(NamedTuple):
    """Every condition that a query may hold, over all images.

    Condition ``c`` below C asks for class ``c``, condition ``C + c`` rules it out. A query is a rising list of
    conditions, so its positives come before its negatives.

    Attributes:
        log_scores: (2C, N) float64 log-probability of each condition; NaN where the label is unknown. NaN passes to
            every sum and is never "at least" anything, so such an image takes no place in a ranking.
        satisfied: (2C, N) bool, whether the label is known to meet the condition.
        starts: (C + 1,) where the images of each class begin in ``images``.
        images: Indices of the images that show class 0, rising, then of class 1, and so on.
    """

    log_scores: np.ndarray
    satisfied: np.ndarray
    starts: np.ndarray
    images: np.ndarray

    @property
    def num_classes(self) -> int:
        return self.log_scores.shape[0] // 2

    @property
    def num_images(self) -> int:
        return self.log_scores.shape[1]


def condition_table(scores: ArrayLike, labels: ArrayLike, scale: Scale = 'probability') -> ConditionTable:
    """Read scores and labels once for any number of queries; 18 bytes for each (image, class) pair."""
    scores = as_scores_on(scale, scores)
    labels = as_labels_of(scores, labels, 'probabilities' if scale == 'probability' else 'logits')
    num_images, num_classes = scores.shape
    log_scores = np.empty((2 * num_classes, num_images))
    satisfied = np.empty(log_scores.shape, dtype=bool)
    for index in range(num_classes):
        for condition, asked, label in ((index, True, 1), (num_classes + index, False, 0)):
            log_scores[condition] = log_probability(scores[:, index], asked, scale)
            log_scores[condition, labels[:, index] < 0] = np.nan
            satisfied[condition] = labels[:, index] == label
    starts = np.concatenate([[0], np.cumsum(satisfied[:num_classes].sum(axis=1))])
    images = np.nonzero(satisfied[:num_classes])[1].astype(np.int32)
    return ConditionTable(log_scores, satisfied, starts.astype(np.int64), images)


def as_scores_on(scale: Scale, scores: ArrayLike) -> np.ndarray:
    """Read (N, C) probabilities, or log-odds without NaN."""
    if scale not in get_args(Scale):
        raise ValueError(f"scale must be 'probability' or 'logit', got {scale!r}")
    return as_probabilities(scores) if scale == 'probability' else as_scores(scores, 'logits')


def log_probability(scores: np.ndarray, is_asked: bool, scale: Scale) -> np.ndarray:
    r"""Logarithm of :math:`\eta` (of :math:`1 - \eta` when the class is ruled out), in float64.

    From log-odds :math:`z` it is :math:`-\log(1 + e^{-z})` (:math:`-\log(1 + e^{z})`), exact in both tails, where
    the probability itself would already have been rounded to 0 or 1.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if scale == 'logit':
        return -np.logaddexp(0, -scores if is_asked else scores)
    with np.errstate(divide='ignore'):
        return np.log(scores) if is_asked else np.log1p(-scores)

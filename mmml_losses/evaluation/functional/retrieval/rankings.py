"""Conditions of queries as numbers, and the average precision of queries with numpy alone.

:mod:`..kernels` has the same three functions, compiled by Numba, with the same result to the last bit.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from ....utils.arrays import ArrayLike, as_labels_of, as_probabilities, as_scores

Scale = Literal['probability', 'logit']

# Up to so many relevant images, a pass over the candidates for each one is faster than sorting them.
FEW = 8


class ConditionTable(NamedTuple):
    """Every condition that a query may hold, over all images.

    Condition ``c`` below C requires class ``c``, condition ``C + c`` excludes it. A query is a rising list of
    conditions, so its positives come before its negatives.

    Attributes:
        log_scores: (2C, N) float64 log-probability of each condition; NaN where the label is unknown. A sum with NaN is
            NaN, and NaN is never at or above a score, so such an image takes no place in a ranking.
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
    """Read scores and labels once for any number of queries; takes 18 bytes for each (image, class) pair."""
    scores = as_scores_on(scale, scores)
    labels = as_labels_of(scores, labels, 'probabilities' if scale == 'probability' else 'logits')
    num_images, num_classes = scores.shape
    log_scores = np.empty((2 * num_classes, num_images))
    satisfied = np.empty(log_scores.shape, dtype=bool)
    for index in range(num_classes):
        for condition, is_required in ((index, True), (num_classes + index, False)):
            log_scores[condition] = log_probability(scores[:, index], is_required, scale)
            log_scores[condition, labels[:, index] < 0] = np.nan
            satisfied[condition] = labels[:, index] == is_required
    starts = np.concatenate([[0], np.cumsum(satisfied[:num_classes].sum(axis=1))])
    images = np.nonzero(satisfied[:num_classes])[1].astype(np.int32)
    return ConditionTable(log_scores, satisfied, starts.astype(np.int64), images)


def as_scores_on(scale: Scale, scores: ArrayLike) -> np.ndarray:
    """Read (N, C) probabilities, or log-odds without NaN."""
    if scale not in get_args(Scale):
        raise ValueError(f"scale must be 'probability' or 'logit', got {scale!r}")
    return as_probabilities(scores) if scale == 'probability' else as_scores(scores, 'logits')


def log_probability(scores: np.ndarray, is_required: bool, scale: Scale) -> np.ndarray:
    r"""Compute the logarithm of :math:`\eta` (of :math:`1 - \eta` when the class is excluded), in float64.

    From log-odds :math:`z` it is :math:`-\log(1 + e^{-z})` (:math:`-\log(1 + e^{z})`), exact in both tails, where
    the probability itself would already have been rounded to 0 or 1.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if scale == 'logit':
        return -np.logaddexp(0, -scores if is_required else scores)
    with np.errstate(divide='ignore'):
        return np.log(scores) if is_required else np.log1p(-scores)


def evaluate_subtree(conditions: np.ndarray, depth: int, table: ConditionTable) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate the query of some required classes, and all queries that exclude up to ``depth`` classes in addition.

    Returns:
        (depth + 1,) number of queries with a relevant image, and sum of their average precisions, by the number of
        excluded classes.
    """
    counts, totals = np.zeros(depth + 1, dtype=np.int64), np.zeros(depth + 1)

    def visit(scores: np.ndarray, relevant: np.ndarray, first: int, level: int) -> None:
        counts[level] += 1
        totals[level] += _average_precision(scores, relevant)
        for condition in range(first, 2 * table.num_classes if level < depth else 0):
            # Without a relevant image here there is none for the queries with more conditions.
            remaining = relevant[table.satisfied[condition, relevant]]
            if remaining.size:
                visit(scores + table.log_scores[condition], remaining, condition + 1, level + 1)

    relevant = _relevant_to(conditions, table)
    if relevant.size:
        visit(_sum_conditions(conditions, table), relevant, table.num_classes, 0)
    return counts, totals


def evaluate_queries(queries: np.ndarray, table: ConditionTable) -> np.ndarray:
    """Compute the average precision of each row of conditions; NaN without a relevant image."""
    precisions = np.full(len(queries), np.nan)
    for row, conditions in enumerate(queries):
        relevant = _relevant_to(conditions, table)
        if relevant.size:
            precisions[row] = _average_precision(_sum_conditions(conditions, table), relevant)
    return precisions


def first_relevant(queries: np.ndarray, table: ConditionTable) -> np.ndarray:
    """Find the first image that is relevant to each row of conditions; -1 if there is none."""
    found = [_relevant_to(conditions, table)[:1] for conditions in queries]
    return np.array([relevant[0] if relevant.size else -1 for relevant in found], dtype=np.int64)


def _relevant_to(conditions: np.ndarray, table: ConditionTable) -> np.ndarray:
    """Return the images that meet all conditions, rising, starting from those of the rarest required class."""
    positives = conditions[conditions < table.num_classes]
    rarest = positives[np.argmin(table.starts[positives + 1] - table.starts[positives])]
    relevant = table.images[table.starts[rarest] : table.starts[rarest + 1]]
    for condition in conditions:
        if condition != rarest:
            relevant = relevant[table.satisfied[condition, relevant]]
    return relevant


def _sum_conditions(conditions: np.ndarray, table: ConditionTable) -> np.ndarray:
    scores = table.log_scores[conditions[0]].copy()
    for condition in conditions[1:]:
        scores += table.log_scores[condition]
    return scores


def _average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Compute the average precision of one ranking, tied images counted together; NaN scores take no place in it."""
    ranked = np.sort(scores[relevant])
    candidates = scores[scores >= ranked[0]]  # images below the worst relevant one change nothing
    relevant_above = ranked.size - np.searchsorted(ranked, ranked)
    if ranked.size <= FEW:
        above = np.array([np.count_nonzero(candidates >= value) for value in ranked])
    else:
        candidates.sort()
        above = candidates.size - np.searchsorted(candidates, ranked)
    # From the best to the worst, one after the other, as the kernel adds; a plain sum would add in pairs.
    return float(np.cumsum((relevant_above / above)[::-1])[-1] / ranked.size)

"""Average precision of queries with numpy alone: what :mod:`.kernels` does where numba is installed, bit for bit."""

from __future__ import annotations

import numpy as np

from .conditions import ConditionTable

# Up to so many relevant images, a pass over the candidates for each one beats sorting them.
FEW = 8


def average_precision_of(relevant_scores: np.ndarray, scores: np.ndarray) -> float:
    """Average precision of one ranking, tied images counted together.

    Args:
        relevant_scores: Scores of the relevant images, at least one.
        scores: Scores of all images; NaN for an image that is left out.
    """
    ranked = np.sort(relevant_scores)
    # Images below the worst relevant one change nothing.
    candidates = scores[scores >= ranked[0]]
    relevant_above = ranked.size - np.searchsorted(ranked, ranked)
    if ranked.size <= FEW:
        above = np.array([np.count_nonzero(candidates >= value) for value in ranked])
    else:
        candidates.sort()
        above = candidates.size - np.searchsorted(candidates, ranked)
    # From the best to the worst and one after the other, as the kernel adds; a plain sum would add in pairs.
    return float(np.cumsum((relevant_above / above)[::-1])[-1] / ranked.size)


def evaluate_subtree(
    conditions: np.ndarray, first_class: int, depth: int, table: ConditionTable
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a query and all that rule out up to ``depth`` more classes, each from ``first_class`` on.

    Returns:
        (depth + 1,) number of queries with a relevant image, and sum of their average precisions, by the number of
        classes added.
    """
    counts = np.zeros(depth + 1, dtype=np.int64)
    totals = np.zeros(depth + 1)

    def visit(scores: np.ndarray, relevant: np.ndarray, first: int, added: int) -> None:
        counts[added] += 1
        totals[added] += average_precision_of(scores[relevant], scores)
        if added == depth:
            return
        for index in range(first, table.num_classes):
            condition = table.num_classes + index
            # A set without images stays without: nothing below it needs a look.
            remaining = relevant[table.satisfied[condition, relevant]]
            if remaining.size:
                visit(scores + table.log_scores[condition], remaining, index + 1, added + 1)

    relevant = relevant_to(conditions, table)
    if relevant.size:
        visit(_scores_of(conditions, table), relevant, first_class, 0)
    return counts, totals


def evaluate_queries(queries: np.ndarray, table: ConditionTable) -> np.ndarray:
    """Average precision of each row of conditions, padded with -1; NaN without a relevant image."""
    precisions = np.full(len(queries), np.nan)
    for row, conditions in enumerate(queries):
        conditions = conditions[conditions >= 0]
        relevant = relevant_to(conditions, table)
        if relevant.size:
            scores = _scores_of(conditions, table)
            precisions[row] = average_precision_of(scores[relevant], scores)
    return precisions


def first_relevant(queries: np.ndarray, table: ConditionTable) -> np.ndarray:
    """Index of the first image that is relevant to each row of conditions; -1 if there is none."""
    first = np.full(len(queries), -1, dtype=np.int64)
    for row, conditions in enumerate(queries):
        relevant = relevant_to(conditions, table)
        if relevant.size:
            first[row] = relevant[0]
    return first


def relevant_to(conditions: np.ndarray, table: ConditionTable) -> np.ndarray:
    """Rising indices of the images known to meet all conditions, starting from the rarest class that is asked for."""
    positives = conditions[conditions < table.num_classes]
    rarest = positives[np.argmin(table.starts[positives + 1] - table.starts[positives])]
    relevant = table.images[table.starts[rarest] : table.starts[rarest + 1]]
    for condition in conditions:
        if condition != rarest:
            relevant = relevant[table.satisfied[condition, relevant]]
    return relevant


def _scores_of(conditions: np.ndarray, table: ConditionTable) -> np.ndarray:
    scores = table.log_scores[conditions[0]].copy()
    for condition in conditions[1:]:
        scores += table.log_scores[condition]
    return scores

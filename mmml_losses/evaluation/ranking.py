"""Average precision of every class or of every sample: exact, independent of the order of ties, one sort each."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch

from .arrays import ArrayLike, as_labels_of, as_scores, row_blocks

By = Literal['class', 'sample']

# Columns copied at a time, so that both the rows and the columns of a tile stay in the processor's cache.
TILE = 256
# From here on one call of torch's batched search beats a call of numpy's for each row.
MANY_ROWS = 256


class MeanAveragePrecision(NamedTuple):
    """A mean of average precisions, and over how many it runs.

    Attributes:
        value: The mean in [0, 1]; NaN when there is nothing to average.
        num_averaged: Number of classes (samples) in the mean.
        num_skipped: Number of classes (samples) left out because they have no positive label.
    """

    value: float
    num_averaged: int
    num_skipped: int

    @classmethod
    def of(cls, precisions: np.ndarray) -> MeanAveragePrecision:
        """Average the result of :func:`average_precision`, leaving out its NaN entries."""
        defined = precisions[~np.isnan(precisions)]
        value = float(defined.mean()) if defined.size else float('nan')
        return cls(value, defined.size, precisions.size - defined.size)


def average_precision(scores: ArrayLike, labels: ArrayLike, by: By = 'class') -> np.ndarray:
    r"""Average precision of each class (or each sample), without interpolation.

    With :math:`P` the positives of one class and :math:`K` its known entries,

    .. math::
        AP = \frac{1}{|P|} \sum_{i \in P} \frac{|\{j \in P : s_j \ge s_i\}|}{|\{j \in K : s_j \ge s_i\}|},

    which is :math:`\sum_n (R_n - R_{n-1}) P_n` over the distinct thresholds, the definition of scikit-learn's
    ``average_precision_score``: tied entries share one threshold, so their order does not matter.

    Args:
        scores: (N, C) scores of any real dtype, higher is more positive. Logits and probabilities rank alike.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown entries are left out.
        by: ``'class'`` ranks the samples of each class, ``'sample'`` the classes of each sample.

    Returns:
        float64 array of shape (C,) for ``by='class'`` or (N,) for ``by='sample'``; NaN where there is no positive.

    Examples:
        >>> average_precision([[0.9, 0.1], [0.5, 0.1], [0.5, 0.3]], [[1, 0], [1, 0], [0, 0]])
        array([0.83333333,        nan])
    """
    scores = as_scores(scores)
    labels = as_labels_of(scores, labels)
    if by not in ('class', 'sample'):
        raise ValueError(f"by must be 'class' or 'sample', got {by!r}")
    if by == 'class':
        scores, labels = scores.T, labels.T
    precisions = np.empty(len(scores))
    for rows in row_blocks(*scores.shape):
        precisions[rows] = _average_precision_of_rows(scores[rows], labels[rows])
    return precisions


def mean_average_precision(scores: ArrayLike, labels: ArrayLike, by: By = 'class') -> MeanAveragePrecision:
    """Mean of :func:`average_precision` over the classes (samples) that have a positive label.

    ``by='class'`` is the usual mAP (mAP@class, mAP@y in paper notation), ``by='sample'`` is mAP@sample (mAP@x).
    """
    return MeanAveragePrecision.of(average_precision(scores, labels, by))


def _average_precision_of_rows(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average precision of each row of one block.

    No permutation is needed: with the row's values sorted, a positive's rank is a binary search for its value, and
    counting the entries strictly below it leaves all of its ties above, as the definition asks.
    """
    # float16 sorts slowly and float32 holds its values exactly; integers up to 2**53 are exact in float64.
    ranked = _row_major_copy(scores, np.float32 if scores.dtype in (np.float16, np.float32) else np.float64)
    labels = _row_major_copy(labels, np.int8)
    num_rows, num_entries = ranked.shape
    places = np.flatnonzero(labels == 1)
    rows = places // num_entries
    values = ranked.ravel()[places]
    num_positives = np.bincount(rows, minlength=num_rows)
    unknown = labels < 0
    num_known = num_entries - np.count_nonzero(unknown, axis=1)
    ranked[unknown] = -np.inf
    ranked.sort(axis=1)

    # Positives by row, and from the worst to the best within a row, by one sort of integers.
    row_keys = rows * (num_entries + 1)
    keys = np.sort(row_keys + _count_below(ranked, values, num_positives))
    is_new = np.diff(keys, prepend=-1) > 0
    first_tied = np.maximum.accumulate(np.where(is_new, np.arange(keys.size), 0))
    positives_above = np.cumsum(num_positives)[rows] - first_tied
    # Unknown entries sit at -inf: only a positive at -inf ties with them, and it has every known entry above it.
    known_above = np.minimum(num_entries - (keys - row_keys), num_known[rows])
    total = np.bincount(rows, weights=positives_above / known_above, minlength=num_rows)
    with np.errstate(invalid='ignore'):
        return total / num_positives


def _count_below(ascending: np.ndarray, values: np.ndarray, num_values: np.ndarray) -> np.ndarray:
    """Count the entries of each row of ``ascending`` below each of the values that belong to the row.

    Args:
        ascending: (R, E) sorted rows.
        values: (V,) values of the first row, then of the second, and so on.
        num_values: (R,) how many values belong to each row.

    Returns:
        (V,) counts, row after row, in any order within a row.
    """
    if len(ascending) < MANY_ROWS:
        values_of_rows = np.split(values, np.cumsum(num_values)[:-1])
        return np.concatenate(
            # Neighbouring values end in the same cache lines, so sorting them first pays.
            [
                np.searchsorted(row, np.sort(row_values))
                for row, row_values in zip(ascending, values_of_rows, strict=True)
            ]
        )
    is_value = np.arange(num_values.max(initial=0)) < num_values[:, None]
    padded = np.zeros(is_value.shape, dtype=values.dtype)
    padded[is_value] = values
    return torch.searchsorted(torch.from_numpy(ascending), torch.from_numpy(padded)).numpy()[is_value]


def _row_major_copy(matrix: np.ndarray, dtype: type) -> np.ndarray:
    """Copy a matrix tile by tile, several times faster than numpy's own copy of a transposed one."""
    copy = np.empty(matrix.shape, dtype)
    for start in range(0, matrix.shape[1], TILE):
        copy[:, start : start + TILE] = matrix[:, start : start + TILE]
    return copy

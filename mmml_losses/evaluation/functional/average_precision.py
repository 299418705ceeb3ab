"""Average precision: of every class, of every sample and pooled; exact, and independent of the order of ties.

Published figures rest on several conventions:

``'exact'``
    The area under the steps of the precision-recall curve, as scikit-learn and torchmetrics compute it. Tied scores are
    one step. :func:`average_precision` gives the formula.
``'voc11'``
    PASCAL VOC until 2009: the mean over the recalls 0, 0.1, …, 1 of the best precision at that recall or a higher one.
    Interpolation raises it above the exact value as a rule, most for classes with few positives. Tied scores are one
    step of the curve; the recalls are compared as fractions of whole numbers, so that 3 of 10 reach 0.3.
``'mmpretrain'``
    ``mmpretrain.evaluation.AveragePrecision``: precision at the place of each positive, averaged, in single precision.
    Tied entries have places of their own, in the order that ``torch.argsort`` happens to leave them: four equal scores
    of which one is a positive give 1 or 1/4 by the order of the samples. A class without a positive counts as 0. (Where
    mmpretrain fails, on classes without a known entry, and where it puts the result into the type of the scores, cut to
    a whole number for integers and rounded to half precision for float16, this follows its formula.)
``'asl'``
    The validation of the ASL repository, which many papers on COCO use: the same places, in double precision and in the
    order of ``numpy.argsort`` turned round, with :math:`10^{-8}` added to the number of positives, which lowers a class
    with few positives by about :math:`10^{-8}`. A class without a positive counts as 0. The repository knows no unknown
    labels and would count them as negatives; here they are left out, as everywhere.

Without ties and without empty classes, ``'mmpretrain'`` and ``'asl'`` equal ``'exact'`` up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from ...utils.arrays import ArrayLike, Empty, as_array, as_labels_of, as_scores, checked_empty
from ...utils.frequencies import checked_groups
from .positive_ranks import By, PositiveRanks, pooled_positive_ranks, positive_ranks

Convention = Literal['exact', 'voc11', 'mmpretrain', 'asl']
CONVENTIONS = ('exact', 'voc11', 'mmpretrain', 'asl')
# The conventions that look at the places of tied entries.
ORDERED = ('mmpretrain', 'asl')

ASL_EPSILON = 1e-8


class MeanAveragePrecision(NamedTuple):
    """A mean of average precisions, and over how many it runs.

    Attributes:
        value: The mean in [0, 1]; NaN when there is nothing to average.
        num_averaged: Number of classes (samples) in the mean.
        num_skipped: Number of classes (samples) left out because they have no positive label.
        num_empty: Number of classes (samples) without a positive label, left out or counted as 0.
    """

    value: float
    num_averaged: int
    num_skipped: int
    num_empty: int

    @classmethod
    def of(cls, precisions: np.ndarray, empty: Empty = 'skip', what: str = 'classes') -> MeanAveragePrecision:
        """Average the result of :func:`average_precision` with ``empty='skip'``.

        Args:
            precisions: Average precisions, NaN where there is no positive label.
            empty: What to do with the NaN entries: ``'skip'`` leaves them out, ``'zero'`` counts them as 0.
            what: What they belong to, for the message of ``'error'``.
        """
        num_empty = int(np.isnan(precisions).sum())
        filled = fill_empty(precisions, empty, what)
        defined = filled[~np.isnan(filled)]
        value = float(defined.mean()) if defined.size else float('nan')
        return cls(value, defined.size, filled.size - defined.size, num_empty)


def average_precision(
    scores: ArrayLike,
    labels: ArrayLike,
    by: By = 'class',
    *,
    empty: Empty | None = None,
    convention: Convention = 'exact',
) -> np.ndarray:
    r"""Average precision of each class (or each sample).

    With :math:`P` the positives of one class and :math:`K` its known entries, ``convention='exact'`` is

    .. math::
        AP = \frac{1}{|P|} \sum_{i \in P} \frac{|\{j \in P : s_j \ge s_i\}|}{|\{j \in K : s_j \ge s_i\}|},

    which is :math:`\sum_n (R_n - R_{n-1}) P_n` over the distinct thresholds, the definition of scikit-learn's
    ``average_precision_score``: tied entries share one threshold, so their order does not matter. The other
    conventions serve to compare with published figures; the head of this module says how they differ.

    Large matrices of floating-point scores are ranked by a compiled kernel where Numba is installed, with the same
    result. The first call in an environment compiles it, which takes some seconds.

    Args:
        scores: (N, C) scores of any real dtype, higher is more positive. Logits and probabilities rank alike.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown entries are left out.
        by: ``'class'`` ranks the samples of each class, ``'sample'`` the classes of each sample.
        empty: What a class (sample) without a positive gets: ``'skip'`` NaN, ``'zero'`` 0, ``'error'`` a
            ``ValueError``. None, the default, is what the convention does: ``'skip'`` for ``'exact'`` and ``'voc11'``,
            ``'zero'`` for ``'mmpretrain'`` and ``'asl'``.
        convention: ``'exact'``, ``'voc11'`` (11 points of the interpolated curve), ``'mmpretrain'`` or ``'asl'``.

    Returns:
        float64 array of shape (C,) for ``by='class'`` or (N,) for ``by='sample'``.

    Examples:
        >>> average_precision([[0.9, 0.1], [0.5, 0.1], [0.5, 0.3]], [[1, 0], [1, 0], [0, 0]])
        array([0.83333333,        nan])
    """
    empty = _empty_of(convention, empty)
    scores = as_scores(scores)
    precisions = _precisions(scores, as_labels_of(scores, labels), by, convention)
    return fill_empty(precisions, empty, _PLURALS[by])


def mean_average_precision(
    scores: ArrayLike,
    labels: ArrayLike,
    by: By = 'class',
    *,
    empty: Empty | None = None,
    convention: Convention = 'exact',
) -> MeanAveragePrecision:
    """Mean of :func:`average_precision`, by default over the classes (samples) that have a positive label.

    ``by='class'`` is the usual mAP (macro average, mAP@class, mAP@y in paper notation), ``by='sample'`` is mAP@sample
    (mAP@x), the label ranking average precision of scikit-learn but for the images without a positive: there each of
    them counts as 1. The arguments are those of :func:`average_precision`.
    """
    empty = _empty_of(convention, empty)
    scores = as_scores(scores)
    precisions = _precisions(scores, as_labels_of(scores, labels), by, convention)
    return MeanAveragePrecision.of(precisions, empty, _PLURALS[by])


def micro_average_precision(
    scores: ArrayLike, labels: ArrayLike, *, empty: Empty = 'skip', convention: Convention = 'exact'
) -> float:
    """Average precision of all known (sample, class) pairs pooled into one ranking, in [0, 1].

    Only the positives are kept in order, so that no second matrix is needed.

    Args:
        scores: (N, C) scores that are comparable between classes.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown entries are left out.
        empty: What to return when there is no positive at all: ``'skip'`` NaN, ``'zero'`` 0, ``'error'`` a
            ``ValueError``.
        convention: ``'exact'`` or ``'voc11'``; the others define no pooled ranking.
    """
    empty = _empty_of(convention, empty)
    if convention in ORDERED:
        raise ValueError(f"convention must be 'exact' or 'voc11' for pooled pairs, got '{convention}'")
    scores = as_scores(scores)
    ranks = pooled_positive_ranks(scores, as_labels_of(scores, labels))
    return float(fill_empty(_summarise(ranks, convention), empty, 'rankings')[0])


def mean_average_precision_of_groups(
    precisions: ArrayLike, groups: Mapping[str, Sequence[int]], *, empty: Empty = 'skip'
) -> dict[str, MeanAveragePrecision]:
    """Mean average precision of groups of classes, such as head, medium and tail.

    Args:
        precisions: (C,) result of :func:`average_precision` with ``by='class'`` and ``empty='skip'``.
        groups: Class indices by the name of the group; :func:`mmml_losses.evaluation.group_classes` makes them from
            class frequencies. A group may be empty; its mean is NaN.
        empty: What to do with classes without a positive label, as in :class:`MeanAveragePrecision`.
    """
    precisions = as_array(precisions).astype(np.float64)
    if precisions.ndim != 1:
        raise ValueError(f'precisions must have the shape (classes,), got {precisions.shape}')
    groups = checked_groups(groups, len(precisions))
    return {
        name: MeanAveragePrecision.of(precisions[list(members)], empty, f'{name} classes')
        for name, members in groups.items()
    }


def fill_empty(precisions: np.ndarray, empty: Empty, what: str) -> np.ndarray:
    """Apply ``empty`` to average precisions that are NaN where there is no positive label."""
    is_empty = np.isnan(precisions)
    return np.where(is_empty, 0.0, precisions) if checked_empty(empty, is_empty, what) == 'zero' else precisions


_PLURALS = {'class': 'classes', 'sample': 'samples'}


def _empty_of(convention: Convention, empty: Empty | None) -> Empty:
    if convention not in CONVENTIONS:
        raise ValueError(f'convention must be one of {CONVENTIONS}, got {convention!r}')
    if empty is None:
        return 'zero' if convention in ORDERED else 'skip'
    return checked_empty(empty, np.zeros(0, bool), '')


def _precisions(scores: np.ndarray, labels: np.ndarray, by: By, convention: Convention) -> np.ndarray:
    """Average precision of each class (sample); NaN where there is no positive."""
    if by not in _PLURALS:
        raise ValueError(f"by must be 'class' or 'sample', got {by!r}")
    if convention in ORDERED:
        return ordered_average_precision(scores, labels, by, convention)
    precisions = np.empty(scores.shape[by == 'class'])
    for block, ranks in positive_ranks(scores, labels, by):
        precisions[block] = _summarise(ranks, convention)
    return precisions


def _summarise(ranks: PositiveRanks, convention: Convention) -> np.ndarray:
    if convention == 'voc11':
        return eleven_point(ranks)
    precision = ranks.positives_above / ranks.known_above
    total = np.bincount(ranks.rows, weights=precision, minlength=len(ranks.num_positives))
    with np.errstate(invalid='ignore'):
        return total / ranks.num_positives


def eleven_point(ranks: PositiveRanks) -> np.ndarray:
    r"""Eleven-point interpolated average precision, :math:`\frac{1}{11} \sum_{r} \max_{R(t) \ge r} P(t)`.

    Args:
        ranks: Positives of the rankings.

    Returns:
        (R,) values; NaN for a ranking without a positive.
    """
    precision = ranks.positives_above / ranks.known_above
    total = np.zeros(len(ranks.num_positives))
    for tenths in range(11):
        reached = 10 * ranks.positives_above >= tenths * ranks.num_positives[ranks.rows]
        best = np.zeros(len(total))
        np.maximum.at(best, ranks.rows[reached], precision[reached])
        total += best
    return np.where(ranks.num_positives > 0, total / 11, np.nan)


def ordered_average_precision(scores: np.ndarray, labels: np.ndarray, by: By, convention: Convention) -> np.ndarray:
    """Average precision by the places of the positives in one order of the entries, ties included.

    Args:
        scores: (N, C).
        labels: (N, C) with 1, 0 and -1.
        by: ``'class'`` or ``'sample'``.
        convention: ``'mmpretrain'`` or ``'asl'``.

    Returns:
        (C,) or (N,) float64 values; NaN where there is no positive.
    """
    measure = {'mmpretrain': _by_torch, 'asl': _by_numpy}[convention]
    if by == 'class':
        scores, labels = scores.T, labels.T
    precisions = np.full(len(scores), np.nan)
    for row, (row_scores, row_labels) in enumerate(zip(scores, labels, strict=True)):
        known = row_labels >= 0
        is_positive = row_labels[known] == 1
        if is_positive.any():
            precisions[row] = measure(row_scores[known], is_positive)
    return precisions


def _by_torch(scores: np.ndarray, is_positive: np.ndarray) -> float:
    order = torch.argsort(torch.from_numpy(scores), descending=True)
    hits = torch.from_numpy(is_positive)[order]
    # Dividing and adding in single precision, zeros between the positives included, rounds as mmpretrain does.
    places = torch.arange(1, len(hits) + 1).float()
    precision = torch.where(hits, torch.cumsum(hits, 0), 0) / places
    return (precision.sum() / int(hits.sum())).item()


def _by_numpy(scores: np.ndarray, is_positive: np.ndarray) -> float:
    hits = is_positive[np.argsort(scores)[::-1]]
    places = np.flatnonzero(hits) + 1
    return (np.arange(1, len(places) + 1) / places).sum() / (len(places) + ASL_EPSILON)

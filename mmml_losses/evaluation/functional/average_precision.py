"""Average precision of each class, of each sample, or of all (sample, class) pairs pooled in one ranking.

Published figures use several definitions of average precision. The argument ``convention`` selects one:

``'exact'``
    The area under the steps of the precision-recall curve, as in scikit-learn and torchmetrics. Tied scores share one
    threshold. :func:`average_precision` has the formula.
``'voc11'``
    PASCAL VOC until 2009: the mean of 11 precisions, one for each recall r = 0, 0.1, …, 1. Each is the best precision
    at a recall of r or higher. Tied scores share one threshold. The result is usually higher than the exact value, most
    of all for classes with few positives. Recalls are compared as integer fractions, so that 3 of 10 reach 0.3.
``'mmpretrain'``
    ``mmpretrain.evaluation.AveragePrecision``: mean precision at the ranks of the positives, in float32. Tied scores
    get different ranks, in the order of ``torch.argsort``: one positive among four equal scores gives between 1/4 and
    1, by the order of the samples. A class without a positive counts as 0. (MMPretrain itself fails on classes without
    a known label, and rounds the result to the dtype of the scores.)
``'asl'``
    The validation code of the ASL repository, which many papers on COCO use. It differs from ``'mmpretrain'``: it uses
    float64, ranks ties in the reversed order of ``numpy.argsort``, and adds :math:`10^{-8}` to the number of positives,
    which lowers a class with few positives by about :math:`10^{-8}`. A class without a positive counts as 0. The
    repository has no unknown labels; here they are left out.

Without ties and without empty classes, ``'mmpretrain'`` and ``'asl'`` equal ``'exact'`` up to rounding.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from ...utils.arrays import ArrayLike, Empty, as_array, as_labels_of, as_scores, checked_empty
from ...utils.frequencies import checked_groups
from .positive_ranks import By, PositiveRanks, pooled_positive_ranks, positive_ranks

Convention = Literal['exact', 'voc11', 'mmpretrain', 'asl']
CONVENTIONS = ('exact', 'voc11', 'mmpretrain', 'asl')
# The conventions that depend on the order of tied entries.
ORDERED = ('mmpretrain', 'asl')

ASL_EPSILON = 1e-8


class MeanAveragePrecision(NamedTuple):
    """Mean average precision over classes (or samples), and how many classes (samples) are in the mean.

    Attributes:
        value: The mean in [0, 1]; NaN when no class (sample) is averaged.
        num_averaged: Number of classes (samples) in the mean.
        num_skipped: Number of classes (samples) left out because they have no positive label.
        num_empty: Number of classes (samples) without a positive label, whether left out or counted as 0.
    """

    value: float
    num_averaged: int
    num_skipped: int
    num_empty: int

    @classmethod
    def of(cls, precisions: np.ndarray, empty: Empty = 'skip', what: str = 'classes') -> 'MeanAveragePrecision':
        """Build a MeanAveragePrecision from the average precisions of classes or samples.

        Args:
            precisions: (C,) or (N,) average precisions, NaN for a class (sample) without a positive label.
            empty: ``'skip'`` leaves NaN out, ``'zero'`` counts NaN as 0, ``'error'`` raises a ``ValueError`` for NaN.
            what: Plural noun for the error message, such as ``'classes'`` or ``'samples'``.
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
    r"""Compute the average precision of each class (or each sample).

    A class ranks its samples by score. Let :math:`P` be its positive samples, :math:`K` its samples with a known label
    (0 or 1), and :math:`s_j` the score of sample j. Then ``convention='exact'`` is

    .. math::
        AP = \frac{1}{|P|} \sum_{i \in P} \frac{|\{j \in P : s_j \ge s_i\}|}{|\{j \in K : s_j \ge s_i\}|},

    which is :math:`\sum_n (R_n - R_{n-1}) P_n` over the distinct thresholds, the definition of scikit-learn's
    ``average_precision_score``. Tied scores share one threshold, so their order does not matter. The other conventions
    reproduce published figures; the docstring of this module describes them. If Numba is installed, a compiled kernel
    ranks large floating-point matrices, with the same result. Its first call takes some seconds to compile.

    Args:
        scores: (N, C) scores of any real dtype, higher is more positive. Logits and probabilities rank alike.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        by: ``'class'`` ranks the samples of each class, ``'sample'`` the classes of each sample.
        empty: Value for a class (sample) without a positive: ``'skip'`` gives NaN, ``'zero'`` gives 0, ``'error'``
            raises a ``ValueError``. None is ``'skip'`` for the conventions ``'exact'`` and ``'voc11'``, and ``'zero'``
            for ``'mmpretrain'`` and ``'asl'``.
        convention: ``'exact'``, ``'voc11'`` (11-point interpolated), ``'mmpretrain'`` or ``'asl'``.

    Returns:
        float64 array of shape (C,) for ``by='class'`` or (N,) for ``by='sample'``.

    Examples:
        >>> average_precision([[0.9, 0.1], [0.5, 0.1], [0.5, 0.3]], [[1, 0], [1, 0], [0, 0]])
        array([0.83333333,        nan])
    """
    empty = empty_of(convention, empty)
    scores = as_scores(scores)
    labels = as_labels_of(scores, labels)
    if by not in _PLURALS:
        raise ValueError(f"by must be 'class' or 'sample', got {by!r}")
    if convention in ORDERED:
        precisions = ordered_average_precision(scores, labels, by, convention)
    else:
        precisions = np.empty(scores.shape[by == 'class'])
        for block, ranks in positive_ranks(scores, labels, by):
            precisions[block] = _summarise(ranks, convention)
    return fill_empty(precisions, empty, _PLURALS[by])


def mean_average_precision(
    scores: ArrayLike,
    labels: ArrayLike,
    by: By = 'class',
    *,
    empty: Empty | None = None,
    convention: Convention = 'exact',
) -> MeanAveragePrecision:
    """Compute the mean of :func:`average_precision` over classes or samples; that function explains the arguments.

    ``by='class'`` is the usual mAP (macro average, mAP@class or mAP@y). ``by='sample'`` is mAP@sample or mAP@x:
    scikit-learn's label ranking average precision, except that scikit-learn counts samples without a positive as 1.
    With ``empty='skip'``, classes (samples) without a positive are left out of the mean.
    """
    empty = empty_of(convention, empty)
    precisions = average_precision(scores, labels, by, empty='skip', convention=convention)
    return MeanAveragePrecision.of(precisions, empty, _PLURALS[by])


def micro_average_precision(
    scores: ArrayLike, labels: ArrayLike, *, empty: Empty = 'skip', convention: Convention = 'exact'
) -> float:
    """Compute the average precision, in [0, 1], of one ranking of all (sample, class) pairs with a known label.

    The score matrix is not copied: only the scores of the positives are kept.

    Args:
        scores: (N, C) scores that are comparable between classes, higher is more positive.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        empty: Result without any positive: ``'skip'`` NaN, ``'zero'`` 0, ``'error'`` raises a ``ValueError``.
        convention: ``'exact'`` or ``'voc11'``. Others define no pooled ranking and raise a ``ValueError``.
    """
    empty = empty_of(convention, empty)
    if convention in ORDERED:
        raise ValueError(f"convention must be 'exact' or 'voc11' for pooled pairs, got '{convention}'")
    scores = as_scores(scores)
    ranks = pooled_positive_ranks(scores, as_labels_of(scores, labels))
    return float(fill_empty(_summarise(ranks, convention), empty, 'rankings')[0])


def mean_average_precision_of_groups(
    precisions: ArrayLike, groups: Mapping[str, Sequence[int]], *, empty: Empty = 'skip'
) -> dict[str, MeanAveragePrecision]:
    """Return a dict from group name to the mean average precision of the classes in this group.

    Args:
        precisions: (C,) result of :func:`average_precision` with ``by='class'`` and ``empty='skip'``.
        groups: Dict from group name, such as ``'head'``, to class indices. :func:`mmml_losses.evaluation.group_classes`
            makes head, medium and tail from class frequencies. The mean of an empty group is NaN. Groups may overlap.
        empty: Leave classes without a positive out (``'skip'``), count them as 0 (``'zero'``) or raise (``'error'``).
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
    """Return a copy of ``precisions`` with 0 for NaN if ``empty='zero'``, else ``precisions`` itself.

    NaN means no positive label. ``'error'`` raises a ValueError for NaN; ``what`` is a plural noun for its message.
    """
    is_empty = np.isnan(precisions)
    return np.where(is_empty, 0.0, precisions) if checked_empty(empty, is_empty, what) == 'zero' else precisions


_PLURALS = {'class': 'classes', 'sample': 'samples'}


def empty_of(convention: Convention, empty: Empty | None) -> Empty:
    """Return ``empty``; None is 'zero' for 'mmpretrain' and 'asl', else 'skip'. Raise ValueError for unknown names."""
    if convention not in CONVENTIONS:
        raise ValueError(f'convention must be one of {CONVENTIONS}, got {convention!r}')
    if empty is None:
        return 'zero' if convention in ORDERED else 'skip'
    return checked_empty(empty, np.zeros(0, bool), '')


def _summarise(ranks: PositiveRanks, convention: Convention) -> np.ndarray:
    if convention == 'voc11':
        return eleven_point(ranks)
    precision = ranks.positives_above / ranks.known_above
    total = np.bincount(ranks.rows, weights=precision, minlength=len(ranks.num_positives))
    with np.errstate(invalid='ignore'):
        return total / ranks.num_positives


def eleven_point(ranks: PositiveRanks) -> np.ndarray:
    """Compute the 11-point average precision of each of the R rankings in ``ranks``, as (R,); NaN without a positive.

    It is the mean of 11 precisions: for each recall 0, 0.1, …, 1, the best precision at this recall or a higher one.
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
    """Compute average precision by ``'mmpretrain'`` or ``'asl'``, which give tied scores different ranks.

    Return float64 of shape (C,) for ``by='class'`` or (N,) for ``'sample'``, with NaN where there is no positive.
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

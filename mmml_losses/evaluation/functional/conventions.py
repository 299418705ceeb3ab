"""Ways to compute average precision that published figures rest on, each beside what sets it apart.

``'exact'``
    The area under the steps of the precision-recall curve, as scikit-learn and torchmetrics compute it. Tied scores are
    one step. :func:`mmml_losses.evaluation.average_precision` gives the formula.
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

from typing import Literal

import numpy as np
import torch

from .positive_ranks import By, PositiveRanks

Convention = Literal['exact', 'voc11', 'mmpretrain', 'asl']
CONVENTIONS = ('exact', 'voc11', 'mmpretrain', 'asl')
# The conventions that look at the places of tied entries.
ORDERED = ('mmpretrain', 'asl')

ASL_EPSILON = 1e-8


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

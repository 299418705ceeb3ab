"""Margin between the positive and the negative labels of a sample or of a class."""

import numpy as np

from ...utils.arrays import ArrayLike, as_labels_of, as_scores
from .positive_ranks import By


def classification_margins(logits: ArrayLike, labels: ArrayLike, *, by: By = 'sample') -> np.ndarray:
    r"""Compute the margin of each sample, or of each class, between its positives and its negatives.

    .. math:: \Delta = \min_{p \in P} x_p - \max_{n \in N} x_n

    with the logits :math:`x` of the positives :math:`P` and the negatives :math:`N` (two-way paper, Eq. 8). It is above
    0 if every positive is above every negative. The two-way loss sees a smaller margin, the smaller the larger its
    temperatures are (Propositions 1 and 2 of the paper), and so enlarges the real one.

    Args:
        logits: (N, C) logits. Those of a :class:`Predictions` are :func:`mmml_losses.evaluation.log_odds_of` its scores
            if the link of the loss is the sigmoid.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        by: ``'sample'`` compares the labels of a sample, ``'class'`` the label of a class in all samples.

    Returns:
        (N,) or (C,) margins; NaN without a positive or without a negative.

    Examples:
        >>> classification_margins([[2.0, 1.0, -1.0], [0.5, 1.0, 3.0]], [[1, 1, 0], [0, 1, 0]]).tolist()
        [2.0, -2.0]
    """
    if by not in ('sample', 'class'):
        raise ValueError(f"by must be 'sample' or 'class', got {by!r}")
    logits = as_scores(logits, 'logits')
    labels = as_labels_of(logits, labels, 'logits')
    logits, axis = logits.astype(np.float64), int(by == 'sample')
    lowest = logits.min(axis=axis, where=labels == 1, initial=np.inf)
    highest = logits.max(axis=axis, where=labels == 0, initial=-np.inf)
    compared = (labels == 1).any(axis=axis) & (labels == 0).any(axis=axis)
    return np.where(compared, lowest - highest, np.nan)

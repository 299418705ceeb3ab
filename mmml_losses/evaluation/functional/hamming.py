"""Hamming loss that weighs the positive and the negative labels of a sample alike."""

import numpy as np

from ...utils.arrays import ArrayLike, as_labels_of, as_scores, row_blocks


def cost_sensitive_hamming_loss(scores: ArrayLike, labels: ArrayLike, threshold: float = 0.5) -> float:
    r"""Compute the cost-sensitive Hamming loss of the LASD paper (Eq. 12), the mean over samples.

    .. math::
        \sum_{k \in y} \frac{1}{|y|} [\hat y_k = 0] + \sum_{k \notin y} \frac{1}{K - |y|} [\hat y_k = 1]

    with the positives :math:`y` of a sample, :math:`K` classes and the predicted labels :math:`\hat y`. It is the share
    of the positives that are predicted negative, plus the share of the negatives that are predicted positive: 0 is
    perfect, 2 is the worst. Eq. 12 as printed has its two indicators exchanged; Eq. 24 of the same paper counts
    disagreements, as here. The paper proves its loss consistent with this measure, and reports it in no table.

    Args:
        scores: (N, C) scores, higher is more positive.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out, also from :math:`K`. Without
            positives (or negatives), that sum of a sample is 0.
        threshold: Scores of at least the threshold are predicted positive.

    Examples:
        >>> cost_sensitive_hamming_loss([[0.9, 0.2, 0.6, 0.1]], [[1, 1, 0, 0]])
        1.0
    """
    scores = as_scores(scores)
    labels = as_labels_of(scores, labels)
    total = 0.0
    for rows in row_blocks(*scores.shape):
        chosen = scores[rows] >= threshold
        for kind in (1, 0):
            members = labels[rows] == kind
            wrong = np.count_nonzero(members & (chosen != kind), axis=1)
            total += float((wrong / np.maximum(np.count_nonzero(members, axis=1), 1)).sum())
    return total / len(scores) if len(scores) else float('nan')

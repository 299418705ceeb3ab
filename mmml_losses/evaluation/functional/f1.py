"""Precision, recall and F1 of predicted label sets, and the thresholds at which F1 is best."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ...utils.arrays import (
    ArrayLike,
    Empty,
    as_array,
    as_labels_of,
    as_probabilities,
    as_scores,
    checked_empty,
    row_blocks,
)
from .positive_ranks import PositiveRanks, pooled_positive_ranks, positive_ranks


@dataclass(frozen=True)
class F1Scores:
    r"""Precision, recall and F1 as means over classes (prefix C) and over all pairs (prefix O).

    With :math:`T_c` true positives, :math:`M_c` predicted and :math:`N_c` labelled positives of class :math:`c`,

    .. math::
        CP = \frac{1}{C} \sum_c \frac{T_c}{M_c}, \quad CR = \frac{1}{C} \sum_c \frac{T_c}{N_c}, \quad
        OP = \frac{\sum_c T_c}{\sum_c M_c}, \quad OR = \frac{\sum_c T_c}{\sum_c N_c},

    and an F1 is the harmonic mean of a precision and a recall. There are two variants of CF1:
    :attr:`cf1`, the harmonic mean of CP and CR, is the CF1 of most of the multi-label literature; :attr:`macro_f1`, the
    mean of the classes' own F1s, is the macro average of scikit-learn and mmpretrain, and the CF1 of the Hill and SPLC
    paper, as its authors' ``validate.py`` computes it. The second is never above the first.

    0 / 0 is 0: a class that is never predicted has precision 0, a class without positives has recall 0.

    Attributes:
        true_positives: (C,) number of samples of each class that are predicted and labelled positive.
        predicted: (C,) number of samples that are predicted positive and have a known label.
        positives: (C,) number of samples that are labelled positive.
        empty: ``'zero'``: means count classes without a positive as 0; ``'skip'``: they leave them out, NaN if all are.
        num_ties_cut: Number of samples where top-k predicts one class but not another of equal score; 0 for thresholds.
    """

    true_positives: np.ndarray
    predicted: np.ndarray
    positives: np.ndarray
    empty: Empty = 'zero'
    num_ties_cut: int = 0

    @property
    def class_precision(self) -> np.ndarray:
        """(C,) precision of each class; 0 for a class that is never predicted."""
        return _ratio(self.true_positives, self.predicted)

    @property
    def class_recall(self) -> np.ndarray:
        """(C,) recall of each class; 0 for a class without a positive label."""
        return _ratio(self.true_positives, self.positives)

    @property
    def class_f1(self) -> np.ndarray:
        """(C,) F1 of each class; 0 for a class without a true positive."""
        return _ratio(2 * self.true_positives, self.predicted + self.positives)

    @property
    def cp(self) -> float:
        """Mean precision over classes (CP); ``empty='skip'`` leaves out classes without a positive label."""
        return self._class_mean(self.class_precision)

    @property
    def cr(self) -> float:
        """Mean recall over classes (CR); ``empty='skip'`` leaves out classes without a positive label."""
        return self._class_mean(self.class_recall)

    @property
    def cf1(self) -> float:
        """Harmonic mean of :attr:`cp` and :attr:`cr`, the CF1 of most of the multi-label literature."""
        total = self.cp + self.cr
        return 2 * self.cp * self.cr / total if total else 0.0

    @property
    def macro_f1(self) -> float:
        """Mean F1 over classes (MF1); ``empty='skip'`` leaves out classes without a positive label."""
        return self._class_mean(self.class_f1)

    @property
    def op(self) -> float:
        """Precision over all (sample, class) pairs (OP), the micro average."""
        return float(_ratio(self.true_positives.sum(), self.predicted.sum()))

    @property
    def or_(self) -> float:
        """Recall over all (sample, class) pairs (OR), the micro average; the name ``or`` is a Python keyword."""
        return float(_ratio(self.true_positives.sum(), self.positives.sum()))

    @property
    def of1(self) -> float:
        """F1 over all (sample, class) pairs (OF1), the micro average."""
        return float(_ratio(2 * self.true_positives.sum(), (self.predicted + self.positives).sum()))

    @property
    def num_empty(self) -> int:
        """Number of classes without a positive label."""
        return int((self.positives == 0).sum())

    @property
    def num_unpredicted(self) -> int:
        """Number of classes that are predicted for no sample with a known label."""
        return int((self.predicted == 0).sum())

    def _class_mean(self, values: np.ndarray) -> float:
        counted = values[self.positives > 0] if self.empty == 'skip' else values
        return float(counted.mean()) if counted.size else float('nan')


class BestThreshold(NamedTuple):
    """Thresholds that maximise F1, and the F1 that they reach.

    Attributes:
        threshold: (C,) one threshold for each class, or one number for all pairs. Scores of at least the threshold are
            predicted positive. Ties in F1 go to the highest threshold. ``inf`` without a positive label.
        f1: (C,) best F1 of each class, or one number for all pairs, in [0, 1]; 0 without a positive label.
        num_empty: Number of classes without a positive label. With one number for all pairs: 1 if no pair is positive.
    """

    threshold: np.ndarray | float
    f1: np.ndarray | float
    num_empty: int


def f1_scores(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    threshold: float | ArrayLike | None = None,
    top_k: int | None = None,
    empty: Empty = 'zero',
) -> F1Scores:
    """Compute precision, recall and F1 of the labels predicted by a threshold or by the top k scores of each sample.

    Args:
        scores: (N, C) scores or probabilities, higher is more positive.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        threshold: Scores of at least the threshold are predicted positive. One number, or (C,) one for each class,
            compared in the dtype of the scores. None is 0.5 unless ``top_k`` is given.
        top_k: Predict the k classes with the highest scores in each sample; ``threshold`` must be None. Unknown pairs
            among the k are left out and not replaced, as in mmpretrain. Ties at the k-th score go to the lowest class
            index; ``num_ties_cut`` counts samples with such ties.
        empty: What classes without a positive label add to means over classes: ``'zero'`` adds 0, as in mmpretrain and
            scikit-learn; ``'skip'`` leaves these classes out; ``'error'`` raises a ``ValueError``.

    Examples:
        >>> result = f1_scores([[0.9, 0.2], [0.6, 0.7]], [[1, 0], [0, 1]])
        >>> result.cp, result.cr, result.of1
        (0.75, 1.0, 0.8)
    """
    scores = as_scores(scores)
    labels = as_labels_of(scores, labels)
    if threshold is not None and top_k is not None:
        raise ValueError(f'threshold and top_k must not both be given, got {threshold} and {top_k}')
    if top_k is None:
        limits = checked_thresholds(0.5 if threshold is None else threshold, scores)
    else:
        checked_top_k(top_k, scores.shape[1])
    true_positives, predicted, positives = np.zeros((3, scores.shape[1]), dtype=np.int64)
    num_ties_cut = 0
    for rows in row_blocks(*scores.shape):
        if top_k is None:
            chosen = scores[rows] >= limits
        else:
            chosen, cut = _highest(scores[rows], top_k)
            num_ties_cut += cut
        true_positives += np.count_nonzero(chosen & (labels[rows] == 1), axis=0)
        predicted += np.count_nonzero(chosen & (labels[rows] >= 0), axis=0)
        positives += np.count_nonzero(labels[rows] == 1, axis=0)
    empty = checked_empty(empty, positives == 0, 'classes')
    return F1Scores(true_positives, predicted, positives, empty, num_ties_cut)


def best_threshold(
    scores: ArrayLike, labels: ArrayLike, *, average: Literal['class', 'pooled'] = 'class'
) -> BestThreshold:
    """Find the exact threshold that maximises F1, for each class or for all classes together.

    Take the score of a positive as threshold, with :math:`t` of :math:`N` positives and :math:`m` known pairs at or
    above it. Then :math:`F_1 = 2t / (m + N)`. A threshold between two such scores predicts the same positives as the
    higher score, and at least as many negatives. So the score of some positive is always best.

    Args:
        scores: (N, C) scores of any real dtype, higher is more positive.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out.
        average: ``'class'`` finds one threshold for each class; together they maximise ``macro_f1``. ``'pooled'`` finds
            one threshold for all classes, which maximises ``of1``.

    Returns:
        Thresholds for :func:`f1_scores`, and their F1, too optimistic for new data: choose thresholds on held-out data.
    """
    scores = as_scores(scores)
    labels = as_labels_of(scores, labels)
    if average == 'pooled':
        ranks = pooled_positive_ranks(scores, labels)
        threshold, f1 = _best_of_rankings(ranks)
        return BestThreshold(float(threshold[0]), float(f1[0]), int(ranks.num_positives[0] == 0))
    if average != 'class':
        raise ValueError(f"average must be 'class' or 'pooled', got {average!r}")
    threshold, f1 = np.empty((2, scores.shape[1]))
    num_empty = 0
    for block, ranks in positive_ranks(scores, labels, 'class'):
        threshold[block], f1[block] = _best_of_rankings(ranks)
        num_empty += int((ranks.num_positives == 0).sum())
    return BestThreshold(threshold, f1, num_empty)


def midpoint_threshold(probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Return the threshold halfway between the lowest probability and 1.

    .. math:: \tau = (1 + p_l) / 2

    with :math:`p_l` the lowest probability of all known pairs of a test set. The Hill and SPLC paper (Appendix B)
    evaluates ROLE at this threshold, because ROLE's lowest predictions lie near 0.3 and not near 0.

    Args:
        probabilities: (N, C) predicted probabilities.
        labels: (N, C) with 1 positive, 0 negative, -1 unknown. Unknown pairs are left out. The
            threshold is 1 if all pairs are unknown.
    """
    probabilities = as_probabilities(probabilities)
    known = as_labels_of(probabilities, labels, 'probabilities') >= 0
    return (1 + float(probabilities.min(where=known, initial=1))) / 2


def checked_thresholds(threshold: float | ArrayLike, scores: np.ndarray) -> np.ndarray:
    """Return the threshold as array, () or (C,), in the dtype of float scores; ValueError for other shapes or NaN."""
    limits = as_array(threshold)
    if limits.shape not in ((), (scores.shape[1],)):
        raise ValueError(
            f'threshold must be one number or one for each of {scores.shape[1]} classes, got the shape {limits.shape}'
        )
    if limits.dtype.kind not in 'fiu' or np.isnan(limits).any():
        raise ValueError(f'threshold must be numbers, got {threshold}')
    return limits.astype(scores.dtype) if scores.dtype.kind == 'f' else limits


def checked_top_k(top_k: int, num_classes: int | None = None) -> int:
    """Return ``top_k`` as int; raise a ValueError unless it is whole, from 1 to ``num_classes`` (None: no bound)."""
    limit, most = (np.inf, '') if num_classes is None else (num_classes, f' and at most the {num_classes} classes')
    if not isinstance(top_k, int | np.integer) or isinstance(top_k, bool) or not 1 <= top_k <= limit:
        raise ValueError(f'top_k must be a whole number of at least 1{most}, got {top_k!r}')
    return int(top_k)


def _best_of_rankings(ranks: PositiveRanks) -> tuple[np.ndarray, np.ndarray]:
    f1 = 2 * ranks.positives_above / (ranks.known_above + ranks.num_positives[ranks.rows])
    best = np.zeros(len(ranks.num_positives))
    np.maximum.at(best, ranks.rows, f1)
    threshold = np.full(len(best), np.inf)
    is_best = f1 == best[ranks.rows]
    # Scores ascend within a ranking, and of several assignments to one place the last stays.
    threshold[ranks.rows[is_best]] = ranks.values[is_best]
    return threshold, best


def _highest(scores: np.ndarray, k: int) -> tuple[np.ndarray, int]:
    """Return (mask of each row's k highest scores, ties to the lowest columns; number of rows where a tie was cut)."""
    last = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k, None]
    above, tied = scores > last, scores == last
    places_left = k - np.count_nonzero(above, axis=1)
    chosen = above | (tied & (np.cumsum(tied, axis=1) <= places_left[:, None]))
    return chosen, int((np.count_nonzero(tied, axis=1) > places_left).sum())


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide counts elementwise, ``part / whole``, with 0 for 0 / 0."""
    return part / np.maximum(whole, 1)

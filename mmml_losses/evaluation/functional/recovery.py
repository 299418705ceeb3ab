"""Label recovery: how many hidden positives a label correction finds, and how many of its corrected labels are right.

A label is *hidden* if the true label is 1 and the given training label is 0, or -1 for unknown. A *correction* changes
given labels: a loss that relabels or rejects negatives (SPLC, LASD, LL-Ct, LL-Cp, ROLE), or a file of pseudo labels.
"""

import math
from dataclasses import dataclass, fields

import numpy as np

from ...utils.arrays import ArrayLike, as_array, as_labels, row_blocks


@dataclass(frozen=True)
class LabelRecovery:
    """Counts of hidden and corrected labels of each class; ``+`` and ``sum`` add the counts of several batches.

    Precision and recall are pooled over all classes, as in Figure 7 of the Hill and SPLC paper. PPV and NPV are means
    over classes, as in Figure 2 of the LASD paper. PPV and NPV cover *all* labels except undecided ones, also the given
    positives, so they are high if few labels are hidden. All four are NaN without labels to count.

    Attributes:
        hidden: (C,) number of truly positive labels that were not given as positive.
        corrected: (C,) number of labels not given as positive that are positive after the correction.
        recovered: (C,) number of labels that are both ``corrected`` and ``hidden``.
        rejected: (C,) number of labels given as negative that are undecided (-1) after the correction.
        rejected_hidden: (C,) number of labels that are both ``rejected`` and ``hidden``.
        true_positives: (C,) number of truly positive labels that are positive after the correction.
        false_positives: (C,) number of truly negative labels that are positive after the correction.
        true_negatives: (C,) number of truly negative labels that are negative after the correction.
        false_negatives: (C,) number of truly positive labels that are negative after the correction.
        unknown: (C,) number of labels whose true label is unknown (-1). All other counts leave them out.
    """

    hidden: np.ndarray
    corrected: np.ndarray
    recovered: np.ndarray
    rejected: np.ndarray
    rejected_hidden: np.ndarray
    true_positives: np.ndarray
    false_positives: np.ndarray
    true_negatives: np.ndarray
    false_negatives: np.ndarray
    unknown: np.ndarray

    @classmethod
    def from_counts(cls, counts: np.ndarray) -> 'LabelRecovery':
        """Rebuild a LabelRecovery from ``counts``, the (10, C) result of :meth:`counts`."""
        return cls(*np.asarray(counts, dtype=np.int64))

    @classmethod
    def empty(cls, num_classes: int) -> 'LabelRecovery':
        """Return a LabelRecovery with all counts 0, as the start of a sum."""
        return cls.from_counts(np.zeros((len(fields(cls)), num_classes)))

    def counts(self) -> np.ndarray:
        """Return all counts as int64 (10, C): the rows are the attributes, from ``hidden`` to ``unknown`` as listed."""
        return np.stack([getattr(self, field.name) for field in fields(self)])

    def __add__(self, other: 'LabelRecovery') -> 'LabelRecovery':
        if not isinstance(other, LabelRecovery):
            return NotImplemented
        if other.num_classes != self.num_classes:
            raise ValueError(f'label recoveries must have as many classes, got {self.num_classes}, {other.num_classes}')
        return self.from_counts(self.counts() + other.counts())

    def __radd__(self, other: int) -> 'LabelRecovery':
        return self if other == 0 else NotImplemented  # what sum() starts with

    @property
    def num_classes(self) -> int:
        return len(self.hidden)

    @property
    def num_hidden(self) -> int:
        """Number of hidden positives: truly positive labels that were not given as positive, over all classes."""
        return int(self.hidden.sum())

    @property
    def num_corrected(self) -> int:
        """Number of labels over all classes that the correction turned positive, rightly or wrongly."""
        return int(self.corrected.sum())

    @property
    def num_recovered(self) -> int:
        """Number of hidden positives over all classes that the correction turned positive."""
        return int(self.recovered.sum())

    @property
    def num_rejected(self) -> int:
        """Number of given negatives over all classes that the correction made undecided (-1)."""
        return int(self.rejected.sum())

    @property
    def num_unknown(self) -> int:
        """Number of labels whose true label is unknown, over all classes; all other counts leave them out."""
        return int(self.unknown.sum())

    @property
    def precision(self) -> float:
        """Fraction of hidden positives among the labels that the correction turned positive; NaN if it turned none."""
        return _share(self.num_recovered, self.num_corrected)

    @property
    def recall(self) -> float:
        """Fraction of the hidden positives that the correction turned positive; NaN without hidden positives."""
        return _share(self.num_recovered, self.num_hidden)

    @property
    def ppv(self) -> float:
        """Positive predictive value TP / (TP + FP), the mean over the classes with TP + FP > 0; NaN without one."""
        return _mean_share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def npv(self) -> float:
        """Negative predictive value TN / (TN + FN), the mean over the classes with TN + FN > 0; NaN without one."""
        return _mean_share(self.true_negatives, self.true_negatives + self.false_negatives)


def label_recovery(observed: ArrayLike, true: ArrayLike, corrected: ArrayLike, threshold: float = 0.5) -> LabelRecovery:
    r"""Count the hidden positives that a label correction finds, and its right and wrong labels, for each class.

    .. math::
        \text{precision} = \frac{|\{o \neq 1,\ c = 1,\ t = 1\}|}{|\{o \neq 1,\ c = 1\}|} \qquad
        \text{recall} = \frac{|\{o \neq 1,\ c = 1,\ t = 1\}|}{|\{o \neq 1,\ t = 1\}|}

    with the given label :math:`o`, the corrected label :math:`c` and the true label :math:`t`. Predicted probabilities
    may be passed as ``corrected``. Then PPV and NPV measure the predictions, as in the LASD paper.

    Args:
        observed: (N, C) given labels: 1 positive, 0 negative or unobserved, -1 unknown.
        true: (N, C) true labels: 1, 0 or -1. A pair with -1 counts in ``unknown`` alone.
        corrected: (N, C) labels after the correction: 1, 0, a soft value between, or -1 for undecided (neither positive
            nor negative). A given 0 that becomes -1 counts as rejected, and as not recovered. For a method that only
            rejects (LL-R), pass its rejected labels as 1, as ``LabelRecoveryHook`` does.
        threshold: Corrected labels above the threshold count as positive, others from 0 on as negative.
    """
    observed, true, corrected = as_array(observed), as_array(true), as_array(corrected)
    if observed.ndim != 2:
        raise ValueError(f'observed must have the shape (samples, classes), got {observed.shape}')
    for name, labels in (('true', true), ('corrected', corrected)):
        if labels.shape != observed.shape:
            raise ValueError(f'{name} must have the shape of observed {observed.shape}, got {labels.shape}')
    if not 0 <= threshold <= 1:
        raise ValueError(f'threshold must be in [0, 1], got {threshold}')
    found = LabelRecovery.empty(observed.shape[1])
    for rows in row_blocks(*observed.shape):
        given, truth = as_labels(observed[rows], 'observed'), as_labels(true[rows], 'true')
        after = _decisions(corrected[rows], threshold)
        known, positive, negative = truth >= 0, truth == 1, truth == 0
        hidden = positive & (given != 1)
        turned = known & (given != 1) & (after == 1)
        rejected = known & (given == 0) & (after == -1)
        masks = [hidden, turned, turned & positive, rejected, rejected & positive]
        masks += [positive & (after == 1), negative & (after == 1)]
        masks += [negative & (after == 0), positive & (after == 0), ~known]
        found += LabelRecovery(*(mask.sum(axis=0) for mask in masks))
    return found


def _decisions(corrected: np.ndarray, threshold: float) -> np.ndarray:
    """Turn corrected labels into int8: 1 above the threshold, 0 up to it, -1 for undecided (-1); raise for others."""
    wrong = ~((corrected == -1) | ((corrected >= 0) & (corrected <= 1)))
    if wrong.any():  # NaN is wrong, too
        raise ValueError(f'corrected must be 1, 0, -1 for undecided, or between 0 and 1, got {corrected[wrong][0]}')
    return np.where(corrected == -1, np.int8(-1), corrected > threshold)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _mean_share(parts: np.ndarray, wholes: np.ndarray) -> float:
    present = wholes > 0
    return float((parts[present] / wholes[present]).mean()) if present.any() else math.nan

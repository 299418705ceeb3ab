"""Datasets in which labels are missing: hidden positives, a single positive, or a part of all labels."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Real
from typing import cast

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ...utils.arguments import check_choice, check_flag, check_ratio, check_whole_number
from ...utils.arrays import row_blocks
from ...utils.errors import AnnotationError
from ..labels.random_numbers import uniform_numbers
from ..labels.sample_labels import NEGATIVE, POSITIVE, UNKNOWN, SampleLabels
from .label_wrapper import LabelWrapper

RULES = ('floor', 'bernoulli')
ORDERS = ('random', 'smallest_first')
WEIGHTS = ('uniform', 'area')
# What a hidden positive may become.
HIDDEN_VALUES = dict(negative=NEGATIVE, unknown=UNKNOWN)


def positive_areas(samples: SampleLabels, wrapper: LabelWrapper, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the areas (M,) of M positives: for each, the largest object of class ``columns[i]`` in sample ``rows[i]``.

    If one is unknown, raise an AnnotationError that begins with the class name of ``wrapper``.
    """
    areas = np.full(len(rows), np.nan) if samples.areas is None else samples.areas[rows, columns].astype(np.float64)
    # This form also finds NaN.
    wrong = np.flatnonzero(~(areas >= 0))
    if len(wrong):
        row, column = rows[wrong[0]], columns[wrong[0]]
        raise AnnotationError(
            f'{type(wrapper).__name__} needs the area of each positive, from label_areas or boxes, to go by it, and '
            f'{samples.classes[column]!r} of sample {row} ({samples.keys[row]!r}) has none'
        )
    return areas


@DATASETS.register_module()
class MissingLabels(LabelWrapper):
    r"""Any multi-label dataset in which some positives are hidden, to simulate missing labels.

    Of the :math:`n` positives of a sample, ``rule='floor'`` leaves
    :math:`\min(n, \lfloor n (1 - r) \rfloor + 1)` with :math:`r` the missing ratio (Zhang et al., Hill and SPLC, Sec.
    IV-A): on COCO 75%, 40% and 34% of all labels for r = 0.5, 0.8 and 1, where 1 leaves one label an image. The
    formula is computed exactly, in fractions, where 5 (1 - 0.8) = 1. ``rule='bernoulli'`` hides each positive with
    probability :math:`r`, independently. Unknown labels stay unknown. With one seed, a larger ratio (one for all
    classes) hides all that a smaller one hides.

    Args:
        dataset, lazy_init: The wrapped dataset, and whether to load it later, see :class:`LabelWrapper`.
        missing_ratio: :math:`r` in [0, 1]. ``rule='bernoulli'`` also takes a list of C ratios, or a dict from class
            name to ratio, in which classes that are not named lose nothing.
        rule: How many positives of a sample are hidden: ``'floor'`` (default) or ``'bernoulli'``, see above.
        order: Which positives are hidden first: ``'random'``; or ``'smallest_first'``, classes whose largest object in
            the image is smallest, as annotators miss small objects; equal areas are in random order. It needs a dataset
            with areas (COCO's format, boxes), and one ratio for all classes.
        keep_one: Whether ``rule='bernoulli'`` keeps the positive that is last in the order if it would hide all.
        hidden: Label of a hidden positive: ``'negative'`` (0, unobserved) or ``'unknown'`` (-1).
        seed: Seed of the random choice, which also depends on the names of the samples.

    Example:
        >>> dataset = MissingLabels(dict(type='mmml_losses.DigitScenes', split='train'), missing_ratio=0.8)
        >>> info = dataset.get_data_info(6)
        >>> info['gt_label'], np.flatnonzero(info['true_label'])
        ([0], array([0, 1, 2, 8]))
    """

    arguments = ('missing_ratio', 'rule', 'order', 'keep_one', 'hidden', 'seed')

    def __init__(
        self,
        dataset: BaseDataset | dict,
        missing_ratio: float | Sequence[float] | Mapping[str, float],
        rule: str = 'floor',
        *,
        order: str = 'random',
        keep_one: bool = False,
        hidden: str = 'negative',
        seed: int = 0,
        lazy_init: bool = False,
    ):
        self.rule = check_choice('rule', rule, RULES)
        self.order = check_choice('order', order, ORDERS)
        self.hidden = check_choice('hidden', hidden, HIDDEN_VALUES)
        self.seed = check_whole_number('seed', seed)
        self.keep_one = check_flag('keep_one', keep_one)
        self.needs_areas = order == 'smallest_first'
        self.missing_ratio = _checked_rates(missing_ratio)
        if not isinstance(self.missing_ratio, float) and (rule == 'floor' or order == 'smallest_first'):
            setting = f'rule={rule!r}' if rule == 'floor' else f'order={order!r}'
            raise ValueError(
                f'missing_ratio must be one number for {setting}, which compares the labels of all classes, got '
                f"{missing_ratio}: rates of classes need rule='bernoulli' and order='random'"
            )
        if keep_one and rule == 'floor':
            raise ValueError("keep_one must be False for rule='floor', which leaves at least one label, got True")
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the labels (N, C), in which hidden positives are 0 (negative) or -1 (unknown), as ``hidden`` says."""
        rows, columns = np.nonzero(samples.labels == POSITIVE)
        areas = positive_areas(samples, self, rows, columns) if self.needs_areas else None
        is_hidden = self.choose_hidden(samples, rows, columns, columns, areas)
        labels = samples.labels.copy()
        labels[rows[is_hidden], columns[is_hidden]] = HIDDEN_VALUES[self.hidden]
        return labels

    def choose_hidden(
        self,
        samples: SampleLabels,
        rows: np.ndarray,
        numbers: np.ndarray,
        columns: np.ndarray,
        areas: np.ndarray | None,
    ) -> np.ndarray:
        """Choose which of M positives (or boxes) ``rule`` and ``order`` hide; return (M,) bool, True where hidden.

        Args:
            samples: Samples and labels of the dataset.
            rows: (M,), ascending, position of the sample of each positive.
            numbers: (M,), class index of each positive, or number of each box in its image; selects the random number.
            columns: (M,), class index of each positive.
            areas: (M,), area of each positive for ``order='smallest_first'``; otherwise zeros or None.
        """
        draws = uniform_numbers(self.seed, self.stream, samples.keys, rows, numbers)
        counts = np.bincount(rows, minlength=len(samples.labels))
        if self.rule == 'floor':
            num_hidden = counts - num_left(counts, cast('float', self.missing_ratio))  # no other is accepted
        else:
            rates = self._class_rates(samples.classes)[columns]
            num_hidden = np.bincount(rows[draws < rates], minlength=len(counts))
            num_hidden = np.minimum(num_hidden, counts - 1) if self.keep_one else num_hidden
            # Numbers below the rate of their class come first.
            draws = np.divide(draws, rates, out=np.full(len(draws), np.inf), where=rates > 0)
        return _ranks(rows, counts, draws, areas) < num_hidden[rows]

    def _class_rates(self, classes: Sequence[str]) -> np.ndarray:
        rates = self.missing_ratio
        if isinstance(rates, float):
            return np.full(len(classes), rates)
        if isinstance(rates, list):
            if len(rates) != len(classes):
                raise ValueError(f'missing_ratio must have a rate for each of {len(classes)} classes, got {len(rates)}')
            return np.asarray(rates)
        unknown = sorted(rates.keys() - set(classes))
        if unknown:
            raise ValueError(f'missing_ratio must name classes of the dataset, got {", ".join(unknown)}')
        return np.asarray([rates.get(name, 0.0) for name in classes])


def num_left(counts: np.ndarray, missing_ratio: float) -> np.ndarray:
    """Apply ``rule='floor'`` of :class:`MissingLabels`: return how many of ``counts`` positives stay, both (N,)."""
    # In floating point 5 * (1 - 0.8) is below 1. In every image of the authors' lists (COCO: 181,422, 96,251 and 82,081
    # labels) the number of labels follows the exact product of the decimal number.
    kept = 1 - Fraction(repr(float(missing_ratio)))
    left = [min(count, count * kept.numerator // kept.denominator + 1) for count in range(counts.max(initial=0) + 1)]
    return np.asarray(left)[counts]


def _ranks(rows: np.ndarray, counts: np.ndarray, draws: np.ndarray, areas: np.ndarray | None) -> np.ndarray:
    """Return the rank (M,) of each positive in its sample, from 0: by ascending area if given, then by ``draws``.

    ``rows``: each positive's sample, ascending. ``draws``: a random number. ``counts`` (N,): positives of each sample.
    """
    order = np.lexsort((draws, rows) if areas is None else (draws, areas, rows))
    ranks = np.empty(len(rows), dtype=np.int64)
    firsts = np.cumsum(counts) - counts
    # Rows are ascending, and sorted first: each sample keeps its range of positions.
    ranks[order] = np.arange(len(rows)) - firsts[rows]
    return ranks


def _checked_rates(rates: float | Sequence[float] | Mapping[str, float]) -> float | list[float] | dict[str, float]:
    if isinstance(rates, Mapping):
        return {str(name): check_ratio(f'missing_ratio of {name!r}', rate) for name, rate in rates.items()}
    if isinstance(rates, (Sequence, np.ndarray)) and not isinstance(rates, str):
        return [check_ratio(f'missing_ratio of class {index}', rate) for index, rate in enumerate(rates)]
    if isinstance(rates, Real):
        return check_ratio('missing_ratio', rates)
    raise ValueError(f'missing_ratio must be a number, or a list or dict with one for each class, got {rates!r}')


@DATASETS.register_module()
class SinglePositive(LabelWrapper):
    """Any multi-label dataset in which all positives of a sample but one are hidden (single positive labels).

    A sample without a positive stays as it is, and unknown labels stay unknown.

    Args:
        dataset, lazy_init: The wrapped dataset, and whether to load it later, see :class:`LabelWrapper`.
        by: How the positive is drawn. ``'uniform'``: each with the same probability (Assumption 5.1 of the LASD paper).
            ``'area'``: in proportion to the area of the largest object of its class in the image, as large objects are
            named first; this needs a dataset with areas (COCO's format, boxes).
            ``MissingLabels(missing_ratio=1, order='smallest_first')`` always keeps the largest.
        hidden: Label of the other positives: ``'negative'`` (0, unobserved) or ``'unknown'`` (-1).
        seed: Seed of the random choice, which also depends on the names of the samples.

    Example:
        >>> dataset = SinglePositive(dict(type='mmml_losses.DigitScenes', split='train'))
        >>> info = dataset.get_data_info(6)
        >>> info['gt_label'], np.flatnonzero(info['true_label'])
        ([2], array([0, 1, 2, 8]))
    """

    arguments = ('by', 'hidden', 'seed')

    def __init__(
        self,
        dataset: BaseDataset | dict,
        by: str = 'uniform',
        *,
        hidden: str = 'negative',
        seed: int = 0,
        lazy_init: bool = False,
    ):
        self.by = check_choice('by', by, WEIGHTS)
        self.hidden = check_choice('hidden', hidden, HIDDEN_VALUES)
        self.seed = check_whole_number('seed', seed)
        self.needs_areas = by == 'area'
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the labels (N, C), in which all positives of a sample but one are 0 or -1, depending on ``hidden``."""
        rows, columns = np.nonzero(samples.labels == POSITIVE)
        labels = np.where(samples.labels == POSITIVE, np.int8(HIDDEN_VALUES[self.hidden]), samples.labels)
        if len(rows):
            weights = positive_areas(samples, self, rows, columns) if self.needs_areas else np.ones(len(rows))
            chosen = self._choose(rows, weights, samples)
            labels[rows[chosen], columns[chosen]] = POSITIVE
        return labels

    def _choose(self, rows: np.ndarray, weights: np.ndarray, samples: SampleLabels) -> np.ndarray:
        """Draw one positive per sample by ``weights`` (M,); return indices into ``rows`` (M,), the sample of each."""
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        sizes = np.diff(firsts, append=len(rows))
        # The weights of a sample without any area are equal.
        weights = np.where(np.repeat(np.maximum.reduceat(weights, firsts) > 0, sizes), weights, 1.0)
        draws = uniform_numbers(self.seed, self.stream, samples.keys, rows[firsts], np.zeros_like(firsts))
        chosen = np.empty(len(firsts), dtype=np.int64)
        # All samples of one size at a time: a running sum over all samples would lose the small areas.
        for size in np.unique(sizes):
            those = sizes == size
            ends = np.cumsum(weights[firsts[those, None] + np.arange(size)], axis=1)
            passed = ends <= draws[those, None] * ends[:, -1:]
            # The product may round up to the whole length.
            chosen[those] = firsts[those] + np.minimum(passed.sum(axis=1), size - 1)
        return chosen


@DATASETS.register_module()
class PartialLabels(LabelWrapper):
    """Any multi-label dataset in which only a random part of the labels, positives and negatives alike, is known.

    Each label stays known with probability ``known_ratio``, independently of others. All other labels become -1, which
    losses leave out. With the same seed, a larger ratio keeps every label that a smaller ratio keeps.

    Args:
        dataset, lazy_init: The wrapped dataset, and whether to load it later, see :class:`LabelWrapper`.
        known_ratio: Probability that a label stays known, in [0, 1].
        seed: Seed of the random choice, which also depends on the names of the samples.

    Example:
        >>> dataset = PartialLabels(dict(type='mmml_losses.DigitScenes', split='train'), known_ratio=0.5)
        >>> dataset.get_data_info(3)['gt_score']
        array([-1.,  1., -1.,  0., -1., -1., -1.,  0., -1.,  0.], dtype=float32)
    """

    arguments = ('known_ratio', 'seed')

    def __init__(self, dataset: BaseDataset | dict, known_ratio: float, *, seed: int = 0, lazy_init: bool = False):
        self.known_ratio = check_ratio('known_ratio', known_ratio)
        self.seed = check_whole_number('seed', seed)
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the labels (N, C), in which each label becomes -1 (unknown) with probability 1 - ``known_ratio``."""
        labels = samples.labels.copy()
        columns = np.arange(labels.shape[1])
        for block in row_blocks(*labels.shape):
            keys = samples.keys[block]
            draws = uniform_numbers(self.seed, self.stream, keys, np.arange(len(keys))[:, None], columns)
            labels[block][draws >= self.known_ratio] = UNKNOWN
        return labels

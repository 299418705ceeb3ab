"""A dataset from which positive labels are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Real

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ...utils.arguments import check_choice, check_flag, check_ratio, check_seed
from ...utils.arrays import row_blocks
from ...utils.errors import AnnotationError
from ..labels.random_numbers import uniform_numbers
from ..labels.sample_labels import NEGATIVE, POSITIVE, UNKNOWN, SampleLabels
from .label_wrapper import LabelWrapper

# What a hidden positive may become.
HIDDEN_VALUES = dict(negative=NEGATIVE, unknown=UNKNOWN)


def positive_areas(samples: SampleLabels, wrapper: LabelWrapper, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The areas of positives.

    Args:
        samples: The samples.
        wrapper: Who asks, for the error message.
        rows: Positions of the samples.
        columns: Class indices.

    Raises:
        AnnotationError: One of them is not known.
    """
    areas = np.full(len(rows), np.nan) if samples.areas is None else samples.areas[rows, columns].astype(np.float64)
    # Written so that NaN is wrong, too.
    wrong = np.flatnonzero(~(areas >= 0))
    if len(wrong):
        row, column = rows[wrong[0]], columns[wrong[0]]
        raise AnnotationError(
            f'{type(wrapper).__name__} needs the area of each positive, from label_areas or boxes, to go by it, and '
            f'{samples.classes[column]!r} of sample {row} ({samples.keys[row]!r}) has none'
        )
    return areas


RULES = ('floor', 'bernoulli')
ORDERS = ('random', 'smallest_first')


@DATASETS.register_module()
class MissingLabels(LabelWrapper):
    r"""Any multi-label dataset in which some positives are hidden.

    Of the :math:`n` positives of a sample, ``rule='floor'`` leaves
    :math:`\min(n, \lfloor n (1 - r) \rfloor + 1)` with :math:`r` the missing ratio (Zhang et al., Hill and SPLC, Sec.
    IV-A): on COCO 75%, 40% and 34% of all labels for r = 0.5, 0.8 and 1, the last being one label an image. The
    formula is computed as it is written, in fractions, where 5 (1 - 0.8) = 1. ``rule='bernoulli'`` hides each positive
    with probability :math:`r`, independently.

    Labels that are unknown stay so. With one seed a larger ratio hides what a smaller one does, and more.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        missing_ratio: :math:`r` in [0, 1]. ``rule='bernoulli'`` also takes a rate for each class: a list of them all,
            or a dict by class name, in which classes that are not named lose nothing.
        rule: How many positives are hidden: ``'floor'`` or ``'bernoulli'``.
        order: Which ones. ``'random'``: any is as likely as any other. ``'smallest_first'``: those whose largest object
            in the image is smallest, as annotators miss small objects first; only objects of the same area are drawn
            among. It needs a dataset that knows areas (COCO's format, boxes), and one ratio for all classes.
        keep_one: Whether ``rule='bernoulli'`` leaves a sample with positives at least one, the last in the order.
        hidden: What a hidden positive becomes: ``'negative'`` (0, as it looks where nobody labelled it) or
            ``'unknown'`` (-1).
        seed: Determines what is hidden, together with the names of the samples.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = MissingLabels(dict(type='mmml_losses.DigitScenes', split='train'), missing_ratio=0.8)
        >>> info = dataset.get_data_info(6)
        >>> info['gt_label'], np.flatnonzero(info['true_label'])
        ([0], array([0, 1, 2, 8]))
    """

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
        self.seed = check_seed(seed)
        self.keep_one = check_flag('keep_one', keep_one)
        self.missing_ratio = _checked_rates(missing_ratio)
        if not isinstance(self.missing_ratio, float):
            if rule == 'floor':
                raise ValueError(
                    f"missing_ratio must be one number for rule='floor', which counts the labels of all classes "
                    f"together, got {missing_ratio}: rule='bernoulli' takes a rate for each class"
                )
            if order == 'smallest_first':
                raise ValueError(
                    f"missing_ratio must be one number for order='smallest_first', which compares the objects of all "
                    f'classes, got {missing_ratio}'
                )
        if keep_one and rule == 'floor':
            raise ValueError("keep_one must be False for rule='floor', which leaves at least one label, got True")
        super().__init__(dataset, lazy_init=lazy_init)

    @property
    def needs_areas(self) -> bool:
        """Whether the labels depend on areas."""
        return self.order == 'smallest_first'

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(
            type=type(self).__name__,
            missing_ratio=self.missing_ratio,
            rule=self.rule,
            order=self.order,
            keep_one=self.keep_one,
            hidden=self.hidden,
            seed=self.seed,
        )

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels without those that are missing."""
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
        """Which of the things that samples have are hidden, by the rule and in the order, (M,) bool.

        Args:
            samples: The samples.
            rows: (M,), ascending, the position of the sample that has each.
            numbers: (M,), which one of its sample it is: what its random number belongs to.
            columns: (M,), its class index.
            areas: (M,), how large it is, where the order goes by it.
        """
        draws = uniform_numbers(self.seed, self.stream, samples.keys, rows, numbers)
        counts = np.bincount(rows, minlength=len(samples.labels))
        if self.rule == 'floor':
            num_hidden = counts - num_left(counts, self.missing_ratio)
        else:
            rates = self._class_rates(samples.classes)[columns]
            num_hidden = np.bincount(rows[draws < rates], minlength=len(counts))
            num_hidden = np.minimum(num_hidden, counts - 1) if self.keep_one else num_hidden
            # Those below their rate come first.
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
    """How many of so many positives ``rule='floor'`` leaves, see :class:`MissingLabels`.

    Args:
        counts: Numbers of positives.
        missing_ratio: The ratio; 0.8 is read as eight tenths.
    """
    # In floating point 5 * (1 - 0.8) is below 1. The lists that the authors published (COCO: 181,422, 96,251 and 82,081
    # labels) have as many labels in every image as the exact product of the decimal number gives.
    kept = 1 - Fraction(repr(float(missing_ratio)))
    left = [min(count, count * kept.numerator // kept.denominator + 1) for count in range(counts.max(initial=0) + 1)]
    return np.asarray(left)[counts]


def _ranks(rows: np.ndarray, counts: np.ndarray, draws: np.ndarray, areas: np.ndarray | None) -> np.ndarray:
    """The place of each positive among those of its sample: by area if given, then by its random number."""
    order = np.lexsort((draws, rows) if areas is None else (draws, areas, rows))
    ranks = np.empty(len(rows), dtype=np.int64)
    firsts = np.cumsum(counts) - counts
    # Sorting by sample first leaves each sample's positives where they are, among themselves.
    ranks[order] = np.arange(len(rows)) - firsts[rows]
    return ranks


def _checked_rates(rates: float | Sequence[float] | Mapping[str, float]) -> float | list[float] | dict[str, float]:
    if isinstance(rates, Real):
        return check_ratio('missing_ratio', rates)
    if isinstance(rates, Mapping):
        return {str(name): check_ratio(f'missing_ratio of {name!r}', rate) for name, rate in rates.items()}
    if isinstance(rates, (Sequence, np.ndarray)) and not isinstance(rates, str):
        return [check_ratio(f'missing_ratio of class {index}', rate) for index, rate in enumerate(rates)]
    raise ValueError(f'missing_ratio must be a number, or a list or dict with one for each class, got {rates!r}')


WEIGHTS = ('uniform', 'area')


@DATASETS.register_module()
class SinglePositive(LabelWrapper):
    """Any multi-label dataset with at most one positive per sample.

    A sample without a positive stays without, and labels that are unknown stay so.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        by: How the positive is drawn. ``'uniform'``: each with the same probability (Assumption 5.1 of the LASD
            paper). ``'area'``: with a probability in proportion to the area of its largest object in the image, as
            large objects are named first; it needs a dataset that knows areas (COCO's format, boxes). Always the
            largest is ``MissingLabels(missing_ratio=1, order='smallest_first')``.
        hidden: What the other positives become: ``'negative'`` (0, as it looks where nobody labelled them) or
            ``'unknown'`` (-1).
        seed: Determines which one is drawn, together with the names of the samples.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = SinglePositive(dict(type='mmml_losses.DigitScenes', split='train'))
        >>> info = dataset.get_data_info(6)
        >>> info['gt_label'], np.flatnonzero(info['true_label'])
        ([2], array([0, 1, 2, 8]))
    """

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
        self.seed = check_seed(seed)
        self.needs_areas = by == 'area'
        super().__init__(dataset, lazy_init=lazy_init)

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(type=type(self).__name__, by=self.by, hidden=self.hidden, seed=self.seed)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels with one positive each."""
        rows, columns = np.nonzero(samples.labels == POSITIVE)
        labels = np.where(samples.labels == POSITIVE, np.int8(HIDDEN_VALUES[self.hidden]), samples.labels)
        if len(rows):
            weights = positive_areas(samples, self, rows, columns) if self.needs_areas else np.ones(len(rows))
            chosen = self._choose(rows, weights, samples)
            labels[rows[chosen], columns[chosen]] = POSITIVE
        return labels

    def _choose(self, rows: np.ndarray, weights: np.ndarray, samples: SampleLabels) -> np.ndarray:
        """Which of the positives stays, one for each sample: a point drawn on a line that they divide."""
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        sizes = np.diff(firsts, append=len(rows))
        # Samples in which nothing has an area are drawn from uniformly.
        weights = np.where(np.repeat(np.maximum.reduceat(weights, firsts) > 0, sizes), weights, 1.0)
        draws = uniform_numbers(
            self.seed, self.stream, samples.keys, rows[firsts], np.zeros(len(firsts), dtype=np.int64)
        )
        chosen = np.empty(len(firsts), dtype=np.int64)
        # Sample by sample of one size: a sum over all of them would lose the small areas.
        for size in np.unique(sizes):
            those = sizes == size
            ends = np.cumsum(weights[firsts[those, None] + np.arange(size)], axis=1)
            passed = ends <= draws[those, None] * ends[:, -1:]
            # The product may round up to the whole length.
            chosen[those] = firsts[those] + np.minimum(passed.sum(axis=1), size - 1)
        return chosen


@DATASETS.register_module()
class PartialLabels(LabelWrapper):
    """Any multi-label dataset in which labels, positives and negatives alike, are known at random only.

    Each label is known with probability ``known_ratio``, independently of all others; the others become -1, which
    losses leave out. With one seed a larger ratio shows what a smaller one does, and more.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`.
        known_ratio: Share of labels that stay known, in [0, 1].
        seed: Determines which ones, together with the names of the samples.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> dataset = PartialLabels(dict(type='mmml_losses.DigitScenes', split='train'), known_ratio=0.5)
        >>> dataset.get_data_info(3)['gt_score']
        array([-1.,  1., -1.,  0., -1., -1., -1.,  0., -1.,  0.], dtype=float32)
    """

    def __init__(self, dataset: BaseDataset | dict, known_ratio: float, *, seed: int = 0, lazy_init: bool = False):
        self.known_ratio = check_ratio('known_ratio', known_ratio)
        self.seed = check_seed(seed)
        super().__init__(dataset, lazy_init=lazy_init)

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(type=type(self).__name__, known_ratio=self.known_ratio, seed=self.seed)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels with those that are not known as -1."""
        labels = samples.labels.copy()
        columns = np.arange(labels.shape[1])
        for block in row_blocks(*labels.shape):
            keys = samples.keys[block]
            draws = uniform_numbers(self.seed, self.stream, keys, np.arange(len(keys))[:, None], columns)
            labels[block][draws >= self.known_ratio] = UNKNOWN
        return labels

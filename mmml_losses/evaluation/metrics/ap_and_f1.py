"""Average precision and F1 as MMEngine metrics."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ...registry import METRICS
from ...utils.arrays import Empty, as_array, checked_empty
from ...utils.frequencies import checked_frequencies, checked_groups, group_classes, load_class_frequencies
from ..functional import average_precision as ap
from ..functional.f1 import (
    F1Scores,
    best_threshold,
    checked_thresholds,
    checked_top_k,
    f1_scores,
    midpoint_threshold,
)
from ..functional.predictions import Predictions
from .base import PredictionMetric, distinct_names, finite_or_none

AP_ITEMS = ('mAP@class', 'mAP@sample', 'mAP@groups', 'AP@micro', 'AP')
OF_RESULT = {'CP': 'cp', 'CR': 'cr', 'CF1': 'cf1', 'macro-F1': 'macro_f1', 'OP': 'op', 'OR': 'or_', 'OF1': 'of1'}
F1_ITEMS = (*OF_RESULT, 'F1', 'best-macro-F1', 'best-OF1')


@METRICS.register_module()
class MultiLabelAP(PredictionMetric):
    """Average precision over classes, over samples and over all pairs, in percent.

    The values are exact, and tied scores count as in scikit-learn, unless another convention is chosen. The number of
    classes (samples) without a positive is logged. See :func:`mmml_losses.evaluation.average_precision`.

    Args:
        items: Items to report: ``'mAP@class'`` (the usual mAP), ``'mAP@sample'`` (classes ranked within each sample),
            ``'AP@micro'`` (all pairs in one ranking), ``'mAP@groups'`` (mAP@class of each group of classes, such as
            ``mAP@head``) and ``'AP'`` (of each class, as ``AP/<class name>``; NaN for a class that ``empty`` leaves
            out). By default the first two; if ``class_frequencies`` or ``groups`` is passed, also ``'mAP@groups'``.
        class_frequencies: (C,) numbers of training images with each class, or the path of a json file with this list.
            They divide the classes into ``head`` (100 or more), ``medium`` and ``tail`` (fewer than 20). By default,
            ``class_frequencies`` in the meta information of the dataset.
        groups: Dict from group name to class indices or class names; use it instead of ``class_frequencies``.
        empty: ``'skip'`` leaves classes (samples) without a positive out of the means, ``'zero'`` counts them as 0,
            ``'error'`` raises an error. By default ``'zero'`` for ``'mmpretrain'`` and ``'asl'``, else ``'skip'``.
        convention: Definition of average precision (:mod:`mmml_losses.evaluation.functional.average_precision`):
            ``'exact'``, or as in published figures ``'voc11'``, ``'mmpretrain'`` or ``'asl'``. The last two do not
            define ``'AP@micro'``: an error is raised if ``items`` contain it.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        means: Dict from name of a mean (``mAP@class``) to its :class:`~mmml_losses.evaluation.MeanAveragePrecision`
            of the last evaluation; empty before it and on processes other than the main one.
    """

    def __init__(
        self,
        items: Sequence[str] | None = None,
        class_frequencies: Sequence[float] | str | os.PathLike | None = None,
        groups: Mapping[str, Sequence[int | str]] | None = None,
        empty: Empty | None = None,
        convention: ap.Convention = 'exact',
        prefix: str | None = None,
    ):
        super().__init__(prefix=prefix)
        has_groups = class_frequencies is not None or groups is not None
        if items is None:
            items = ('mAP@class', 'mAP@sample', *(['mAP@groups'] if has_groups else []))
        if isinstance(items, str) or any(item not in AP_ITEMS for item in items):
            raise ValueError(f'items must be some of {AP_ITEMS}, got {items!r}')
        if class_frequencies is not None and groups is not None:
            raise ValueError('class_frequencies and groups must not both be given')
        if has_groups and 'mAP@groups' not in items:
            raise ValueError(f"items must hold 'mAP@groups' for class_frequencies or groups to matter, got {items!r}")
        if empty not in ('skip', 'zero', 'error', None):
            raise ValueError(f"empty must be 'skip', 'zero', 'error' or None, got {empty!r}")
        if convention in ap.ORDERED and 'AP@micro' in items:
            raise ValueError(f"items must not hold 'AP@micro' for the convention '{convention}', which defines none")
        self.items = tuple(items)
        self.class_frequencies = (
            load_class_frequencies(class_frequencies)
            if isinstance(class_frequencies, str | os.PathLike)
            else class_frequencies
        )
        self.groups = groups
        self.convention = convention
        self.empty = ap.empty_of(convention, empty)
        self.means: dict[str, ap.MeanAveragePrecision] = {}

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        if data_samples and 'mAP@groups' in self.items:
            self._groups_of(len(data_samples[0]['pred_score']))

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        self.means = {}
        # Without a positive, NaN until the means are taken.
        options: dict[str, Any] = {'empty': 'skip', 'convention': self.convention}
        if {'mAP@class', 'mAP@groups', 'AP'} & set(self.items):
            per_class = ap.average_precision(scores, labels, by='class', **options)
        if 'mAP@class' in self.items:
            self._add_mean('mAP@class', per_class, 'classes')
        if 'mAP@sample' in self.items:
            self._add_mean('mAP@sample', ap.average_precision(scores, labels, by='sample', **options), 'samples')
        if 'mAP@groups' in self.items:
            groups = self._groups_of(predictions.num_classes)
            means = ap.mean_average_precision_of_groups(per_class, groups, empty=self.empty)
            self.means |= {f'mAP@{name}': mean for name, mean in means.items()}
        metrics = {name: 100 * mean.value for name, mean in self.means.items()}
        if 'AP@micro' in self.items:
            micro = ap.micro_average_precision(scores, labels, empty=self.empty, convention=self.convention)
            metrics['AP@micro'] = 100 * micro
        if 'AP' in self.items:
            filled = ap.fill_empty(per_class, self.empty, 'classes')
            names = distinct_names(predictions.class_names)
            metrics |= {f'AP/{name}': 100 * float(value) for name, value in zip(names, filled, strict=True)}
        return metrics

    def details(self) -> dict[str, Any]:
        """Return a dict from each name in :attr:`means` to its MeanAveragePrecision as a dict; {} without means.

        ``value`` is in percent. ``num_averaged``, ``num_skipped``, ``num_empty`` (no positive) count classes (samples).
        """
        return finite_or_none(
            {name: {**mean._asdict(), 'value': 100 * mean.value} for name, mean in self.means.items()}
        )

    def _add_mean(self, name: str, precisions: np.ndarray, what: str) -> None:
        mean = ap.MeanAveragePrecision.of(precisions, self.empty, what)
        if mean.num_empty:
            fate = 'are left out' if mean.num_skipped else 'count as 0'
            self.log(f'{mean.num_empty} of {precisions.size} {what} have no positive label and {fate}')
        self.means[name] = mean

    def _groups_of(self, num_classes: int) -> dict[str, tuple[int, ...]]:
        if self.groups is not None:
            return checked_groups(self.groups, num_classes, self.class_names)
        frequencies = self.class_frequencies
        if frequencies is None:
            frequencies = (self.dataset_meta or {}).get('class_frequencies')
        if frequencies is None:
            raise ValueError(
                "class_frequencies or groups must be given for 'mAP@groups', or the dataset must hold "
                "'class_frequencies' in its meta information; got none of them"
            )
        return group_classes(checked_frequencies(frequencies, num_classes))


@METRICS.register_module()
class MultiLabelF1(PredictionMetric):
    """Precision, recall and F1 of predicted label sets, by class and overall, in percent.

    ``CP``, ``CR`` are means of precision and recall over classes; ``OP``, ``OR`` and ``OF1`` count all pairs together.
    ``CF1`` is the harmonic mean of ``CP`` and ``CR``, as in most of the multi-label literature. ``macro-F1`` is the
    mean of the classes' F1s, as in scikit-learn and mmpretrain; the Hill and SPLC paper prints it as its CF1. It is
    never above ``CF1``. 0 / 0 is 0. See :class:`mmml_losses.evaluation.F1Scores`.

    Args:
        items: Items to report: some of ``'CP'``, ``'CR'``, ``'CF1'``, ``'macro-F1'``, ``'OP'``, ``'OR'``, ``'OF1'``
            (these by default), ``'F1'`` (of each class, as ``F1/<class name>``), ``'best-macro-F1'`` and ``'best-OF1'``
            (with the best threshold of each class, or of all together, chosen on the evaluated data themselves).
            ``'best-OF1'`` also reports its threshold, as ``best-threshold``.
        threshold: Scores of at least this much are predicted; one number, one for each class, or ``'midpoint'`` for
            :func:`mmml_losses.evaluation.midpoint_threshold` of the evaluated scores, which must be probabilities. 0.5
            if neither this nor ``top_k`` is given.
        top_k: Predict the k classes with the highest scores in each sample instead. The names of all items but
            ``best-…`` then end with ``@k``, such as ``CF1@3``.
        empty: How the means over classes treat classes without a positive: ``'zero'`` counts them as 0, ``'skip'``
            leaves them out, ``'error'`` raises an error.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        result: ``F1Scores`` of the last evaluation; None before it and on processes other than the main one.
    """

    def __init__(
        self,
        items: Sequence[str] = tuple(OF_RESULT),
        threshold: float | Sequence[float] | Literal['midpoint'] | None = None,
        top_k: int | None = None,
        empty: Empty = 'zero',
        prefix: str | None = None,
    ):
        super().__init__(prefix=prefix)
        if isinstance(items, str) or any(item not in F1_ITEMS for item in items):
            raise ValueError(f'items must be some of {F1_ITEMS}, got {items!r}')
        if threshold is not None and top_k is not None:
            raise ValueError(f'threshold and top_k must not both be given, got {threshold} and {top_k}')
        checked_empty(empty, np.zeros(0, bool), '')
        self.items = tuple(items)
        self.threshold = threshold
        self.top_k = None if top_k is None else checked_top_k(top_k)
        self.empty = empty
        self.result: F1Scores | None = None
        self.needs_probabilities = isinstance(threshold, str) and threshold == 'midpoint'
        self._fixed_threshold = None if self.needs_probabilities else threshold
        if self._fixed_threshold is not None:
            self._check_choice(as_array(self._fixed_threshold).size)

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        """Raise a ValueError if ``threshold`` or ``top_k`` does not fit the number of classes or the scores."""
        super().check_samples(data_samples)
        if data_samples:
            self._check_choice(len(data_samples[0]['pred_score']))

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        threshold = self._fixed_threshold
        if self.needs_probabilities:
            threshold = midpoint_threshold(scores, labels)
            self.log(f'the threshold (1 + lowest probability) / 2 is {threshold:.4f}')
        self.result = result = f1_scores(scores, labels, threshold=threshold, top_k=self.top_k, empty=self.empty)
        if result.num_empty:
            fate = 'are left out of the class means' if self.empty == 'skip' else 'count as 0 in the class means'
            self.log(f'{result.num_empty} of {predictions.num_classes} classes have no positive label and {fate}')
        if result.num_ties_cut:
            self.log(f'top-{self.top_k} cuts through tied scores in {result.num_ties_cut} samples')
        ending = '' if self.top_k is None else f'@{self.top_k}'
        metrics = {
            f'{item}{ending}': 100 * getattr(result, OF_RESULT[item]) for item in self.items if item in OF_RESULT
        }
        if 'F1' in self.items:
            by_class = zip(distinct_names(predictions.class_names), result.class_f1.tolist(), strict=True)
            metrics |= {f'F1{ending}/{name}': 100 * value for name, value in by_class}
        return metrics | self._best(predictions)

    def details(self) -> dict[str, Any]:
        """Return three counts of ``result`` as a dict; {} if it is None.

        ``num_empty`` classes have no positive, ``num_unpredicted`` classes are never predicted, and in ``num_ties_cut``
        samples top-k predicts one of two classes with equal scores.
        """
        names = ('num_empty', 'num_unpredicted', 'num_ties_cut')
        return {} if self.result is None else {name: getattr(self.result, name) for name in names}

    def _check_choice(self, num_classes: int) -> None:
        if self._fixed_threshold is not None:
            checked_thresholds(self._fixed_threshold, np.empty((0, num_classes), np.float32))
        if self.top_k is not None:
            checked_top_k(self.top_k, num_classes)

    def _best(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        metrics: dict[str, Any] = {}
        if 'best-macro-F1' in self.items:
            thresholds = best_threshold(scores, labels).threshold
            metrics['best-macro-F1'] = 100 * f1_scores(scores, labels, threshold=thresholds, empty=self.empty).macro_f1
        if 'best-OF1' in self.items:
            best = best_threshold(scores, labels, average='pooled')
            metrics |= {'best-OF1': 100 * best.f1, 'best-threshold': best.threshold}
        return metrics

"""An evaluator that collects and gathers predictions once for all of its metrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.logging import print_log
from mmengine.structures import BaseDataElement
from torch import Tensor

from ...registry import EVALUATOR, MODELS
from ..functional.predictions import Predictions, recalibrate
from .base import PredictionMetric, class_names_of, reject_raw_scores, warn_of_missing_samples
from .gathering import PredictionCollector, broadcast_json


@EVALUATOR.register_module()
class MultiLabelEvaluator(Evaluator):
    """Evaluator that collects predictions once for any number of metrics.

    In a plain list of metrics, each metric keeps the scores of the dataset and sends them to the main process. Here the
    scores are kept once, gathered once, and passed to each :class:`PredictionMetric` as the same read-only
    :class:`Predictions`. Metrics of other projects may be in the same list and work as usual. Metrics may be appended
    to ``metrics`` until the first batch.

    With ``post_hoc``, every :class:`PredictionMetric` that depends on the scores is computed again from recalibrated
    scores. For a link named ``phi``, ``multi-label/phi/ACE`` is reported next to ``multi-label/ACE`` of the raw scores.

    Args:
        metrics: Metrics or their configs.
        post_hoc: Dict from a name for reports to a link or its config. A link is a function that turns the log-odds of
            the raw scores into recalibrated probabilities. ``PostHocCalibrationHook`` adds fitted links.

    Example:
        >>> val_evaluator = dict(
        ...     type='mmml_losses.MultiLabelEvaluator',
        ...     metrics=[dict(type='mmml_losses.MultiLabelAP'), dict(type='mmml_losses.CalibrationError')],
        ... )
    """

    def __init__(
        self,
        metrics: dict | BaseMetric | Sequence,
        post_hoc: Mapping[str, dict | Callable[[Tensor], Tensor]] | None = None,
    ):
        super().__init__(metrics)
        self._collected: PredictionCollector | None = None
        self._recalibrated: list[PredictionMetric] = []
        self.post_hoc: dict[str, Callable[[Tensor], Tensor]] = {}
        for name, link in (post_hoc or {}).items():
            self.add_post_hoc(name, link)

    def add_post_hoc(self, name: str, link: dict | Callable[[Tensor], Tensor]) -> None:
        """Add or replace a link (or its config), which maps log-odds to probabilities, under ``name`` for reports."""
        built: Any = MODELS.build(link) if isinstance(link, dict) else link
        if not name or not callable(built):
            raise ValueError(f'post_hoc must hold links or their configs by name, got {name!r}: {built!r}')
        self.post_hoc[name] = built

    def process(self, data_samples: Sequence[BaseDataElement | dict], data_batch: Any = None) -> None:
        """Keep a batch once for all metrics that share predictions (:meth:`_sharing`); pass it to each other metric."""
        samples = [each.to_dict() if isinstance(each, BaseDataElement) else each for each in data_samples]
        self._hand_on_meta()
        sharing = self._sharing()
        if self.post_hoc and not any(metric.measures_scores for metric in sharing):
            names = ', '.join(type(metric).__name__ for metric in self.metrics) or 'none'
            raise ValueError(f'post_hoc needs a metric of mmml_losses that it can be measured by, got {names}')
        if sharing:
            collected = self._collector_for(sharing)
            batch = collected.read(samples, len(class_names_of(self.dataset_meta)))
            if self.post_hoc and batch:
                reject_raw_scores(batch['scores'], 'post_hoc')
            for metric in sharing:
                metric.check_samples(samples)
            collected.keep(batch)
        for metric in self.metrics:
            if metric not in sharing:
                metric.process(data_batch, samples)

    def evaluate(self, size: int) -> dict[str, float]:
        """Return a dict from ``prefix/name`` to value, on every rank; ``size`` is the number of samples in the data."""
        self._hand_on_meta()
        sharing = self._sharing()
        shared: Iterator[dict[str, float]] | None = None
        found = []
        for metric in self.metrics:
            if metric not in sharing:
                found.append(metric.evaluate(size))
            else:
                shared = shared or iter(self._evaluate_together(sharing, size))
                found.append(next(shared))
        metrics: dict[str, float] = {}
        for results in (*found, *(shared or ())):
            twice = sorted(metrics.keys() & results.keys())
            if twice:
                raise ValueError(
                    f'metrics must have different names, got {twice[0]} twice: give one of them another prefix'
                )
            metrics.update(results)
        return metrics

    def details(self) -> dict[str, dict]:
        """Return a dict from ``prefix/ClassName`` to the metric's ``details()``, its further results as a dict.

        Recalibrated scores have keys like ``prefix/phi/ClassName``. Other projects' metrics, empty dicts are left out.
        """
        return details_of([*self.metrics, *self._recalibrated])

    def _evaluate_together(self, sharing: list[PredictionMetric], size: int) -> list[dict[str, float]]:
        collected, self._collected = self._collector_for(sharing), None
        predictions = collected.gather(size, class_names_of(self.dataset_meta))
        if predictions is None:  # not the main process
            return broadcast_json(None)
        warn_of_missing_samples(predictions, size, type(self).__name__)
        results: list[dict[str, float]] = []
        try:
            _protect(predictions)
            for metric in sharing:
                results.append(metric.named_metrics(predictions))
            self._recalibrated = []
            for name, link in self.post_hoc.items():
                recalibrated = recalibrate(predictions, link)
                _protect(recalibrated)
                for metric in sharing:
                    if metric.measures_scores:
                        again = copy(metric)  # the original keeps plots and details of the raw scores
                        again.prefix = f'{metric.prefix}/{name}'
                        self._recalibrated.append(again)
                        results.append(again.named_metrics(recalibrated))
        except KeyboardInterrupt:
            found = {name: value for result in results for name, value in result.items()}
            shown = '  '.join(f'{name}: {value:.4f}' for name, value in found.items())
            print_log(f'stopped; measured so far: {shown or "nothing"}', logger='current')
            raise
        return broadcast_json(results)

    def _sharing(self) -> list[PredictionMetric]:
        """Return the metrics that can use one collection: they override neither ``process`` nor ``evaluate``."""
        shared = (PredictionMetric.process, PredictionMetric.evaluate)
        metrics = [metric for metric in self.metrics if isinstance(metric, PredictionMetric)]
        return [metric for metric in metrics if (type(metric).process, type(metric).evaluate) == shared]

    def _collector_for(self, sharing: list[PredictionMetric]) -> PredictionCollector:
        columns = {name for metric in sharing for name in metric.columns}
        if self._collected is None:
            self._collected = PredictionCollector(columns)
        missing = sorted(columns.difference(self._collected.columns))
        if missing:
            raise RuntimeError(
                f'metrics must be added before the first batch, got one that needs {", ".join(missing)} after '
                f'{len(self._collected)} samples'
            )
        return self._collected

    def _hand_on_meta(self) -> None:
        # A metric that was appended later does not have the meta information yet.
        for metric in self.metrics:
            if metric.dataset_meta is None and self.dataset_meta is not None:
                metric.dataset_meta = self.dataset_meta


def _protect(predictions: Predictions) -> None:
    """Make the arrays of ``predictions`` read-only, so that no metric changes what the next metric measures."""
    for array in (predictions.scores, predictions.labels, predictions.true_labels, predictions.sample_idx):
        if array is not None:
            array.setflags(write=False)


def details_of(metrics: Iterable[BaseMetric]) -> dict[str, dict]:
    """Return a dict from ``prefix/ClassName`` to the metric's ``details()``, its further results as a dict.

    A repeated key gets a number: ``prefix/ClassName 2``. Other projects' metrics and empty dicts are left out.
    """
    found: dict[str, dict] = {}
    for metric in metrics:
        details = metric.details() if isinstance(metric, PredictionMetric) else {}
        if details:
            name = f'{metric.prefix}/{type(metric).__name__}'
            same = sum(key == name or key.startswith(f'{name} ') for key in found)
            found[f'{name} {same + 1}' if same else name] = details
    return found

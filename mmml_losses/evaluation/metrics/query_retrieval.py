"""Retrieval of images by required and excluded classes as an MMEngine metric."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

from ...registry import METRICS
from ..functional.predictions import Predictions
from ..functional.retrieval import RetrievalMean, RetrievalResult, query_retrieval
from ..functional.retrieval.measure import check_settings
from .base import PredictionMetric, finite_or_none

ITEMS = ('overall', 'conditions', 'counts')


@METRICS.register_module()
class QueryRetrieval(PredictionMetric):
    """Mean average precision of queries for the classes that images show and do not show, in percent.

    A query has conditions: classes that an image must show (positives) or must not show (negatives). The mean is over
    all queries that the arguments allow (Cheng and Vasconcelos, section 5.3), or over a stratified sample of them. A
    sampled mean comes with half of the width of its 95 % interval, as ``retrieval_mAP_half_width``. Queries without a
    relevant image are left out and counted in the log. See :func:`mmml_losses.evaluation.query_retrieval`.

    Args:
        max_conditions, min_positives: Most conditions and fewest positives of a query.
        budget, sample_size, seed: If there are more than ``budget`` queries, draw about ``sample_size`` with ``seed``.
        num_workers: Number of threads; by default one for each processor.
        items: By default ``'overall'`` (as ``retrieval_mAP``) and ``'conditions'`` (by the number of conditions, as
            ``retrieval_mAP@3``). ``'counts'`` adds means by positives and negatives, as ``retrieval_mAP@2P1N``.
        checkpoint_file: Ignored with a warning: no checkpoint is written any more.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        result: ``RetrievalResult`` of the last evaluation; None before it and on processes other than the main one.
    """

    needs_probabilities = True

    def __init__(
        self,
        max_conditions: int = 5,
        min_positives: int = 1,
        budget: int = 1_000_000,
        sample_size: int = 200_000,
        seed: int = 0,
        items: Sequence[str] = ('overall', 'conditions'),
        checkpoint_file: str | os.PathLike | None = None,
        num_workers: int | None = None,
        prefix: str | None = None,
    ):
        super().__init__(prefix=prefix)
        unknown = [item for item in items if item not in ITEMS]
        if unknown or isinstance(items, str):
            raise ValueError(f'items must be some of {ITEMS}, got {items!r}')
        if checkpoint_file is not None:
            warnings.warn('checkpoint_file is ignored: QueryRetrieval writes no checkpoint any more', stacklevel=2)
        self.items = tuple(items)
        # Now, and not after hours of inference.
        check_settings(max_conditions, min_positives, budget, sample_size, seed, num_workers)
        self.settings: dict[str, Any] = dict(
            max_conditions=max_conditions,
            min_positives=min_positives,
            budget=budget,
            sample_size=sample_size,
            seed=seed,
            num_workers=num_workers,
        )
        self.result: RetrievalResult | None = None

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        self.result = query_retrieval(predictions.scores, predictions.labels, log=self.log, **self.settings)
        overall = self.result.overall
        means = {}
        if 'overall' in self.items:
            means['retrieval_mAP'] = overall
        if 'conditions' in self.items:
            means |= {f'retrieval_mAP@{length}': mean for length, mean in self.result.by_conditions.items()}
        if 'counts' in self.items:
            means |= {
                f'retrieval_mAP@{positives}P{negatives}N': mean
                for (positives, negatives), mean in self.result.by_counts.items()
            }
        metrics = {name: 100 * mean.value for name, mean in means.items()}
        if not self.result.exhaustive:
            metrics |= {f'{name}_half_width': 100 * mean.half_width for name, mean in means.items()}
        return metrics

    def details(self) -> dict[str, Any]:
        """Return ``result`` as a dict for JSON, means in percent; {} before an evaluation.

        A mean is a dict of the attributes of ``RetrievalMean``. ``overall`` is one mean, ``by_conditions`` a dict from
        ``'3'`` etc. to means, ``by_counts`` from ``'2P1N'`` etc.; ``exhaustive`` is False if queries were sampled.
        """
        if self.result is None:
            return {}
        details = {
            'overall': _in_percent(self.result.overall),
            'by_conditions': {str(length): _in_percent(mean) for length, mean in self.result.by_conditions.items()},
            'by_counts': {f'{p}P{n}N': _in_percent(mean) for (p, n), mean in self.result.by_counts.items()},
            'exhaustive': self.result.exhaustive,
        }
        return finite_or_none(details)


def _in_percent(mean: RetrievalMean) -> dict[str, float]:
    return {**mean._asdict(), 'value': 100 * mean.value, 'half_width': 100 * mean.half_width}

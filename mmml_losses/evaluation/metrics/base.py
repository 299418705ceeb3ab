"""Base class of the registered metrics. CONTRIBUTING.md, "Add a metric", lists all steps for a new one."""

import logging
import math
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from mmengine.logging import print_log

from ...registry import METRICS
from ...utils.arguments import check_suffix
from ..functional.predictions import Predictions, save_predictions
from .gathering import PredictionCollector, broadcast_json


class PredictionMetric(BaseMetric):
    """Base class of metrics that need the scores and labels of the whole dataset; exact on any number of processes.

    Data samples have ``pred_score`` (C,), and ``gt_score`` (C,) with 1, 0 or -1 (unknown) or ``gt_label`` (class
    indices, possibly none). Scores are kept as float32 and labels as int8: five bytes for each (sample, class) pair.
    Each sample is counted once, by its ``sample_idx`` (index in the dataset). Without ``sample_idx``, or for joined
    datasets, the sampler must deal samples to the ranks in turn and repeat samples only at the end.

    A subclass implements :meth:`compute_metrics`. If it needs more than scores and labels, it lists in :attr:`columns`
    all attributes of Predictions that it needs. MultiLabelEvaluator collects predictions once for several metrics.

    Args:
        prefix: Prefix of the metric names; ``multi-label`` by default.
    """

    default_prefix = 'multi-label'

    columns: tuple[str, ...] = ('scores', 'labels')
    """Attributes of :class:`Predictions` that the metric needs: ``scores`` and ``labels``, and perhaps ``image_paths``
    and ``true_labels``. ``sample_idx`` is always there, with -1 for samples without it."""

    needs_probabilities = False
    """Whether scores must be probabilities."""

    measures_scores = True
    """Whether the metric depends on the scores, so that it is computed again from recalibrated scores."""

    def __init__(self, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self._collected = PredictionCollector(self.columns)

    @abstractmethod
    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        """Return a dict from metric name, without the prefix, to its value; called on the main process only."""

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        """Raise a ValueError if the metric cannot use a batch, so that a run stops at the first batch, not the last."""
        if self.needs_probabilities:
            for sample in data_samples:
                reject_raw_scores(sample['pred_score'], type(self).__name__)

    def details(self) -> dict[str, Any]:
        """Return further results of the last evaluation as a dict that JSON can hold; by default an empty dict."""
        return {}

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the dataset; an empty tuple if it has none."""
        return class_names_of(self.dataset_meta)

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Check and keep the scores and labels in ``data_samples``; ``data_batch`` is not used."""
        batch = self._collected.read(data_samples, len(self.class_names))
        self.check_samples(data_samples)
        self._collected.keep(batch)

    def evaluate(self, size: int) -> dict[str, float]:
        """Return a dict from ``prefix/name`` to value, on every rank; ``size`` is the number of samples in the data."""
        predictions = self.gather(size)
        metrics = None
        if predictions is not None:
            warn_of_missing_samples(predictions, size, type(self).__name__)
            metrics = self.named_metrics(predictions)
        return broadcast_json(metrics)

    def gather(self, size: int) -> Predictions | None:
        """Return the predictions of all ranks on the main process, None on others; ``size`` is the dataset's length."""
        return self._collected.gather(size, self.class_names)

    def named_metrics(self, predictions: Predictions) -> dict[str, float]:
        """Return the result of :meth:`compute_metrics`, with ``prefix/`` before each name."""
        return {f'{self.prefix}/{name}': value for name, value in self.compute_metrics(predictions).items()}

    def log(self, message: str, level: int = logging.INFO) -> None:
        """Log a message, after the name of the class, through MMEngine's logger."""
        print_log(f'{type(self).__name__}: {message}', logger='current', level=level)


@METRICS.register_module()
class SavePredictions(PredictionMetric):
    """Save scores, labels, class names, image paths and sample indices of the whole dataset to one ``.npz`` file.

    :func:`mmml_losses.evaluation.load_predictions` reads the file. A sample without ``img_path`` has an empty path, a
    sample without ``sample_idx`` has -1. If samples have a ``true_label`` (C,), from a dataset wrapper that changes
    labels and ``PackInputs(algorithm_keys=['true_label'])``, it is saved, too; a sample without it has a row of -1.

    Args:
        out_file: Path of the file; must end with ``.npz``.
        prefix: Unused, since no metric is reported.
    """

    columns = ('scores', 'labels', 'image_paths', 'sample_idx', 'true_labels')
    measures_scores = False

    def __init__(self, out_file: str | os.PathLike, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self.out_file = check_suffix('out_file', out_file, '.npz')

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        save_predictions(self.out_file, predictions)
        self.log(f'wrote the predictions of {predictions.num_samples} samples to {self.out_file}')
        return {}


def class_names_of(dataset_meta: dict | None) -> tuple[str, ...]:
    """Return the class names in a dataset's meta information; an empty tuple if it is None or has no names."""
    meta = dataset_meta or {}
    return tuple(meta.get('classes') or meta.get('CLASSES') or ())


def warn_of_missing_samples(predictions: Predictions, size: int, who: str) -> None:
    """Log a warning, which names the metric ``who``, if there are fewer predictions than the dataset's ``size``."""
    if predictions.num_samples < size:
        message = f'{who}: saw {predictions.num_samples} of {size} samples'
        print_log(message, logger='current', level=logging.WARNING)


def reject_raw_scores(scores: Any, who: str, name: str = 'pred_score') -> None:
    """Raise a ValueError if scores are outside [0, 1]; its text has ``name`` for the scores, ``who`` for the metric."""
    scores = torch.as_tensor(scores)
    if scores.numel():
        for extreme in torch.aminmax(scores.detach()):
            if not 0 <= extreme <= 1:
                raise ValueError(
                    f'{name} must hold probabilities in [0, 1] for {who}, got {float(extreme):g}: let the head turn '
                    'its logits into probabilities by the link of the loss, as mmml_losses.MultiLabelHead does'
                )


def finite_or_none(value: Any) -> Any:
    """Return a copy of nested dicts and lists with None for NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite_or_none(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_none(each) for each in value]
    return None if isinstance(value, float | np.floating) and not math.isfinite(value) else value


def distinct_names(class_names: Sequence[str]) -> list[str]:
    """Return the class names, with the class index after each name that several classes share: ``'cat (3)'``."""
    counts = Counter(class_names)
    return [f'{name} ({index})' if counts[name] > 1 else name for index, name in enumerate(class_names)]

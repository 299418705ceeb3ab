"""The base of all metrics here: collect scores and labels as tensors, gather them as tensors, compute once."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.evaluator import BaseMetric
from mmengine.logging import print_log
from torch import Tensor

from ..arrays import as_labels
from ..predictions import Predictions
from .gathering import broadcast_json, gather_rows, join_rows


class PredictionMetric(BaseMetric):
    """A metric of scores and labels over the whole dataset, exact under distributed evaluation.

    Data samples carry ``pred_score`` (C,), and ``gt_score`` (C,) with 1, 0 or -1 (unknown) or ``gt_label`` (class
    indices, possibly none). Scores are kept as float32 and labels as int8: five bytes for each (sample, class) pair.

    A subclass implements :meth:`compute_metrics`. To keep more than scores and labels it extends :attr:`columns`,
    :meth:`rows_of` and :meth:`predictions_of` together.

    Args:
        prefix: Prefix of the metric names; ``multi-label`` by default.
    """

    default_prefix = 'multi-label'

    # What is kept of each sample, all as (samples, width) tensors. A rank without samples still knows the types.
    columns: Mapping[str, torch.dtype] = {'scores': torch.float32, 'labels': torch.int8}

    def __init__(self, prefix: str | None = None):
        super().__init__(prefix=prefix)

    @abstractmethod
    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        """Compute the metrics of the whole dataset, on the main process only."""

    def rows_of(self, data_samples: Sequence[dict]) -> dict[str, Tensor]:
        """Read one batch as rows, a tensor for each name in :attr:`columns`."""
        scores = torch.stack([torch.as_tensor(sample['pred_score']).detach() for sample in data_samples])
        labels = torch.stack([_labels_of(sample, scores.shape[1]) for sample in data_samples])
        return {
            'scores': scores.to('cpu', torch.float32),
            'labels': torch.from_numpy(as_labels(labels, 'gt_score')),
        }

    def predictions_of(self, rows: dict[str, Tensor]) -> Predictions:
        """Make predictions from the gathered rows."""
        return Predictions(rows['scores'].numpy(), rows['labels'].numpy(), class_names=self.class_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the dataset, or nothing if it has none."""
        meta = self.dataset_meta or {}
        return tuple(meta.get('classes') or meta.get('CLASSES') or ())

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the scores and labels of one batch."""
        if data_samples:
            self.results.append(self.rows_of(data_samples))

    def evaluate(self, size: int) -> dict[str, float]:
        """Compute the metrics over all ranks.

        Args:
            size: Number of samples in the dataset; what a sampler added to even out the ranks lies beyond it.
        """
        rows = {}
        for name, dtype in self.columns.items():
            own = [batch[name] for batch in self.results] or [torch.empty(0, 0, dtype=dtype)]
            rows[name] = gather_rows(join_rows(own), size)
        self.results.clear()
        metrics = None
        if is_main_process():
            predictions = self.predictions_of(rows)
            if predictions.num_samples < size:
                self.log(f'saw {predictions.num_samples} of {size} samples', logging.WARNING)
            metrics = {f'{self.prefix}/{name}': value for name, value in self.compute_metrics(predictions).items()}
        return broadcast_json(metrics)

    def log(self, message: str, level: int = logging.INFO) -> None:
        """Tell the user something through MMEngine's logger."""
        print_log(f'{type(self).__name__}: {message}', logger='current', level=level)


def _labels_of(sample: dict, num_classes: int) -> Tensor:
    if 'gt_score' in sample:
        labels = torch.as_tensor(sample['gt_score']).cpu()
        if labels.shape != (num_classes,):
            raise ValueError(f'gt_score must have the shape of pred_score ({num_classes},), got {tuple(labels.shape)}')
        return labels
    if 'gt_label' not in sample:
        raise ValueError(f'data samples must hold gt_score or gt_label, got {sorted(sample)}')
    indices = torch.as_tensor(sample['gt_label']).cpu().reshape(-1).long()
    if ((indices < 0) | (indices >= num_classes)).any():
        raise ValueError(f'gt_label must be class indices from 0 to {num_classes - 1}, got {indices.tolist()}')
    labels = torch.zeros(num_classes, dtype=torch.int8)
    labels[indices] = 1
    return labels

"""A metric that measures nothing and keeps everything: predictions as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor

from mmml_losses.registry import METRICS

from ..predictions import Predictions, checked_npz_path, save_predictions
from .base import PredictionMetric
from .gathering import decode_texts, encode_texts


@METRICS.register_module()
class SavePredictions(PredictionMetric):
    """Save scores, labels, class names, image paths and sample indices of the whole dataset to one ``.npz`` file.

    :func:`mmml_losses.evaluation.load_predictions` reads it back. A sample without ``img_path`` is saved with an
    empty path, one without ``sample_idx`` with -1.

    Args:
        out_file: Where to write; must end with ``.npz``.
        prefix: Unused, since nothing is reported; taken so that all metrics take it.
    """

    columns = {**PredictionMetric.columns, 'sample_idx': torch.int64, 'image_paths': torch.uint8}

    def __init__(self, out_file: str | os.PathLike, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self.out_file = checked_npz_path(out_file, 'out_file')

    def rows_of(self, data_samples: Sequence[dict]) -> dict[str, Tensor]:
        sample_idx = [[int(sample.get('sample_idx', -1))] for sample in data_samples]
        image_paths = [os.fspath(sample.get('img_path') or '') for sample in data_samples]
        return {
            **super().rows_of(data_samples),
            'sample_idx': torch.tensor(sample_idx, dtype=torch.int64),
            'image_paths': encode_texts(image_paths),
        }

    def predictions_of(self, rows: dict[str, Tensor]) -> Predictions:
        return Predictions(
            scores=rows['scores'].numpy(),
            labels=rows['labels'].numpy(),
            class_names=self.class_names,
            image_paths=decode_texts(rows['image_paths']),
            sample_idx=rows['sample_idx'].flatten().numpy(),
        )

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        save_predictions(self.out_file, predictions)
        self.log(f'wrote the predictions of {predictions.num_samples} samples to {self.out_file}')
        return {}

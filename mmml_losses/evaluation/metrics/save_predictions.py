"""A metric that measures nothing and keeps everything: predictions as a file."""

from __future__ import annotations

import os

from mmml_losses.registry import METRICS

from ..functional.predictions import Predictions, checked_npz_path, save_predictions
from .base import PredictionMetric


@METRICS.register_module()
class SavePredictions(PredictionMetric):
    """Save scores, labels, class names, image paths and sample indices of the whole dataset to one ``.npz`` file.

    :func:`mmml_losses.evaluation.load_predictions` reads it back. A sample without ``img_path`` is saved with an
    empty path, one without ``sample_idx`` with -1. Where samples have a ``true_label`` (of a dataset wrapper that
    changes labels, packed by ``PackInputs(algorithm_keys=['true_label'])``) the true labels are saved as well, with
    -1 for a sample that has none.

    Args:
        out_file: Where to write; must end with ``.npz``.
        prefix: Unused, since nothing is reported; taken so that all metrics take it.
    """

    columns = ('scores', 'labels', 'image_paths', 'sample_idx', 'true_labels')
    measures_scores = False

    def __init__(self, out_file: str | os.PathLike, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self.out_file = checked_npz_path(out_file, 'out_file')

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        save_predictions(self.out_file, predictions)
        self.log(f'wrote the predictions of {predictions.num_samples} samples to {self.out_file}')
        return {}

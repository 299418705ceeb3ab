"""Store the predictions of a model on a dataset in one ``.npz`` file, and recalibrate them."""

import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...utils.arguments import check_suffix
from ...utils.arrays import ArrayLike, as_array, as_labels, as_probabilities, as_scores, row_blocks
from ...utils.files import replacing

# Written to each file; it changes with the meaning of the arrays.
FORMAT = 'mmml_losses.predictions/1'
# Log-odds of 2^-151 and 1 - 2^-26: float32, with the neighbours 2^-149 and 1 - 2^-24, rounds these to 0 and 1.
LOWEST_LOG_ODDS = -151 * math.log(2)
HIGHEST_LOG_ODDS = 26 * math.log(2)


@dataclass(frozen=True)
class Predictions:
    """Predicted scores of a model for N images and C classes, with the labels of the images.

    Attributes:
        scores: (N, C) float32 scores; probabilities if the model has a link (a function from logits to probabilities).
        labels: (N, C) int8 with 1 positive, 0 negative, -1 unknown.
        class_names: Names of the C classes; by default the class indices as text.
        image_paths: Files of the N images; an empty string for an image without a file, by default for all.
        sample_idx: (N,) int64 indices of the images in the dataset; by default 0 to N - 1.
        true_labels: (N, C) int8 labels before a dataset wrapper hid some: a hidden label is 1 here, and 0 or -1 in
            ``labels``. None if the true labels are not known.
    """

    scores: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...] = ()
    image_paths: tuple[str, ...] = ()
    sample_idx: np.ndarray | None = None
    true_labels: np.ndarray | None = None

    def __post_init__(self):
        scores = as_scores(self.scores).astype(np.float32, copy=False)
        num_samples, num_classes = scores.shape
        sample_idx = np.arange(num_samples) if self.sample_idx is None else self.sample_idx
        normalised = {
            'scores': scores,
            'class_names': tuple(self.class_names) or tuple(map(str, range(num_classes))),
            'image_paths': tuple(self.image_paths) or ('',) * num_samples,
            'sample_idx': np.asarray(sample_idx, dtype=np.int64),
        }
        for name in ('labels', 'true_labels'):
            if (labels := getattr(self, name)) is not None:
                labels = as_array(labels)
                if labels.shape != scores.shape:
                    raise ValueError(f'{name} must have the shape of scores {scores.shape}, got {labels.shape}')
                normalised[name] = as_labels(labels, name)
        for name, value in normalised.items():
            object.__setattr__(self, name, value)
        for name, length in (('class_names', num_classes), ('image_paths', num_samples), ('sample_idx', num_samples)):
            if len(normalised[name]) != length:
                got = len(normalised[name])
                raise ValueError(f'{name} must have {length} entries for scores of shape {scores.shape}, got {got}')

    @property
    def num_samples(self) -> int:
        return self.scores.shape[0]

    @property
    def num_classes(self) -> int:
        return self.scores.shape[1]


def save_predictions(path: str | os.PathLike, predictions: Predictions) -> None:
    """Write predictions to one file, whose name must end with ``.npz``. An interrupted call leaves no incomplete file.

    The file holds plain arrays (``format``, ``scores``, ``labels``, ``class_names``, ``image_paths``, ``sample_idx``,
    and ``true_labels`` if they are known), so ``numpy.load`` opens it without this package.
    """
    arrays = {name: value for name, value in vars(predictions).items() if value is not None}
    arrays |= {name: np.array(arrays[name], dtype=str) for name in ('class_names', 'image_paths')}
    path = check_suffix('path', path, '.npz')
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open('wb') as file:
        np.savez(file, format=np.array(FORMAT), **arrays)


def load_predictions(path: str | os.PathLike) -> Predictions:
    """Read a file of :func:`save_predictions` or of the metric ``SavePredictions``; raise a ValueError for others."""
    try:
        # Opened here, because numpy does not close a file that it cannot read.
        with Path(path).open('rb') as file:
            arrays = dict(np.load(file, allow_pickle=False))
        found = str(arrays.get('format', 'not given'))
        if found != FORMAT:
            raise ValueError(f"its format is {found}, expected '{FORMAT}'")
        values = {name: arrays[name] for name in ('scores', 'labels', 'sample_idx')}
        values |= {name: tuple(arrays[name].tolist()) for name in ('class_names', 'image_paths')}
        return Predictions(**values, true_labels=arrays.get('true_labels'))
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"'{path}' is not a predictions file written by SavePredictions: {error}") from error


def log_odds_of(probabilities: ArrayLike) -> Tensor:
    """Return float64 log-odds of (N, C) probabilities; 0 and 1 get finite values, whose float32 sigmoid is 0 and 1."""
    values = torch.tensor(as_probabilities(probabilities), dtype=torch.float64)
    return values.logit().clamp(LOWEST_LOG_ODDS, HIGHEST_LOG_ODDS)


def recalibrate(predictions: Predictions, link: Callable[[Tensor], Tensor]) -> Predictions:
    """Return predictions with new probabilities: ``link`` applied to the log-odds of the old probabilities.

    A strictly increasing link keeps the order of the scores, and with it every ranking measure. Equal scores stay
    equal. The new scores are float32, so that different probabilities close to 1 may become equal.

    Args:
        predictions: Predictions whose scores are probabilities.
        link: Function from (n, C) log-odds to probabilities, such as :class:`mmml_losses.losses.links.PhiLink`. It is
            applied in addition to the link of the loss, if the loss has one.
    """
    scores = np.empty_like(predictions.scores)
    with torch.no_grad():
        for rows in row_blocks(*scores.shape):
            scores[rows] = link(log_odds_of(predictions.scores[rows])).numpy()
    return replace(predictions, scores=scores)

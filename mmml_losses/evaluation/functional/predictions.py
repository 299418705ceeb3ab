"""Predictions of a model on a dataset as one plain ``.npz`` file, and their recalibration."""

import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...utils.arrays import ArrayLike, as_array, as_labels, as_probabilities, as_scores, row_blocks
from ...utils.files import replacing

# Written to each file; it changes with the meaning of the arrays.
FORMAT = 'mmml_losses.predictions/1'
# In float32, the neighbours of 0 and 1 are 2^-149 and 1 - 2^-24. The log-odds of 0 and 1 are set to those of 2^-151 and
# 1 - 2^-26, which round to 0 and 1.
LOWEST_LOG_ODDS = -151 * math.log(2)
HIGHEST_LOG_ODDS = 26 * math.log(2)


@dataclass(frozen=True)
class Predictions:
    """Scores of a model and the labels of the data.

    Attributes:
        scores: (N, C) float32 predicted scores; probabilities if the model has a link, which turns logits into them.
        labels: (N, C) int8 with 1 positive, 0 negative, -1 unknown.
        class_names: Names of the C classes; their indices when none are given.
        image_paths: Files of the N images; empty strings without a file.
        sample_idx: (N,) int64 positions in the dataset; 0 to N - 1 when none are given.
        true_labels: (N, C) int8 as ``labels``, but before changes: labels that a dataset wrapper hid are 0 or -1 in
            ``labels`` and 1 here. None if they are not known.
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
    """Write predictions to one ``.npz`` file; an interruption leaves no incomplete file.

    The file holds plain arrays (``scores``, ``labels``, ``class_names``, ``image_paths``, ``sample_idx``, and
    ``true_labels`` where they are known), so ``numpy.load`` opens it anywhere.
    """
    arrays = {name: value for name, value in vars(predictions).items() if value is not None}
    arrays |= {name: np.array(arrays[name], dtype=str) for name in ('class_names', 'image_paths')}
    path = checked_npz_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open('wb') as file:
        np.savez(file, format=np.array(FORMAT), **arrays)


def load_predictions(path: str | os.PathLike) -> Predictions:
    """Read the file that :func:`save_predictions` or the metric ``SavePredictions`` wrote."""
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


def checked_npz_path(path: str | os.PathLike, name: str = 'path') -> Path:
    """Return a path; raise if it does not end with ``.npz``. ``name`` is its name in the error."""
    path = Path(path)
    if path.suffix != '.npz':
        raise ValueError(f"{name} must end with '.npz', got '{path}'")
    return path


def log_odds_of(probabilities: ArrayLike) -> Tensor:
    """Compute log-odds in float64; those of 0 and 1 are finite, and their sigmoid in float32 is 0 and 1 again.

    Args:
        probabilities: (N, C), in [0, 1].
    """
    values = torch.tensor(as_probabilities(probabilities), dtype=torch.float64)
    return values.logit().clamp(LOWEST_LOG_ODDS, HIGHEST_LOG_ODDS)


def recalibrate(predictions: Predictions, link: Callable[[Tensor], Tensor]) -> Predictions:
    """Replace the probabilities of predictions by the link of their log-odds.

    A strictly increasing link keeps the order of the scores, and with it every ranking measure; equal scores stay
    equal. The scores are float32 as before: probabilities that a link moves close to 1 may become equal.

    Args:
        predictions: Predictions whose scores are probabilities.
        link: Function from (n, C) log-odds to probabilities, such as :class:`mmml_losses.losses.links.PhiLink`. It is
            applied in addition to the link of the loss, if that has one.
    """
    scores = np.empty_like(predictions.scores)
    with torch.no_grad():
        for rows in row_blocks(*scores.shape):
            scores[rows] = link(log_odds_of(predictions.scores[rows])).numpy()
    return replace(predictions, scores=scores)

"""Make pseudo labels: correct the labels of a dataset by a model that was trained on them.

In "BCE + pseudo label" of the Hill and SPLC paper (Zhang et al., Tables III and VII) a model is trained, unobserved
labels to which it gives a high probability become positive, and a new model is trained on the corrected labels. The
paper prints no threshold for these rows; its Figure 7 shows 0.4 to 0.6.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmengine.utils import ProgressBar

from ..datasets import AnnotationError
from ..datasets.labels.label_file import save_label_file
from ..datasets.labels.reading import read_labels
from ..datasets.labels.sample_labels import POSITIVE, UNKNOWN, SampleLabels
from ..engine import running
from ..engine.config_data import forbid_replacements
from ..evaluation import PredictionMetric, Predictions
from ..utils.arrays import as_probabilities
from ..utils.errors import UsageError

MOST_CORRECTED = 10


def correct_labels(labels: np.ndarray, probabilities: np.ndarray, threshold: float) -> np.ndarray:
    """Return new labels (N, C) int8: positive if the probability is above the threshold, otherwise the given label.

    Args:
        labels: Given labels (N, C) with 1 positive, 0 negative or unobserved, -1 unknown.
        probabilities: Probabilities (N, C) of the trained model.
        threshold: A probability in (0, 1).
    """
    if not 0 < threshold < 1:
        raise ValueError(f'threshold must be in (0, 1), got {threshold}')
    if labels.shape != probabilities.shape:
        raise ValueError(f'probabilities must have the shape of the labels {labels.shape}, got {probabilities.shape}')
    return np.where(probabilities > threshold, np.int8(POSITIVE), labels).astype(np.int8, copy=False)


def describe_correction(before: np.ndarray, after: np.ndarray, classes: Sequence[str]) -> str:
    """Return a text: how many positives were added from ``before`` to ``after``, both (N, C), and to which classes."""
    count = max(1, len(before))
    added = (after == POSITIVE) & (before != POSITIVE)
    old, new = int((before == POSITIVE).sum()), int(added.sum())
    lines = [
        f'images          {len(before):,}, of which {int(added.any(axis=1).sum()):,} have new labels',
        f'labels before   {old:,} ({old / count:.2f} per image)',
        f'labels added    {new:,} ({new / count:.2f} per image)',
        f'labels after    {old + new:,} ({(old + new) / count:.2f} per image)',
    ]
    unknown = before == UNKNOWN
    if unknown.any():
        found = int((added & unknown).sum())
        lines.append(f'labels unknown  {int(unknown.sum()):,}, of which {found:,} became positive')
    per_class = added.sum(axis=0)
    most = [index for index in np.argsort(-per_class, kind='stable')[:MOST_CORRECTED] if per_class[index]]
    if most:
        width = max(len('most corrected'), *(len(classes[index]) for index in most))
        lines.append(f'{"most corrected":<{width}}  {"before":>9}  {"added":>9}')
        old_per_class = (before == POSITIVE).sum(axis=0)
        lines += [f'{classes[i]:<{width}}  {old_per_class[i]:>9,}  {per_class[i]:>9,}' for i in most]
    return '\n'.join(lines)


def write_pseudo_labels(cfg: Config, out: Path, threshold: float, made_by: Mapping) -> str | None:
    """Let a trained model correct the labels of a dataset, and write the corrected labels to the label file ``out``.

    Before, call :func:`label_with_the_test_run` on ``cfg``, so that its test runs over this dataset. ``cfg.load_from``
    is the checkpoint. ``made_by`` is a dict for json, stored as the origin of the labels. Return a text on the added
    labels on the main process, else None.
    """
    samples, probabilities = predict_labels(running.build_runner(cfg))
    if probabilities is None:  # they are on the main process
        return None
    labels = correct_labels(samples.labels, probabilities, threshold)
    save_label_file(out, labels, samples, made_by)
    return f'{describe_correction(samples.labels, labels, samples.classes)}\nwrote {out}'


def predict_labels(runner: Runner) -> tuple[SampleLabels, np.ndarray | None]:
    """Test the model of a Runner, and return (samples, probabilities) of the test dataset.

    ``samples`` have the names and labels of the dataset. ``probabilities`` are (N, C), None except on the main process.
    """
    loader = runner.test_loop.dataloader
    try:
        samples = read_labels(loader.dataset)
    except (AnnotationError, TypeError) as error:
        raise UsageError(f'no pseudo labels for this dataset: {error}') from None
    forbid_replacements(loader.dataset)
    keeper = PredictionKeeper(samples)
    runner.test_evaluator.metrics.append(keeper)
    if shows_progress_bar():
        runner.register_hook(ProgressBarHook())
    runner.test()
    return samples, keeper.probabilities


def shows_progress_bar() -> bool:
    """Return True on the main process if it writes to a terminal. In a file, lines of a log read better than a bar."""
    return is_main_process() and sys.stderr.isatty()


class PredictionKeeper(PredictionMetric):
    """Keep all probabilities (N, C) as ``probabilities`` on the main process (else None). No metric is computed.

    Args:
        samples: The labels of the dataset. If those gathered with the predictions differ, a UsageError is raised.
    """

    measures_scores = False

    def __init__(self, samples: SampleLabels):
        super().__init__()
        self.samples = samples
        self.probabilities: np.ndarray | None = None

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        for sample in data_samples:
            num_classes, width = len(self.samples.classes), len(sample['pred_score'])
            if width != num_classes:
                raise UsageError(f'the model scores {width} classes, and the dataset has {num_classes}')

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        # Labels and scores are collected together: if the labels are in the order of the dataset, so are the scores.
        if not np.array_equal(predictions.labels, self.samples.labels):
            raise UsageError(
                'the labels that came through the test pipeline are not those of the dataset: it must neither change '
                'labels nor leave samples out'
            )
        self.probabilities = as_probabilities(predictions.scores, 'pred_score')
        return {}


class ProgressBarHook(Hook):
    """Show a progress bar over the batches of a test on the terminal."""

    def before_test_epoch(self, runner: Runner) -> None:
        self.bar = ProgressBar(len(runner.test_dataloader), file=sys.stderr)

    def after_test_iter(self, runner: Runner, *args, **kwargs) -> None:
        self.bar.update()

    def after_test_epoch(self, runner: Runner, metrics: dict | None = None) -> None:
        self.bar.file.write('\n')

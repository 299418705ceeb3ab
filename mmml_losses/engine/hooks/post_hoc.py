"""Report metrics of recalibrated probabilities next to those of the raw probabilities."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import torch
from mmengine.config import Config, ConfigDict
from mmengine.evaluator import Evaluator
from mmengine.hooks import EMAHook, Hook
from mmengine.logging import print_log
from mmengine.registry import DATASETS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner
from torch import nn
from torch.utils.data import DataLoader, Subset

from ...evaluation import MultiLabelEvaluator, PredictionMetric, Predictions, log_odds_of
from ...evaluation.metrics.gathering import PredictionCollector
from ...losses.links import Link
from ...registry import HOOKS, SCOPE
from ...utils.errors import UsageError
from ..config_data import forbid_replacements, held_out_settings, label_with_the_test_run, share_data
from ..model_loss import METHODS, describe_link, new_link, phi_link_of
from .training_set import is_training

CHECKPOINT_KEY = 'post_hoc'


@HOOKS.register_module()
class PostHocCalibrationHook(Hook):
    """Report metrics that depend on scores also for recalibrated scores, as ``multi-label/temperature/ACE``.

    ``'phi'`` undoes the bias of Focal and ASL by the focusing powers and the margin of the loss; nothing is fitted.
    ``'temperature'`` scales the log-odds; ``'platt'`` and ``'vector'`` (for each class) scale and shift them. Their
    values are fitted when the training ends, with the weights that a validation takes (the average, if there is an
    ``EMAHook``), and kept in the last checkpoint. Tests of that checkpoint report them; validations before the end of
    the training do not.

    The model and its predictions stay as they are; ``tools/calibrate.py`` makes a model with recalibrated predictions.
    The evaluator must be a ``MultiLabelEvaluator``.

    Args:
        methods: Some of ``'phi'``, ``'temperature'``, ``'platt'`` and ``'vector'``.
        dataloader: Config of a dataloader with the data to fit to, which must not be the test data. By default the
            images that ``--hold-out`` held out, or else images of the training set, unaugmented and with the labels of
            the training. A model that overfits is surer of its training images than of others.
        num_samples: Number of training images to fit to without ``dataloader``, evenly spread over the training set.

    Example:
        >>> custom_hooks = [dict(type='mmml_losses.PostHocCalibrationHook', methods=['phi', 'temperature'])]
    """

    # After EMAHook has averaged, before CheckpointHook saves.
    priority = 'LOW'

    def __init__(
        self, methods: Sequence[str] = ('temperature',), dataloader: dict | None = None, num_samples: int = 5000
    ):
        known = ('phi', *METHODS)
        if isinstance(methods, str) or not methods or any(method not in known for method in methods):
            raise ValueError(f'methods must be some of {known}, got {methods!r}')
        if num_samples < 1:
            raise ValueError(f'num_samples must be at least 1, got {num_samples}')
        self.methods = tuple(dict.fromkeys(methods))
        self.fitted_methods = tuple(method for method in self.methods if method in METHODS)
        self.dataloader = dataloader
        self.num_samples = num_samples
        self.links: dict[str, Link] = {}
        self._loader: DataLoader | None = None

    def before_run(self, runner: Runner) -> None:
        """Prepare ``'phi'`` and the data to fit to, so that wrong settings fail before a long training, not after."""
        if 'phi' in self.methods:
            self.links['phi'] = phi_link_of(runner)
        if is_training(runner):
            if isinstance(runner._val_loop, BaseLoop):
                self._multi_label_evaluator(runner.val_evaluator)
            if self.fitted_methods:
                self._loader = calibration_dataloader(runner, self.dataloader, self.num_samples)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Load the fitted values of a checkpoint for a test or a resumed training. A new training ignores them."""
        if is_training(runner) and not runner._resume:
            return
        for method, state in checkpoint.get(CHECKPOINT_KEY, {}).items():
            if method in self.fitted_methods:
                self.links[method] = new_link(method, state['scale'].numel() if method == 'vector' else 1)
                self.links[method].load_state_dict(state)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Write a dict from method to fitted values to ``checkpoint['post_hoc']``, unless nothing is fitted yet."""
        fitted = {method: self.links[method].state_dict() for method in self.fitted_methods if method in self.links}
        if fitted:
            checkpoint[CHECKPOINT_KEY] = fitted

    def after_train_epoch(self, runner: Runner) -> None:
        """Fit the calibration methods after the last epoch of a training by epochs."""
        if self.fitted_methods and self.is_last_train_epoch(runner):
            self.fit(runner)

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch=None, outputs: dict | None = None) -> None:
        """Fit the calibration methods after the last iteration of a training by iterations."""
        by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
        if self.fitted_methods and not by_epoch and self.is_last_train_iter(runner):
            self.fit(runner)

    def after_train(self, runner: Runner) -> None:
        """Warn of each method that was not fitted, as when the training stopped early."""
        self._warn_of_missing('the training ended early')

    def before_val_epoch(self, runner: Runner) -> None:
        """Let the validation also report metrics after recalibration by ``'phi'`` and methods fitted so far."""
        if not is_training(runner):
            self._warn_of_missing('the checkpoint has none')
        self._add_links(runner.val_evaluator)

    def before_test_epoch(self, runner: Runner) -> None:
        """Let the test also report metrics after ``'phi'`` and fitted methods, unless no metric depends on scores."""
        metrics = runner.test_evaluator.metrics
        if not all(isinstance(metric, PredictionMetric) and not metric.measures_scores for metric in metrics):
            self._warn_of_missing('the checkpoint has none')
            self._add_links(runner.test_evaluator)

    def fit(self, runner: Runner) -> None:
        """Fit each method but ``'phi'`` to predictions for the calibration data. A failed fit is logged, not raised."""
        with averaged_weights(runner):
            predictions = predict(runner.model, self._loader)
        if predictions is None:
            return  # the main process measures, and writes the checkpoint
        log_odds, targets = log_odds_of(predictions.scores), torch.from_numpy(predictions.labels).double()
        for method in self.fitted_methods:
            link = new_link(method, predictions.num_classes)
            try:
                found = link.fit(log_odds, targets)
            except ValueError as error:
                # Not an error that ends the run: the last checkpoint is still to be written.
                print_log(f'No {method} scaling could be fitted: {error}', logger='current', level=logging.ERROR)
                continue
            self.links[method] = link
            print_log(
                f'{method} scaling, fitted to {predictions.num_samples:,} samples: {describe_link(link, targets)}; '
                f'their negative log-likelihood went from {found.before:.4f} to {found.after:.4f}',
                logger='current',
            )

    def _add_links(self, evaluator: Evaluator) -> None:
        evaluator = self._multi_label_evaluator(evaluator)
        for method, link in self.links.items():
            evaluator.add_post_hoc(method, link)

    def _multi_label_evaluator(self, evaluator: Evaluator) -> MultiLabelEvaluator:
        if not isinstance(evaluator, MultiLabelEvaluator):
            raise UsageError(
                f"{type(self).__name__} needs an evaluator dict(type='{SCOPE}.MultiLabelEvaluator', metrics=[...]), "
                f'got {type(evaluator).__name__}'
            )
        return evaluator

    def _warn_of_missing(self, reason: str) -> None:
        missing = [method for method in self.fitted_methods if method not in self.links]
        if missing:
            print_log(
                f'{type(self).__name__}: nothing is fitted for {", ".join(missing)}, because {reason}; '
                'tools/calibrate.py fits a trained model',
                logger='current',
                level=logging.WARNING,
            )


@contextmanager
def averaged_weights(runner: Runner) -> Iterator[None]:
    """Switch to the averaged weights of an ``EMAHook`` inside a ``with`` block. Without that hook change nothing."""
    averaging = [hook for hook in runner.hooks if isinstance(hook, EMAHook)]
    for hook in averaging:
        hook.before_val_epoch(runner)
    try:
        yield
    finally:
        for hook in averaging:
            hook.after_val_epoch(runner)


@torch.no_grad()
def predict(model: nn.Module, dataloader) -> Predictions | None:
    """Return ``Predictions`` (scores and labels, both (N, C)) of a dataset on the main process; None on the others.

    The model is a classifier whose ``val_step`` returns samples with ``pred_score``. It is in eval mode during the
    call. A sample that the sampler repeats counts once.
    """
    collected = PredictionCollector(('scores', 'labels'))
    was_training = model.training
    model.eval()
    for batch in dataloader:
        collected.keep(collected.read([sample.to_dict() for sample in model.val_step(batch)]))
    model.train(was_training)
    return collected.gather(len(dataloader.dataset), ())


def calibration_dataloader(runner: Runner, dataloader: dict | None, num_samples: int) -> DataLoader:
    """Build the dataloader of the data that calibration methods are fitted to.

    Args:
        runner: The Runner of the training.
        dataloader: Config of the dataloader; test data raises a UsageError. None takes the validation data if they are
            held out of the training set (``--hold-out``), and else samples of the training set.
        num_samples: Number of training samples to take.
    """
    if dataloader is None and any(held_out_settings(runner.cfg.get('val_dataloader'))):
        return runner.build_dataloader(runner.cfg.val_dataloader, seed=runner.seed)
    if dataloader is None:
        return runner.build_dataloader(_training_part(runner.cfg, num_samples), seed=runner.seed)
    if share_data(ConfigDict(dataloader), runner.cfg.get('test_dataloader')):
        raise UsageError(
            'dataloader must not be that of the test: what is fitted to the test set looks better on it than it is. '
            'Hold out data, or leave dataloader out to take a part of the training set'
        )
    return runner.build_dataloader(dataloader, seed=runner.seed)


def _training_part(cfg: Config, num_samples: int) -> dict:
    """Return a dataloader config with ``num_samples`` (or all) unaugmented training samples, evenly spread."""
    cfg = deepcopy(cfg)
    try:
        label_with_the_test_run(cfg, 'train')
    except UsageError as error:
        raise UsageError(f'a dataloader must be given to fit to: {error}') from None
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    dataset.full_init()
    forbid_replacements(dataset)
    positions = np.linspace(0, len(dataset) - 1, min(num_samples, len(dataset))).round().astype(int)
    return dict(cfg.test_dataloader, dataset=Subset(dataset, positions.tolist()))

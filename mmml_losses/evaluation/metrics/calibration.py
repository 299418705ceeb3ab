"""Calibration errors as MMEngine metrics, of labels and of detections."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...registry import METRICS
from ...utils.arguments import check_suffix
from ...utils.arrays import as_array
from ..functional import calibration, detection
from ..functional.intervals import calibration_intervals, check_resampling
from ..functional.predictions import Predictions, save_predictions
from ..functional.scores import (
    brier_score,
    calibration_line,
    class_brier_scores,
    class_negative_log_likelihoods,
    negative_log_likelihood,
)
from .base import PredictionMetric, distinct_names, finite_or_none, reject_raw_scores
from .gathering import RowStore, gather_samples, read_sample_idx

BIN_ITEMS = ('ACE', 'MCE', 'ECE')
LINE_ITEMS = ('slope', 'intercept')
# Items and the units that they are reported in.
ITEMS = {'ACE': 100, 'MCE': 100, 'ECE': 100, 'Brier': 100, 'NLL': 1, 'slope': 1, 'intercept': 1}
PER = ('pooled', 'class', 'each')
# Matches of detections next to 1 (found an object), 0 (found none) and -1 (found an ignored one).
BELOW, ABSENT = -2, -3
# The width of rows is rounded up to a multiple of it, so that one detection more does not start a new block of rows.
WIDTH_STEP = 32


@METRICS.register_module()
class CalibrationError(PredictionMetric):
    """Calibration errors: how far predicted probabilities are from observed frequencies.

    Known (sample, class) pairs fall into bins by predicted probability. The gap of a bin is the distance between its
    mean probability and its share of positives. ``ACE`` is the unweighted mean gap (Neumann et al.), ``MCE`` the
    largest gap, ``ECE`` the mean gap weighted by the size of the bins. ``Brier`` is the mean squared error. These four
    are in percent. ``NLL`` is the negative log-likelihood in nats. ``slope`` and ``intercept`` are from a logistic
    regression of the labels on the log-odds of the probabilities: 1 and 0 for calibrated probabilities.

    Args:
        num_bins: Number of bins.
        binning: ``'width'``, bins of equal width, or ``'mass'``, bins that hold equally many pairs.
        ace: Bins whose gaps ``ACE`` averages: the ``'non-empty'`` bins, ``'all'`` bins (an empty one has a gap of 0),
            or ``'adaptive'``, bins of equal mass (with ``binning='mass'``).
        per: Pairs measured together, one or several of: ``'pooled'`` (all pairs, as ``ACE``), ``'each'`` (those of each
            class, as ``ACE/<class name>``), ``'class'`` (the mean of ``'each'`` over the classes that have a known
            label, as ``ACE@class``). Slope and intercept are pooled only.
        items: Some of ``'ACE'``, ``'MCE'``, ``'ECE'`` (these three by default), ``'Brier'``, ``'NLL'``, ``'slope'`` and
            ``'intercept'``.
        num_resamples: Number of bootstrap resamples of the images. They give each pooled item a confidence interval,
            reported as ``ACE_lower`` and ``ACE_upper``; 0 for no intervals.
        confidence: Confidence level of the intervals.
        seed: Seed of the resamples.
        prefix: Prefix of the metric names; ``multi-label`` by default.

    Attributes:
        bins: ``ReliabilityBins`` of the last evaluation; None before it and on processes other than the main one.
        class_bins: ``ClassReliabilityBins``, the bins of each class; None also if ``per`` is ``'pooled'`` alone.
    """

    needs_probabilities = True

    def __init__(
        self,
        num_bins: int = 10,
        binning: calibration.Binning = 'width',
        ace: calibration.AceVariant = 'non-empty',
        per: str | Sequence[str] = 'pooled',
        items: Sequence[str] = BIN_ITEMS,
        num_resamples: int = 0,
        confidence: float = 0.95,
        seed: int = 0,
        prefix: str | None = None,
    ):
        super().__init__(prefix=prefix)
        calibration.check_binning(num_bins, binning)
        calibration.check_ace(ace, binning)
        if isinstance(items, str) or not items or any(item not in ITEMS for item in items):
            raise ValueError(f'items must be some of {tuple(ITEMS)}, got {items!r}')
        self.per = (per,) if isinstance(per, str) else tuple(per)
        if not self.per or any(each not in PER for each in self.per):
            raise ValueError(f'per must be one or several of {PER}, got {per!r}')
        check_resampling((), num_resamples or 1, confidence, seed)
        if 'pooled' not in self.per and (num_resamples or set(LINE_ITEMS) & set(items)):
            raise ValueError(f"per must hold 'pooled' for slope, intercept and intervals, got {per!r}")
        self.num_bins, self.binning, self.ace, self.items = num_bins, binning, ace, tuple(items)
        self.num_resamples, self.confidence, self.seed = num_resamples, confidence, seed
        self.bins: calibration.ReliabilityBins | None = None
        self.class_bins: calibration.ClassReliabilityBins | None = None
        self._details: dict[str, Any] = {}

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        scores, labels = predictions.scores, predictions.labels
        self.bins = bins = calibration.reliability_bins(scores, labels, self.num_bins, self.binning)
        self._details = {
            'ace': self.ace,
            'num_pairs': int(bins.counts.sum()),
            'num_unknown': labels.size - int(bins.counts.sum()),
            'bins': bins.to_dict(),
        }
        metrics = self._pooled(bins, scores, labels) if 'pooled' in self.per else {}
        if self.num_resamples:
            metrics |= self._intervals(scores, labels)
        if {'class', 'each'} & set(self.per):
            metrics |= self._by_class(scores, labels, distinct_names(predictions.class_names))
        return metrics

    def details(self) -> dict[str, Any]:
        """Return further results of the last evaluation as a dict; {} before it and on other than the main process.

        Its keys are ``bins`` (a dict of lists), ``ace`` (the argument), ``num_pairs`` (known) and ``num_unknown``; for
        slope or intercept also ``line`` (``'fitted'``, or why not); if :attr:`class_bins` is set, also ``classes`` (a
        dict from class name to a dict from item to value) and ``num_classes_skipped`` (without a known label).
        """
        return self._details

    def _pooled(self, bins: calibration.ReliabilityBins, scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        values = dict(zip(BIN_ITEMS, calibration.calibration_errors(bins, self.ace), strict=True))
        functions = {'Brier': brier_score, 'NLL': negative_log_likelihood}
        values |= {item: function(scores, labels) for item, function in functions.items() if item in self.items}
        if set(LINE_ITEMS) & set(self.items):
            line = calibration_line(scores, labels)
            self._details['line'] = line.status
            if line.status != 'fitted':
                self.log(f'no slope and intercept could be fitted: {line.status}', logging.WARNING)
            values |= {'slope': line.slope, 'intercept': line.intercept}
        return {item: ITEMS[item] * values[item] for item in self.items}

    def _intervals(self, scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        intervals = calibration_intervals(
            scores,
            labels,
            self.num_bins,
            self.binning,
            self.ace,
            measures=[item.lower() for item in self.items],
            num_resamples=self.num_resamples,
            confidence=self.confidence,
            seed=self.seed,
        )
        metrics: dict[str, float] = {}
        for item in self.items:
            interval = intervals[item.lower()]
            metrics |= {f'{item}_lower': ITEMS[item] * interval.lower, f'{item}_upper': ITEMS[item] * interval.upper}
        return metrics

    def _by_class(self, scores: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> dict[str, float]:
        self.class_bins = calibration.class_reliability_bins(scores, labels, self.num_bins, self.binning)
        errors = calibration.class_calibration_errors(self.class_bins, self.ace)
        values = dict(zip(BIN_ITEMS, errors, strict=True))
        functions = {'Brier': class_brier_scores, 'NLL': class_negative_log_likelihoods}
        values |= {item: function(scores, labels) for item, function in functions.items() if item in self.items}
        values = {item: ITEMS[item] * values[item] for item in self.items if item in values}
        if errors.num_skipped:
            self.log(f'{errors.num_skipped} of {len(errors.mce)} classes have no known label and are left out')
        self._details['num_classes_skipped'] = errors.num_skipped
        self._details['classes'] = {
            name: {item: finite_or_none(float(array[index])) for item, array in values.items()}
            for index, name in enumerate(class_names)
        }
        metrics: dict[str, float] = {}
        if 'class' in self.per:
            metrics |= {f'{item}@class': _mean_of_known(array) for item, array in values.items()}
        if 'each' in self.per:
            metrics |= {
                f'{item}/{name}': float(value)
                for item, array in values.items()
                for name, value in zip(class_names, array, strict=True)
            }
        return metrics


def _mean_of_known(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float('nan')


@METRICS.register_module()
class DetectionCalibrationError(CalibrationError):
    """Calibration errors of a detector: how far its scores are from the share of its detections that are right.

    Detections are matched to objects image by image, as in COCO's evaluation (see
    :func:`mmml_losses.evaluation.match_detections`); their scores then fall into bins. ``D-ECE`` is the detection
    expected calibration error of Kueppers et al. for the scores alone, and ``D-ACE``, ``D-MCE``, … are the other
    measures of :class:`CalibrationError` over detections. Detections of ignored objects are left out.

    The metric reads MMDetection's data samples: ``bboxes`` and ``labels`` of ``pred_instances``, ``gt_instances`` and
    ``ignored_instances``, and ``scores`` of ``pred_instances``. Predicted boxes are in the coordinates of the original
    image, so the pipeline must load annotations after ``Resize``. Each process matches its own images, and sends only
    scores and matches to the main process.

    Args:
        iou_threshold: Least intersection over union of a detection and the object that it finds.
        min_score: Detections with a score below this are left out.
        ignored_overlap: Area that the intersection with an ignored object is divided by: the ``'detection'`` (COCO's
            crowds) or the ``'union'`` (VOC's difficult objects).
        num_bins, binning, ace: Number and kind of bins, and variant of ACE, as for :class:`CalibrationError`.
        items: Items to report, as for :class:`CalibrationError`: ``'ACE'`` is reported as ``D-ACE``.
        num_resamples, confidence, seed: Settings of bootstrap intervals, as for :class:`CalibrationError`.
        out_file: ``.npz`` file to save the scores and matches to, for the tools that draw calibration. It holds
            :class:`~mmml_losses.evaluation.Predictions`, a row for each image and a column for each detection in it.
            Labels are 1 (right), 0 (wrong) or -1 (left out, or past the image's last detection). None saves nothing.
        prefix: Prefix of the metric names; ``detection`` by default.
    """

    default_prefix = 'detection'

    def __init__(
        self,
        iou_threshold: float = 0.5,
        min_score: float = 0.0,
        ignored_overlap: detection.IgnoredOverlap = 'detection',
        num_bins: int = 10,
        binning: calibration.Binning = 'width',
        ace: calibration.AceVariant = 'non-empty',
        items: Sequence[str] = BIN_ITEMS,
        num_resamples: int = 0,
        confidence: float = 0.95,
        seed: int = 0,
        out_file: str | os.PathLike | None = None,
        prefix: str | None = None,
    ):
        super().__init__(
            num_bins, binning, ace, 'pooled', items, num_resamples, confidence=confidence, seed=seed, prefix=prefix
        )
        detection.check_matching(iou_threshold, ignored_overlap, min_score)
        self.out_file = None if out_file is None else check_suffix('out_file', out_file, '.npz')
        self.iou_threshold, self.min_score, self.ignored_overlap = iou_threshold, min_score, ignored_overlap
        # A row is an image: its scores and the match of each detection.
        self._stores = {
            'scores': RowStore(torch.float32, fill=0),
            'matches': RowStore(torch.int8, fill=ABSENT),
            'sample_idx': RowStore(torch.int64),
        }

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Match the detections in ``data_samples`` to the objects, and keep the detections' scores and matches."""
        for sample in data_samples:
            detections, objects = _detections_of(sample), _objects_of(sample)
            reject_raw_scores(detections.scores, type(self).__name__, 'scores of pred_instances')
            matches = detection.match_detections(detections, objects, self.iou_threshold, self.ignored_overlap)
            scores = as_array(detections.scores).astype(np.float32)
            matches[scores < self.min_score] = BELOW
            padding = (0, -len(matches) % WIDTH_STEP)
            self._stores['scores'].append(torch.from_numpy(np.pad(scores, padding))[None])
            self._stores['matches'].append(torch.from_numpy(np.pad(matches, padding, constant_values=ABSENT))[None])
            self._stores['sample_idx'].append(read_sample_idx([sample]))

    def gather(self, size: int) -> Predictions | None:
        gathered = gather_samples(self._stores, size)
        if gathered is None:
            return None
        scores, self._matches = gathered['scores'].numpy(), gathered['matches'].numpy()
        names = detection.detection_columns(scores.shape[1])
        return Predictions(scores, self._matches.clip(min=-1), names, sample_idx=gathered['sample_idx'].numpy())

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        return {f'D-{name}': value for name, value in super().compute_metrics(predictions).items()}

    def named_metrics(self, predictions: Predictions) -> dict[str, float]:
        """Return a dict from ``prefix/name`` to value; log how many detections are right; write any ``out_file``."""
        metrics, matches = super().named_metrics(predictions), self._matches
        del self._details['num_unknown']  # it includes places without a detection
        names = {'num_matched': 1, 'num_unmatched': 0, 'num_ignored': -1, 'num_below_min_score': BELOW}
        counts = {name: int((matches == value).sum()) for name, value in names.items()}
        self._details |= {'num_images': len(matches), **counts}
        self.log(
            f'of {counts["num_matched"] + counts["num_unmatched"]} detections {counts["num_matched"]} are right; left '
            f'out are {counts["num_ignored"]} of ignored objects and {counts["num_below_min_score"]} below a score of '
            f'{self.min_score:g}'
        )
        if self.out_file is not None:
            save_predictions(self.out_file, predictions)
            self.log(f'wrote the detections in {len(matches)} images to {self.out_file}')
        return metrics


def _detections_of(sample: Mapping) -> detection.Detections:
    predicted = sample.get('pred_instances')
    if predicted is None:
        raise ValueError(f'data samples must hold pred_instances, got {sorted(sample)}')
    return detection.Detections(*(_plain(predicted[name]) for name in ('bboxes', 'scores', 'labels')))


def _objects_of(sample: Mapping) -> detection.Objects:
    true = sample.get('gt_instances')
    if true is None or 'bboxes' not in true:
        raise ValueError(
            'data samples must hold gt_instances with bboxes, got none: the pipeline needs '
            "dict(type='LoadAnnotations', with_bbox=True) after Resize and before PackDetInputs"
        )
    boxes, labels = [_plain(true['bboxes'])], [_plain(true['labels'])]
    ignored = sample.get('ignored_instances') or {}
    if 'bboxes' in ignored:
        boxes.append(_plain(ignored['bboxes']))
        labels.append(_plain(ignored['labels']))
    is_ignored = torch.arange(sum(map(len, labels))) >= len(labels[0])
    return detection.Objects(torch.cat([part.reshape(-1, 4).double() for part in boxes]), torch.cat(labels), is_ignored)


def _plain(values: Any) -> Tensor:
    """Return values as a tensor on the CPU; MMDetection's box classes hold it in their attribute ``tensor``."""
    return torch.as_tensor(getattr(values, 'tensor', values)).detach().cpu()

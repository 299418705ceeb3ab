"""Calibration of detection scores as an MMEngine metric."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmml_losses.registry import METRICS

from ..functional.calibration import AceReading, Binning
from ..functional.detection import (
    Detections,
    IgnoredOverlap,
    Objects,
    check_matching,
    detection_columns,
    match_detections,
)
from ..functional.predictions import Predictions, checked_npz_path, save_predictions
from .base import refuse_raw_scores, warn_of_missing_samples
from .calibration import BIN_ITEMS, CalibrationError
from .gathering import RowStore, broadcast_json, gather_samples, read_sample_idx

# What becomes of a detection beside 1 (found an object), 0 (found none) and -1 (found an ignored one).
BELOW, ABSENT = -2, -3
# Rows are filled up to multiples of it, so that an image with one detection more does not start a new block of rows.
WIDTH_STEP = 32


@METRICS.register_module()
class DetectionCalibrationError(CalibrationError):
    """How far the scores of a detector are from the share of its detections that are right.

    Detections are matched to objects image by image, as in COCO's evaluation (see
    :func:`mmml_losses.evaluation.match_detections`); their scores then fall into bins. ``D-ECE`` is the detection
    expected calibration error of Kueppers et al. for the scores alone, and ``D-ACE``, ``D-MCE``, … are the other
    measures of :class:`CalibrationError` over detections. Detections of ignored objects are left out.

    Reads MMDetection's data samples: ``pred_instances``, ``gt_instances`` and ``ignored_instances`` with ``bboxes``
    and ``labels``, and the ``scores`` of the first. The pipeline must therefore load annotations, and after ``Resize``:
    predictions are in the coordinates of the original image. Matching is done by each process for its own images, and
    only scores and matches travel.

    Args:
        iou_threshold: Least overlap of a match.
        min_score: Detections below this score are left out.
        ignored_overlap: What a detection's overlap with an ignored object is measured against: the ``'detection'``
            (COCO's crowds) or the ``'union'`` (VOC's difficult objects).
        num_bins: Number of bins.
        binning: ``'width'`` or ``'mass'``, as for :class:`CalibrationError`.
        ace: Which ACE, as there.
        items: What to report, as there; each with ``D-`` before its name.
        num_resamples: Resamples of the images for bootstrap intervals, as there.
        confidence: Of the intervals.
        seed: Of the resamples.
        out_file: Where to save the scores and what became of each detection, if anywhere: an ``.npz`` file of
            :class:`~mmml_losses.evaluation.Predictions` with a row for each image and a column for each detection,
            which the tools for pictures of calibration read.
        prefix: Prefix of the metric names; ``detection`` by default.

    Attributes:
        bins: Reliability bins of the last evaluation, for plots; None before it and on other than the main process.
    """

    default_prefix = 'detection'

    def __init__(
        self,
        iou_threshold: float = 0.5,
        min_score: float = 0.0,
        ignored_overlap: IgnoredOverlap = 'detection',
        num_bins: int = 10,
        binning: Binning = 'width',
        ace: AceReading = 'non-empty',
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
        check_matching(iou_threshold, ignored_overlap, min_score)
        self.out_file = None if out_file is None else checked_npz_path(out_file, 'out_file')
        self.iou_threshold, self.min_score, self.ignored_overlap = iou_threshold, min_score, ignored_overlap
        # A row is an image: its scores, and what became of each detection.
        self._stores = {
            'scores': RowStore(torch.float32, fill=0),
            'fates': RowStore(torch.int8, fill=ABSENT),
            'sample_idx': RowStore(torch.int64),
        }

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Match the detections of one batch."""
        for sample in data_samples:
            detections, objects = _detections_of(sample), _objects_of(sample)
            refuse_raw_scores(detections.scores, type(self).__name__, 'scores of pred_instances')
            fates = match_detections(detections, objects, self.iou_threshold, self.ignored_overlap)
            scores = detections.scores.float()
            fates[scores.numpy() < self.min_score] = BELOW
            padding = (0, -len(fates) % WIDTH_STEP)
            self._stores['scores'].append(torch.from_numpy(np.pad(scores.numpy(), padding))[None])
            self._stores['fates'].append(torch.from_numpy(np.pad(fates, padding, constant_values=ABSENT))[None])
            self._stores['sample_idx'].append(read_sample_idx([sample]))

    def evaluate(self, size: int) -> dict[str, float]:
        """Compute the metrics over all ranks.

        Args:
            size: Number of images in the dataset, without what a sampler added to even out the ranks.
        """
        gathered = gather_samples(self._stores, size)
        metrics = None
        if gathered is not None:
            fates = gathered['fates']
            predictions = Predictions(
                gathered['scores'].numpy(),
                fates.clamp(min=-1).numpy(),
                detection_columns(fates.size(1)),
                sample_idx=gathered['sample_idx'].numpy(),
            )
            warn_of_missing_samples(predictions, size, type(self).__name__)
            metrics = self.named_metrics(predictions)
            self._count(fates)
            if self.out_file is not None:
                save_predictions(self.out_file, predictions)
                self.log(f'wrote the detections in {len(fates)} images to {self.out_file}')
        return broadcast_json(metrics)

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        return {f'D-{name}': value for name, value in super().compute_metrics(predictions).items()}

    def _count(self, fates: Tensor) -> None:
        """Say how many detections were counted and left out."""
        del self._details['num_unknown']  # places without a detection are among them
        counts = {
            'num_images': len(fates),
            'num_matched': int((fates == 1).sum()),
            'num_unmatched': int((fates == 0).sum()),
            'num_ignored': int((fates == -1).sum()),
            'num_below_min_score': int((fates == BELOW).sum()),
        }
        self._details |= counts
        self.log(
            f'of {counts["num_matched"] + counts["num_unmatched"]} detections {counts["num_matched"]} are right; left '
            f'out are {counts["num_ignored"]} of ignored objects and {counts["num_below_min_score"]} below a score of '
            f'{self.min_score:g}'
        )


def _detections_of(sample: Mapping) -> Detections:
    predicted = sample.get('pred_instances')
    if predicted is None:
        raise ValueError(f'data samples must hold pred_instances, got {sorted(sample)}')
    return Detections(*(_plain(predicted[name]) for name in ('bboxes', 'scores', 'labels')))


def _objects_of(sample: Mapping) -> Objects:
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
    return Objects(torch.cat([part.reshape(-1, 4).double() for part in boxes]), torch.cat(labels), is_ignored)


def _plain(values: Any) -> Tensor:
    """A tensor on the CPU; MMDetection's boxes keep theirs in ``tensor``."""
    return torch.as_tensor(getattr(values, 'tensor', values)).detach().cpu()

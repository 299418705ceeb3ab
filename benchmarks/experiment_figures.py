"""Figures of the experiments, their spread over seeds, and the order of the training samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mmml_losses.datasets import ClassAwareSampler
from mmml_losses.evaluation import (
    average_precision,
    calibration_errors,
    group_classes,
    mean_average_precision,
    mean_average_precision_of_groups,
    query_retrieval,
    reliability_bins,
)

MEASURES = ('mAP@class', 'mAP@sample', 'ACE', 'MCE')
GROUPS = ('head', 'medium', 'tail')
LONG_TAILED = ('lt', 'lt-sgd')
"""Names of the settings with a long tail; the second trains by SGD."""
MOST_CONDITIONS = 5
FALL = f'fall from 1 to {MOST_CONDITIONS} conditions'


def measure(log_odds: Tensor, labels: np.ndarray, class_frequencies: np.ndarray | None = None) -> dict[str, float]:
    """Compute figures in per cent.

    Args:
        log_odds: Log-odds of the probabilities that the link of the loss gives, (N, C).
        labels: Full labels, (N, C).
        class_frequencies: Class frequencies of the training set, (C,), for the mAP of head, medium and tail.
    """
    scores = log_odds.numpy()
    by_class = average_precision(scores, labels)
    errors = calibration_errors(reliability_bins(log_odds.sigmoid().numpy(), labels))
    figures = {
        'mAP@class': float(np.nanmean(by_class)),
        'mAP@sample': mean_average_precision(scores, labels, by='sample').value,
        'ACE': errors.ace,
        'MCE': errors.mce,
    }
    if class_frequencies is not None:
        groups = mean_average_precision_of_groups(by_class, group_classes(class_frequencies))
        figures |= {name: mean.value for name, mean in groups.items()}
    return {name: 100 * float(value) for name, value in figures.items()}


def measure_retrieval(log_odds: Tensor, labels: np.ndarray, sample_size: int) -> dict[str, float]:
    """Compute mAP in per cent over queries of 1 to 5 conditions, and its fall from 1 to 5."""
    result = query_retrieval(
        log_odds.numpy(), labels, MOST_CONDITIONS, sample_size=sample_size, scale='logit', num_workers=1
    )
    figures = {conditions_name(number): 100 * mean.value for number, mean in result.by_conditions.items()}
    return figures | {FALL: figures[conditions_name(1)] - figures[conditions_name(MOST_CONDITIONS)]}


def conditions_name(number: int) -> str:
    """Return the name of the figure for queries of this number of conditions."""
    return f'{number} condition{"s" * (number > 1)}'


class Spread:
    """Mean and deviation of one figure over seeds.

    Args:
        values: The figure for each seed; at least one.
    """

    def __init__(self, values: Sequence[float]):
        self.mean = float(np.mean(values))
        self.deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float('nan')

    def __str__(self) -> str:
        return f'{self.mean:.2f} ± {self.deviation:.2f}'


class _Labels:
    """Labels with the methods that the class-aware sampler calls."""

    def __init__(self, labels: Tensor):
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def get_cat_ids(self, index: int) -> list[int]:
        return self.labels[index].nonzero().flatten().tolist()


class Order:
    """Order of the training samples. An epoch has as many items as there are samples.

    Args:
        labels: Labels of the training samples, (M, C).
        class_aware: Draw the classes in turn, as RS does. Otherwise every sample occurs once in an epoch.
        seed: Seed of the order.
    """

    def __init__(self, labels: Tensor, class_aware: bool, seed: int):
        self.size = len(labels)
        self.generator = torch.Generator().manual_seed(seed)
        self.sampler = ClassAwareSampler(_Labels(labels), epoch_length='dataset', seed=seed) if class_aware else None

    def batches(self, epoch: int, batch_size: int) -> Iterator[Tensor]:
        """Yield the sample indices of each batch; the last batch may be smaller."""
        if self.sampler is None:
            order = torch.randperm(self.size, generator=self.generator)
        else:
            self.sampler.set_epoch(epoch)
            order = torch.as_tensor(self.sampler.sequence())
        return iter(order.split(batch_size))

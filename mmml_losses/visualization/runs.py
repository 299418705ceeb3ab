"""Check that the runs in one picture were evaluated on the same data."""

from collections.abc import Mapping

import numpy as np

from ..evaluation import Predictions


def check_same_data(runs: Mapping[str, Predictions]) -> None:
    """Raise a ValueError if ``runs`` is empty, or if class names, number of images or labels of its runs differ."""
    if not runs:
        raise ValueError('runs must hold at least one run, got none')
    first_name, first = next(iter(runs.items()))
    for name, run in runs.items():
        if run.class_names != first.class_names:
            difference = 'the class names'
        elif run.num_samples != first.num_samples:
            difference = f'the numbers of images, {run.num_samples:,} and {first.num_samples:,},'
        elif not np.array_equal(run.labels, first.labels):
            difference = 'the labels'
        else:
            continue
        raise ValueError(f"runs must be on the same data, but {difference} of '{name}' and '{first_name}' differ")

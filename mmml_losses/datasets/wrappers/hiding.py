"""What the wrappers that hide labels at random share."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real

import numpy as np

from ..errors import AnnotationError
from ..labels.sample_labels import NEGATIVE, UNKNOWN, SampleLabels
from .label_wrapper import LabelWrapper

# What a hidden positive may become.
HIDDEN_VALUES = dict(negative=NEGATIVE, unknown=UNKNOWN)


def check_choice(name: str, value: str, choices: Collection[str]) -> str:
    """Read an argument that is one of a few words."""
    if value not in choices:
        raise ValueError(f'{name} must be one of {", ".join(map(repr, choices))}, got {value!r}')
    return value


def check_ratio(name: str, value: float) -> float:
    """Read a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise ValueError(f'{name} must be in [0, 1], got {value!r}')
    return float(value)


def check_flag(name: str, value: bool) -> bool:
    """Read True or False: a word such as ``'no'`` would count as True."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f'{name} must be True or False, got {value!r}')
    return bool(value)


def check_seed(value: int) -> int:
    """Read a seed."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f'seed must be an integer, got {value!r}')
    return int(value)


def positive_areas(samples: SampleLabels, wrapper: LabelWrapper, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The areas of positives.

    Args:
        samples: The samples.
        wrapper: Who asks, for the error message.
        rows: Positions of the samples.
        columns: Class indices.

    Raises:
        AnnotationError: One of them is not known.
    """
    areas = np.full(len(rows), np.nan) if samples.areas is None else samples.areas[rows, columns].astype(np.float64)
    # Written so that NaN is wrong, too.
    wrong = np.flatnonzero(~(areas >= 0))
    if len(wrong):
        row, column = rows[wrong[0]], columns[wrong[0]]
        raise AnnotationError(
            f'{type(wrapper).__name__} needs the area of each positive, from label_areas or boxes, to go by it, and '
            f'{samples.classes[column]!r} of sample {row} ({samples.keys[row]!r}) has none'
        )
    return areas

"""Checks of single arguments. Each error names the argument."""

from collections.abc import Collection
from numbers import Integral, Real
from typing import TypeVar

import numpy as np

Choice = TypeVar('Choice', bound=str | None)


def check_choice(name: str, value: Choice, choices: Collection[str | None]) -> Choice:
    """Return ``value`` if it is one of ``choices``; otherwise raise a ValueError that contains ``name``."""
    if value not in choices:
        raise ValueError(f'{name} must be one of {", ".join(map(repr, choices))}, got {value!r}')
    return value


def check_ratio(name: str, value: float) -> float:
    """Return a number in [0, 1] as a float; for any other ``value`` raise a ValueError that contains ``name``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise ValueError(f'{name} must be in [0, 1], got {value!r}')
    return float(value)


def check_above_0(**arguments: float) -> None:
    """Raise a ValueError for the first keyword argument that is not above 0; the error contains its keyword."""
    for name, value in arguments.items():
        if not value > 0:
            raise ValueError(f'{name} must be above 0, got {value}')


def check_at_least_0(**arguments: float) -> None:
    """Raise a ValueError for the first keyword argument that is below 0 or NaN; the error contains its keyword."""
    for name, value in arguments.items():
        if not value >= 0:
            raise ValueError(f'{name} must be at least 0, got {value}')


def check_flag(name: str, value: bool) -> bool:
    """Return ``value`` if it is a bool; otherwise raise a ValueError, also for ``'no'``, which counts as True."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f'{name} must be True or False, got {value!r}')
    return bool(value)


def check_seed(value: int) -> int:
    """Return a seed as an int; raise a ValueError unless ``value`` is an integer and no bool."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f'seed must be an integer, got {value!r}')
    return int(value)

"""Checks of single arguments, each with an error that names the argument."""

from collections.abc import Collection
from numbers import Integral, Real
from typing import TypeVar

import numpy as np

Choice = TypeVar('Choice', bound=str | None)


def check_choice(name: str, value: Choice, choices: Collection[str | None]) -> Choice:
    """Return an argument that is one of ``choices``; raise a ValueError for any other value."""
    if value not in choices:
        raise ValueError(f'{name} must be one of {", ".join(map(repr, choices))}, got {value!r}')
    return value


def check_ratio(name: str, value: float) -> float:
    """Return a number in [0, 1] as a float; raise a ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise ValueError(f'{name} must be in [0, 1], got {value!r}')
    return float(value)


def check_above_0(**arguments: float) -> None:
    """Raise a ValueError for the first argument that is not above 0."""
    for name, value in arguments.items():
        if not value > 0:
            raise ValueError(f'{name} must be above 0, got {value}')


def check_at_least_0(**arguments: float) -> None:
    """Raise a ValueError for the first argument that is below 0."""
    for name, value in arguments.items():
        if not value >= 0:
            raise ValueError(f'{name} must be at least 0, got {value}')


def check_flag(name: str, value: bool) -> bool:
    """Return a bool; raise a ValueError for any other value, such as ``'no'``, which would count as True."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f'{name} must be True or False, got {value!r}')
    return bool(value)


def check_seed(value: int) -> int:
    """Return a seed as an int; raise a ValueError unless it is an integer."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f'seed must be an integer, got {value!r}')
    return int(value)

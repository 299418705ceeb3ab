"""Checks of single arguments. Each error names the argument."""

import os
from collections.abc import Collection
from numbers import Integral, Real
from pathlib import Path
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
    """Return a bool (numpy's too) as a bool; raise a ValueError with ``name`` for others, such as 1 or ``'no'``."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f'{name} must be True or False, got {value!r}')
    return bool(value)


def check_whole_number(name: str, value: int, least: int | None = None) -> int:
    """Return a whole number, at least ``least`` if given, as an int; ValueError with ``name`` for others and bools."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(f'{name} must be a whole number, got {value!r}')
    if least is not None and value < least:
        raise ValueError(f'{name} must be at least {least}, got {value}')
    return int(value)


def check_suffix(name: str, path: str | os.PathLike, suffix: str) -> Path:
    """Return ``path`` as a Path if it ends with ``suffix``, such as ``'.npz'``; else raise a ValueError (``name``)."""
    path = Path(path)
    if path.suffix != suffix:
        raise ValueError(f"{name} must end with '{suffix}', got '{path}'")
    return path

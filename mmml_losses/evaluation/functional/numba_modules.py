"""Modules that Numba compiles: used where it is installed, done without where it is not, and missed aloud if broken."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def has_numba() -> bool:
    """Whether Numba is installed, in order or not."""
    return find_spec('numba') is not None


def import_compiled(name: str, what: str, *, required: bool = False) -> ModuleType | None:
    """Import a module of compiled kernels.

    Args:
        name: Full name of the module.
        what: What is slower without it, for the warning.
        required: Whether to raise the error of a broken Numba in place of the warning.

    Returns:
        The module; None if Numba is not installed, and, with a warning, if it is and cannot be imported.
    """
    if not has_numba():
        return None
    try:
        return import_module(name)
    except (ImportError, OSError) as error:  # a numpy newer than Numba knows; a library of LLVM that does not load
        if required:
            raise
        warnings.warn(f'numba is installed and cannot be imported, so {what} is slower: {error}', stacklevel=3)
        return None

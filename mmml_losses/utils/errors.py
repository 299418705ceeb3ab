"""Errors of the package that are no fault of its code."""

from __future__ import annotations

from collections.abc import Sequence


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why and what to do."""


class MissingDataError(FileNotFoundError):
    """Files of a dataset are not where they must lie.

    Args:
        message: What is expected where, and what is missing.
        missing: The missing paths.
    """

    # A message alone must be enough to build it: exceptions cross process borders by their arguments.
    def __init__(self, message: str, missing: Sequence[str] = ()):
        super().__init__(message)
        self.missing = list(missing)


class AnnotationError(ValueError):
    """An annotation file is there but cannot be used."""

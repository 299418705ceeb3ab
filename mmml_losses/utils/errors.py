"""Errors with a cause outside of the package's code."""

from __future__ import annotations

from collections.abc import Sequence


class UsageError(Exception):
    """A request that cannot be fulfilled; the message names the reason and the remedy."""


class MissingDataError(FileNotFoundError):
    """Files of a dataset do not exist. The message names the expected files, and ``missing`` has the missing ones."""

    # A message alone must suffice: exceptions are passed between processes by their arguments.
    def __init__(self, message: str, missing: Sequence[str] = ()):
        super().__init__(message)
        self.missing = list(missing)


class AnnotationError(ValueError):
    """An annotation file exists but cannot be used."""

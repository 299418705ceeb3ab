"""Errors with a cause outside of the package's code."""

import difflib
from collections.abc import Iterable, Sequence


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the known names that a misspelt name is close to; an empty text if it is close to none."""
    by_lower_name = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower_name, n=3, cutoff=0.5)
    return 'did you mean ' + ' or '.join(f"'{by_lower_name[match]}'" for match in near) + '?' if near else ''

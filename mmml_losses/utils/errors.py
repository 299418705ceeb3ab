"""Errors whose cause is outside of the package's code: user requests and files."""

import difflib
from collections.abc import Iterable, Sequence


class UsageError(Exception):
    """A request of the user cannot be fulfilled. The message names the reason and what to do instead."""


class MissingDataError(FileNotFoundError):
    """Files of a dataset do not exist. The message names them; the attribute ``missing`` is the list of their paths."""

    # A message alone must suffice: exceptions are passed between processes by their arguments.
    def __init__(self, message: str, missing: Sequence[str] = ()):
        super().__init__(message)
        self.missing = list(missing)


class AnnotationError(ValueError):
    """An annotation or feature file exists, but its content cannot be used."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'a' or 'b'?"`` with up to three ``known`` names similar to ``name``, or ``''``."""
    by_lower_name = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower_name, n=3, cutoff=0.5)
    return 'did you mean ' + ' or '.join(f"'{by_lower_name[match]}'" for match in near) + '?' if near else ''

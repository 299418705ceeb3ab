"""What something is by the names of its classes, for parts of projects that need not be installed."""

from __future__ import annotations


def is_a(thing: object, *names: str) -> bool:
    """Whether the class of a thing, or one of its bases, has one of these names."""
    return any(base.__name__ in names for base in type(thing).__mro__)

"""What something is by the names of classes, for parts of projects that need not be installed."""

from __future__ import annotations


def is_a(thing: object, *names: str) -> bool:
    """Whether the class of a thing, or one of its bases, has one of these names."""
    return any(base.__name__ in names for base in type(thing).__mro__)


def type_name(settings: dict) -> str:
    """The type that a config asks for, with the names of its modules where the config has the class itself."""
    kind = settings.get('type')
    return f'{kind.__module__}.{kind.__qualname__}' if isinstance(kind, type) else str(kind)

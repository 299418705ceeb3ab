"""Errors of the command-line tools."""


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why and what to do."""

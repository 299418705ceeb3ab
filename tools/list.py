"""List the components: ``python tools/list.py``, or with a kind and a word ``python tools/list.py losses missing``.

Prints a line for each loss, metric, dataset wrapper, reader, hook, head, config and other component. A kind selects
components of this kind, and a word selects lines that contain it.
"""

from __future__ import annotations

import argparse
import sys

from mmml_losses.cli import launch
from mmml_losses.cli.listing import KINDS, Entry, list_kind
from mmml_losses.utils.errors import UsageError


def parse_args() -> tuple[tuple[str, ...], str]:
    """Return (kinds to list, word to look for); the word is empty if none is given."""
    parser = argparse.ArgumentParser(description='List the components, with one line each')
    parser.add_argument('kind', nargs='?', help=f'one of {", ".join(KINDS)}; all by default')
    parser.add_argument('word', nargs='?', help='show only lines with this word, in upper or lower case')
    args = parser.parse_args()
    if args.kind in KINDS:
        return (args.kind,), args.word or ''
    if args.word is not None:
        parser.error(f'kind must be one of {", ".join(KINDS)}, got {args.kind}')
    return KINDS, args.kind or ''


def rows_of(kind: str, entries: list[Entry]) -> list[dict[str, str]]:
    """Return table rows, dicts from column to text, one for each of the entries of a kind."""
    with_short_names = any(entry.short_names for entry in entries)
    return [
        {kind: entry.name}
        | ({'--loss': ', '.join(entry.short_names)} if with_short_names else {})
        | {'what it is': entry.text}
        for entry in entries
    ]


def main() -> None:
    kinds, word = parse_args()
    shown = 0
    for kind in kinds:
        entries = [entry for entry in list_kind(kind) if entry.matches(word)]
        if entries:
            if shown:
                print()
            launch.print_table(rows_of(kind, entries), texts=['--loss', 'what it is'])
            sys.stdout.flush()
        shown += len(entries)
    if not shown:
        raise UsageError(f"nothing matches '{word}' among {', '.join(kinds)}")


if __name__ == '__main__':
    launch.exit_clearly(main)

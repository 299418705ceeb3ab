"""Tables of the command-line tools."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence


def print_table(rows: Sequence[dict[str, str]], texts: Collection[str] = ()) -> None:
    """Print rows as a table, framed where a terminal shows it.

    Args:
        rows: Cells by the names of their columns, the same in all rows.
        texts: Columns that are text, like the first, and not numbers.
    """
    header = list(rows[0])
    is_text = [number == 0 or name in texts for number, name in enumerate(header)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for name, text in zip(header, is_text, strict=True):
            table.add_column(name, justify='left' if text else 'right')
        for row in rows:
            table.add_row(*(Text(cell) for cell in row.values()))
        Console().print(table)
        return
    lines = [header, *(list(row.values()) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = [
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(line, widths, is_text, strict=True)
        ]
        print('  '.join(cells).rstrip())

"""What the benchmarks share: sizes from the command line, versions, and tables that a page of the docs can take."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def parse(size: str) -> tuple[int, int]:
    """Samples and classes of a size such as ``128x80``."""
    samples, classes = size.split('x')
    return int(samples), int(classes)


def versions(*packages: str) -> str:
    """The packages that are installed, with their versions."""
    found = []
    for name in packages:
        with suppress(PackageNotFoundError):
            found.append(f'{name} {version(name)}')
    return ', '.join(found)


def print_table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a Markdown table, its first column to the left."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f'\n{title}\n')
    for row in (header, tuple('-' * width for width in widths), *rows):
        cells = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print('| ' + ' | '.join(cells) + ' |', flush=True)

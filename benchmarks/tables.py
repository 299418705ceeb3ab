"""Helpers of the benchmarks: sizes from the command line, versions, and Markdown tables."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def parse(size: str) -> tuple[int, int]:
    """Parse the samples and classes of a size such as ``128x80``."""
    samples, classes = size.split('x')
    return int(samples), int(classes)


def versions(*packages: str) -> str:
    """Return the names and versions of those packages that are installed."""
    found = []
    for name in packages:
        with suppress(PackageNotFoundError):
            found.append(f'{name} {version(name)}')
    return ', '.join(found)


def setup(*packages: str) -> str:
    """Return the versions of packages and of Python, and the processor."""
    return f'{versions(*packages)}; Python {platform.python_version()}, {platform.processor() or platform.machine()}'


def print_table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a Markdown table with its first column aligned to the left."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f'\n{title}\n')
    for row in (header, tuple('-' * width for width in widths), *rows):
        cells = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print('| ' + ' | '.join(cells) + ' |', flush=True)

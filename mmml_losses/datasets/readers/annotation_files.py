"""Reading annotation files: json, csv and lists, each with one clear error that names the file and the place."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter

from ..errors import AnnotationError


def read_json(path: str | os.PathLike, kind: type[dict] | type[list]) -> dict | list:
    """Read a json file.

    Args:
        path: The file.
        kind: What it must hold, ``dict`` or ``list``.

    Raises:
        AnnotationError: It is not json, as a truncated file is not, or holds something else.
    """
    try:
        with open(path, encoding='utf-8') as file:
            content = json.load(file)
    # A json error and a UnicodeDecodeError are ValueErrors; nested too deep is a RecursionError.
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f'{path} is not a json file: {error}') from error
    if not isinstance(content, kind):
        raise AnnotationError(f'{path} must hold a {kind.__name__}, got a {type(content).__name__}')
    return content


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, stripped, each with its number from 1.

    Raises:
        AnnotationError: It is not text in UTF-8.
    """
    try:
        # A byte order mark, which some tools write, is no part of the first line.
        with open(path, encoding='utf-8-sig') as file:
            for number, line in enumerate(file, start=1):
                if stripped := line.strip():
                    yield number, stripped
    except UnicodeDecodeError as error:
        raise AnnotationError(f'{path} is not a text file in UTF-8: {error}') from error


def read_csv(
    path: str | os.PathLike, columns: Sequence[str], delimiter: str = ','
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The asked columns of each row of a csv file with a header, each with its line number.

    Args:
        path: The file.
        columns: Names that must be in the header; other columns are skipped.
        delimiter: What separates the columns.

    Raises:
        AnnotationError: A column is not in the header, a row is too short, or it is no csv file.
    """
    try:
        with open(path, encoding='utf-8-sig', newline='') as file:
            rows = csv.reader(file, delimiter=delimiter)
            header = next(rows, [])
            absent = [name for name in columns if name not in header]
            if absent:
                raise AnnotationError(
                    f'{path} must have the columns {", ".join(columns)}, got {", ".join(header) or "an empty file"}'
                )
            positions = [header.index(name) for name in columns]
            # Faster than a loop over the positions for tables of millions of rows; of one position it gives no tuple.
            choose, least = itemgetter(positions[0], *positions), max(positions)
            for row in rows:
                if len(row) > least:
                    yield rows.line_num, choose(row)[1:]
                elif row:  # the reader makes empty rows of blank lines
                    raise AnnotationError(
                        f'{path}, line {rows.line_num}: a row must have {len(header)} columns, got {len(row)}'
                    )
    except (csv.Error, UnicodeDecodeError) as error:
        raise AnnotationError(f'{path} is not a csv file in UTF-8: {error}') from error


def refuse_repeated(values: Iterable[Hashable], path: str | os.PathLike, what: str) -> None:
    """Refuse a file in which something stands twice that must stand once.

    Args:
        values: All of them.
        path: The file.
        what: What they are, such as ``'image id'``.
    """
    seen = set()
    for value in values:
        if value in seen:
            raise AnnotationError(f'{path} has the {what} {value!r} more than once')
        seen.add(value)

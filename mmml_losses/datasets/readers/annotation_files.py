"""Read json, csv and text annotation files. A malformed file raises an AnnotationError that names the file."""

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...utils.errors import AnnotationError, MissingDataError

Json = TypeVar('Json', dict, list)


def read_json(path: str | os.PathLike, kind: type[Json]) -> Json:
    """Return the content of a json file; raise an AnnotationError unless it is of type ``kind``, dict or list."""
    try:
        content = json.loads(Path(path).read_text(encoding='utf-8'))
    # A json error and a UnicodeDecodeError are ValueErrors; nested too deep is a RecursionError.
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f'{path} is not a json file: {error}') from error
    if not isinstance(content, kind):
        raise AnnotationError(f'{path} must hold a {kind.__name__}, got a {type(content).__name__}')
    return content


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, stripped text) for each line of a UTF-8 text file that is not blank."""
    try:
        # A byte order mark, which some tools write, is no part of the first line.
        with Path(path).open(encoding='utf-8-sig') as file:
            for number, line in enumerate(file, start=1):
                if stripped := line.strip():
                    yield number, stripped
    except UnicodeDecodeError as error:
        raise AnnotationError(f'{path} is not a text file in UTF-8: {error}') from error


def read_csv(
    path: str | os.PathLike, columns: Sequence[str], delimiter: str = ','
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (line number, texts of ``columns`` in this order) per row that is not blank; the header must name them."""
    try:
        with Path(path).open(encoding='utf-8-sig', newline='') as file:
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


def read_listed(path: str | os.PathLike, what: str, listed_in: str | os.PathLike) -> bytes:
    """Return a file's bytes; without it, a MissingDataError '<path> is missing, <what> that <listed_in> lists'."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise MissingDataError(f'{path} is missing, {what} that {listed_in} lists', [os.fspath(path)]) from None


def require_keys(entry: object, keys: Sequence[str], place: str) -> None:
    """Raise an AnnotationError that names ``place`` (file, position) unless ``entry`` is a dict with all ``keys``."""
    absent = [key for key in keys if not isinstance(entry, dict) or key not in entry]
    if absent:
        raise AnnotationError(f'{place}: must be a dict with {", ".join(absent)}')


def reject_repeated(values: Iterable[Hashable], path: str | os.PathLike, what: str) -> None:
    """Raise an AnnotationError if one of the file's ``values`` is repeated; ``what`` names them, as ``'image id'``."""
    seen = set()
    for value in values:
        if value in seen:
            raise AnnotationError(f'{path} has the {what} {value!r} more than once')
        seen.add(value)


def read_class_list(path: str | os.PathLike, separator: str, *, header: str = '') -> dict[str, str]:
    """Read a text file with one class per line; return a dict from class identifier to class name, in file order.

    Args:
        path: The file; its lines are ``<identifier>`` or ``<identifier><separator><name>``, each identifier once.
        separator: Text such as ``','``; a line is split at the first. In a line without it, the identifier is the name.
        header: A first line with this identifier is skipped as a header; ``''`` if the file has no header.
    """
    classes = []
    for number, line in read_lines(path):
        identifier, separated, name = (part.strip() for part in line.partition(separator))
        # In csv files a name that contains the separator is quoted.
        name = name[1:-1].replace('""', '"') if len(name) > 1 and name[0] == name[-1] == '"' else name
        if number == 1 and header and identifier == header:
            continue
        if not identifier or (separated and not name):
            raise AnnotationError(f'{path}, line {number}: must be a class and its name, got {line!r}')
        classes.append((identifier, name or identifier))
    if not classes:
        raise AnnotationError(f'{path} must list classes, got an empty file')
    reject_repeated((identifier for identifier, _ in classes), path, 'class')
    return dict(classes)


def distinct_names(classes: Mapping[str, str], identifiers: Iterable[str]) -> dict[str, str]:
    """Return {identifier: its name in ``classes``}; a name that several of them share becomes ``name (identifier)``."""
    names = {identifier: classes[identifier] for identifier in identifiers}
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else f'{name} ({key})' for key, name in names.items()}


def box_problem(box: Any) -> str:
    """Return the error text for a box other than finite ``[x, y, width > 0, height > 0]``; ``''`` if it is valid."""
    if not _is_box(box):
        return f'must be four numbers x, y, width and height, got {box!r}'
    return '' if box[2] > 0 and box[3] > 0 else f'must have an area, got {list(box)}'


def read_box(box: Any, place: str, drop_degenerate: bool = False) -> list[float] | None:
    """Return a box ``[x, y, width, height]`` as floats; None if it has no area and ``drop_degenerate`` is set.

    Any other invalid box raises an AnnotationError, which begins with ``place`` (file and position of the box).
    """
    problem = box_problem(box)
    if not problem:
        return [float(number) for number in box]
    if drop_degenerate and _is_box(box):
        return None
    raise AnnotationError(f'{place}: the box {problem}')


def _is_box(box: Any) -> bool:
    numbers = isinstance(box, (list, tuple, np.ndarray)) and len(box) == 4
    return numbers and all(isinstance(number, Real) and math.isfinite(number) for number in box)

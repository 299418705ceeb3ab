"""Files that list classes by an identifier, some with a name beside it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from ..errors import AnnotationError
from .annotation_files import read_lines, refuse_repeated


def read_class_list(path: str | os.PathLike, separator: str, *, header: str = '') -> dict[str, str]:
    """The classes of a file with one a line, each with its name.

    Args:
        path: The file.
        separator: What stands between identifier and name, such as ``','``. A line may be the identifier alone, which
            then is the name, too.
        header: How a first line starts that is no class.

    Raises:
        AnnotationError: A line has no identifier or an empty name, an identifier stands twice, or there is none.
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
    refuse_repeated((identifier for identifier, _ in classes), path, 'class')
    return dict(classes)


def distinct_names(classes: Mapping[str, str], identifiers: Iterable[str]) -> dict[str, str]:
    """A name of its own for each class: where classes share one, the identifier is added to it.

    Args:
        classes: Names by identifier.
        identifiers: The classes to name.
    """
    names = {identifier: classes[identifier] for identifier in identifiers}
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else f'{name} ({key})' for key, name in names.items()}

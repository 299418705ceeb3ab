"""Class frequencies: check them, read them from a json file, and group classes by them into head, medium and tail."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .arrays import ArrayLike, as_array

# Classes with so many training images or more are medium, head.
MEDIUM_FROM, HEAD_FROM = 20, 100
# Keys of the frequencies in a json file; the second is the key of the published long-tailed sets.
FREQUENCY_KEYS = ('class_frequencies', 'class_freq')


def group_classes(
    class_frequencies: ArrayLike, *, medium_from: int = MEDIUM_FROM, head_from: int = HEAD_FROM
) -> dict[str, tuple[int, ...]]:
    """Group the classes into head, medium and tail by the number of training images that show each class.

    The defaults are those of the long-tailed datasets VOC-LT and COCO-LT: tail below 20, head from 100. (The DR paper
    writes "more than 100", but its groups and the published lists have classes with exactly 100 in the head.)

    Args:
        class_frequencies: (C,), number of training images with each class.
        medium_from: Smallest number of images for a medium class; classes with fewer are in the tail.
        head_from: Smallest number of images for a head class, at least ``medium_from``.

    Returns:
        A dict from ``'head'``, ``'medium'`` and ``'tail'`` to a tuple of class indices, which may be empty.
    """
    frequencies = checked_frequencies(class_frequencies)
    if not 0 <= medium_from <= head_from:
        raise ValueError(f'medium_from must be in [0, head_from = {head_from}], got {medium_from}')
    is_head, is_tail = frequencies >= head_from, frequencies < medium_from
    members = {'head': is_head, 'medium': ~is_head & ~is_tail, 'tail': is_tail}
    return {name: tuple(np.flatnonzero(chosen).tolist()) for name, chosen in members.items()}


def checked_groups(
    groups: Mapping[str, Sequence[int | str]], num_classes: int, class_names: Sequence[str] = ()
) -> dict[str, tuple[int, ...]]:
    """Return a dict from group name to a tuple of class indices; raise a ValueError for unknown classes.

    Args:
        groups: Group names with the classes of each, as indices or names. A class may be in several groups, but a
            ValueError is raised if a group names it twice.
        num_classes: Number of classes in total; indices must be below it.
        class_names: Names of all classes in the order of their indices; empty if classes have no names.
    """
    class_names = list(class_names)
    index_of = {name: index for index, name in enumerate(class_names)}
    checked = {}
    for group, members in groups.items():
        if isinstance(members, str):
            raise ValueError(f"groups['{group}'] must be a list of classes, got '{members}'")
        indices = []
        for member in members:
            if isinstance(member, str) and class_names.count(member) > 1:
                raise ValueError(f"groups['{group}'] must name one class by {member!r}, got several: give its index")
            index = index_of.get(member) if isinstance(member, str) else member
            if not isinstance(index, int | np.integer) or isinstance(index, bool) or not 0 <= index < num_classes:
                raise ValueError(
                    f"groups['{group}'] must hold class indices from 0 to {num_classes - 1} or class names, "
                    f'got {member!r}'
                )
            indices.append(int(index))
        if len(set(indices)) < len(indices):
            raise ValueError(f"groups['{group}'] must name each class once, got {list(members)}")
        checked[group] = tuple(indices)
    return checked


def checked_frequencies(class_frequencies: ArrayLike, num_classes: int | None = None) -> np.ndarray:
    """Return a (C,) numpy array; raise a ValueError unless finite, at least 0, and (if given) ``num_classes`` many."""
    try:
        frequencies = as_array(class_frequencies)
    except (TypeError, ValueError) as error:
        raise ValueError(f'class_frequencies must be a list of numbers: {error}') from None
    if frequencies.dtype.kind not in 'iuf':
        raise ValueError(f'class_frequencies must be a list of numbers, got {class_frequencies!r}')
    if frequencies.ndim != 1:
        raise ValueError(f'class_frequencies must be one number for each class, got the shape {frequencies.shape}')
    bad = np.flatnonzero(~(np.isfinite(frequencies) & (frequencies >= 0)))
    if bad.size:
        raise ValueError(
            f'class_frequencies must be counts of at least 0, got {frequencies[bad[0]]:g} for class {bad[0]}'
        )
    if num_classes is not None and len(frequencies) != num_classes:
        raise ValueError(
            f'class_frequencies must have one entry for each of {num_classes} classes, got {len(frequencies)}'
        )
    return frequencies


def read_class_frequencies(path: str | os.PathLike) -> tuple[np.ndarray, float | None, list | None]:
    """Return (class frequencies, number of images, known labels) from a json file; None for what the file lacks.

    The file holds a list of frequencies, or an object with this list under ``class_frequencies``. The object may have
    the number of images under ``num_samples``, and under ``known_labels`` a list: for each class, the number of images
    whose label is known. The key ``class_freq`` of the published files of VOC-LT and COCO-LT is accepted for
    ``class_frequencies``. Other contents raise a ValueError; ``num_samples`` and ``known_labels`` are not checked.
    """
    try:
        content = json.loads(Path(path).expanduser().read_text(encoding='utf-8'))
    except ValueError as error:
        raise ValueError(f"class_frequencies must be a json file, got '{path}': {error}") from None
    if isinstance(content, list):
        return checked_frequencies(content), None, None
    keys = [key for key in FREQUENCY_KEYS if isinstance(content, dict) and key in content]
    if not keys:
        raise ValueError(
            f'class_frequencies must be a json file with a list or with one of the keys {FREQUENCY_KEYS}, got '
            f"'{path}'" + (f' with {sorted(content)}' if isinstance(content, dict) else '')
        )
    return checked_frequencies(content[keys[0]]), content.get('num_samples'), content.get('known_labels')


def load_class_frequencies(path: str | os.PathLike) -> np.ndarray:
    """Return the (C,) class frequencies from a json file; :func:`read_class_frequencies` describes its format."""
    return read_class_frequencies(path)[0]

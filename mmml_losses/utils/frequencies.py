"""Classes by how often they occur: head, medium and tail."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .arrays import ArrayLike, as_array

# Classes with so many training images or more are medium, head.
MEDIUM_FROM, HEAD_FROM = 20, 100
# Keys that hold the frequencies in a json file; the second is that of the published long-tailed sets.
FREQUENCY_KEYS = ('class_frequencies', 'class_freq')


def group_classes(
    class_frequencies: ArrayLike, *, medium_from: int = MEDIUM_FROM, head_from: int = HEAD_FROM
) -> dict[str, tuple[int, ...]]:
    """Split the classes into head, medium and tail by the number of training images that show them.

    The default is the rule of the long-tailed sets VOC-LT and COCO-LT: tail below 20, head from 100. (The paper on the
    DR loss writes "more than 100", but its groups of 6, 6 and 8 classes, and the published lists, have the classes with
    exactly 100 in the head.)

    Args:
        class_frequencies: (C,) number of training images with each class.
        medium_from: Fewest images of a medium class.
        head_from: Fewest images of a head class.

    Returns:
        Class indices under ``'head'``, ``'medium'`` and ``'tail'``; a group may be empty.
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
    """Read groups of classes as indices; a class may be in several groups, but not twice in one.

    Args:
        groups: Classes by the name of the group, as indices or as names.
        num_classes: Number of classes.
        class_names: Names of the classes, if they have any.
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
    """Read class frequencies as a (C,) array of numbers of images."""
    frequencies = as_array(class_frequencies)
    if frequencies.ndim != 1 or frequencies.dtype.kind not in 'iuf':
        raise ValueError(f'class_frequencies must be one number for each class, got {class_frequencies!r}')
    if not (np.isfinite(frequencies) & (frequencies >= 0)).all():
        raise ValueError(f'class_frequencies must be finite and not negative, got {frequencies.tolist()}')
    if num_classes is not None and len(frequencies) != num_classes:
        raise ValueError(
            f'class_frequencies must have one entry for each of {num_classes} classes, got {len(frequencies)}'
        )
    return frequencies


def load_class_frequencies(path: str | os.PathLike) -> np.ndarray:
    """Read class frequencies from a json file: a list, or a dict that holds it under ``class_frequencies``.

    The key ``class_freq`` is read as well: the published lists of VOC-LT and COCO-LT use it.
    """
    content = json.loads(Path(path).read_text(encoding='utf-8'))
    if isinstance(content, dict):
        found = [content[key] for key in FREQUENCY_KEYS if key in content]
        if not found:
            raise ValueError(f"'{path}' must hold a list or one of the keys {FREQUENCY_KEYS}, got {sorted(content)}")
        content = found[0]
    return checked_frequencies(content)

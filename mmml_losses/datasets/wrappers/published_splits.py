"""Training sets that were published as lists of images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import AnnotationError
from ..readers.annotation_files import read_json

FOLDER = Path(__file__).parent / 'splits'
# The file names of VOC 2012, which are its ids, and of COCO in 2014 and 2017, which end with the id.
VOC_NAME = re.compile(r'\d{4}_\d{6}')
COCO_NAME = re.compile(r'(?:COCO_(?:train|val)2014_)?(\d{12})')


@dataclass(frozen=True)
class PublishedSplit:
    """The images of a published training set.

    Attributes:
        name: As the papers call it.
        images: Where its images come from, in words.
        ids: The images, in the published order: VOC's as in ``'2008_000023'``, COCO's as in ``'554625'``.
        class_frequencies: (C,) number of images with each class, as published.
    """

    name: str
    images: str
    ids: tuple[str, ...]
    class_frequencies: np.ndarray

    def find(self, ids: Sequence[str | None]) -> Mapping[str, list[int]]:
        """Where each image of the split that is among ``ids`` stands in them, in the published order."""
        places: dict[str, list[int]] = {image_id: [] for image_id in self.ids}
        for position, image_id in enumerate(ids):
            if image_id in places:
                places[image_id].append(position)
        return {image_id: found for image_id, found in places.items() if found}

    def refuse_missing(self, found: Mapping[str, list[int]]) -> None:
        """Refuse a dataset in which not all images were found."""
        missing = [image_id for image_id in self.ids if image_id not in found]
        if missing:
            names = ', '.join(missing[:3]) + (', ...' if len(missing) > 3 else '')
            raise AnnotationError(
                f'{self.name} needs {len(self.ids):,} images of {self.images}, and the dataset lacks '
                f'{len(missing):,} of them: {names}'
            )


def published_splits() -> tuple[str, ...]:
    """The names that :func:`load_split` takes."""
    return tuple(sorted(file.stem.replace('_', '-') for file in FOLDER.glob('*.json')))


def load_split(name: str) -> PublishedSplit:
    """Read a published split.

    Args:
        name: ``'voc-lt'`` or ``'coco-lt'``.
    """
    if name not in published_splits():
        raise ValueError(f'split must be one of {", ".join(published_splits())}, got {name!r}')
    content = read_json(FOLDER / f'{name.replace("-", "_")}.json', dict)
    return PublishedSplit(
        name=content['name'],
        images=content['images'],
        ids=tuple(map(str, content['ids'])),
        class_frequencies=np.array(content['class_frequencies']),
    )


def id_of_file(key: str) -> str | None:
    """The id of an image as the splits have it, by a file name of VOC or COCO; None for any other name.

    Args:
        key: The name of a sample. Of several samples of one name, the second has ``#2`` at its end.
    """
    stem = re.sub(r'(\.\w+)?(#\d+)?$', '', key[key.rfind('/') + 1 :])
    if VOC_NAME.fullmatch(stem):
        return stem
    coco_name = COCO_NAME.fullmatch(stem)
    return str(int(coco_name[1])) if coco_name else None

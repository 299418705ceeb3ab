"""CUB-200-2011: bird images with 312 binary attributes."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ...utils.errors import AnnotationError
from .annotation_files import read_lines, reject_repeated
from .reader import MultiLabelReader

SPLITS = dict(train='1', test='0')
CERTAINTIES = (1, 2, 3, 4)
CERTAINTIES_FILE = 'attributes/certainties.txt'
PRESENT = 8  # added to the certainty in the codes of labels


@DATASETS.register_module()
class CUBAttributes(MultiLabelReader):
    """Images of CUB-200-2011, each labelled with the attributes that annotators saw in it.

    The files must be where the official archive unpacks them. ``attributes.txt`` may be in ``data_root``, in its parent
    folder, or in its subfolder ``attributes``::

        data/attributes.txt
        data/CUB_200_2011/
          images.txt, train_test_split.txt, images/
          attributes/certainties.txt, attributes/image_attribute_labels.txt

    A line of ``image_attribute_labels.txt`` is ``<image id> <attribute id> <is_present> <certainty id> <time>``. Extra
    columns in a few official lines are ignored. Every image must have one line for each attribute.

    Each sample is ``dict(img_path=..., gt_label=[indices of present attributes], img_id=...)``, in the order of
    ``images.txt``. With ``min_certainty`` above 1 it also has ``gt_score``, (312,) with 1, 0 and -1 for unknown.

    Args:
        data_root: Folder of the dataset.
        split: ``'train'`` (5,994 images) or ``'test'`` (5,794 images).
        min_certainty: Least certainty of a known label: 1 not visible, 2 guessed, 3 probable or 4 definite. Less
            certain labels become unknown, whether present or absent. The default 1 keeps every label, because the LASD
            paper reports 31.4 positives per image and names no threshold.
        data_prefix: Folder of the images, relative to ``data_root``.
        **kwargs: Further arguments of :class:`MultiLabelReader`.

    Example:
        >>> dataset = CUBAttributes('data/CUB_200_2011', split='train')
        >>> len(dataset), len(dataset.CLASSES)
        (5994, 312)
    """

    def __init__(
        self,
        data_root: str = 'data/CUB_200_2011',
        split: str = 'train',
        *,
        min_certainty: int = 1,
        data_prefix: str = 'images',
        **kwargs,
    ):
        self.split = check_choice('split', split, SPLITS)
        if min_certainty not in CERTAINTIES:
            raise ValueError(f'min_certainty must be 1, 2, 3 or 4, got {min_certainty!r}')
        self.min_certainty = min_certainty
        super().__init__(
            'attributes/image_attribute_labels.txt', data_root=data_root, data_prefix=data_prefix, **kwargs
        )

    def annotation_files(self) -> list[str]:
        """Return five paths: images, split, attributes (in parent, ``attributes`` or root), certainties, labels."""
        root = Path(self.data_root)
        places = [folder / 'attributes.txt' for folder in (root.resolve().parent, root / 'attributes', root)]
        attributes = next(filter(Path.is_file, places), places[0])
        first, second, third = (root / name for name in ('images.txt', 'train_test_split.txt', CERTAINTIES_FILE))
        return [*map(str, (first, second, attributes, third)), self.ann_file]

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each image of the split: path, id, present and, by ``min_certainty``, unknown attributes."""
        images_file, split_file, attributes_file, certainties_file, labels_file = self.annotation_files()
        names = _read_names(images_file, 'image')
        parts = _read_split(split_file, names)
        attributes = _read_names(attributes_file, 'attribute')
        reject_repeated(attributes.values(), attributes_file, 'attribute')
        classes = self.choose_classes(list(attributes.values()), attributes_file)
        _check_certainties(certainties_file)
        present, certainty = _read_labels(labels_file, list(names), list(attributes))
        # The columns of the attributes that are classes, in the order of the classes.
        position = {name: index for index, name in enumerate(attributes.values())}
        columns = [position[name] for name in classes]
        present, unknown = present[:, columns], certainty[:, columns] < self.min_certainty
        for row, (image_id, name) in enumerate(names.items()):
            if parts[image_id] == SPLITS[self.split]:
                labels = dict(gt_label=np.flatnonzero(present[row] & ~unknown[row]).tolist())
                if self.min_certainty > 1:
                    labels['unknown_label'] = np.flatnonzero(unknown[row]).tolist()
                yield dict(img_path=self.image_path(name, images_file), img_id=image_id, **labels)


def _read_names(path: str, what: str) -> dict[int, str]:
    """Return a dict from id to name, from a file with lines ``<id> <name>``; errors call the ids ``{what} id``."""
    return {key: name for _, key, name in _read_rows(path, what)}


def _read_split(path: str, images: Mapping[int, str]) -> dict[int, str]:
    """Return a dict from image id to ``'1'`` (train) or ``'0'`` (test); the ids must be exactly those in ``images``."""
    parts = {}
    for number, image_id, part in _read_rows(path, 'image'):
        if image_id not in images:
            raise AnnotationError(f'{path}, line {number}: images.txt has no image id {image_id}')
        if part not in SPLITS.values():
            raise AnnotationError(f'{path}, line {number}: must be 1 (train) or 0 (test) for an image, got {part!r}')
        parts[image_id] = part
    absent = images.keys() - parts.keys()
    if absent:
        raise AnnotationError(f'{path} must have a line for each image, got none for the image id {min(absent)}')
    return parts


def _read_rows(path: str, what: str) -> Iterator[tuple[int, int, str]]:
    """Yield (line number, id, name) for each line ``<id> <name>`` of a file; errors call the ids ``{what} id``."""
    known = set()
    for number, line in read_lines(path):
        key, _, name = line.partition(' ')
        if not (key.isascii() and key.isdigit()) or not name:
            raise AnnotationError(f"{path}, line {number}: must be '<{what} id> <entry>', got {line!r}")
        if int(key) in known:
            raise AnnotationError(f'{path}, line {number}: the {what} id {key} is there more than once')
        known.add(int(key))
        yield number, int(key), name.strip()
    if not known:
        raise AnnotationError(f'{path} is empty')


def _check_certainties(path: str) -> None:
    """Raise an AnnotationError unless the certainty ids have the official meanings that ``min_certainty`` assumes."""
    names = _read_names(path, 'certainty')
    if tuple(names) != CERTAINTIES or 'not visible' not in names[1] or 'definitely' not in names[4]:
        raise AnnotationError(f"{path} must go from '1 not visible' to '4 definitely', got {names}")


def _read_labels(path: str, images: list[int], attributes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return (present, certainty), (N, C) bool and uint8 1 to 4; row i is ``images[i]``, column j ``attributes[j]``."""
    # The official file has 3.7 million lines: ids are looked up as they are written, and each line makes one byte.
    start_of_image = {str(image): row * len(attributes) for row, image in enumerate(images)}
    column_of = {str(attribute): column for column, attribute in enumerate(attributes)}
    code_of = {
        (str(present), str(certainty)): present * PRESENT + certainty for present in (0, 1) for certainty in CERTAINTIES
    }
    codes = bytearray(len(images) * len(attributes))
    for number, line in read_lines(path):
        fields = line.split()
        try:
            cell = start_of_image[fields[0]] + column_of[fields[1]]
            code = code_of[fields[2], fields[3]]
        except LookupError:
            problem = _problem(fields, start_of_image, column_of)
            raise AnnotationError(f'{path}, line {number}: {problem}, got {line!r}') from None
        if codes[cell]:
            raise AnnotationError(
                f'{path}, line {number}: the image id {fields[0]} has the attribute id {fields[1]} more than once'
            )
        codes[cell] = code
    table = np.frombuffer(codes, dtype=np.uint8).reshape(len(images), len(attributes))
    if not table.all():
        row, column = np.argwhere(table == 0)[0]
        raise AnnotationError(
            f'{path} must have a line for each image and attribute, got none for the image id {images[row]} and the '
            f'attribute id {attributes[column]}'
        )
    return table >= PRESENT, table % PRESENT


def _problem(fields: list[str], images: dict, attributes: dict) -> str:
    """Return the error text for the fields of a line known to be malformed; the dicts' keys are the valid ids."""
    if len(fields) < 4:
        return 'must be an image id, an attribute id, is_present, a certainty id and a time'
    if fields[0] not in images:
        return f'images.txt has no image id {fields[0]}'
    if fields[1] not in attributes:
        return f'attributes.txt has no attribute id {fields[1]}'
    if fields[2] not in ('0', '1'):
        return f'is_present must be 0 or 1, not {fields[2]}'
    return f'the certainty id must be 1, 2, 3 or 4, not {fields[3]}'

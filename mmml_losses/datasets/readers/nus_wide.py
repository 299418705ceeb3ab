"""NUS-WIDE with its 81 concepts, in the splits that are in use."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from ..labels.random_numbers import uniform_numbers
from .annotation_files import read_csv, read_lines, refuse_repeated
from .reader import MultiLabelReader

SPLITS = ('train', 'test')
PROTOCOLS = ('csv', 'official', 'combined')
# What the csv file calls the splits.
CSV_SPLITS = dict(train='train', val='test', test='test')
LABEL_FOLDER = 'Groundtruth/TrainTestLabels'
NUS_WIDE_CONCEPTS = (
    *('airport', 'animal', 'beach', 'bear', 'birds', 'boats', 'book', 'bridge', 'buildings', 'cars', 'castle', 'cat'),
    *('cityscape', 'clouds', 'computer', 'coral', 'cow', 'dancing', 'dog', 'earthquake', 'elk', 'fire', 'fish'),
    *('flags', 'flowers', 'food', 'fox', 'frost', 'garden', 'glacier', 'grass', 'harbor', 'horses', 'house', 'lake'),
    *('leaf', 'map', 'military', 'moon', 'mountain', 'nighttime', 'ocean', 'person', 'plane', 'plants', 'police'),
    *('protest', 'railroad', 'rainbow', 'reflection', 'road', 'rocks', 'running', 'sand', 'sign', 'sky', 'snow'),
    *('soccer', 'sports', 'statue', 'street', 'sun', 'sunset', 'surf', 'swimmers', 'tattoo', 'temple', 'tiger'),
    *('tower', 'town', 'toy', 'train', 'tree', 'valley', 'vehicle', 'water', 'waterfall', 'wedding', 'whales'),
    *('window', 'zebra'),
)


@DATASETS.register_module()
class NUSWIDE(MultiLabelReader):
    """Images of NUS-WIDE with the concepts that people saw in each.

    Every item is ``dict(img_path=..., gt_label=[class indices, ascending], img_id='actor/0001_2124494179.jpg')``, in
    the order of the file; see :class:`MultiLabelReader`. The classes are the 81 concepts in alphabetical order.

    ``protocol`` says which images make a split:

    - ``'csv'``: those of a table with the columns ``filepath``, ``label`` (concepts, as ``"['clouds', 'sky']"`` or with
      commas alone) and ``split_name`` (``train``, and ``val`` or ``test``), as it was published with ASL. All of them
      have a label; the Hill and SPLC paper counts 119,103 and 50,720.
    - ``'official'``: ``ImageList/{Train,Test}Imagelist.txt`` with ``Groundtruth/TrainTestLabels``, 161,789 and 107,859.
    - ``'combined'``: the official lists together, split anew. ``split_file`` lists the images; without it
      ``train_images`` of them are drawn, by their names. With ``skip_missing`` only images that are there take part,
      and with ``drop_empty`` only those with a label: the LASD paper had 210,260 left, for 150,000 and 60,260. The
      authors' draw is not published, and other images leave others in each split: keep the list for a comparison.

    Args:
        data_root: Folder that all other paths are relative to.
        split: ``'train'`` or ``'test'``.
        protocol: See above.
        data_prefix: Folder of the images.
        csv_file: The table, for ``'csv'``.
        split_file: Images of the split, one a line, for ``'combined'``.
        train_images: How many images are drawn for training, for ``'combined'``; the rest is for testing.
        seed: Of the draw. Both splits must have the same.
        concepts_file: Names of other concepts, one a line, such as ``ConceptsList/Concepts81.txt``.
        **kwargs: Further arguments of :class:`MultiLabelReader`.

    Example:
        >>> dataset = NUSWIDE('data/nus_wide', split='train', protocol='csv', data_prefix='')
        >>> len(dataset), len(dataset.CLASSES)
        (119103, 81)
    """

    def __init__(
        self,
        data_root: str,
        split: str = 'train',
        protocol: str = 'official',
        *,
        data_prefix: str = 'Flickr',
        csv_file: str = 'nus_wid_data.csv',
        split_file: str = '',
        train_images: int = 150_000,
        seed: int = 0,
        concepts_file: str = '',
        **kwargs,
    ):
        for name, value, allowed in (('split', split, SPLITS), ('protocol', protocol, PROTOCOLS)):
            if value not in allowed:
                raise ValueError(f'{name} must be one of {", ".join(allowed)}, got {value!r}')
        if split_file and protocol != 'combined':
            raise ValueError(f"split_file is for the protocol 'combined', got it with {protocol!r}")
        self.split = split
        self.protocol = protocol
        self.split_file = split_file
        self.train_images = train_images
        self.seed = seed
        self.concepts_file = concepts_file
        super().__init__(
            ann_file=csv_file if protocol == 'csv' else '', data_root=data_root, data_prefix=data_prefix, **kwargs
        )

    def annotation_files(self) -> list[str]:
        """The table or the lists of images, and the files that the arguments name."""
        named = [self.path_below_root(file) for file in (self.split_file, self.concepts_file) if file]
        if self.protocol == 'csv':
            return [self.ann_file, *named]
        return [self._list_file(part) for part in self._official_parts()] + named

    def missing_files(self) -> list[str]:
        """The files of :meth:`annotation_files` and the folders, where they do not exist or are empty."""
        folder = self.path_below_root(LABEL_FOLDER)
        return super().missing_files() + [folder] * (self.protocol != 'csv' and not os.path.isdir(folder))

    def load_data_list(self) -> list[dict]:
        """Read the annotation files, and draw the images of the split where that is asked for."""
        samples = super().load_data_list()
        if self.protocol != 'combined' or self.split_file:
            return samples
        if not 0 < self.train_images < len(samples):
            raise ValueError(
                f'train_images must be between 1 and {len(samples) - 1}, as there are {len(samples)} images in '
                f'{" and ".join(self.annotation_files())} to draw from, got {self.train_images}'
            )
        draws = uniform_numbers(
            self.seed, 'NUSWIDE', [sample['img_id'] for sample in samples], np.arange(len(samples)), 0
        )
        in_train = np.zeros(len(samples), dtype=bool)
        in_train[np.argsort(draws, kind='stable')[: self.train_images]] = True
        return [sample for sample, chosen in zip(samples, in_train == (self.split == 'train'), strict=True) if chosen]

    def read_samples(self) -> Iterator[dict]:
        """The images of the protocol with the concepts in each."""
        names = self._concepts()
        classes = self.choose_classes(names, self.concepts_file or type(self).__name__)
        if self.protocol == 'csv':
            yield from self._read_table(set(names), classes)
            return
        images = [image for part in self._official_parts() for image in self._read_part(part, classes)]
        refuse_repeated((name for name, _ in images), ' and '.join(self.annotation_files()), 'image')
        if self.split_file:
            images = self._choose_listed(dict(images))
        for name, labels in images:
            yield self._sample(name, labels, self.annotation_files()[0])

    def _concepts(self) -> tuple[str, ...]:
        if not self.concepts_file:
            return NUS_WIDE_CONCEPTS
        path = self.path_below_root(self.concepts_file)
        concepts = tuple(line for _, line in read_lines(path))
        refuse_repeated(concepts, path, 'concept')
        return concepts

    def _sample(self, name: str, labels: list[int], listed_in: str) -> dict:
        return dict(img_path=self.image_path(name, listed_in), gt_label=labels, img_id=name)

    def _read_table(self, concepts: set[str], classes: dict[str, int]) -> Iterator[dict]:
        seen = set()
        for line, (path, label, split) in read_csv(self.ann_file, ('filepath', 'label', 'split_name')):
            place = f'{self.ann_file}, line {line}'
            if split not in CSV_SPLITS:
                raise AnnotationError(f'{place}: split_name must be one of {", ".join(CSV_SPLITS)}, got {split!r}')
            name = _with_slashes(path)
            if name in seen:
                raise AnnotationError(f'{place}: {name} is there more than once')
            seen.add(name)
            if CSV_SPLITS[split] == self.split:
                named = _listed(label)
                if not named <= concepts:
                    unknown = ', '.join(sorted(map(repr, named - concepts)))
                    raise AnnotationError(f'{place}: label must list concepts, or be [] for none, got {unknown}')
                yield self._sample(name, sorted(classes[concept] for concept in named & classes.keys()), place)

    def _official_parts(self) -> tuple[str, ...]:
        return ('Train', 'Test') if self.protocol == 'combined' else (self.split.capitalize(),)

    def _list_file(self, part: str) -> str:
        return self.path_below_root(f'ImageList/{part}Imagelist.txt')

    def _read_part(self, part: str, classes: dict[str, int]) -> list[tuple[str, list[int]]]:
        """The images of an official list, each with its labels."""
        names = [_with_slashes(line) for _, line in read_lines(self._list_file(part))]
        table = np.empty((len(names), len(classes)), dtype=bool)
        for concept, column in classes.items():
            path = self.path_below_root(f'{LABEL_FOLDER}/Labels_{concept}_{part}.txt')
            table[:, column] = _read_column(path, len(names), self._list_file(part))
        return [(name, np.flatnonzero(row).tolist()) for name, row in zip(names, table, strict=True)]

    def _choose_listed(self, labels: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
        path = self.path_below_root(self.split_file)
        chosen = [(number, _with_slashes(line)) for number, line in read_lines(path)]
        refuse_repeated((name for _, name in chosen), path, 'image')
        for number, name in chosen:
            if name not in labels:
                raise AnnotationError(f'{path}, line {number}: {name} is not in the official lists of images')
        return [(name, labels[name]) for _, name in chosen]


def _with_slashes(name: str) -> str:
    """A path as the files have it, which were written on Windows."""
    return name.strip().replace('\\', '/')


def _listed(label: str) -> set[str]:
    """The concepts of a list that is written as Python prints it, or with commas alone."""
    inner = label.strip()
    if inner.startswith('[') and inner.endswith(']'):
        inner = inner[1:-1].strip()
        if not inner:
            return set()
    return {concept.strip().strip('\'"') for concept in inner.split(',')}


def _read_column(path: str, length: int, listed_in: str) -> np.ndarray:
    """A file with 0 or 1 for each image of a list, a line each."""
    try:
        with open(path, 'rb') as file:
            values = file.read().split()
    except FileNotFoundError:
        message = f'{path} is missing, the labels of the images that {listed_in} lists'
        raise MissingDataError(message, [path]) from None
    if len(values) != length:
        raise AnnotationError(
            f'{path} must have a line for each of the {length} images of {listed_in}, got {len(values)}'
        )
    if not set(values) <= {b'0', b'1'}:
        number = next(number for number, value in enumerate(values, start=1) if value not in (b'0', b'1'))
        raise AnnotationError(
            f'{path}, line {number}: must be 0 or 1, got {values[number - 1].decode(errors="replace")!r}'
        )
    return np.frombuffer(b''.join(values), dtype=np.uint8) == ord('1')

"""NUS-WIDE: web images with 81 concepts, in the three versions of its train and test split that papers use."""

from collections.abc import Iterator

import numpy as np

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ...utils.errors import AnnotationError
from ..labels.random_numbers import uniform_numbers
from .annotation_files import read_csv, read_lines, read_listed, reject_repeated
from .reader import MultiLabelReader

SPLITS = ('train', 'test')
PROTOCOLS = ('csv', 'official', 'combined')
# The splits by their names in the csv file.
CSV_SPLITS = dict(train='train', val='test', test='test')
LIST_FILE = 'ImageList/{}Imagelist.txt'
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
    """Images of NUS-WIDE, each labelled with the concepts that annotators saw in it.

    Each sample is ``dict(img_path=..., gt_label=[ascending class indices], img_id='actor/0001_2124494179.jpg')``, in
    the order of the image list. The classes are the 81 concepts in alphabetical order.

    ``protocol`` decides which images form the train and test splits:

    - ``'csv'``: The split published with ASL, a csv file with the columns ``filepath``, ``label`` (concepts, as
      ``"['clouds', 'sky']"`` or ``clouds,sky``) and ``split_name`` (``train``; ``val`` or ``test`` mean test). Each
      image has a label. The Hill and SPLC paper counts 119,103 train and 50,720 test images.
    - ``'official'``: ``ImageList/{Train,Test}Imagelist.txt`` with ``Groundtruth/TrainTestLabels``, 161,789 and 107,859.
    - ``'combined'``: Both official lists joined and split anew. ``split_file`` lists the images of the split. Without
      it, ``train_images`` of the images that ``skip_missing`` and ``drop_empty`` keep are drawn at random, by name and
      seed; the split depends on the images kept. The LASD paper kept 150,000 and 60,260, in an unpublished split.

    Args:
        data_root: Folder that all other paths are relative to.
        split: ``'train'`` or ``'test'``.
        protocol: ``'csv'``, ``'official'`` or ``'combined'``.
        data_prefix: Folder of the images.
        csv_file: The csv file of images, for ``'csv'``.
        split_file: Text file with the images of the split, one per line, for ``'combined'``; none by default.
        train_images: Number of images drawn for training, for ``'combined'``; the remaining images are for testing.
        seed: Seed of that draw. It must be equal for train and test, so that no image is in both.
        concepts_file: Text file with concept names, one per line in class order, in place of the built-in 81 concepts.
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
        self.split = check_choice('split', split, SPLITS)
        self.protocol = check_choice('protocol', protocol, PROTOCOLS)
        if split_file and protocol != 'combined':
            raise ValueError(f"split_file is for the protocol 'combined', got it with {protocol!r}")
        self.split_file = split_file
        self.train_images = train_images
        self.seed = seed
        self.concepts_file = concepts_file
        # Official lists of images that make the split.
        self._parts = {'csv': (), 'official': (split.capitalize(),), 'combined': ('Train', 'Test')}[protocol]
        lists = [LIST_FILE.format(part) for part in self._parts] or [csv_file]
        self.files = (*lists, split_file, concepts_file)
        super().__init__(csv_file if protocol == 'csv' else '', data_root, data_prefix, **kwargs)

    def image_folders(self) -> list[str]:
        """Return the paths of the image folder and, unless ``protocol`` is ``'csv'``, the folder of the label files."""
        return super().image_folders() + [self.path_below_root(LABEL_FOLDER)] * (self.protocol != 'csv')

    def load_data_list(self) -> list[dict]:
        """Return one dict per image of the split; ``'combined'`` without ``split_file`` draws the split at random."""
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
        """Yield a dict (path, class indices, id) for each image; with a random split, for the images of both splits."""
        classes = self.choose_classes(self._concepts(), self.concepts_file or type(self).__name__)
        if self.protocol == 'csv':
            yield from self._read_table()
            return
        images = [image for part in self._parts for image in self._read_part(part, classes)]
        reject_repeated((name for name, _ in images), ' and '.join(self.annotation_files()), 'image')
        if self.split_file:
            images = self._choose_listed(dict(images))
        list_file = self.annotation_files()[0]
        for name, labels in images:
            yield dict(img_path=self.image_path(name, list_file), gt_label=labels, img_id=name)

    def _concepts(self) -> tuple[str, ...]:
        if not self.concepts_file:
            return NUS_WIDE_CONCEPTS
        path = self.path_below_root(self.concepts_file)
        concepts = tuple(line for _, line in read_lines(path))
        reject_repeated(concepts, path, 'concept')
        return concepts

    def _read_table(self) -> Iterator[dict]:
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
                labels = self.class_indices(_listed(label), f'{place}, label (concepts, or [] for none)')
                yield dict(img_path=self.image_path(name, place), gt_label=labels, img_id=name)

    def _read_part(self, part: str, classes: dict[str, int]) -> list[tuple[str, list[int]]]:
        """Return [(image name, class indices)] as ordered in the official list ``part``, ``'Train'`` or ``'Test'``."""
        list_file = self.path_below_root(LIST_FILE.format(part))
        names = [_with_slashes(line) for _, line in read_lines(list_file)]
        table = np.empty((len(names), len(classes)), dtype=bool)
        for concept, column in classes.items():
            path = self.path_below_root(f'{LABEL_FOLDER}/Labels_{concept}_{part}.txt')
            table[:, column] = _read_column(path, len(names), list_file)
        return [(name, np.flatnonzero(row).tolist()) for name, row in zip(names, table, strict=True)]

    def _choose_listed(self, labels: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
        path = self.path_below_root(self.split_file)
        chosen = [(number, _with_slashes(line)) for number, line in read_lines(path)]
        reject_repeated((name for _, name in chosen), path, 'image')
        for number, name in chosen:
            if name not in labels:
                raise AnnotationError(f'{path}, line {number}: {name} is not in the official lists of images')
        return [(name, labels[name]) for _, name in chosen]


def _with_slashes(name: str) -> str:
    """Return a path without outer whitespace, and with ``/`` in place of the backslashes of Windows."""
    return name.strip().replace('\\', '/')


def _listed(label: str) -> list[str]:
    """Return the concepts in a text such as ``"['clouds', 'sky']"`` or ``clouds,sky`` as a list."""
    inner = label.strip()
    if inner.startswith('[') and inner.endswith(']'):
        inner = inner[1:-1].strip()
        if not inner:
            return []
    return [concept.strip().strip('\'"') for concept in inner.split(',')]


def _read_column(path: str, length: int, listed_in: str) -> np.ndarray:
    """Return a file's (length,) labels as bool; an AnnotationError unless each image of ``listed_in`` has a 0 or 1."""
    values = read_listed(path, 'the labels of the images', listed_in).split()
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

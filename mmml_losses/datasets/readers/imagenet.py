"""ImageNet as a multi-label dataset in which every image has exactly one positive label."""

import os
from collections.abc import Iterator
from pathlib import Path

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ...utils.errors import AnnotationError, MissingDataError
from .annotation_files import distinct_names, read_class_list, read_lines
from .reader import MultiLabelReader

SPLITS = ('train', 'val')
OTHERS = ('negative', 'unknown')
EXTENSIONS = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif')


@DATASETS.register_module()
class ImageNetMultiLabel(MultiLabelReader):
    """Images of ImageNet, or of any dataset in its layout, each with the one class it was labelled with.

    Each sample is ``dict(img_path=..., gt_label=[class index], img_id='n01440764_10026')``. With ``others='unknown'``
    it also has ``gt_score`` (C,), 1 or -1. Two layouts are read, with the class indices of mmpretrain's ``ImageNet``:

    - One folder for each class, such as ``train/n01440764/n01440764_10026.JPEG``. The classes are the folder names in
      alphabetical order, or the classes of ``classes_file`` in the order of that file.
    - A list file such as ``meta/train.txt`` with ``<path below data_prefix> <class index>`` in each line.
      ``classes_file``, or ``classes`` in metainfo, names the class of each index.

    Args:
        data_root: Folder that all other paths are relative to.
        split: ``'train'`` or ``'val'``. The labels of the test set are not public.
        ann_file: The list file; by default ``meta/<split>.txt`` if it exists, and otherwise the class folders are read.
        data_prefix: Folder of the images; the name of the split by default.
        classes_file: Text file with ``<identifier>`` or ``<identifier> <name>`` in each line (``n01440764 tench, Tinca
            tinca``). A name that several classes share becomes ``name (identifier)``.
        others: Label of an image's other classes: ``'negative'``, or ``'unknown'`` (-1), since an image may show
            several.
        **kwargs: Further arguments of :class:`MultiLabelReader`.

    Example:
        >>> dataset = ImageNetMultiLabel('data/imagenet', split='train')
        >>> len(dataset), len(dataset.CLASSES)
        (1281167, 1000)
    """

    def __init__(
        self,
        data_root: str,
        split: str = 'train',
        *,
        ann_file: str = '',
        data_prefix: str = '',
        classes_file: str = '',
        others: str = 'negative',
        **kwargs,
    ):
        self.split = check_choice('split', split, SPLITS)
        self.others = check_choice('others', others, OTHERS)
        self.classes_file = classes_file
        usual = f'meta/{split}.txt'
        if not ann_file and (Path(data_root).expanduser() / usual).is_file():
            ann_file = usual
        self.files = (ann_file, classes_file)
        super().__init__(ann_file, data_root, data_prefix or split, **kwargs)

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each image: path, id and [class index], or [] if metainfo leaves out its class."""
        for path, label in self._read_list() if self.ann_file else self._read_folders():
            name = path[path.rfind('/') + 1 :]
            image_id = name.rpartition('.')[0] or name
            sample = dict(img_path=self.image_path(path), gt_label=[] if label is None else [label], img_id=image_id)
            if self.others == 'unknown':
                sample['negative_label'] = []
            yield sample

    def _read_list(self) -> Iterator[tuple[str, int | None]]:
        if self.classes_file:
            listed = self._listed_classes()
        elif self.CLASSES:
            listed = {name: name for name in self.CLASSES}
        else:
            raise ValueError(
                f'classes_file or classes in metainfo must name the classes of {self.ann_file}, got neither'
            )
        chosen = self.choose_classes(list(listed.values()), self.classes_file)
        labels = [chosen.get(name) for name in listed.values()]
        seen = set()
        for number, line in read_lines(self.ann_file):
            path, _, index = line.rpartition(' ')
            path, place = path.rstrip(), f'{self.ann_file}, line {number}'
            if not path or not index.isdecimal() or int(index) >= len(labels):
                raise AnnotationError(f'{place}: must be a path and a class index below {len(labels)}, got {line!r}')
            if path in seen:
                raise AnnotationError(f'{place}: {path} is there more than once')
            seen.add(path)
            yield path, labels[int(index)]

    def _read_folders(self) -> Iterator[tuple[str, int | None]]:
        root = self.data_prefix['img_path']
        with os.scandir(root) as entries:
            folders = sorted(entry.name for entry in entries if entry.is_dir())
        if not folders:
            raise MissingDataError(f'{root} must have a folder with images for each class, got none', [root])
        listed = self._listed_classes() if self.classes_file else {name: name for name in folders}
        unlisted = [name for name in folders if name not in listed]
        if unlisted:
            where = self.path_below_root(self.classes_file)
            raise AnnotationError(
                f'{root} has folders of classes that {where} does not list: {", ".join(unlisted[:10])}'
            )
        chosen = self.choose_classes(list(listed.values()), self.classes_file or root)
        for folder in folders:
            path = str(Path(root, folder))
            images = sorted(_images_below(path))
            if not images:
                raise MissingDataError(f'{path} must have the images of a class, got none', [path])
            for image in images:
                yield f'{folder}/{image}', chosen.get(listed[folder])

    def _listed_classes(self) -> dict[str, str]:
        classes = read_class_list(self.path_below_root(self.classes_file), ' ')
        return distinct_names(classes, classes)


def _images_below(folder: str) -> Iterator[str]:
    """Yield each image file (by extension) in a folder and its subfolders, as a path relative to it, in any order."""
    for parent, _, files in os.walk(folder):
        within = os.path.relpath(parent, folder)
        for file in files:
            if file.lower().endswith(EXTENSIONS):
                yield file if within == os.curdir else f'{within}/{file}'

"""ImageNet as a multi-label dataset in which every image has one label."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from .annotation_files import distinct_names, read_class_list, read_lines
from .reader import MultiLabelReader

SPLITS = ('train', 'val')
OTHERS = ('negative', 'unknown')
EXTENSIONS = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif')


@DATASETS.register_module()
class ImageNetMultiLabel(MultiLabelReader):
    """Images of ImageNet, or of any dataset in its layout, each with the one class it was labelled with.

    Every item is ``dict(img_path=..., gt_label=[class index], img_id='n01440764_10026')``; see
    :class:`MultiLabelReader`. The layouts are those of mmpretrain's ``ImageNet``, and give the same indices:

    - a folder for each class, ``train/n01440764/n01440764_10026.JPEG``: the classes are the folders in alphabetical
      order, or those of ``classes_file``, in its order;
    - a list with a path and a class index a line, ``meta/train.txt``: ``classes_file`` or ``classes`` in metainfo says
      what the indices stand for.

    Args:
        data_root: Folder that all other paths are relative to.
        split: ``'train'`` or ``'val'``. The labels of the test set are not public.
        ann_file: The list; ``meta/<split>.txt`` if it exists and no other is given. Without a list the folders count.
        data_prefix: Folder of the images; that of the split by default.
        classes_file: Classes, one a line: the identifier, alone or with a space and the name behind it
            (``n01440764 tench, Tinca tinca``). Where classes share a name, the identifier is added to it.
        others: What all other classes of an image are: ``'negative'``, or ``'unknown'`` (-1), since an image may show
            several of them.
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
        for name, value, allowed in (('split', split, SPLITS), ('others', others, OTHERS)):
            if value not in allowed:
                raise ValueError(f'{name} must be one of {", ".join(allowed)}, got {value!r}')
        self.split = split
        self.classes_file = classes_file
        self.others = others
        usual = os.path.join('meta', f'{split}.txt')
        if not ann_file and os.path.isfile(os.path.join(os.path.expanduser(data_root), usual)):
            ann_file = usual
        super().__init__(ann_file, data_root, data_prefix or split, **kwargs)

    def annotation_files(self) -> list[str]:
        """The list of images and that of classes, where there are such."""
        return [file for file in (self.ann_file, self.classes_file and self.path_below_root(self.classes_file)) if file]

    def read_samples(self) -> Iterator[dict]:
        """The images with the class of each."""
        for path, label in self._read_list() if self.ann_file else self._read_folders():
            image_id = os.path.splitext(os.path.basename(path))[0]
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
            raise ValueError(f'classes_file or classes in metainfo must say which classes {self.ann_file} means')
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
            images = sorted(_images_below(os.path.join(root, folder)))
            if not images:
                path = os.path.join(root, folder)
                raise MissingDataError(f'{path} must have the images of a class, got none', [path])
            for image in images:
                yield f'{folder}/{image}', chosen.get(listed[folder])

    def _listed_classes(self) -> dict[str, str]:
        classes = read_class_list(self.path_below_root(self.classes_file), ' ')
        return distinct_names(classes, classes)


def _images_below(folder: str) -> Iterator[str]:
    """Paths of images relative to a folder."""
    for parent, _, files in os.walk(folder):
        within = os.path.relpath(parent, folder)
        for file in files:
            if file.lower().endswith(EXTENSIONS):
                yield file if within == os.curdir else os.path.join(within, file)

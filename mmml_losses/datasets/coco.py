"""COCO, or any dataset in COCO's format, read as one set of labels per image."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mmengine.dataset import BaseDataset

from ..registry import DATASETS
from .errors import AnnotationError, MissingDataError

if TYPE_CHECKING:
    from pycocotools.coco import COCO


@DATASETS.register_module()
class CocoMultiLabel(BaseDataset):
    """Images of COCO 2014 or 2017 (``instances_*.json``) with the classes that appear in each.

    The classes are the file's categories in the order of their ids, 80 for COCO. Every item is
    ``dict(img_path=..., gt_label=[class indices, ascending], img_id=...)``, in the order of the file's images.

    Args:
        ann_file: Annotation file in COCO's format.
        data_root: Folder that ``ann_file`` and ``data_prefix`` are relative to.
        data_prefix: Folder of the images, as ``dict(img_path=...)`` or a plain path.
        metainfo: ``classes`` chooses some of the file's categories by name and fixes their order; annotations of the
            others are ignored. Any other key is kept as it is.
        drop_empty: Leave out images without a label, as the training lists of most papers do: 82,081 of the 82,783
            images of train2014 remain.
        with_crowd: Count a class that appears only as a crowd (``iscrowd``) as present, as most published code does.
        **kwargs: Further arguments of :class:`mmengine.dataset.BaseDataset`, such as ``pipeline``, ``test_mode``,
            ``indices`` or ``lazy_init``.

    Example:
        >>> dataset = CocoMultiLabel(
        ...     'annotations/instances_train2014.json', data_root='data/coco',
        ...     data_prefix='train2014', drop_empty=True)
        >>> len(dataset), len(dataset.CLASSES)
        (82081, 80)
    """

    def __init__(
        self,
        ann_file: str,
        data_root: str = '',
        data_prefix: str | Mapping[str, str] = '',
        metainfo: Mapping | None = None,
        *,
        drop_empty: bool = False,
        with_crowd: bool = True,
        **kwargs,
    ):
        if isinstance(data_prefix, str):
            data_prefix = dict(img_path=data_prefix)
        if 'img_path' not in data_prefix:
            raise ValueError(f"data_prefix must be a folder or have the key 'img_path', got {dict(data_prefix)}")
        self.drop_empty = drop_empty
        self.with_crowd = with_crowd
        super().__init__(
            ann_file=os.path.expanduser(ann_file),
            data_root=os.path.expanduser(data_root),
            data_prefix={key: os.path.expanduser(prefix) for key, prefix in data_prefix.items()},
            metainfo=metainfo,
            **kwargs,
        )

    @property
    def CLASSES(self) -> tuple[str, ...] | None:  # noqa: N802 (the name that mmpretrain's hooks ask for)
        """Class names in the order of the class indices; None until the annotation file is read."""
        classes = self._metainfo.get('classes')
        return None if classes is None else tuple(classes)

    def get_cat_ids(self, idx: int) -> list[int]:
        """Class indices of an image, as :class:`mmengine.dataset.ClassBalancedDataset` asks for them."""
        return self.get_data_info(idx)['gt_label']

    def missing_files(self) -> list[str]:
        """Annotation file and image folder, where they do not exist or are empty. Needs no loaded annotations."""
        missing = [] if os.path.isfile(self.ann_file) else [self.ann_file]
        image_folder = self.data_prefix['img_path']
        # A folder behind a URL is the business of the file client in the pipeline.
        if '://' not in image_folder and not _has_entries(image_folder):
            missing.append(image_folder)
        return missing

    def load_data_list(self) -> list[dict]:
        """Read the annotation file, and take the class names from it."""
        self._raise_if_missing()
        coco = _read_coco(self.ann_file)
        names = {category_id: coco.cats[category_id]['name'] for category_id in sorted(coco.cats)}
        classes = self._choose_classes(list(names.values()))
        self._metainfo['classes'] = classes
        class_of_category = {category_id: classes.index(name) for category_id, name in names.items() if name in classes}

        data_list = []
        for image_id, image in coco.imgs.items():
            labels = self._labels(coco.imgToAnns.get(image_id, ()), class_of_category)
            if labels or not self.drop_empty:
                img_path = os.path.join(self.data_prefix['img_path'], image['file_name'])
                data_list.append(dict(img_path=img_path, gt_label=labels, img_id=image_id))
        return data_list

    def _labels(self, annotations: Iterable[dict], class_of_category: dict[int, int]) -> list[int]:
        counted = (ann['category_id'] for ann in annotations if self.with_crowd or not ann.get('iscrowd', 0))
        return sorted({class_of_category[category_id] for category_id in counted if category_id in class_of_category})

    def _choose_classes(self, names: Sequence[str]) -> tuple[str, ...]:
        chosen = self.CLASSES or tuple(names)
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise ValueError(f'classes in metainfo must be categories of {self.ann_file}, got {", ".join(unknown)}')
        return chosen

    def _raise_if_missing(self) -> None:
        missing = self.missing_files()
        if missing:
            raise MissingDataError(
                f'{type(self).__name__} needs the annotation file {self.ann_file} and the images in '
                f'{self.data_prefix["img_path"]}, seen from {os.getcwd()}; missing or empty: {", ".join(missing)}',
                missing,
            )


def _has_entries(folder: str) -> bool:
    # An empty prefix means that the file names are paths of their own, seen from the working directory.
    return os.path.isdir(folder or '.') and any(True for _ in os.scandir(folder or '.'))


def _read_coco(path: str) -> COCO:
    """Index an annotation file with pycocotools, without its prints and with one clear error."""
    # Imported here so that looking up another dataset does not need pycocotools.
    from pycocotools.coco import COCO

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(path)
        problem = _find_problem(coco)
    except KeyError as error:
        raise AnnotationError(f'{path} is not a COCO annotation file: an entry has no {error}') from error
    # Broken JSON is a ValueError; pycocotools asserts a dict; lists of something else than dicts are a TypeError.
    except (ValueError, AssertionError, TypeError) as error:
        raise AnnotationError(f'{path} is not a COCO annotation file: {error}') from error
    if problem:
        raise AnnotationError(f'{path} is not a COCO annotation file: {problem}')
    return coco


def _find_problem(coco: COCO) -> str:
    """What makes a file unfit although pycocotools takes it; empty if nothing does."""
    absent = [key for key in ('images', 'annotations', 'categories') if key not in coco.dataset]
    if absent:
        return f'it has no {" and no ".join(map(repr, absent))}'
    names = [category['name'] for category in coco.cats.values()]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        return f'several categories are called {", ".join(repeated)}'
    unknown = sorted(coco.catToImgs.keys() - coco.cats.keys())
    if unknown:
        return f'annotations name the unknown categories {unknown}'
    if not all('file_name' in image for image in coco.imgs.values()):
        return "an image has no 'file_name'"
    return ''

"""What the dataset readers share."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init
from mmengine.logging import print_log

from ...utils.errors import AnnotationError, MissingDataError
from ..labels.sample_labels import NEGATIVE, POSITIVE, UNKNOWN


class MultiLabelReader(BaseDataset):
    """A dataset of images with a set of labels each. A subclass writes :meth:`read_samples`.

    A data info has ``gt_label``, the ascending class indices of the positives, and ``img_path``. Where some labels are
    not known it also has ``gt_score``, (C,) float32 with 1 positive, 0 negative and -1 unknown; where they are soft,
    ``gt_score`` is between 0 and 1, and ``gt_label`` has the classes above 0.

    In memory samples are sparse: beside ``gt_label`` a subclass lists either the classes in ``negative_label``, all
    others being unknown, or those in ``unknown_label``, all others being negative; or ``label_scores``, a soft label
    for each class of ``gt_label``, all others being negative. It may give ``label_areas``, for each class of
    ``gt_label`` the area of its largest object as a fraction of the image, which label wrappers ask for; and
    ``sample_name`` where one image makes several samples.

    Args:
        ann_file: Annotation file.
        data_root: Folder that ``ann_file`` and ``data_prefix`` are relative to.
        data_prefix: Folder of the images, as ``dict(img_path=...)`` or a plain path.
        metainfo: ``classes`` chooses some of the dataset's classes by name and fixes their order; labels of the others
            are ignored. Any other key is kept as it is.
        drop_empty: Leave out images without a positive label.
        skip_missing: Leave out images that are not there, as of collections whose links have expired; how many is
            logged. Otherwise a missing image is an error when it is loaded.
        **kwargs: Further arguments of :class:`mmengine.dataset.BaseDataset`, such as ``pipeline``, ``test_mode``,
            ``indices`` or ``lazy_init``.
    """

    def __init__(
        self,
        ann_file: str = '',
        data_root: str = '',
        data_prefix: str | Mapping[str, str] = '',
        metainfo: Mapping | None = None,
        *,
        drop_empty: bool = False,
        skip_missing: bool = False,
        **kwargs,
    ):
        if isinstance(data_prefix, str):
            data_prefix = dict(img_path=data_prefix)
        if 'img_path' not in data_prefix:
            raise ValueError(f"data_prefix must be a folder or have the key 'img_path', got {dict(data_prefix)}")
        self.drop_empty = drop_empty
        self.skip_missing = skip_missing
        super().__init__(
            ann_file=os.path.expanduser(ann_file),
            data_root=os.path.expanduser(data_root),
            data_prefix={key: os.path.expanduser(prefix) for key, prefix in data_prefix.items()},
            metainfo=metainfo,
            **kwargs,
        )

    def read_samples(self) -> Iterable[dict]:
        """The samples of the annotation files, as the class describes them.

        It starts with :meth:`choose_classes`, and makes paths of images with :meth:`image_path`.
        """
        raise NotImplementedError

    def annotation_files(self) -> list[str]:
        """The annotation files that must be there."""
        return [self.ann_file]

    def image_folders(self) -> list[str]:
        """The folders that images must be in."""
        return [self.data_prefix['img_path']]

    @property
    def CLASSES(self) -> tuple[str, ...] | None:  # noqa: N802 (the name that mmpretrain's hooks ask for)
        """Class names in the order of the class indices; None until the annotations are read."""
        classes = self._metainfo.get('classes')
        return None if classes is None else tuple(classes)

    def missing_files(self) -> list[str]:
        """Annotation files and image folders, where they do not exist or are empty. Needs no loaded annotations."""
        missing = [file for file in self.annotation_files() if not os.path.isfile(file)]
        # A folder behind a URL is the business of the file client in the pipeline.
        return missing + [folder for folder in self.image_folders() if '://' not in folder and not _has_entries(folder)]

    def load_data_list(self) -> list[dict]:
        """Read the annotation files, and take the class names from them."""
        missing = self.missing_files()
        if missing:
            files = self.annotation_files()
            annotations = f'the annotation file{"s" * (len(files) > 1)} {", ".join(files)} and ' if files else ''
            raise MissingDataError(
                f'{type(self).__name__} needs {annotations}the images in {", ".join(self.image_folders())}, seen from '
                f'{os.getcwd()}; missing or empty: {", ".join(missing)}',
                missing,
            )
        samples = [sample for sample in self.read_samples() if sample['gt_label'] or not self.drop_empty]
        if not samples:  # which MMEngine could not serialise
            problem = 'with a positive label' if self.drop_empty else 'at all'
            source = ', '.join(self.annotation_files() or self.image_folders())
            raise AnnotationError(f'{source} must have samples, got none {problem}')
        return self._with_image(samples) if self.skip_missing else samples

    def _with_image(self, samples: list[dict]) -> list[dict]:
        """The samples whose image is there. Each folder is listed once, which is faster than asking for each file."""
        files: dict[str, set[str]] = {}
        kept = []
        for sample in samples:
            folder, name = os.path.split(sample['img_path'])
            if folder not in files:
                files[folder] = set(os.listdir(folder or '.')) if os.path.isdir(folder or '.') else set()
            if name in files[folder]:
                kept.append(sample)
        listed, folder = ' and '.join(self.annotation_files() or self.image_folders()), self.data_prefix['img_path']
        if samples and not kept:
            raise MissingDataError(f'{folder} has none of the {len(samples)} images that {listed} lists', [folder])
        if len(kept) < len(samples):
            left_out = f'{len(samples) - len(kept)} of {len(samples)} images that {listed} lists'
            print_log(f'{left_out} are not in {folder} and are left out', logger='current')
        return kept

    def choose_classes(self, names: Sequence[str], source: str | os.PathLike) -> dict[str, int]:
        """Settle the classes, and give the index of each by its name.

        Args:
            names: All classes of the dataset, in its order. ``classes`` in metainfo may choose some of them.
            source: The file that they stand in, for error messages.
        """
        chosen = self.CLASSES or tuple(names)
        known = set(names)
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise ValueError(f'classes in metainfo must be classes of {source}, got {", ".join(unknown)}')
        repeated = [name for name, count in Counter(chosen).items() if count > 1]
        if repeated:
            raise ValueError(f'classes in metainfo must each be there once, got several of {", ".join(repeated)}')
        self._metainfo['classes'] = chosen
        return {name: index for index, name in enumerate(chosen)}

    def path_below_root(self, name: str) -> str:
        """The path of a file that is given relative to ``data_root``, as ``ann_file`` is."""
        return os.path.join(self.data_root, os.path.expanduser(name))

    def image_path(self, name: str, ann_file: str | os.PathLike | None = None) -> str:
        """The path of an image below the folder of the images.

        Args:
            name: As an annotation file has it.
            ann_file: Which file that is, for error messages; ``self.ann_file`` by default.

        Raises:
            AnnotationError: It would lie somewhere else.
        """
        if not isinstance(name, str) or not name or leaves_its_folder(name):
            raise AnnotationError(
                f'{ann_file or self.ann_file} must name images by paths below the folder of the images, got {name!r}'
            )
        return os.path.join(self.data_prefix['img_path'], name)

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """The data info of a sample, with ``gt_score`` where some labels are not known, or soft."""
        info = super().get_data_info(idx)
        listed = [key for key in ('negative_label', 'unknown_label', 'label_scores') if key in info]
        if listed:
            info['gt_score'] = score_row(info, len(self._metainfo['classes']))
            for key in listed:
                del info[key]
        return info

    def get_cat_ids(self, idx: int) -> list[int]:
        """Class indices of an image, as :class:`mmengine.dataset.ClassBalancedDataset` asks for them."""
        return self.get_data_info(idx)['gt_label']


def score_row(info: Mapping, num_classes: int) -> np.ndarray:
    """The labels of a sparse data info as (C,) float32, see :class:`MultiLabelReader`."""
    row = np.full(num_classes, UNKNOWN if 'negative_label' in info else NEGATIVE, dtype=np.float32)
    row[info.get('negative_label', [])] = NEGATIVE
    row[info.get('unknown_label', [])] = UNKNOWN
    row[info['gt_label']] = info.get('label_scores', POSITIVE)
    return row


def leaves_its_folder(name: str) -> bool:
    """Whether a path of an annotation file could lead out of the folder that it is relative to."""
    # Backslashes separate folders on Windows alone, but a file that was written there must not be read otherwise here.
    parts = re.split(r'[/\\]', name)
    # MMEngine takes what has '://' in it for an address, and loads it from wherever that is.
    return parts[0] == '' or '..' in parts or '\0' in name or '://' in name or re.match(r'[A-Za-z]:', name) is not None


def _has_entries(folder: str) -> bool:
    # An empty prefix means that the images lie below the working directory.
    return os.path.isdir(folder or '.') and any(True for _ in os.scandir(folder or '.'))

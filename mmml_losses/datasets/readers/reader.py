"""Base class of all dataset readers, and path helpers. CONTRIBUTING.md, "Add a reader", lists the steps."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init
from mmengine.logging import print_log

from ...utils.errors import AnnotationError, MissingDataError
from ..labels.sample_labels import NEGATIVE, POSITIVE, UNKNOWN


class MultiLabelReader(BaseDataset):
    """Base class of image datasets with several labels per image. A subclass implements :meth:`read_samples`.

    A data info is MMEngine's dict of one sample before the pipeline. It has ``img_path``, and in ``gt_label`` the
    ascending class indices of the positives. If labels are unknown, it also has ``gt_score``, (C,) float32 with 1
    positive, 0 negative and -1 unknown. If labels are soft, ``gt_score`` is between 0 and 1, and ``gt_label`` has the
    classes above 0.

    In memory, samples are sparse: lists of class indices. Next to ``gt_label``, a sample may have ``negative_label``
    (all classes in neither list are unknown) or ``unknown_label`` (all classes in neither list are negative). With
    ``gt_label`` alone, all other classes are negative. For soft labels, ``label_scores`` has a score for each class in
    ``gt_label``. Label wrappers, datasets that change labels, can use ``label_areas``: for each class in ``gt_label``,
    the area of its largest object as a fraction of the image. Where an image makes several samples, each has a unique
    ``sample_name``.

    A subclass that reads other files than ``ann_file`` lists all its files, relative to ``data_root``, in ``files``
    before it calls ``super().__init__``. A subclass that needs more folders overrides :meth:`image_folders`. Then
    :meth:`missing_files` reports all missing files and folders.

    Args:
        ann_file: Annotation file.
        data_root: Folder that ``ann_file`` and ``data_prefix`` are relative to.
        data_prefix: Folder of the images, as ``dict(img_path=...)`` or a plain path.
        metainfo: Dict whose ``classes`` selects some of the classes by name and fixes their order; labels of all other
            classes are ignored. Other keys are stored unchanged.
        drop_empty: Leave out images without a positive label.
        skip_missing: Leave out images whose file does not exist, and log their number. Otherwise loading a missing
            image is an error.
        **kwargs: Further arguments of :class:`mmengine.dataset.BaseDataset`, such as ``pipeline``, ``test_mode``,
            ``indices`` or ``lazy_init``.
    """

    # Annotation files relative to data_root; empty names are skipped. Without any, ann_file is the only one.
    files: Sequence[str] = ()

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
            ann_file=_expand_user(ann_file),
            data_root=_expand_user(data_root),
            data_prefix={key: _expand_user(prefix) for key, prefix in data_prefix.items()},
            metainfo=metainfo,
            **kwargs,
        )

    def read_samples(self) -> Iterable[dict]:
        """Yield a dict for each sample: ``img_path`` and the sparse labels described in :class:`MultiLabelReader`.

        An implementation calls :meth:`choose_classes` first; :meth:`class_indices` converts class names to indices, and
        :meth:`image_path` makes image paths.
        """
        raise NotImplementedError

    def annotation_files(self) -> list[str]:
        """Return the paths of the annotation files; :meth:`missing_files` names those that do not exist."""
        return [self.path_below_root(name) for name in self.files if name] if self.files else [self.ann_file]

    def image_folders(self) -> list[str]:
        """Return the paths of the image folders; :meth:`missing_files` names those that do not exist or are empty."""
        return [self.data_prefix['img_path']]

    @property
    def CLASSES(self) -> tuple[str, ...] | None:  # noqa: N802 (the name that mmpretrain's hooks use)
        """Class names in the order of the class indices; None before loading unless metainfo gives ``classes``."""
        classes = self._metainfo.get('classes')
        return None if classes is None else tuple(classes)

    def missing_files(self) -> list[str]:
        """Return the annotation files that do not exist, and image folders (no URLs) that do not exist or are empty."""
        missing = [file for file in self.annotation_files() if not Path(file).is_file()]
        # The file client of the pipeline handles a folder behind a URL.
        return missing + [folder for folder in self.image_folders() if '://' not in folder and not has_entries(folder)]

    def load_data_list(self) -> list[dict]:
        """Return the samples left by ``drop_empty`` and ``skip_missing``; raise MissingDataError for missing files."""
        missing, files, folders = self.missing_files(), self.annotation_files(), self.image_folders()
        if missing:
            needs = [f'the annotation file{"s" * (len(files) > 1)} {", ".join(files)}'] if files else []
            needs += [f'the images in {", ".join(folders)}'] if folders else []
            raise MissingDataError(
                f'{type(self).__name__} needs {" and ".join(needs)}, seen from {Path.cwd()}; missing or empty: '
                f'{", ".join(missing)}',
                missing,
            )
        samples = [sample for sample in self.read_samples() if sample['gt_label'] or not self.drop_empty]
        if not samples:  # which MMEngine could not serialise
            problem = 'with a positive label' if self.drop_empty else 'at all'
            raise AnnotationError(f'{", ".join(files or folders)} must have samples, got none {problem}')
        return self._with_image(samples) if self.skip_missing else samples

    def _with_image(self, samples: list[dict]) -> list[dict]:
        """Return the samples whose image exists, and log how many do not; raise a MissingDataError if none exists."""
        files: dict[str, set[str]] = {}
        kept = []
        for sample in samples:
            folder, name = os.path.split(sample['img_path'])
            if folder not in files:
                files[folder] = {entry.name for entry in os.scandir(folder or '.')} if Path(folder).is_dir() else set()
            if name in files[folder]:
                kept.append(sample)
        listed, folder = ' and '.join(self.annotation_files() or self.image_folders()), self.data_prefix['img_path']
        if samples and not kept:
            raise MissingDataError(f'{folder} has none of the {len(samples)} images that {listed} lists', [folder])
        if len(kept) < len(samples):
            left_out = f'{len(samples) - len(kept)} of {len(samples)} images that {listed} lists'
            print_log(f'{left_out} are not in {folder} and are left out', logger='current')
        return kept

    def choose_classes(
        self, names: Sequence[str], source: str | os.PathLike, others: Sequence[str] = ()
    ) -> dict[str, int]:
        """Store the class names; return a dict from name to class index, without classes that metainfo leaves out.

        Args:
            names: All classes of the dataset, in its order. ``classes`` in metainfo must be among these, in any order.
            source: The file that lists the classes, for error messages.
            others: Names that :meth:`class_indices` accepts but skips, because they are not classes.
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
        indices = {name: index for index, name in enumerate(chosen)}
        self._class_source, self._index_of = source, {name: indices.get(name) for name in (*names, *others)}
        return indices

    def class_indices(self, names: object, place: str) -> list[int]:
        """Return the ascending class indices of a list of names, without classes that metainfo leaves out.

        Anything but a list of known names raises an AnnotationError, which names ``place`` (file and position).
        """
        if not isinstance(names, list):
            raise AnnotationError(f'{place}: must be a list of classes, got {names!r}')
        unknown = [name for name in names if not isinstance(name, str) or name not in self._index_of]
        if unknown:
            raise AnnotationError(f'{place}: there is no class {", ".join(map(repr, unknown))} in {self._class_source}')
        return sorted({index for name in names if (index := self._index_of[name]) is not None})

    def path_below_root(self, name: str) -> str:
        """Return the path of a file whose ``name`` is relative to ``data_root``; an absolute path stays unchanged."""
        return str(Path(self.data_root) / Path(name).expanduser())

    def image_path(self, name: object, ann_file: str | os.PathLike | None = None) -> str:
        """Return the path of the image ``name`` in the image folder; an AnnotationError if it could lead out of it.

        ``ann_file`` is the annotation file named in the error, by default ``self.ann_file``.
        """
        if not isinstance(name, str) or not name or leaves_its_folder(name):
            raise AnnotationError(
                f'{ann_file or self.ann_file} must name images by paths below the folder of the images, got {name!r}'
            )
        return join(self.data_prefix['img_path'], name)

    @force_full_init
    def get_data_info(self, idx: int) -> dict:
        """Return the data info (dict) of a sample.

        Every sample of a dataset with unknown or soft labels has ``gt_score``, (C,) float32, even if its own labels are
        all known and hard. In other datasets no sample has it.
        """
        info = super().get_data_info(idx)
        listed = [key for key in ('negative_label', 'unknown_label', 'label_scores') if key in info]
        if listed:
            info['gt_score'] = score_row(info, len(self._metainfo['classes']))
            for key in listed:
                del info[key]
        return info

    def get_cat_ids(self, idx: int) -> list[int]:
        """Return the positive class indices of a sample, for :class:`mmengine.dataset.ClassBalancedDataset`."""
        return self.get_data_info(idx)['gt_label']


def score_row(info: Mapping, num_classes: int) -> np.ndarray:
    """Convert the sparse labels of a sample (see :class:`MultiLabelReader`) to a row of labels, (C,) float32."""
    row = np.full(num_classes, UNKNOWN if 'negative_label' in info else NEGATIVE, dtype=np.float32)
    row[info.get('negative_label', [])] = NEGATIVE
    row[info.get('unknown_label', [])] = UNKNOWN
    row[info['gt_label']] = info.get('label_scores', POSITIVE)
    return row


def leaves_its_folder(name: str) -> bool:
    """Return whether a path in an annotation file could lead out of its folder: ``../x``, ``/x``, ``C:x`` or a URL."""
    # Backslashes separate folders on Windows alone, but a file from there must mean the same here.
    parts = re.split(r'[/\\]', name)
    # MMEngine loads a path with '://' from that address.
    return parts[0] == '' or '..' in parts or '\0' in name or '://' in name or re.match(r'[A-Za-z]:', name) is not None


def has_entries(folder: str | os.PathLike) -> bool:
    """Return whether a folder exists and is not empty; ``''`` means the working directory."""
    return Path(folder).is_dir() and any(True for _ in os.scandir(Path(folder)))


def join(folder: str, name: str) -> str:
    """Return ``folder/name``, or ``name`` if ``folder`` is ``''``. A ``pathlib.Path`` would shorten a URL's ``//``."""
    return f'{folder.rstrip("/")}/{name}' if folder else name


def _expand_user(path: str | os.PathLike) -> str:
    path = os.fspath(path)
    return str(Path(path).expanduser()) if path.startswith('~') else path

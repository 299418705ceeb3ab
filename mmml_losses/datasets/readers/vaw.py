"""VAW (Visual Attributes in the Wild): object instances of Visual Genome with 620 attributes."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mmengine.logging import print_log

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from .annotation_files import read_box, read_json, require_keys
from .reader import MultiLabelReader, join

INSTANCE_KEYS = ('image_id', 'instance_id', 'instance_bbox', 'positive_attributes', 'negative_attributes')


@DATASETS.register_module()
class VAW(MultiLabelReader):
    """Object instances of VAW, each one sample, labelled with its present and absent attributes.

    The annotation files come from the VAW release, and the image folders from the archives of Visual Genome::

        data/vaw/
          attribute_index.json
          train_part1.json, train_part2.json, val.json, test.json
          VG_100K/, VG_100K_2/

    An annotation file is a list of instances, each with ``image_id``, ``instance_id``, ``instance_bbox`` as ``[x, y,
    width, height]``, ``object_name``, ``positive_attributes`` and ``negative_attributes``; ``instance_polygon`` is not
    read. ``attribute_index.json`` gives the class index of each attribute.

    An attribute in neither list is unknown. An attribute in both lists is also unknown, and a warning counts such
    cases. Each sample is ``dict(img_path=..., bbox=[x, y, width, height], gt_label=[...], gt_score=(620,), img_id=...,
    sample_name=..., object_name=...)``; ``sample_name`` is the ``instance_id``. Put :class:`CropToBox` into the
    pipeline, which cuts the box out of the image.

    Args:
        ann_file: Annotation file, or several that are joined. The two-way loss paper trains on both parts of train and
            on val (229,076 instances), and tests on test (31,819).
        data_root: Folder that the files and ``data_prefix`` are relative to.
        data_prefix: Folder that contains the image folders.
        attribute_file: json file with a dict from attribute to class index.
        image_folders: Image folders below ``data_prefix``. If there are several, each image is searched for in them.
        drop_degenerate: Leave out instances whose box has no area; otherwise a file with one is rejected.
        **kwargs: Further arguments of :class:`MultiLabelReader`. ``drop_empty`` leaves out instances without a positive
            attribute.

    Example:
        >>> dataset = VAW(['train_part1.json', 'train_part2.json', 'val.json'], data_root='data/vaw')
        >>> len(dataset), len(dataset.CLASSES)
        (229076, 620)
    """

    def __init__(
        self,
        ann_file: str | Sequence[str],
        data_root: str = '',
        data_prefix: str = '',
        *,
        attribute_file: str = 'attribute_index.json',
        image_folders: Sequence[str] = ('VG_100K', 'VG_100K_2'),
        drop_degenerate: bool = False,
        **kwargs,
    ):
        instance_files = [ann_file] if isinstance(ann_file, str) else list(ann_file)
        self._image_folders = tuple(image_folders)
        if not instance_files or not self._image_folders:
            raise ValueError('ann_file and image_folders must have at least one entry each')
        self.drop_degenerate = drop_degenerate
        self.files = (attribute_file, *instance_files)
        super().__init__(instance_files[0], data_root, data_prefix, **kwargs)

    def image_folders(self) -> list[str]:
        """Return the paths of the image folders; :meth:`missing_files` names those that do not exist or are empty."""
        return [join(self.data_prefix['img_path'], folder) for folder in self._image_folders]

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each instance, in file order: image path, box, positive and negative attributes, and ids."""
        attribute_file, *instance_files = self.annotation_files()
        self.choose_classes(_read_attributes(attribute_file), attribute_file)
        folder_of = self._folders_by_image()
        place_of: dict[str, str] = {}
        contradicted = []
        for place, file, instance in _read_instances(instance_files):
            name = str(instance['instance_id'])
            if name in place_of:
                raise AnnotationError(f'{place}: the instance_id {name} is already in {place_of[name]}')
            place_of[name] = place
            positive, negative = (
                set(self.class_indices(instance[key], f'{place}, {key}'))
                for key in ('positive_attributes', 'negative_attributes')
            )
            contradicted += [name] * len(positive & negative)
            box = read_box(instance['instance_bbox'], f'{place}, instance_bbox', self.drop_degenerate)
            if box is not None:
                yield dict(
                    img_path=self._find_image(instance['image_id'], folder_of, file),
                    bbox=box,
                    gt_label=sorted(positive - negative),
                    negative_label=sorted(negative - positive),
                    img_id=instance['image_id'],
                    sample_name=name,
                    object_name=instance.get('object_name'),
                )
        if contradicted:
            print_log(
                f'{len(contradicted)} attributes of {", ".join(instance_files)} are both positive and negative, the '
                f'first of instance {contradicted[0]}; they count as unknown',
                logger='current',
                level=logging.WARNING,
            )

    def _folders_by_image(self) -> dict[str, str]:
        """Return {image file name: entry of the argument ``image_folders`` with it}; {} if there is only one entry."""
        if len(self._image_folders) == 1:
            return {}
        folders = zip(self._image_folders, self.image_folders(), strict=True)
        return {entry.name: folder for folder, path in folders for entry in os.scandir(path)}

    def _find_image(self, image_id: str | int, folder_of: dict[str, str], file: str) -> str:
        name = f'{image_id}.jpg'
        self.image_path(name, file)
        if name not in folder_of and folder_of and not self.skip_missing:
            missing = [str(Path(folder, name)) for folder in self.image_folders()]
            raise MissingDataError(
                f'{file} names the image {name}, which is not there: {" nor ".join(missing)}', missing
            )
        folder = folder_of.get(name, self._image_folders[0])
        return self.image_path(join(folder, name), file)


def _read_attributes(path: str) -> list[str]:
    """Return the names, sorted by index, of a json file {attribute name: class index from 0 without gaps}."""
    index_of = read_json(path, dict)
    names = sorted(index_of, key=lambda name: (str(type(index_of[name])), index_of[name]))
    if not names or [index_of[name] for name in names] != list(range(len(names))):
        raise AnnotationError(f'{path} must give each attribute an index, from 0 without gaps')
    return names


def _read_instances(files: Sequence[str]) -> Iterator[tuple[str, str, dict]]:
    """Yield (``'<file>, entry <number>'`` for error messages, file path, instance dict) for each instance."""
    for file in files:
        for number, instance in enumerate(read_json(file, list)):
            place = f'{file}, entry {number}'
            require_keys(instance, INSTANCE_KEYS, place)
            yield place, file, instance

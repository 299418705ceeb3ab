"""VISPR: images with 68 privacy attributes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from .annotation_files import read_csv, read_json, read_lines, reject_repeated
from .reader import MultiLabelReader, has_entries, leaves_its_folder


@DATASETS.register_module()
class VISPR(MultiLabelReader):
    """Images of VISPR with the kinds of private information that each shows.

    The files must have the layout of the authors' code::

        data/vispr/
          attributes_v2.tsv
          train2017.txt, val2017.txt, test2017.txt
          annotations/train2017/2017_10011466.json, ..., annotations/val2017/, annotations/test2017/
          images/train2017/2017_10011466.jpg, ..., images/val2017/, images/test2017/

    A list such as ``train2017.txt`` has the path of an annotation below ``data_root`` in each line. An annotation is a
    dict in json with ``image_path``, below ``data_prefix``, and ``labels``, the ids of attributes such as
    ``'a9_face_complete'``; an image that shows nothing private has ``'a0_safe'``, so that none is without a label.
    ``attributes_v2.tsv`` has the columns ``idx`` and ``attribute_id``, separated by tabs. The classes are the ids in
    the order of ``idx``; an attribute whose ``idx`` is empty is no class, and its labels are ignored.

    Every item is ``dict(img_path=..., gt_label=[...], img_id='2017_10011466')``; see :class:`MultiLabelReader`.

    Args:
        ann_file: A list of annotations, or a folder with all annotations, read in the order of their names; or several
            of these, which make one dataset. The papers train on train2017 and val2017, 14,167 images, and test on
            test2017, 8,000.
        data_root: Folder that all other paths are relative to.
        data_prefix: Folder that the paths in the annotations are relative to.
        attribute_file: File with the attributes.
        **kwargs: Further arguments of :class:`MultiLabelReader`.

    Example:
        >>> dataset = VISPR(['train2017.txt', 'val2017.txt'], data_root='data/vispr')
        >>> len(dataset), len(dataset.CLASSES)
        (14167, 68)
    """

    def __init__(
        self,
        ann_file: str | Sequence[str],
        data_root: str = '',
        data_prefix: str = '',
        *,
        attribute_file: str = 'attributes_v2.tsv',
        **kwargs,
    ):
        lists = [ann_file] if isinstance(ann_file, str) else list(ann_file)
        if not lists:
            raise ValueError('ann_file must have at least one entry')
        self.files = (attribute_file, *lists)
        super().__init__(lists[0], data_root, data_prefix, **kwargs)

    def missing_files(self) -> list[str]:
        """Return files and folders that do not exist or are empty; a list of annotations may also be a folder."""
        lists = self.annotation_files()[1:]
        return [path for path in super().missing_files() if path not in lists or not has_entries(path)]

    def read_samples(self) -> Iterator[dict]:
        """Yield the images of all lists, in their order."""
        attribute_file, *lists = self.annotation_files()
        classes, others = _read_attributes(attribute_file)
        self.choose_classes(classes, attribute_file, others)
        place_of: dict[str, str] = {}
        for path in (path for each in lists for path in self._annotations(each)):
            content = read_json(path, dict)
            labels = content.get('labels')
            if not labels:
                raise AnnotationError(f"{path} must have 'labels', a list of at least one attribute_id, got {labels!r}")
            img_path = self.image_path(content.get('image_path'), path)
            if img_path in place_of:
                raise AnnotationError(f'{path} is about {content["image_path"]}, as {place_of[img_path]} is')
            place_of[img_path] = path
            yield dict(
                img_path=img_path,
                gt_label=self.class_indices(labels, f'{path}, labels'),
                img_id=Path(img_path).stem,
            )

    def _annotations(self, path: str) -> Iterator[str]:
        """Yield the paths of the annotations in a list, or in a folder."""
        if Path(path).is_dir():
            found = sorted(map(str, Path(path).glob('*.json')))
            if not found:
                raise MissingDataError(f'{path} has no annotation, a file that ends with .json', [path])
            yield from found
            return
        for number, line in read_lines(path):
            if leaves_its_folder(line):
                raise AnnotationError(f'{path}, line {number}: must be a path below {self.data_root}, got {line!r}')
            annotation = str(Path(self.data_root, line))
            if not Path(annotation).is_file():
                raise MissingDataError(f'{path}, line {number}: {annotation} does not exist', [annotation])
            yield annotation


def _read_attributes(path: str) -> tuple[list[str], list[str]]:
    """Return the ids of the attributes that are classes, in the order of ``idx``, and the ids of all others."""
    rows = list(read_csv(path, ('idx', 'attribute_id'), delimiter='\t'))
    for line, (index, name) in rows:
        if not name or (index and not (index.isascii() and index.isdigit())):
            raise AnnotationError(f'{path}, line {line}: must have a number or nothing, and an id, got {[index, name]}')
    reject_repeated((name for _, (_, name) in rows), path, 'attribute_id')
    numbered = [(int(index), name) for _, (index, name) in rows if index]
    reject_repeated((index for index, _ in numbered), path, 'idx')
    if not numbered:
        raise AnnotationError(f'{path} has no attribute with an idx')
    return [name for _, name in sorted(numbered)], [name for _, (index, name) in rows if not index]

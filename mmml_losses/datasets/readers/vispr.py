"""VISPR: images with 68 privacy attributes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...registry import DATASETS
from ...utils.errors import AnnotationError, MissingDataError
from .annotation_files import read_csv, read_json, read_lines, reject_repeated
from .reader import MultiLabelReader, has_entries, leaves_its_folder

# The released table, and a later one of the same authors.
ATTRIBUTE_FILES = ('attributes.tsv', 'attributes_v2.tsv')


@DATASETS.register_module()
class VISPR(MultiLabelReader):
    """Images of VISPR, each labelled with the kinds of private information that it shows.

    The files must have the layout of the release (https://github.com/tribhuvanesh/vpa)::

        data/vispr/
          attributes.tsv
          train2017.txt, val2017.txt, test2017.txt
          annotations/train2017/2017_10011466.json, ..., annotations/val2017/, annotations/test2017/
          images/train2017/2017_10011466.jpg, ..., images/val2017/, images/test2017/

    A list file such as ``train2017.txt`` has in each line the path of an annotation file, relative to ``data_root``. An
    annotation file is a json dict: ``image_path`` is relative to ``data_prefix``, and ``labels`` lists attribute ids
    such as ``'a9_face_complete'``. An image that shows nothing private has ``'a0_safe'``, so every image has a label.
    ``attributes.tsv`` has the tab-separated columns ``idx`` and ``attribute_id``. The classes are the attribute ids in
    the order of ``idx``. An attribute with an empty ``idx`` is not a class, and labels with it are ignored.

    Each sample is ``dict(img_path=..., gt_label=[class indices], img_id='2017_10011466')``.

    Args:
        ann_file: A list file, or a folder whose json files are read in the order of their names; or several of these,
            which are joined. The papers train on train2017 and val2017, 14,167 images, and test on test2017, 8,000.
        data_root: Folder that all other paths are relative to.
        data_prefix: Folder that the image paths in the annotations are relative to.
        attribute_file: tsv file with the attribute ids; by default ``attributes.tsv`` or, where only this file exists,
            ``attributes_v2.tsv``.
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
        attribute_file: str | None = None,
        **kwargs,
    ):
        lists = [ann_file] if isinstance(ann_file, str) else list(ann_file)
        if not lists:
            raise ValueError('ann_file must have at least one entry')
        if attribute_file is None:
            there = (name for name in ATTRIBUTE_FILES if Path(data_root, name).expanduser().is_file())
            attribute_file = next(there, ATTRIBUTE_FILES[0])
        self.files = (attribute_file, *lists)
        super().__init__(lists[0], data_root, data_prefix, **kwargs)

    def missing_files(self) -> list[str]:
        """Return the missing files, and the missing or empty folders; ``ann_file`` may be a list file or a folder."""
        lists = self.annotation_files()[1:]
        return [path for path in super().missing_files() if path not in lists or not has_entries(path)]

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each image: path, id and class indices, in the order of the list files or folders."""
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
                img_path=img_path, gt_label=self.class_indices(labels, f'{path}, labels'), img_id=Path(img_path).stem
            )

    def _annotations(self, path: str) -> Iterator[str]:
        """Yield the annotation files' paths from ``path``, a list file or folder. All paths include ``data_root``."""
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
    """Return (class ids, other ids): the attribute ids with an ``idx``, in its order, and the ids without one."""
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

"""PASCAL VOC 2007 and 2012, for multi-label classification."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ...utils.errors import AnnotationError, MissingDataError
from .annotation_files import read_lines, read_listed, reject_repeated
from .reader import MultiLabelReader

SPLITS = ('train', 'val', 'trainval', 'test')
DIFFICULT_RULES = ('negative', 'unknown', 'positive')
VOC_CLASSES = (
    *('aeroplane', 'bicycle', 'bird', 'boat', 'bottle', 'bus', 'car', 'cat', 'chair', 'cow'),
    *('diningtable', 'dog', 'horse', 'motorbike', 'person', 'pottedplant', 'sheep', 'sofa', 'train', 'tvmonitor'),
)


@DATASETS.register_module()
class VOC(MultiLabelReader):
    """Images of PASCAL VOC 2007 or 2012, each labelled with the classes of its objects.

    The 20 classes are in alphabetical order. Each sample is ``dict(img_path=..., gt_label=[...], label_areas=[...],
    img_id='2008_000002')``, in the order of the list of image ids. ``label_areas`` has, for each class in ``gt_label``,
    the area of its largest box, clipped to the image, as a fraction of the image (in pixels if its size is missing);
    boxes that annotators marked as difficult enter it only with ``difficult='positive'``. Unmarked boxes are normal.

    Args:
        data_root: Folder of one year, such as ``data/VOCdevkit/VOC2012``, with ``ImageSets``, ``Annotations`` and
            ``JPEGImages``.
        split: ``'train'``, ``'val'``, ``'trainval'`` or ``'test'``. The test annotations of 2012 are not public.
        difficult: Label of a class whose objects are all difficult: ``'negative'``, as in mmpretrain and the papers
            (8,331 positives in train of 2012); ``'unknown'`` (``gt_score`` -1), as VOC's evaluation, which ignores such
            labels; or ``'positive'``, as the published long-tailed set counts.
        ann_file: Text file below ``data_root`` with one image id per line; by default the official list of the split.
        data_prefix: Dict with the folders of images (``img_path``) and annotations (``ann_path``).
        **kwargs: Further arguments of :class:`MultiLabelReader`.

    Example:
        >>> dataset = VOC('data/VOCdevkit/VOC2012', split='train')
        >>> len(dataset), len(dataset.CLASSES)
        (5717, 20)
    """

    def __init__(
        self,
        data_root: str,
        split: str = 'trainval',
        *,
        difficult: str = 'negative',
        ann_file: str = '',
        data_prefix: Mapping[str, str] | None = None,
        **kwargs,
    ):
        self.split = check_choice('split', split, SPLITS)
        self.difficult = check_choice('difficult', difficult, DIFFICULT_RULES)
        data_prefix = dict(img_path='JPEGImages', ann_path='Annotations') if data_prefix is None else data_prefix
        if 'ann_path' not in data_prefix:
            raise ValueError(f"data_prefix must have the keys 'img_path' and 'ann_path', got {data_prefix!r}")
        super().__init__(
            ann_file=ann_file or f'ImageSets/Main/{split}.txt', data_root=data_root, data_prefix=data_prefix, **kwargs
        )

    def image_folders(self) -> list[str]:
        """Return the paths of the image and annotation folders; :meth:`missing_files` names missing or empty ones."""
        return [self.data_prefix['img_path'], self.data_prefix['ann_path']]

    def load_data_list(self) -> list[dict]:
        """Return one dict per image; if test files are missing, the error adds that only VOC 2007 publishes them."""
        try:
            return super().load_data_list()
        except MissingDataError as error:
            if self.split != 'test':
                raise
            message = f'{error} (annotations of the test set are public for VOC 2007 only)'
            raise MissingDataError(message, error.missing) from None

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each image of the split: path, id, positive classes, their areas and unknown classes."""
        classes = self.choose_classes(VOC_CLASSES, type(self).__name__)
        image_ids = [line for _, line in read_lines(self.ann_file)]
        reject_repeated(image_ids, self.ann_file, 'image id')
        for image_id in image_ids:
            img_path = self.image_path(f'{image_id}.jpg')  # also rejects ids that lead out of the folder
            areas, difficult = self._read_objects(Path(self.data_prefix['ann_path'], f'{image_id}.xml'))
            if self.difficult == 'positive':
                pairs = [*areas.items(), *difficult.items()]
                areas = {name: max(area for key, area in pairs if key == name) for name, _ in pairs}
            labels = sorted((classes[name], area) for name, area in areas.items() if name in classes)
            sample = dict(
                img_path=img_path,
                gt_label=[label for label, _ in labels],
                label_areas=[area for _, area in labels],
                img_id=image_id,
            )
            if self.difficult == 'unknown':
                sample['unknown_label'] = sorted(
                    classes[name] for name in difficult.keys() - areas.keys() if name in classes
                )
            yield sample

    def _read_objects(self, path: Path) -> tuple[dict[str, float], dict[str, float]]:
        """Return two dicts, for normal and difficult objects in an xml file: class to largest :func:`_box_area`."""
        root = _read_xml(path, self.ann_file)
        plain: dict[str, float] = {}
        difficult: dict[str, float] = {}
        try:
            width, height = (float(root.findtext(f'size/{side}', '0')) for side in ('width', 'height'))
            for thing in root.findall('object'):  # of the image; the parts of a person lie deeper
                name = (thing.findtext('name') or '').strip()
                if name not in VOC_CLASSES:
                    raise AnnotationError(f'{path}: an object must have one of the 20 classes of VOC, got {name!r}')
                areas = difficult if int(thing.findtext('difficult', '0')) else plain
                areas[name] = max(areas.get(name, 0.0), _box_area(thing, width, height))
        except AnnotationError:
            raise
        except ValueError as error:
            raise AnnotationError(f'{path}: sizes, boxes and difficult must be numbers: {error}') from error
        return plain, difficult


def _box_area(thing: ElementTree.Element, width: float, height: float) -> float:
    """Return the fraction of an image that an ``<object>``'s box covers; its pixels if ``width`` or ``height`` is 0."""
    found = (thing.findtext(f'bndbox/{side}') for side in ('xmin', 'ymin', 'xmax', 'ymax'))
    sides = [text for text in found if text is not None]
    if len(sides) < 4:
        raise ValueError('an object has no box')
    left, top, right, bottom = map(float, sides)  # a few are fractional
    # Pixels count from 1, and a box contains its last ones.
    left, top, right, bottom = max(left, 1), max(top, 1), min(right, width or math.inf), min(bottom, height or math.inf)
    return max(right - left + 1, 0) * max(bottom - top + 1, 0) / (width * height or 1)


class _PlainTree(ElementTree.TreeBuilder):
    """XML tree builder that raises an AnnotationError for a document type, whose entities could grow without bounds."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise AnnotationError('must not have a document type')


def _read_xml(path: Path, listed_in: str) -> ElementTree.Element:
    content = read_listed(path, 'the annotation of an image', listed_in)
    try:
        root = ElementTree.fromstring(content, ElementTree.XMLParser(target=_PlainTree()))
    except AnnotationError as error:
        raise AnnotationError(f'{path} {error}') from None
    # An encoding that Python does not know is a LookupError, one that the parser cannot read a ValueError.
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise AnnotationError(f'{path} is not an xml file: {error}') from error
    if root.tag != 'annotation':
        raise AnnotationError(f"{path} must have the root element 'annotation', got {root.tag!r}")
    return root

"""Open Images with image-level labels: positives and negatives verified by people; all other labels are unknown."""

import re
from array import array
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ...utils.errors import AnnotationError
from .annotation_files import distinct_names, read_class_list, read_csv
from .reader import MultiLabelReader

OTHERS = ('unknown', 'negative')
# Codes of what a row states about a class in an image. Several rows are combined by bitwise or.
PERSON_YES, PERSON_NO, MACHINE_YES = 1, 2, 4


@DATASETS.register_module()
class OpenImages(MultiLabelReader):
    """Images of Open Images, labelled with the classes that people confirmed or ruled out in each image.

    Reads the csv files of image-level labels, of all versions (columns ``ImageID``, ``Source``, ``LabelName``,
    ``Confidence``). For an image and a class, a row with confidence 1 means positive, a row with 0 negative, and no row
    unknown. Each sample is ``dict(img_path=..., gt_label=[...], gt_score=(C,), img_id='000002b66c9c498e')``, in the
    order in which the images first appear. The image file is ``<ImageID>.jpg``.

    - If people disagree (rows 1 and 0 for one image and class), the label is unknown.
    - Rows of classes outside of ``classes_file`` are skipped, and images without any known label are left out.
    - A label does not imply its parent classes; each of these needs a row of its own.

    Args:
        ann_file: csv file of image-level labels.
        classes_file: The classes in the order of their indices, one per line: an identifier such as ``/m/011k07``, or
            ``identifier,name``; a header is skipped. The official files of trainable classes (9,605 in version 6) and
            of class descriptions fit. The 567 classes of the Hill and SPLC paper are not published.
        data_root: Folder that the files and ``data_prefix`` are relative to.
        data_prefix: Folder of the images.
        descriptions_file: File with ``identifier,name`` in each line, if ``classes_file`` has no names. A name that
            several classes share becomes ``name (identifier)``.
        others: Label of a class without a row: ``'unknown'``, or ``'negative'`` as losses for missing labels assume.
        machine_confidence: Least confidence at which a row of the source ``machine`` makes a positive, if no person
            judged the class; machine rows below it are skipped. By default (None) a file with machine rows is rejected.
        **kwargs: Further arguments of :class:`MultiLabelReader`. ``skip_missing`` leaves out images that are no longer
            available, which are many.
    """

    def __init__(
        self,
        ann_file: str,
        classes_file: str,
        data_root: str = '',
        data_prefix: str = '',
        *,
        descriptions_file: str = '',
        others: str = 'unknown',
        machine_confidence: float | None = None,
        **kwargs,
    ):
        self.others = check_choice('others', others, OTHERS)
        if machine_confidence is not None and not 0 < machine_confidence <= 1:
            raise ValueError(f'machine_confidence must be in (0, 1], got {machine_confidence}')
        self.classes_file = classes_file
        self.descriptions_file = descriptions_file
        self.machine_confidence = machine_confidence
        self.files = (ann_file, classes_file, descriptions_file)
        super().__init__(ann_file, data_root, data_prefix, **kwargs)

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each image with a known label: path, id, positives, and negatives or unknown classes."""
        names = self._read_names()
        classes = self.choose_classes(list(names.values()), self.path_below_root(self.classes_file))
        image_ids, keys, statements = self._read_table(
            {key: classes.get(name) for key, name in names.items()}, len(classes)
        )
        listed = [_per_image(part, len(classes), len(image_ids)) for part in _settle(keys, statements)]
        for image_id, present, absent, disputed in zip(image_ids, *listed, strict=True):
            if present or absent:
                sample = dict(img_path=self.image_path(f'{image_id}.jpg'), gt_label=present, img_id=image_id)
                if self.others == 'unknown':
                    sample['negative_label'] = absent
                else:
                    sample['unknown_label'] = disputed
                yield sample

    def _read_names(self) -> dict[str, str]:
        _, *paths = self.annotation_files()
        names, *others = (read_class_list(path, ',', header='LabelName') for path in paths)
        descriptions = others[0] if others else names
        absent = [key for key in names if key not in descriptions]
        if absent:
            raise AnnotationError(f'{paths[0]} lists classes that {paths[1]} has not: {", ".join(absent[:10])}')
        return distinct_names(descriptions, names)

    def _read_table(self, classes: dict[str, int | None], width: int) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Return (image ids, keys (R,), codes such as ``PERSON_YES`` (R,)) of the R used rows.

        A key is ``image * width + class``: ``image`` indexes the ids, and ``width`` is the number of classes. Rows
        whose identifier has no class index (None) in ``classes`` are not used. Identifiers that ``classes`` lacks are
        added to it in place, with None.
        """
        images: dict[str, int] = {}
        keys, statements = array('q'), array('B')
        meanings: dict[tuple[str, str], int] = {}
        rows = read_csv(self.ann_file, ('ImageID', 'Source', 'LabelName', 'Confidence'))
        for line, (image_id, source, label, confidence) in rows:
            meaning = meanings.get((source, confidence))
            if meaning is None:
                meaning = meanings[source, confidence] = self._meaning(source, confidence, line)
            if label not in classes:
                if not re.fullmatch(r'/[a-z]/\S+', label):
                    raise AnnotationError(
                        f'{self.ann_file}, line {line}: LabelName must be an identifier such as /m/011k07, '
                        f'got {label!r}'
                    )
                classes[label] = None  # known, but not listed
            column = classes[label]
            if meaning and column is not None:
                if not image_id:
                    raise AnnotationError(f'{self.ann_file}, line {line}: ImageID must name an image, got nothing')
                keys.append(images.setdefault(image_id, len(images)) * width + column)
                statements.append(meaning)
        return list(images), np.frombuffer(keys, dtype=np.int64), np.frombuffer(statements, dtype=np.uint8)

    def _meaning(self, source: str, confidence: str, line: int) -> int:
        place = f'{self.ann_file}, line {line}'
        try:
            value = float(confidence)
        except ValueError:
            raise AnnotationError(f'{place}: Confidence must be a number, got {confidence!r}') from None
        if source == 'machine':
            if self.machine_confidence is None:
                raise AnnotationError(
                    f'{place}: the label was made by a machine; machine_confidence must be the least Confidence with '
                    'which such labels count'
                )
            if not 0 <= value <= 1:
                raise AnnotationError(f'{place}: Confidence must be in [0, 1], got {confidence}')
            return MACHINE_YES if value >= self.machine_confidence else 0
        if value not in (0, 1):
            raise AnnotationError(f'{place}: Confidence of the source {source} must be 0 or 1, got {confidence}')
        return PERSON_YES if value else PERSON_NO


def _settle(keys: np.ndarray, statements: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge ``statements`` (codes) by key, people before machines; return sorted positive, negative, disputed keys."""
    order = np.argsort(keys, kind='stable')
    keys, statements = keys[order], statements[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, statements = keys[first], np.bitwise_or.reduceat(statements, first) if len(first) else statements
    people = statements & (PERSON_YES | PERSON_NO)
    positive = (people == PERSON_YES) | (statements == MACHINE_YES)
    return keys[positive], keys[people == PERSON_NO], keys[people == PERSON_YES | PERSON_NO]


def _per_image(keys: np.ndarray, width: int, num_images: int) -> Iterator[list[int]]:
    """Yield the list of class indices of each image, given ascending keys ``image * width + class``."""
    images, labels = np.divmod(keys, width)
    bounds = np.searchsorted(images, np.arange(num_images + 1)).tolist()
    labels = labels.tolist()  # many short slices of an array are slow
    return (labels[start:stop] for start, stop in pairwise(bounds))

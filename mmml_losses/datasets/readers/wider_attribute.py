"""WIDER Attribute: persons with 14 attributes."""

from collections.abc import Iterator

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ...utils.errors import AnnotationError
from .annotation_files import read_box, read_json, reject_repeated
from .reader import MultiLabelReader

# Values of the official files. Their -1 is our 0, and their 0 our -1.
PRESENT, ABSENT, UNSPECIFIED = 1, -1, 0
UNSPECIFIED_RULES = ('unknown', 'negative')


@DATASETS.register_module()
class WIDERAttribute(MultiLabelReader):
    """Persons of WIDER Attribute, each one sample, labelled with 14 attributes.

    The images must be where the official archives unpack them; ``file_name`` in the annotations is relative to
    ``Image``::

        data/wider_attribute/
          Image/train/, Image/val/, Image/test/
          wider_attribute_annotation/wider_attribute_trainval.json, wider_attribute_test.json

    An annotation file has ``attribute_id_map``, the class names by id, and ``images``. Each image has ``file_name``,
    ``scene_id`` and ``targets``, its persons; each person has ``bbox`` and ``attribute``, one value per class. The
    file's values 1 present, -1 absent and 0 unspecified become the labels 1, 0 and -1.

    Each sample is ``dict(img_path=..., bbox=[x, y, width, height], gt_label=[...], gt_score=(14,), sample_name=...)``.
    Put :class:`CropToBox` into the pipeline, which cuts the box out of the image. ``sample_name`` is the file and the
    person's number in it from 0, such as ``'train/0--Parade/0_Parade_marchingband_1_799.jpg#0'``.

    Args:
        ann_file: Annotation file.
        unspecified: Label of an unspecified attribute: ``'unknown'`` (-1, which losses and metrics ignore) or
            ``'negative'``, without ``gt_score``, which gives the ratio of positives to negatives in Table 2 of the SPA
            paper (0.26 at 2.9 positives per person).
        drop_degenerate: Leave out persons whose box has no area; otherwise a file with one is rejected.
        *args: Further arguments of :class:`MultiLabelReader`.
        **kwargs: Further arguments of :class:`MultiLabelReader`. The files have 28,345 (trainval) and 29,179 (test)
            persons, but papers count 28,340 and 29,117; ``drop_empty`` may leave out the others.

    Example:
        >>> dataset = WIDERAttribute(
        ...     'wider_attribute_annotation/wider_attribute_test.json',
        ...     data_root='data/wider_attribute', data_prefix='Image')
        >>> len(dataset.CLASSES)
        14
    """

    def __init__(self, ann_file: str, *args, unspecified: str = 'unknown', drop_degenerate: bool = False, **kwargs):
        self.unspecified = check_choice('unspecified', unspecified, UNSPECIFIED_RULES)
        self.drop_degenerate = drop_degenerate
        super().__init__(ann_file, *args, **kwargs)

    def read_samples(self) -> Iterator[dict]:
        """Yield a dict for each person, in file order: image path, box, name, present and unspecified attributes."""
        content = read_json(self.ann_file, dict)
        absent = [key for key in ('images', 'attribute_id_map') if key not in content]
        if absent:
            raise AnnotationError(f'{self.ann_file} must have {" and ".join(map(repr, absent))}')
        names = self._attribute_names(content['attribute_id_map'])
        classes = self.choose_classes(names, self.ann_file)
        images = content['images']
        if not isinstance(images, list) or not all(isinstance(image, dict) for image in images):
            raise AnnotationError(f"{self.ann_file}: 'images' must be a list of dicts")
        paths = [self.image_path(image.get('file_name')) for image in images]
        reject_repeated((image['file_name'] for image in images), self.ann_file, 'image')
        for image, img_path in zip(images, paths, strict=True):
            persons = image.get('targets')
            if not isinstance(persons, list) or not all(isinstance(person, dict) for person in persons):
                raise AnnotationError(
                    f"{self.ann_file}, image {image['file_name']}: 'targets' must be a list of dicts, got "
                    f'{persons!r:.100}'
                )
            for number, person in enumerate(persons):
                name = f'{image["file_name"]}#{number}'
                labels = self._labels(person.get('attribute'), names, classes, name)
                box = read_box(person.get('bbox'), f'{self.ann_file}, person {name}', self.drop_degenerate)
                if box is not None:
                    yield dict(img_path=img_path, bbox=box, sample_name=name, **labels)

    def _attribute_names(self, names_of_ids: dict[str, str]) -> list[str]:
        """Return the attribute names sorted by numeric id, given {id text: name}; a person's values have this order."""
        if (
            not isinstance(names_of_ids, dict)
            or not names_of_ids
            or not all(key.isascii() and key.isdigit() for key in names_of_ids)
        ):
            raise AnnotationError(
                f"{self.ann_file}: 'attribute_id_map' must give names of numbers, got {names_of_ids!r}"
            )
        names = [str(names_of_ids[key]) for key in sorted(names_of_ids, key=int)]
        reject_repeated(names, self.ann_file, 'attribute')
        return names

    def _labels(self, values: list[int], names: list[str], classes: dict[str, int], person: str) -> dict:
        """Return a dict with ``gt_label`` and, with ``unspecified='unknown'``, ``unknown_label``, as class indices.

        ``values`` are 1, -1 or 0 for each of ``names``; errors contain the text ``person``.
        """
        if not isinstance(values, list) or len(values) != len(names):
            raise AnnotationError(
                f"{self.ann_file}, person {person}: 'attribute' must have {len(names)} values, got {values!r}"
            )
        found: dict[int, list[int]] = {PRESENT: [], ABSENT: [], UNSPECIFIED: []}
        for name, value in zip(names, values, strict=True):
            if value not in (PRESENT, ABSENT, UNSPECIFIED):
                raise AnnotationError(
                    f'{self.ann_file}, person {person}: {name} must be 1, -1 or 0 (unspecified), got {value!r}'
                )
            if name in classes:
                found[value].append(classes[name])
        labels = dict(gt_label=sorted(found[PRESENT]))
        if self.unspecified == 'unknown':
            labels['unknown_label'] = sorted(found[UNSPECIFIED])
        return labels

"""Choose a long-tailed subset of a dataset: a published one (VOC-LT, COCO-LT), or one along a Pareto curve."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.dataset import BaseDataset
from mmengine.logging import print_log

from ...registry import DATASETS
from ...utils.arguments import check_choice, check_flag, check_whole_number
from ...utils.errors import AnnotationError
from ..labels.random_numbers import uniform_numbers
from ..labels.sample_labels import POSITIVE, SampleLabels
from ..readers.annotation_files import read_json
from .label_wrapper import LabelWrapper
from .pareto import ParetoCurve, choose_long_tail, describe_tail, listed


@DATASETS.register_module()
class LongTailed(LabelWrapper):
    """Samples of any multi-label dataset, chosen so that few classes have many images and many classes have few.

    Labels stay as they are. Without ``split`` the class counts (images of each class) fall along a Pareto curve, see
    :class:`.ParetoCurve` and :func:`.choose_long_tail`; the samples keep their order. On trainval of VOC 2012,
    ``largest=775, smallest=4`` gives a set like VOC-LT: about 1,200 images with 2.0 labels each. On train2014 of COCO,
    ``largest=700, smallest=6`` gives one like COCO-LT: about 1,900 images with 4.4. The log describes the chosen set.

    With ``split`` the samples are the published ones in their order, on which papers (DR, DB, ...) report results:

    - ``'voc-lt'``: 1,142 images of trainval of VOC 2012. The published class frequencies, 4 to 775, count difficult
      objects: ``VOC(..., split='trainval', difficult='positive')``.
    - ``'coco-lt'``: 1,909 images of train2017 of COCO, class frequencies from 6 to 1,128. 519 of them are in val2014:
      with the annotations of 2014, wrap a ``ConcatDataset`` of train and val.

    Images of a split are found by file name, or else by ``img_id``; a missing one raises an AnnotationError. If the
    wrapped dataset has several samples of an image, all of them are chosen.

    Args:
        dataset, lazy_init: The wrapped dataset, and whether to load it later, see :class:`LabelWrapper`.
        split: ``'voc-lt'`` or ``'coco-lt'``, where ``largest`` to ``fill_up`` must not be given; None for the curve.
        largest: Images of the first class on the curve, 700 by default.
        smallest: Images of the last class on the curve, 5 by default.
        shape: How steeply the curve falls at first, 6 by default.
        order: Which classes come first: by ``'co-occurrence'`` (default) or ``'frequency'``, see :class:`.ParetoCurve`.
        fill_up: Whether to add images with few labels in the end, to come closer to the curve. False by default, as in
            the published sets, in which frequent classes may be far below ``largest``.
        seed: Seed of the random order in which images are chosen. The same seed gives the same images.

    Example:
        >>> dataset = LongTailed(VOC('data/VOCdevkit/VOC2012', 'trainval', difficult='positive'), split='voc-lt')
        >>> len(dataset), dataset.observed_labels().sum(axis=0).max()
        (1142, 775)
    """

    def __init__(
        self,
        dataset: BaseDataset | dict,
        split: str | None = None,
        *,
        largest: int | None = None,
        smallest: int | None = None,
        shape: float | None = None,
        order: str | None = None,
        fill_up: bool | None = None,
        seed: int = 0,
        lazy_init: bool = False,
    ):
        given: dict[str, Any] = dict(largest=largest, smallest=smallest, shape=shape, order=order, fill_up=fill_up)
        given = {name: value for name, value in given.items() if value is not None}
        if split is not None and given:
            raise ValueError(f'{", ".join(given)} must not be given with split={split!r}, which is a fixed list')
        self.split = split
        self.fill_up = check_flag('fill_up', given.pop('fill_up', False))
        self.curve = ParetoCurve(**given)
        self.seed = check_whole_number('seed', seed)
        # Fail before the wrapped dataset is read, which may take a while.
        self._published = None if split is None else load_split(split)
        super().__init__(dataset, lazy_init=lazy_init)

    def settings(self) -> dict:
        """Return a dict of ``type`` and either ``split`` or, without it, all arguments from ``largest`` to ``seed``."""
        if self.split is not None:
            return super().settings() | dict(split=self.split)
        curve = self.curve
        numbers = dict(largest=int(curve.largest), smallest=int(curve.smallest), shape=float(curve.shape))
        return super().settings() | numbers | dict(order=curve.order, fill_up=self.fill_up, seed=self.seed)

    def select(self, samples: SampleLabels) -> np.ndarray:
        """Return the positions (N,) of the chosen samples: a published split in its order, or else ascending."""
        if self._published is not None:
            return self._select_published(self._published, samples)
        positions = np.arange(len(samples.labels))
        draws = uniform_numbers(self.seed, self.stream, samples.keys, positions, np.zeros_like(positions))
        tail = choose_long_tail(samples.labels, draws, self.curve, fill_up=self.fill_up)
        print_log(f'Long tail: {tail.describe(samples.classes)}', logger='current')
        return tail.positions

    def _select_published(self, split: 'PublishedSplit', samples: SampleLabels) -> np.ndarray:
        ids = [id_of_file(key) for key in samples.keys]
        found = split.find(ids)
        if len(found) < len(split.ids):
            for idx in (idx for idx, image_id in enumerate(ids) if image_id not in found):
                ids[idx] = str(self.dataset.get_data_info(idx).get('img_id'))
            found = split.find(ids)
        missing = [image_id for image_id in split.ids if image_id not in found]
        if missing:
            names = ', '.join(missing[:3]) + (', ...' if len(missing) > 3 else '')
            raise AnnotationError(
                f'{split.name} needs {len(split.ids):,} images of {split.images}, and the dataset lacks '
                f'{len(missing):,} of them: {names}'
            )
        positions = np.array(list(chain.from_iterable(found.values())))
        counts = (samples.labels[positions] == POSITIVE).sum(axis=0)
        print_log(
            f'{split.name}: {describe_tail(counts, samples.classes, len(positions))}; '
            f'{_compare(counts, split.class_frequencies, samples.classes)}',
            logger='current',
        )
        return positions


def _compare(counts: np.ndarray, published: np.ndarray, classes: tuple[str, ...]) -> str:
    """Return a log text: which classes' ``counts`` (C,) differ from ``published``, or that all agree or C differs."""
    if len(counts) != len(published):
        return f'published with {len(published)} classes, of which the dataset has {len(counts)}'
    different = [
        f'{name} ({count:,}, published {other:,})'
        for name, count, other in zip(classes, counts, published, strict=True)
        if count != other
    ]
    if not different:
        return 'all class frequencies as published'
    return f'class frequencies other than the published ones: {listed(different)}'


FOLDER = Path(__file__).parent / 'splits'
SPLITS = ('coco-lt', 'voc-lt')
# File names of VOC 2012, which are its ids, and of COCO in 2014 and 2017, which end with the id.
VOC_NAME = re.compile(r'\d{4}_\d{6}')
COCO_NAME = re.compile(r'(?:COCO_(?:train|val)2014_)?(\d{12})')


@dataclass(frozen=True)
class PublishedSplit:
    """The images of a published training set.

    Attributes:
        name: Name of the set in the papers.
        images: Name of the dataset and split that the images come from, for messages.
        ids: Image ids in the published order, such as ``'2008_000023'`` for VOC and ``'554625'`` for COCO.
        class_frequencies: (C,) number of images with each class, as published.
    """

    name: str
    images: str
    ids: tuple[str, ...]
    class_frequencies: np.ndarray

    def find(self, ids: Sequence[str | None]) -> Mapping[str, list[int]]:
        """Return {image id: list of its positions in ``ids``} in published order; leave out images not in ``ids``."""
        places: dict[str, list[int]] = {image_id: [] for image_id in self.ids}
        for position, image_id in enumerate(ids):
            if image_id in places:
                places[image_id].append(position)
        return {image_id: found for image_id, found in places.items() if found}


def load_split(name: str) -> PublishedSplit:
    """Read a published split from this package: ``'voc-lt'`` or ``'coco-lt'``; other names raise a ValueError."""
    check_choice('split', name, SPLITS)
    content = read_json(FOLDER / f'{name.replace("-", "_")}.json', dict)
    return PublishedSplit(
        name=content['name'],
        images=content['images'],
        ids=tuple(map(str, content['ids'])),
        class_frequencies=np.array(content['class_frequencies']),
    )


def id_of_file(key: str) -> str | None:
    """Return the image id, as in :class:`PublishedSplit`, from the file name in a path; None for other names.

    VOC: 4 digits, ``_`` and 6 digits are the id. COCO: 12 digits, alone or after ``COCO_train2014_`` or
    ``COCO_val2014_``, without zeros in front. Folders, any suffix and a number after it (``#2``) are ignored.
    """
    # The second of several samples of one name ends with #2.
    stem = re.sub(r'(\.\w+)?(#\d+)?$', '', key[key.rfind('/') + 1 :])
    if VOC_NAME.fullmatch(stem):
        return stem
    coco_name = COCO_NAME.fullmatch(stem)
    return str(int(coco_name[1])) if coco_name else None

"""A detection dataset from which boxes are missing, to train with incomplete annotations."""

from collections.abc import Mapping, Sequence

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from ...registry import DATASETS
from ...utils.errors import AnnotationError
from ..labels.data_infos import area_array, as_unknown, box_area, class_areas
from ..labels.sample_labels import POSITIVE, SampleLabels
from .missing_labels import HIDDEN_VALUES, MissingLabels

# Fate of a box. IGNORED: by the annotation, so that it stays and is not counted.
KEPT, HIDDEN, IGNORED = 0, 1, 2


@DATASETS.register_module()
class MissingBoxes(MissingLabels):
    """Any detection dataset in which some boxes are hidden, each on its own, to simulate missing annotations.

    :class:`MissingLabels` hides all boxes of a class in an image; this hides single boxes (``instances``), by the same
    rules. Boxes that the annotation ignores (crowds) stay and are not counted. If a class loses all its boxes in an
    image, its label there is hidden too, for :func:`read_labels` and other readers of image labels. An image without
    any box left stays in the dataset.

    ``rule='floor'`` with a ratio of 1 leaves a single box in each image: single positive labels for detection.
    Hidden boxes depend on the seed, the name of the image and the number of the box in its annotation.

    Args:
        dataset: The dataset or its config, such as MMDetection's ``CocoDataset``. Every sample must have ``instances``.
        missing_ratio: Ratio in [0, 1]. ``rule='bernoulli'`` with ``order='random'`` also takes a list of C ratios, or a
            dict from class name to ratio, in which classes that are not named lose nothing.
        rule: How many of the n boxes of an image are hidden. ``'bernoulli'`` (default) hides each with probability
            ``missing_ratio``; ``'floor'`` leaves min(n, floor(n (1 - ``missing_ratio``)) + 1).
        order: Which boxes are hidden first: ``'random'`` or ``'smallest_first'``, as annotators miss small objects.
        keep_one: Whether ``rule='bernoulli'`` keeps the box that is last in the order if it would hide all of an image.
        hidden: ``'negative'`` removes a hidden box; ``'unknown'`` sets its ``ignore_flag`` to 1. In MMDetection such a
            box is background unless the assigner's ``ignore_iof_thr`` is above 0 and the image keeps another box.
        seed: Seed of the random choice of boxes.
        lazy_init: Whether to wait with loading until :meth:`full_init`. The wrapped dataset has its own ``lazy_init``.
    """

    def __init__(
        self,
        dataset: BaseDataset | dict,
        missing_ratio: float | Sequence[float] | Mapping[str, float],
        rule: str = 'bernoulli',
        *,
        order: str = 'random',
        keep_one: bool = False,
        hidden: str = 'negative',
        seed: int = 0,
        lazy_init: bool = False,
    ):
        # The fate of all boxes, sample by sample, and the start of each sample among them. These are arrays without
        # Python objects: workers that are forked share them instead of copying them.
        self._fates = np.empty(0, dtype=np.int8)
        self._starts: np.ndarray = np.zeros(1, dtype=np.int64)
        super().__init__(
            dataset, missing_ratio, rule, order=order, keep_one=keep_one, hidden=hidden, seed=seed, lazy_init=lazy_init
        )

    def full_init(self) -> None:
        """Load the wrapped dataset and choose the hidden boxes; do nothing if this was done before."""
        self.needs_areas = False  # of the largest objects: relabel reads the areas of the boxes itself
        super().full_init()

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Choose the hidden boxes; return labels (N, C): 0 or -1 (see ``hidden``) for a class that lost all boxes."""
        boxes, counts = self._read_boxes(samples)
        rows, numbers, columns = boxes[:3].astype(np.int64)
        is_hidden = self.choose_hidden(samples, rows, numbers, columns, areas=boxes[3])
        self._starts = np.cumsum([0, *counts])
        self._fates = np.full(self._starts[-1], IGNORED, dtype=np.int8)
        self._fates[self._starts[rows] + numbers] = np.where(is_hidden, HIDDEN, KEPT)
        loses, keeps = np.zeros((2, *samples.labels.shape), dtype=bool)
        loses[rows[is_hidden], columns[is_hidden]] = True
        keeps[rows[~is_hidden], columns[~is_hidden]] = True
        gone = loses & ~keeps & (samples.labels == POSITIVE)
        return np.where(gone, np.int8(HIDDEN_VALUES[self.hidden]), samples.labels)

    def _read_boxes(self, samples: SampleLabels) -> tuple[np.ndarray, list[int]]:
        """Return (boxes that are not ignored, (4, M) float64; list of the number of all boxes of each sample).

        The 4 rows: sample position, index in its ``instances``, class index, area in pixels (0 for random order).
        """
        found, counts = [], []
        for row, key in enumerate(samples.keys):
            instances = self.dataset.get_data_info(row).get('instances')
            if instances is None:
                raise AnnotationError(
                    f'{type(self).__name__} needs a dataset with boxes (instances), and sample {row} ({key!r}) of '
                    f'{type(self.dataset).__name__} has none: MissingLabels hides labels of images'
                )
            counts.append(len(instances))
            for number, instance in enumerate(instances):
                if not instance.get('ignore_flag', 0):
                    area = box_area(instance) if self.order == 'smallest_first' else 0
                    found.append((row, number, instance['bbox_label'], area))
        return np.array(found, dtype=np.float64).reshape(-1, 4).T, counts

    def write(self, info: dict, row: np.ndarray, position: int) -> None:
        """Write labels ``row`` (C,) to ``info`` in place; remove or ignore the hidden boxes of sample ``position``."""
        instances = info['instances']
        info.pop('label_areas', None)  # of the largest objects, which may be hidden
        super().write(info, row, position)
        is_hidden = self._fates[self._starts[position] : self._starts[position + 1]] == HIDDEN
        pairs = zip(instances, is_hidden.tolist(), strict=True)
        if self.hidden == 'unknown':
            info['instances'] = [as_unknown(box) if hidden else box for box, hidden in pairs]
        else:
            info['instances'] = [box for box, hidden in pairs if not hidden]

    def has_unknown(self) -> bool:
        """Return whether any label of this dataset is unknown, or any box is hidden with ``hidden='unknown'``."""
        return super().has_unknown() or (self.hidden == 'unknown' and self.count_boxes()[0] > 0)

    @force_full_init
    def count_boxes(self) -> tuple[int, int]:
        """Return (number of hidden boxes, number of all boxes), both without boxes that the annotation ignores."""
        ends = [np.concatenate([[0], np.cumsum(found)]) for found in (self._fates == HIDDEN, self._fates != IGNORED)]
        positions = slice(None) if self._positions is None else self._positions
        hidden, all_boxes = (int(np.diff(end[self._starts])[positions].sum()) for end in ends)
        return hidden, all_boxes

    def observed_areas(self, areas: np.ndarray) -> np.ndarray:
        """Return the largest box area left of each class, a new array in the shape (N, C) of ``areas``; NaN if none."""
        left = {idx: class_areas(self.get_data_info(idx)) for idx in range(len(self))}
        found = area_array(left, areas.shape)
        return np.full_like(areas, np.nan) if found is None else found

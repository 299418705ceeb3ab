"""A detection dataset from which boxes are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from mmengine.dataset import BaseDataset, force_full_init

from ...registry import DATASETS
from ...utils.errors import AnnotationError
from ..labels.data_infos import area_array, as_unknown, box_area, class_areas
from ..labels.sample_labels import POSITIVE, SampleLabels
from .missing_labels import HIDDEN_VALUES, MissingLabels

# What becomes of a box.
KEPT, HIDDEN, IGNORED = 0, 1, 2


class _Boxes(NamedTuple):
    """The M boxes of a dataset that are not to be ignored, sample by sample, and how many a sample has in all.

    Args:
        rows: (M,), the position of the sample that has each.
        numbers: (M,), its place among all boxes of the sample.
        columns: (M,), its class index.
        areas: (M,), in pixels; 0 where the order does not go by them.
        starts: (N + 1,), where the boxes of each sample start, those to be ignored among them.
    """

    rows: np.ndarray
    numbers: np.ndarray
    columns: np.ndarray
    areas: np.ndarray
    starts: np.ndarray


@DATASETS.register_module()
class MissingBoxes(MissingLabels):
    """Any detection dataset in which some boxes are hidden, each by itself.

    As :class:`MissingLabels`, which hides a class of an image with all its boxes, but of the single boxes
    (``instances``). Boxes that the annotation says to ignore (crowds) stay, and count for nothing. A class that loses
    all its boxes in an image is hidden there: :func:`read_labels` and whatever else reads classes of images sees that.
    An image that loses all its boxes stays, as one without objects.

    ``rule='floor'`` with a ratio of 1 leaves a single box an image: single positive labels for detection.

    With one seed a larger ratio hides what a smaller one does, and more. What is hidden follows from the seed, the name
    of the image and the number of the box in its annotation.

    Args:
        dataset: The dataset or its config, see :class:`LabelWrapper`; MMDetection's ``CocoDataset`` or ``VOCDataset``,
            for example. Every sample must have ``instances``.
        missing_ratio: In [0, 1]. ``rule='bernoulli'`` also takes a rate for each class: a list of them all, or a dict
            by class name, in which classes that are not named lose nothing.
        rule: How many of the n boxes of an image are hidden: ``'bernoulli'``, each with the probability
            ``missing_ratio``, or ``'floor'``, all but floor(n (1 - ``missing_ratio``)) + 1.
        order: Which ones: any (``'random'``), or the smallest, as annotators miss them first (``'smallest_first'``).
        keep_one: Whether ``rule='bernoulli'`` leaves an image with boxes at least one, the last in the order.
        hidden: What becomes of a hidden box: it is gone (``'negative'``, as where nobody drew it), or is to be ignored
            (``'unknown'``), which MMDetection's assigners do with an ``ignore_iof_thr`` above 0, in images that keep a
            box.
        seed: Determines what is hidden, together with the names of the images.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.
    """

    needs_areas = False  # it reads those of the boxes itself

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
        # In arrays without Python objects: workers that are forked share them instead of copying them.
        self._fates, self._starts = np.empty(0, dtype=np.int8), np.zeros(1, dtype=np.int64)
        super().__init__(
            dataset,
            missing_ratio,
            rule,
            order=order,
            keep_one=keep_one,
            hidden=hidden,
            seed=seed,
            lazy_init=lazy_init,
        )

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels without the classes of which every box is missing."""
        boxes = self._read_boxes(samples)
        is_hidden = self.choose_hidden(samples, boxes.rows, boxes.numbers, boxes.columns, boxes.areas)
        self._starts = boxes.starts
        self._fates = np.full(boxes.starts[-1], IGNORED, dtype=np.int8)
        self._fates[boxes.starts[boxes.rows] + boxes.numbers] = np.where(is_hidden, HIDDEN, KEPT)
        loses, keeps = np.zeros((2, *samples.labels.shape), dtype=bool)
        loses[boxes.rows[is_hidden], boxes.columns[is_hidden]] = True
        keeps[boxes.rows[~is_hidden], boxes.columns[~is_hidden]] = True
        gone = loses & ~keeps & (samples.labels == POSITIVE)
        return np.where(gone, np.int8(HIDDEN_VALUES[self.hidden]), samples.labels)

    def _read_boxes(self, samples: SampleLabels) -> _Boxes:
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
        rows, numbers, columns, areas = np.array(found, dtype=np.float64).reshape(-1, 4).T
        starts = np.cumsum([0, *counts])
        return _Boxes(rows.astype(np.int64), numbers.astype(np.int64), columns.astype(np.int64), areas, starts)

    def write(self, info: dict, row: np.ndarray, position: int) -> None:
        """Give a data info the labels and the boxes of this dataset."""
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
        """Whether a label that this dataset serves is unknown, or a box that it hides is to be ignored."""
        return super().has_unknown() or (self.hidden == 'unknown' and self.count_boxes()[0] > 0)

    @force_full_init
    def count_boxes(self) -> tuple[int, int]:
        """How many boxes are hidden, and how many there were; those to be ignored do not count."""
        ends = [np.concatenate([[0], np.cumsum(found)]) for found in (self._fates == HIDDEN, self._fates != IGNORED)]
        positions = slice(None) if self._positions is None else self._positions
        hidden, all_boxes = (int(np.diff(end[self._starts])[positions].sum()) for end in ends)
        return hidden, all_boxes

    def observed_areas(self, areas: np.ndarray) -> np.ndarray:
        """How large the largest box of each class is that is not hidden, (N, C)."""
        left = {idx: class_areas(self.get_data_info(idx)) for idx in range(len(self))}
        found = area_array(left, areas.shape)
        return np.full_like(areas, np.nan) if found is None else found

"""Class-aware sampling: every class comes equally often, however few images it has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset, ConcatDataset, RepeatDataset
from mmengine.dist import get_dist_info, sync_random_seed
from mmengine.logging import print_log
from torch.utils.data import Sampler

from ..registry import DATA_SAMPLERS
from ..utils.arrays import check_whole_number
from ..utils.errors import AnnotationError
from .labels.random_numbers import uniform_numbers
from .labels.reading import read_labels

# An epoch is laid out in memory, some 50 bytes a sample at the peak.
LONGEST_EPOCH = 100_000_000


@DATA_SAMPLERS.register_module()
class ClassAwareSampler(Sampler):
    """Draws classes in turn and images of these classes, the re-sampling (RS) of the long-tailed benchmarks.

    All classes come in random order, then all again in another order, and so on. A class whose turn it is gives its
    next ``num_samples_cls`` images: those in random order, then all again in another order. So each class has equally
    many turns, give or take one (Shen et al., "Relay Backpropagation for Effective Learning of Deep Convolutional
    Neural Networks", 2016). An image with several labels comes in the turns of each of them, so frequent classes still
    are seen more often than rare ones. A class without an image has no turn, and an image without a label never comes.

    The sequence of an epoch follows from the seed, the epoch and the labels alone; it is one for all processes, of
    which each takes every n-th sample. A resumed training goes on with the epoch that an unbroken one would have.

    Args:
        dataset: Any whose labels :func:`~mmml_losses.datasets.labels.reading.read_labels` reads (label wrappers,
            ``ConcatDataset``, detection datasets, ...), or that has ``get_cat_ids``. Labels above 0 are of a class.
        num_samples_cls: How many images a class gives in each turn.
        epoch_length: Samples in an epoch, over all processes: ``'largest_class'`` is the number of images of the
            largest class times the number of classes, divided by ``reduce``, so that with ``reduce=1`` the images of
            the largest class come about once; ``'dataset'`` is as many as the dataset has; or a number. With more than
            one process it is rounded up to equally many for each.
        reduce: Divisor of ``'largest_class'``.
        seed: Seed of the order; by default a random one, the same for all processes.

    The defaults, 3 images a turn and a fourth of the largest class times the number of classes, are those of the public
    code of the DB loss, from which the paper on the DR loss has its sampling: 3,875 samples for VOC-LT and 22,560 for
    COCO-LT. Datasets that are much larger than these want ``'dataset'``.

    Example:
        >>> train_dataloader = dict(sampler=dict(type='mmml_losses.ClassAwareSampler', epoch_length='dataset'))
    """

    def __init__(
        self,
        dataset: BaseDataset,
        num_samples_cls: int = 3,
        epoch_length: int | str = 'largest_class',
        reduce: int = 4,
        seed: int | None = None,
    ):
        check_whole_number('num_samples_cls', num_samples_cls, least=1)
        check_whole_number('reduce', reduce, least=1)
        if seed is not None:
            check_whole_number('seed', seed, least=0)
        self.rank, self.world_size = get_dist_info()
        self.num_samples_cls = num_samples_cls
        self.seed = sync_random_seed() if seed is None else seed
        self.epoch = 0
        self._classes, self._sizes, self._images, num_classes = _images_of_classes(dataset)
        if not self._classes.size:
            raise ValueError(f'dataset must have labels to sample by, got none in {len(dataset)} samples')
        self.epoch_length = self._count_samples(epoch_length, reduce, len(dataset))
        self.num_samples = math.ceil(self.epoch_length / self.world_size)
        self._say_what_comes(len(dataset), num_classes)

    def __iter__(self) -> Iterator[int]:
        """The samples of this process in the epoch that was set."""
        return iter(self.sequence(self.num_samples * self.world_size)[self.rank :: self.world_size].tolist())

    def __len__(self) -> int:
        """Number of samples of this process in an epoch."""
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next, as :class:`mmengine.hooks.DistSamplerSeedHook` does."""
        self.epoch = epoch

    def sequence(self, length: int | None = None) -> np.ndarray:
        """The samples of the epoch that was set, those of all processes in turn, (length,) int64.

        Args:
            length: How many; by default those of an epoch. A longer sequence begins with the shorter one.
        """
        length = self.epoch_length if length is None else length
        num_classes = len(self._classes)
        num_turns = math.ceil(length / self.num_samples_cls)
        num_cycles = math.ceil(num_turns / num_classes)
        cycles, classes = (each.ravel() for each in np.indices((num_cycles, num_classes)))
        names = [f'classes {cycle}' for cycle in range(num_cycles)]
        classes = classes[self._shuffled_within(names, cycles, self._classes[classes])][:num_turns]
        images, starts = self._shuffled_images(num_cycles * self.num_samples_cls)
        # In every cycle before, each class has had one turn.
        firsts = starts[classes] + np.arange(num_turns) // num_classes * self.num_samples_cls
        return images[firsts[:, None] + np.arange(self.num_samples_cls)].ravel()[:length]

    def _shuffled_images(self, num_each: int) -> tuple[np.ndarray, np.ndarray]:
        """At least ``num_each`` images of each class in random order, and where those of each class start."""
        num_rounds = -(-num_each // self._sizes)  # rounded up
        lengths = num_rounds * self._sizes
        starts = np.cumsum(lengths) - lengths
        classes = np.repeat(np.arange(len(lengths)), lengths)
        rounds, places = np.divmod(np.arange(len(classes)) - starts[classes], self._sizes[classes])
        images = self._images[(np.cumsum(self._sizes) - self._sizes)[classes] + places]
        groups = (np.cumsum(num_rounds) - num_rounds)[classes] + rounds
        names = [
            f'images {index} {number}'
            for index, count in zip(self._classes.tolist(), num_rounds.tolist(), strict=True)
            for number in range(count)
        ]
        return images[self._shuffled_within(names, groups, places)], starts

    def _shuffled_within(self, names: list[str], groups: np.ndarray, members: np.ndarray) -> np.ndarray:
        """The order in which the members of each group are shuffled.

        Args:
            names: Name of each group, on which its order depends.
            groups: (N,) the group of each position, ascending.
            members: (N,) what tells the positions of a group apart.
        """
        draws = uniform_numbers(self.seed, f'{type(self).__name__}/{self.epoch}', names, groups, members)
        # One key is sorted faster than two. It has room for more groups than an epoch can have samples, and the same
        # part of each draw however many groups there are.
        return np.argsort((groups << 35) + (draws * 2**35).astype(np.int64), kind='stable')

    def _count_samples(self, epoch_length: int | str, reduce: int, num_images: int) -> int:
        if epoch_length == 'largest_class':
            number = max(1, int(self._sizes.max()) * len(self._classes) // reduce)
        elif epoch_length == 'dataset':
            number = num_images
        elif isinstance(epoch_length, str):
            raise ValueError(f"epoch_length must be 'largest_class', 'dataset' or a number, got {epoch_length!r}")
        else:
            check_whole_number('epoch_length', epoch_length, least=1)
            number = int(epoch_length)
        if number > LONGEST_EPOCH:
            raise ValueError(
                f'epoch_length must be at most {LONGEST_EPOCH:,} samples, got {number:,} by {epoch_length!r}: give a '
                "number, or 'dataset'"
            )
        return number

    def _say_what_comes(self, num_images: int, num_classes: int) -> None:
        images = f'{self.num_samples_cls} image{"s" * (self.num_samples_cls > 1)}'
        never = num_images - np.unique(self._images).size
        empty = num_classes - len(self._classes)
        print_log(
            f'{type(self).__name__}: {self.epoch_length:,} samples an epoch from {num_images:,} images, '
            f'{len(self._classes):,} classes in turn with {images} each'
            + (f'; classes left out because they have no image: {empty:,}' if empty else '')
            + (f'; images that never come because they have no label: {never:,}' if never else ''),
            logger='current',
        )


def _images_of_classes(dataset: BaseDataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The classes that have images, how many each has, their images one class after the other, and how many classes
    there are."""
    try:
        labels = read_labels(dataset).labels
        classes, images = np.nonzero((labels > 0).T)
        num_classes = labels.shape[1]
    except (TypeError, AnnotationError) as error:
        try:
            rows = [sorted(set(row)) for row in _class_ids(dataset)]
        except TypeError:
            raise error from None
        classes = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
        images = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        order = np.argsort(classes, kind='stable')
        classes, images = classes[order], images[order]
        named = (getattr(dataset, 'metainfo', None) or {}).get('classes') or ()
        num_classes = max(len(named), classes.max(initial=-1) + 1)
    return *np.unique(classes, return_counts=True), images, num_classes


def _class_ids(dataset: BaseDataset) -> list[Sequence[int]]:
    """What the dataset itself says of the classes of each sample."""
    if isinstance(dataset, ConcatDataset):
        return list(chain.from_iterable(_class_ids(part) for part in dataset.datasets))
    if isinstance(dataset, RepeatDataset):
        return _class_ids(dataset.dataset) * dataset.times
    if not hasattr(dataset, 'get_cat_ids'):
        raise TypeError(f'{type(dataset).__name__} has no get_cat_ids')
    return [dataset.get_cat_ids(idx) for idx in range(len(dataset))]

"""Class-aware sampling: choose every class equally often, however few images it has."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from mmengine.dataset import BaseDataset, ConcatDataset, RepeatDataset
from mmengine.dist import get_dist_info, sync_random_seed
from mmengine.logging import print_log
from torch.utils.data import Sampler

from ..registry import DATA_SAMPLERS
from ..utils.arguments import check_whole_number
from ..utils.errors import AnnotationError
from .labels.random_numbers import uniform_numbers
from .labels.reading import read_labels

# An epoch is kept in memory, with some 50 bytes a sample at the peak.
LONGEST_EPOCH = 100_000_000


@DATA_SAMPLERS.register_module()
class ClassAwareSampler(Sampler):
    """Draw classes in turn and images of these classes, the re-sampling (RS) of the long-tailed benchmarks.

    Each class has one turn in random order, then each has another turn in a new order, and so on. So the numbers of
    turns of two classes differ by at most one (Shen et al., "Relay Backpropagation for Effective Learning of Deep
    Convolutional Neural Networks", 2016). A turn draws the next ``num_samples_cls`` shuffled images of its class; after
    the last one, they are shuffled again. An image is drawn in the turns of each of its positive classes, so
    frequent classes are still seen more often. Images without a positive and classes without an image are never drawn.

    The order in an epoch depends only on the seed, ``num_samples_cls``, the epoch and the labels, so a resumed training
    with the same seed continues as if uninterrupted. All n processes compute one sequence; each takes every n-th item.

    Args:
        dataset: Dataset to sample from. Either :func:`~mmml_losses.datasets.labels.reading.read_labels` can read it
            (label wrappers, ``ConcatDataset``, detection datasets, ...), or ``get_cat_ids(idx)`` gives class indices.
        num_samples_cls: Number of images of a class in each turn.
        epoch_length: Samples in an epoch, summed over all processes and rounded up to a multiple of their number. An
            integer, ``'dataset'`` for the size of the dataset, or ``'largest_class'``: the number of images of the
            largest class, times the number of classes with images, divided by ``reduce``.
        reduce: Divisor for ``'largest_class'``. With 1 the turns of the largest class draw each of its images once.
        seed: Seed of the order. None chooses a random seed, the same for all processes.

    The defaults come from the public code of the DB loss, which the paper on the DR loss uses: 3,875 samples for
    VOC-LT and 22,560 for COCO-LT. Use ``'dataset'`` for much larger datasets.

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
        self._log_epoch(len(dataset), num_classes)

    def __iter__(self) -> Iterator[int]:
        """Iterate over this process's sample indices in the epoch of :meth:`set_epoch`."""
        return iter(self.sequence(self.num_samples * self.world_size)[self.rank :: self.world_size].tolist())

    def __len__(self) -> int:
        """Return the number of samples of this process in an epoch."""
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; :class:`mmengine.hooks.DistSamplerSeedHook` calls this before each one."""
        self.epoch = epoch

    def sequence(self, length: int | None = None) -> np.ndarray:
        """Return the sample indices of the epoch of :meth:`set_epoch`, for all processes together, (length,) int64.

        ``length`` is by default the epoch length before rounding up. A longer sequence begins with the shorter one.
        """
        length = self.epoch_length if length is None else length
        num_classes = len(self._classes)
        num_turns = math.ceil(length / self.num_samples_cls)
        num_cycles = math.ceil(num_turns / num_classes)
        cycles, classes = (each.ravel() for each in np.indices((num_cycles, num_classes)))
        names = [f'classes {cycle}' for cycle in range(num_cycles)]
        classes = classes[self._shuffled_within(names, cycles, self._classes[classes])][:num_turns]
        images, starts = self._shuffled_images(num_cycles * self.num_samples_cls)
        # Each class had one turn in every cycle before.
        firsts = starts[classes] + np.arange(num_turns) // num_classes * self.num_samples_cls
        return images[firsts[:, None] + np.arange(self.num_samples_cls)].ravel()[:length]

    def _shuffled_images(self, num_each: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (sample indices (M,) in one group per class with images, index (K,) at which each group starts).

        A group has all images of a class in random order, then again in a new order, until it has ``num_each`` or more.
        """
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
        """Return the indices (N,) that shuffle N items within their groups and leave the groups in order.

        ``groups`` (N,), ascending, is the group number of each item; ``members`` (N,) is its number within the group.
        ``names`` has the name of each group; the order depends on this name, the seed and the epoch.
        """
        draws = uniform_numbers(self.seed, f'{type(self).__name__}/{self.epoch}', names, groups, members)
        # Sorting one key is faster than two. It has space for more groups than an epoch can have samples, and for the
        # same part of each random number, however many groups there are.
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

    def _log_epoch(self, num_images: int, num_classes: int) -> None:
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
    """Return (classes (K,), image counts (K,), sample indices (M,), C), where K of the C classes have images.

    The sample indices are in one group per class, in the order of ``classes``.
    """
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
    """Return each sample's class indices, from ``get_cat_ids``; raise a TypeError if a dataset inside lacks it."""
    if isinstance(dataset, ConcatDataset):
        return list(chain.from_iterable(_class_ids(part) for part in dataset.datasets))
    if isinstance(dataset, RepeatDataset):
        return _class_ids(dataset.dataset) * dataset.times
    if not hasattr(dataset, 'get_cat_ids'):
        raise TypeError(f'{type(dataset).__name__} has no get_cat_ids')
    return [dataset.get_cat_ids(idx) for idx in range(len(dataset))]

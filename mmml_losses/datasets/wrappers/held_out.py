"""Split a training set into a part to train on and a held-out part to choose settings with."""

import numpy as np
from mmengine.dataset import BaseDataset

from ...registry import DATASETS
from ...utils.arguments import check_choice, check_whole_number
from ..labels.random_numbers import uniform_numbers
from ..labels.reading import HARD_LABELS
from ..labels.sample_labels import POSITIVE, SampleLabels
from .label_wrapper import LabelWrapper

PARTS = ('train', 'held_out')


@DATASETS.register_module()
class HeldOut(LabelWrapper):
    """One of two parts of any multi-label dataset, in which every class has about the same share of its positives.

    The parts are chosen by :func:`choose_held_out` from the labels before all label wrappers, the names of the images
    and the seed alone. So they are equal in every process, and for every label wrapper inside that keeps the samples.
    All samples of one image are in one part. The samples keep their order. Soft labels, as those of VQA, are rejected:
    a class has no share of positives then.

    ``'train'`` has the labels of the wrapped dataset. ``'held_out'`` has the labels before all label wrappers, so that
    figures on it compare with figures on a test set. ``--hold-out 0.2`` of the tools puts this wrapper into a config:
    the training takes one part, the validation the other.

    Args:
        dataset, lazy_init: The wrapped dataset, and whether to load it later, see :class:`LabelWrapper`.
        share: Share of the samples in the held-out part, between 0 and 1.
        part: ``'train'`` or ``'held_out'``.
        seed: Seed of the random choice.

    Example:
        >>> scenes = dict(type='mmml_losses.DigitScenes', split='train')
        >>> len(HeldOut(scenes)), len(HeldOut(scenes, part='held_out'))
        (4800, 1200)
    """

    arguments = ('share', 'part', 'seed')
    hard_rule = f'--hold-out (HeldOut) needs hard labels, {HARD_LABELS}'

    def __init__(
        self,
        dataset: BaseDataset | dict,
        share: float = 0.2,
        part: str = 'train',
        *,
        seed: int = 0,
        lazy_init: bool = False,
    ):
        if not 0 < share < 1:
            raise ValueError(f'share must be between 0 and 1, got {share}')
        self.share = share
        self.part = check_choice('part', part, PARTS)
        self.seed = check_whole_number('seed', seed)
        super().__init__(dataset, lazy_init=lazy_init)

    def select(self, samples: SampleLabels) -> np.ndarray:
        """Return the positions (N,) of the samples in ``part``, ascending; ValueError if one part is empty."""
        numbers: dict[str, int] = {}
        images = np.array([numbers.setdefault(name, len(numbers)) for name in samples.image_names], dtype=np.int64)
        draws = uniform_numbers(self.seed, 'HeldOut', list(numbers), np.arange(len(numbers)), 0)
        ranks = np.empty(len(numbers), dtype=np.int64)
        ranks[np.argsort(draws, kind='stable')] = np.arange(len(numbers))
        is_held_out = choose_held_out(samples.true_labels == POSITIVE, ranks[images], self.share)
        if is_held_out.all() or not is_held_out.any():
            raise ValueError(
                f'share must leave samples in both parts, got {self.share} of {len(images)} samples of {len(numbers)} '
                'images'
            )
        return np.flatnonzero(is_held_out == (self.part == 'held_out'))

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """Return the labels (N, C): those before all label wrappers in the held-out part."""
        return samples.true_labels if self.part == 'held_out' else samples.labels


def choose_held_out(positives: np.ndarray, groups: np.ndarray, share: float) -> np.ndarray:
    """Choose which samples are held out, so that each class and the number of samples come near their shares.

    Groups are placed one by one, those with the rarest class first, as in iterative stratification (Sechidis et al.,
    2011), and those without a positive last. Each goes to the part that leaves the smaller sum, over all classes and
    the number of samples, of squared deviations from the share, each divided by its total.

    Args:
        positives: (N, C) bool.
        groups: (N,), number of the group of each sample, from 0. A group stays together; lower numbers come first.
        share: Share of the samples to hold out, between 0 and 1.

    Returns:
        (N,) bool, True for samples that are held out.
    """
    num_classes, sizes = positives.shape[1], np.bincount(groups)
    rows, columns = np.nonzero(positives)
    # The number of samples is one more column, which every sample has.
    rows, columns = np.append(rows, np.arange(len(groups))), np.append(columns, np.full(len(groups), num_classes))
    pairs, counts = np.unique(groups[rows] * (num_classes + 1) + columns, return_counts=True)
    members, columns = np.divmod(pairs, num_classes + 1)
    starts = np.searchsorted(members, np.arange(len(sizes) + 1)).tolist()
    totals = np.bincount(columns, counts, num_classes + 1)
    rarest = np.minimum.reduceat(np.where(columns < num_classes, totals[columns], np.inf), starts[:-1])
    deviations = np.zeros(num_classes + 1)  # held out - share * placed
    held_out = np.zeros(len(sizes), dtype=bool)
    for group in np.argsort(rarest, kind='stable').tolist():
        own = slice(starts[group], starts[group + 1])
        at, gains = columns[own], counts[own]
        change = gains * (2 * deviations[at] + gains * (1 - 2 * share)) / totals[at]
        held_out[group] = change.sum().round(9) < 0  # both parts may be equally good but for a rounding error
        deviations[at] += gains * (held_out[group] - share)
    return held_out[groups]

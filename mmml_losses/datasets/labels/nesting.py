"""How datasets lie inside each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mmengine.dataset import BaseDataset, ClassBalancedDataset, Compose, ConcatDataset, RepeatDataset

from ..errors import AnnotationError


class LabelView(BaseDataset):
    """A dataset with samples of another one and labels of its own: what others need to know of a label wrapper.

    Attributes:
        dataset: The dataset inside.
    """

    dataset: BaseDataset

    def positions(self) -> np.ndarray | None:
        """Where in the dataset inside each sample stands; None if that is its own position."""
        raise NotImplementedError

    def observed_labels(self) -> np.ndarray:
        """The labels that this dataset serves, (N, C) int8."""
        raise NotImplementedError

    def observed_areas(self, areas: np.ndarray) -> np.ndarray:
        """The areas of the classes as this dataset serves them, (N, C).

        Args:
            areas: (N, C), those of the same samples in the dataset inside.
        """
        return areas


def parts_of(dataset: BaseDataset) -> list[BaseDataset]:
    """The datasets directly inside a wrapper; none inside a dataset that is no wrapper."""
    if isinstance(dataset, ConcatDataset):
        return dataset.datasets
    if isinstance(dataset, (RepeatDataset, ClassBalancedDataset, LabelView)):
        return [dataset.dataset]
    return []


def leaf_datasets(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """The datasets inside all wrappers, which have a pipeline each."""
    parts = parts_of(dataset)
    if not parts:
        yield dataset
    for part in parts:
        yield from leaf_datasets(part)


def count_views(dataset: BaseDataset) -> int:
    """How many label wrappers lie inside each other in a dataset, itself included."""
    inside = max((count_views(part) for part in parts_of(dataset)), default=0)
    return inside + isinstance(dataset, LabelView)


def class_names(dataset: BaseDataset) -> tuple[str, ...]:
    """The names of the classes in the order of their indices; none where the metainfo has none.

    Raises:
        AnnotationError: The parts of a concatenation have others each, so that an index has no one meaning.
    """
    parts = parts_of(dataset)
    if not parts:
        return tuple(map(str, (getattr(dataset, 'metainfo', None) or {}).get('classes') or ()))
    # The metainfo of MMEngine's wrappers is from before their datasets were loaded, and MMDetection's concatenation has
    # a list of metainfos where its parts differ in anything.
    first, *others = map(class_names, parts)
    for number, names in enumerate(others, start=1):
        if names != first and 'classes' not in dataset.ignore_keys:
            raise AnnotationError(
                f'the parts of {type(dataset).__name__} must have the same classes, got {_some(first)} in part 0 and '
                f'{_some(names)} in part {number}'
            )
    return first


def _some(names: tuple[str, ...]) -> str:
    return f'{len(names)} ({", ".join(names[:3])}{", ..." * (len(names) > 3)})'


def inner_positions(dataset: BaseDataset) -> np.ndarray | None:
    """Where in the dataset inside a wrapper of one dataset each sample stands; None if that is its own position."""
    if isinstance(dataset, LabelView):
        return dataset.positions()
    if isinstance(dataset, RepeatDataset):
        return np.tile(np.arange(len(dataset.dataset)), dataset.times)
    return np.asarray(dataset.repeat_indices, dtype=np.int64)


def pipeline_of(dataset: BaseDataset, idx: int) -> Compose:
    """The pipeline that makes a sample."""
    while parts_of(dataset):
        if isinstance(dataset, ConcatDataset):
            part, idx = dataset._get_ori_dataset_idx(idx)
            dataset = dataset.datasets[part]
            continue
        if isinstance(dataset, LabelView):
            positions = dataset.positions()
            idx = idx if positions is None else int(positions[idx])
        else:
            idx = dataset._get_ori_dataset_idx(idx)
        dataset = dataset.dataset
    return dataset.pipeline


def refuse_unknown_kinds(dataset: BaseDataset) -> None:
    """Refuse what makes its items in a way of its own: that would be left out without a word."""
    for leaf in leaf_datasets(dataset):
        if not isinstance(leaf, BaseDataset):
            raise TypeError(
                "dataset must be one of MMEngine's kind, its ConcatDataset, RepeatDataset or ClassBalancedDataset of "
                f'such, or a label wrapper, got {type(leaf).__name__}'
            )
        for method in ('__getitem__', 'prepare_data'):
            if getattr(type(leaf), method) is not getattr(BaseDataset, method):
                raise TypeError(
                    'dataset must make its items from get_data_info and the pipeline alone, '
                    f'but {type(leaf).__name__} has a {method} of its own'
                )

"""Datasets inside each other: walk through them, and find the origin of a sample."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from mmengine.dataset import BaseDataset, ClassBalancedDataset, Compose, ConcatDataset, RepeatDataset

from ...utils.errors import AnnotationError


class LabelView(BaseDataset):
    """The interface of label wrappers: a dataset with the samples of another one, and labels of its own."""

    dataset: BaseDataset  # the wrapped dataset

    def positions(self) -> np.ndarray | None:
        """Return the position of each sample in the wrapped dataset; None if both have the same samples in order."""
        raise NotImplementedError

    def observed_labels(self) -> np.ndarray:
        """Return the labels of this dataset, (N, C) int8."""
        raise NotImplementedError

    def observed_areas(self, areas: np.ndarray) -> np.ndarray:
        """Return the area of the largest object of each class, (N, C), from these areas in the wrapped dataset."""
        return areas


def parts_of(dataset: BaseDataset) -> list[BaseDataset]:
    """Return the datasets directly inside a wrapper, or an empty list for a dataset that wraps no other.

    Only label wrappers and the wrappers of MMEngine count as wrappers; see :func:`any_parts_of`.
    """
    if isinstance(dataset, ConcatDataset):
        return dataset.datasets
    if isinstance(dataset, (RepeatDataset, ClassBalancedDataset, LabelView)):
        return [dataset.dataset]
    return []


def any_parts_of(dataset: BaseDataset) -> list[BaseDataset]:
    """Return the datasets directly inside a wrapper of any project, such as MMDetection's wrapper for mosaics."""
    return parts_of(dataset) or ([dataset.dataset] if hasattr(dataset, 'dataset') else [])


def walk(dataset: BaseDataset, parts: Callable = parts_of) -> Iterator[BaseDataset]:
    """Yield a dataset and then all datasets inside it, in order; ``parts`` returns the datasets directly inside one."""
    yield dataset
    for part in parts(dataset):
        yield from walk(part, parts)


def leaf_datasets(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """Yield the innermost datasets, which wrap no other and have a pipeline each."""
    return (part for part in walk(dataset) if not parts_of(part))


def outermost_views(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """Yield the label wrappers that are not inside another one, and each innermost dataset without a label wrapper."""

    def parts(dataset: BaseDataset) -> list[BaseDataset]:
        return [] if isinstance(dataset, LabelView) else any_parts_of(dataset)

    return (part for part in walk(dataset, parts) if not parts(part))


def source_datasets(dataset: BaseDataset) -> list[BaseDataset]:
    """Return the outermost datasets in a dataset that contain no label wrapper, in the order of their samples."""

    def parts(dataset: BaseDataset) -> list[BaseDataset]:
        return parts_of(dataset) if count_views(dataset) else []

    return [part for part in walk(dataset, parts) if not parts(part)]


def count_views(dataset: BaseDataset) -> int:
    """Return how many label wrappers are around each other in a dataset, itself included (the most of any part)."""
    inside = max((count_views(part) for part in parts_of(dataset)), default=0)
    return inside + isinstance(dataset, LabelView)


def unrepeated(dataset: BaseDataset) -> BaseDataset:
    """Return a dataset without the ``RepeatDataset`` and ``ClassBalancedDataset`` around it, which change no label."""
    while isinstance(dataset, (RepeatDataset, ClassBalancedDataset)):
        dataset = dataset.dataset
    return dataset


def walk_configs(config: dict | Sequence | None) -> Iterator[dict]:
    """Yield the config of a dataset and the configs inside it, as :func:`walk` yields datasets."""
    if isinstance(config, dict):
        yield config
        config = [config[key] for key in ('dataset', 'datasets') if key in config]
    for part in config if isinstance(config, (list, tuple)) else ():
        yield from walk_configs(part)


def leaf_configs(config: dict | Sequence | None) -> Iterator[dict]:
    """Yield the configs of the innermost datasets, which wrap no other."""
    return (part for part in walk_configs(config) if 'dataset' not in part and 'datasets' not in part)


def class_names(dataset: BaseDataset) -> tuple[str, ...]:
    """Return the names of the classes in the order of their indices; an empty tuple if the metainfo has none.

    Raises:
        AnnotationError: The parts of a concatenation have different classes.
    """
    parts = parts_of(dataset)
    if not parts:
        return tuple(map(str, (getattr(dataset, 'metainfo', None) or {}).get('classes') or ()))
    # MMEngine's wrappers take their metainfo before the datasets are loaded, and MMDetection's concatenation has a list
    # of metainfos where its parts differ in anything.
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
    """Return the position of each sample in the dataset inside a wrapper; None if both have the same samples."""
    if isinstance(dataset, LabelView):
        return dataset.positions()
    if isinstance(dataset, RepeatDataset):
        return np.tile(np.arange(len(dataset.dataset)), dataset.times)
    return np.asarray(dataset.repeat_indices, dtype=np.int64)


def pipeline_of(dataset: BaseDataset, idx: int) -> Compose:
    """Return the pipeline of the innermost dataset that has the sample ``idx`` of a nested dataset."""
    while parts_of(dataset):
        if isinstance(dataset, ConcatDataset):
            part, idx = dataset._get_ori_dataset_idx(idx)
            dataset = dataset.datasets[part]
            continue
        if not isinstance(dataset, LabelView):
            idx = dataset._get_ori_dataset_idx(idx)
        elif (positions := dataset.positions()) is not None:
            idx = int(positions[idx])
        dataset = dataset.dataset
    return dataset.pipeline


def reject_unknown_kinds(dataset: BaseDataset) -> None:
    """Raise a TypeError for a dataset that is not MMEngine's, or whose own ``__getitem__`` a wrapper would skip."""
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

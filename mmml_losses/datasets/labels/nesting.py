"""Nested datasets: walk through datasets inside wrappers, and find the inner dataset of a sample."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from mmengine.dataset import BaseDataset, ClassBalancedDataset, Compose, ConcatDataset, RepeatDataset

from ...utils.errors import AnnotationError


class LabelView(BaseDataset):
    """Interface of label wrappers: datasets with (some) samples of the dataset they wrap, but with changed labels."""

    dataset: BaseDataset  # the wrapped dataset

    def positions(self) -> np.ndarray | None:
        """Return each sample's position in the wrapped dataset, (N,); None if samples and order are unchanged."""
        raise NotImplementedError

    def observed_labels(self) -> np.ndarray:
        """Return the labels after this wrapper's changes, (N, C) int8 with 1 positive, 0 negative, -1 unknown."""
        raise NotImplementedError

    def observed_areas(self, areas: np.ndarray) -> np.ndarray:
        """Return each class's largest object area, (N, C), given ``areas`` (N, C) before this wrapper's changes."""
        return areas


def parts_of(dataset: BaseDataset) -> list[BaseDataset]:
    """Return the list of datasets directly inside a label wrapper or a wrapper of MMEngine; [] for other datasets."""
    if isinstance(dataset, ConcatDataset):
        return dataset.datasets
    if isinstance(dataset, (RepeatDataset, ClassBalancedDataset, LabelView)):
        return [dataset.dataset]
    return []


def any_parts_of(dataset: BaseDataset) -> list[BaseDataset]:
    """Return the list :func:`parts_of`, or else ``[dataset.dataset]`` for another project's wrapper, or else []."""
    return parts_of(dataset) or ([dataset.dataset] if hasattr(dataset, 'dataset') else [])


def walk(dataset: BaseDataset, parts: Callable = parts_of) -> Iterator[BaseDataset]:
    """Yield a dataset and those nested in it, outer before inner; ``parts`` lists the datasets directly inside one."""
    yield dataset
    for part in parts(dataset):
        yield from walk(part, parts)


def leaf_datasets(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """Yield the innermost datasets in a nested dataset; these wrap no other dataset, and each has its own pipeline."""
    return (part for part in walk(dataset) if not parts_of(part))


def outermost_views(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """Yield the label wrappers that no other label wrapper contains, and the innermost datasets outside of these."""

    def parts(dataset: BaseDataset) -> list[BaseDataset]:
        return [] if isinstance(dataset, LabelView) else any_parts_of(dataset)

    return (part for part in walk(dataset, parts) if not parts(part))


def source_datasets(dataset: BaseDataset) -> list[BaseDataset]:
    """Return, in order, the largest parts of ``dataset`` that have no label wrapper; ``[dataset]`` if it has none."""

    def parts(dataset: BaseDataset) -> list[BaseDataset]:
        return parts_of(dataset) if count_views(dataset) else []

    return [part for part in walk(dataset, parts) if not parts(part)]


def count_views(dataset: BaseDataset) -> int:
    """Return how deep label wrappers are nested in a dataset, itself included: 0 for none, 2 for one inside another."""
    inside = max((count_views(part) for part in parts_of(dataset)), default=0)
    return inside + isinstance(dataset, LabelView)


def unrepeated(dataset: BaseDataset) -> BaseDataset:
    """Return the dataset inside any ``RepeatDataset`` and ``ClassBalancedDataset``, which only repeat samples."""
    while isinstance(dataset, (RepeatDataset, ClassBalancedDataset)):
        dataset = dataset.dataset
    return dataset


def walk_configs(config: dict | Sequence | None) -> Iterator[dict]:
    """Yield a config (or each in a list), then those nested under its ``dataset`` or ``datasets``; nothing for None."""
    if isinstance(config, dict):
        yield config
        config = [config[key] for key in ('dataset', 'datasets') if key in config]
    for part in config if isinstance(config, (list, tuple)) else ():
        yield from walk_configs(part)


def leaf_configs(config: dict | Sequence | None) -> Iterator[dict]:
    """Yield the configs of the innermost datasets, which have no key ``dataset`` or ``datasets``."""
    return (part for part in walk_configs(config) if 'dataset' not in part and 'datasets' not in part)


def class_names(dataset: BaseDataset) -> tuple[str, ...]:
    """Return the class names in the order of the class indices; an empty tuple if the metainfo has none.

    Raise an AnnotationError if classes in a ``ConcatDataset`` differ, unless its ``ignore_keys`` contain ``'classes'``.
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
    """Return each sample's position in ``dataset.dataset``, (N,); None if a label wrapper keeps samples and order."""
    if isinstance(dataset, LabelView):
        return dataset.positions()
    if isinstance(dataset, RepeatDataset):
        return np.tile(np.arange(len(dataset.dataset)), dataset.times)
    return np.asarray(dataset.repeat_indices, dtype=np.int64)


def pipeline_of(dataset: BaseDataset, idx: int) -> Compose:
    """Return the pipeline of the innermost dataset from which a nested dataset takes its sample ``idx``."""
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
    """Raise a TypeError if an innermost dataset is no ``BaseDataset`` or overrides ``__getitem__``/``prepare_data``."""
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

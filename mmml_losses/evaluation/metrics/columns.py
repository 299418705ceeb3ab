"""What is kept of each sample while a dataset is evaluated: the columns of :class:`Predictions`, as tensors."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...utils.arrays import as_labels
from ..functional.predictions import Predictions
from .gathering import RowStore, decode_texts, encode_texts, gather_samples


class Column(NamedTuple):
    """How a column is read from data samples, and how it is kept."""

    read: Callable[[Sequence[dict]], Tensor]
    dtype: torch.dtype  # known to ranks without samples, too
    fill: int | None = None  # beside narrower rows, where there may be such


def check_widths(data_samples: Sequence[dict], num_classes: int) -> None:
    """Refuse samples without a score for each class.

    Args:
        data_samples: Samples of a batch.
        num_classes: Number of classes, or 0 if the first sample is to tell it.
    """
    for sample in data_samples:
        if 'pred_score' not in sample:
            raise ValueError(f'data samples must hold pred_score, got {sorted(sample)}')
        shape = tuple(torch.as_tensor(sample['pred_score']).shape)
        if len(shape) != 1 or shape[0] != (num_classes or shape[0]):
            raise ValueError(f'pred_score must have the shape ({num_classes or "classes"},), got {shape}')
        num_classes = shape[0]


def read_scores(data_samples: Sequence[dict]) -> Tensor:
    """Scores (n, C) as float32."""
    scores = torch.stack([torch.as_tensor(sample['pred_score']).detach() for sample in data_samples])
    scores = scores.to('cpu', torch.float32)
    if scores.isnan().any():
        row, column = scores.isnan().nonzero()[0].tolist()
        raise ValueError(f'pred_score must not hold NaN, got NaN for class {column} in sample {row} of a batch')
    return scores


def read_labels(data_samples: Sequence[dict]) -> Tensor:
    """Labels (n, C) as int8, from ``gt_score`` or else from the class indices of ``gt_label``."""
    labels = torch.stack([_labels_of(sample, len(sample['pred_score'])) for sample in data_samples])
    return torch.from_numpy(as_labels(labels, 'gt_score'))


def read_true_labels(data_samples: Sequence[dict]) -> Tensor:
    """True labels (n, C) as int8; unknown for samples without, and (n, 0) where no sample has any."""
    if not any('true_label' in sample for sample in data_samples):
        return torch.empty(len(data_samples), 0, dtype=torch.int8)
    rows = []
    for sample in data_samples:
        width = len(sample['pred_score'])
        row = torch.as_tensor(sample.get('true_label', torch.full((width,), -1))).cpu()
        if row.shape != (width,):
            raise ValueError(f'true_label must have the shape of pred_score ({width},), got {tuple(row.shape)}')
        rows.append(row)
    return torch.from_numpy(as_labels(torch.stack(rows), 'true_label'))


def read_sample_idx(data_samples: Sequence[dict]) -> Tensor:
    """Positions in the dataset (n, 1); -1 for samples without."""
    return torch.tensor([[_position(sample.get('sample_idx'))] for sample in data_samples], dtype=torch.int64)


def _position(value: Any) -> int:
    """A whole number, also out of an array or a tensor; -1 for whatever else a project names its samples by."""
    try:
        return operator.index(value.item() if hasattr(value, 'item') else value)
    except (TypeError, ValueError, RuntimeError):
        return -1


def read_image_paths(data_samples: Sequence[dict]) -> Tensor:
    """Paths as text in bytes (n, w); empty for samples without."""
    return encode_texts([os.fspath(sample.get('img_path') or '') for sample in data_samples])


# Gathered in this order: the largest comes last, when the others lie no longer in two places.
COLUMNS = {
    'labels': Column(read_labels, torch.int8),
    'image_paths': Column(read_image_paths, torch.uint8, fill=0),
    'sample_idx': Column(read_sample_idx, torch.int64),
    'true_labels': Column(read_true_labels, torch.int8, fill=-1),
    'scores': Column(read_scores, torch.float32),
}


class PredictionCollector:
    """Collects the predictions of this rank batch by batch, and those of all ranks at the end.

    Scores and labels take five bytes for each (sample, class) pair, here and where they are gathered.

    Args:
        columns: Names of what is kept, some of :data:`COLUMNS`; ``sample_idx``, by which samples find their places,
            is kept in any case.
    """

    def __init__(self, columns: Iterable[str]):
        # In one order, whatever the caller's: the ranks must exchange the same column at the same time.
        self.columns = tuple(name for name in COLUMNS if name in {*columns, 'sample_idx'})
        # Whatever has a fixed width has that of pred_score.
        self._stores = {name: RowStore(COLUMNS[name].dtype, COLUMNS[name].fill, 'pred_score') for name in self.columns}

    def __len__(self) -> int:
        return len(self._stores['scores'])

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(store.nbytes for store in self._stores.values())

    def read(self, data_samples: Sequence[dict], num_classes: int = 0) -> dict[str, Tensor]:
        """Read and check the columns of a batch, and keep nothing yet: a batch that is refused leaves no half of it.

        Args:
            data_samples: Samples of the batch.
            num_classes: Number of classes of the dataset, or 0 if the first sample is to tell it.
        """
        if not data_samples:
            return {}
        check_widths(data_samples, num_classes or self._stores['scores'].width)
        return {name: COLUMNS[name].read(data_samples) for name in self.columns}

    def keep(self, batch: dict[str, Tensor]) -> None:
        """Keep what was read of a batch."""
        for name, rows in batch.items():
            self._stores[name].append(rows)

    def gather(self, size: int, class_names: tuple[str, ...]) -> Predictions | None:
        """The predictions of all ranks on the main process, None on the others. Nothing is kept afterwards.

        Args:
            size: Number of samples in the dataset, without what a sampler added to even out the ranks.
            class_names: Names of the classes, or nothing.
        """
        gathered = gather_samples(self._stores, size)
        if gathered is None:
            return None
        values = {name: rows.numpy() for name, rows in gathered.items()}
        if 'image_paths' in gathered:
            values['image_paths'] = tuple(decode_texts(gathered['image_paths']))
        if 'true_labels' in gathered and not gathered['true_labels'].shape[1]:
            values['true_labels'] = None
        if not len(values['scores']):  # no sample has told how many classes there are
            values |= {name: values[name].reshape(0, len(class_names)) for name in ('scores', 'labels')}
        return Predictions(**values, class_names=class_names)


def _labels_of(sample: dict, num_classes: int) -> Tensor:
    if 'gt_score' in sample:
        labels = torch.as_tensor(sample['gt_score']).cpu()
        if labels.shape != (num_classes,):
            raise ValueError(f'gt_score must have the shape of pred_score ({num_classes},), got {tuple(labels.shape)}')
        return labels
    if 'gt_label' not in sample:
        raise ValueError(f'data samples must hold gt_score or gt_label, got {sorted(sample)}')
    indices = torch.as_tensor(sample['gt_label']).cpu().reshape(-1).long()
    if ((indices < 0) | (indices >= num_classes)).any():
        raise ValueError(f'gt_label must be class indices from 0 to {num_classes - 1}, got {indices.tolist()}')
    labels = torch.zeros(num_classes, dtype=torch.int8)
    labels[indices] = 1
    return labels

"""What is kept of each sample while a dataset is evaluated: the columns of :class:`Predictions`, as tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from mmengine.dist import is_main_process
from torch import Tensor

from ..arrays import as_labels
from ..predictions import Predictions
from .gathering import RowStore, decode_texts, encode_texts, gather_rows


class Column(NamedTuple):
    """How a column is read from data samples, and how it is kept."""

    read: Callable[[Sequence[dict]], Tensor]
    dtype: torch.dtype  # known to ranks without samples, too
    fill: int = 0


def read_scores(data_samples: Sequence[dict]) -> Tensor:
    """Scores (n, C) as float32."""
    scores = torch.stack([torch.as_tensor(sample['pred_score']).detach() for sample in data_samples])
    return scores.to('cpu', torch.float32)


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
    return torch.tensor([[int(sample.get('sample_idx', -1))] for sample in data_samples], dtype=torch.int64)


def read_image_paths(data_samples: Sequence[dict]) -> Tensor:
    """Paths as text in bytes (n, w); empty for samples without."""
    return encode_texts([os.fspath(sample.get('img_path') or '') for sample in data_samples])


# Gathered in this order: the largest comes last, when the others lie no longer in two places.
COLUMNS = {
    'labels': Column(read_labels, torch.int8),
    'image_paths': Column(read_image_paths, torch.uint8),
    'sample_idx': Column(read_sample_idx, torch.int64),
    'true_labels': Column(read_true_labels, torch.int8, fill=-1),
    'scores': Column(read_scores, torch.float32),
}


class PredictionCollector:
    """Collects the predictions of this rank batch by batch, and those of all ranks at the end.

    Scores and labels take five bytes for each (sample, class) pair, here and where they are gathered.

    Args:
        columns: Names of what is kept, some of :data:`COLUMNS`.
    """

    def __init__(self, columns: Iterable[str]):
        # In one order, whatever the caller's: the ranks must exchange the same column at the same time.
        self.columns = tuple(name for name in COLUMNS if name in set(columns))
        self._stores = {name: RowStore(COLUMNS[name].dtype, COLUMNS[name].fill) for name in self.columns}

    def __len__(self) -> int:
        return len(self._stores['scores'])

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(store.nbytes for store in self._stores.values())

    def add(self, data_samples: Sequence[dict]) -> None:
        """Keep what the columns say of a batch."""
        if data_samples:
            # All of them before the first is kept: a sample that is refused leaves no half of itself.
            batch = {name: COLUMNS[name].read(data_samples) for name in self.columns}
            for name, rows in batch.items():
                self._stores[name].append(rows)

    def gather(self, size: int, class_names: tuple[str, ...]) -> Predictions | None:
        """The predictions of all ranks on the main process, None on the others. Nothing is kept afterwards.

        Args:
            size: Number of samples in the dataset; what a sampler added to even out the ranks lies beyond it.
            class_names: Names of the classes, or nothing.
        """
        gathered = {name: gather_rows(store, size) for name, store in self._stores.items()}
        if not is_main_process():
            return None
        values = {name: rows.numpy() for name, rows in gathered.items()}
        if 'image_paths' in gathered:
            values['image_paths'] = tuple(decode_texts(gathered['image_paths']))
        if 'sample_idx' in gathered:
            values['sample_idx'] = values['sample_idx'].reshape(-1)
        if 'true_labels' in gathered and not gathered['true_labels'].shape[1]:
            values['true_labels'] = None
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

"""What losses need to know of the whole training set, and what they remember of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from mmengine.dataset import BaseDataset, ClassBalancedDataset, ConcatDataset, RepeatDataset
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, IterBasedTrainLoop, Runner
from torch import nn

from ..losses import MultiLabelLoss
from ..registry import HOOKS

LABEL_KEYS = ('gt_score', 'gt_label', 'instances')


@HOOKS.register_module()
class TrainingSetHook(Hook):
    """Shows the labels of the training set to the losses that ask for them, and says in the log what it counted.

    Class frequencies (DB, CB, RW, LDAM, weighted BCE) come that way unless the config gives them. The labels are read
    once, without loading an image, before a checkpoint is; each process reads them for itself. Every image counts once:
    ``RepeatDataset`` and ``ClassBalancedDataset`` are ways to draw images, which do not change how many there are. In a
    detector's dataset an image has the classes of its instances that are not to be ignored.

    After each epoch the hook lets the losses of a distributed training share what they remember of their samples.
    """

    # Before EMAHook copies the model, whose buffers then have their final shapes, and before CheckpointHook saves it.
    priority = 'HIGH'

    def before_run(self, runner: Runner) -> None:
        """Show the training set, if this is a training: only then the loop is built by now."""
        if isinstance(getattr(runner, '_train_loop', None), BaseLoop):
            warn_of_iterations(losses_of(runner.model), runner)
            self.before_train(runner)

    def before_train(self, runner: Runner) -> None:
        """Show the training set to the losses that have not seen it."""
        losses, dataset = losses_of(runner.model), runner.train_dataloader.dataset
        refuse_shared_indices(losses, dataset)
        waiting = [loss for loss in losses if loss.wants_training_labels]
        if not waiting:
            return
        classes = getattr(dataset, 'metainfo', {}).get('classes')
        labels, sample_idx = read_training_labels(dataset, len(classes) if classes else head_classes(runner.model))
        for loss in waiting:
            loss.see_training_labels(torch.from_numpy(labels), torch.from_numpy(sample_idx))
        asked = ', '.join(sorted({type(loss).__name__ for loss in waiting}))
        print_log(f'Training set, as counted for {asked}: {describe_labels(labels, classes)}', logger='current')

    def after_train_epoch(self, runner: Runner) -> None:
        """Let the losses share what they remember."""
        for loss in losses_of(runner.model):
            loss.synchronize()


def losses_of(model: nn.Module) -> list[MultiLabelLoss]:
    """All losses of this package in a model, those inside of others as well."""
    return [module for module in model.modules() if isinstance(module, MultiLabelLoss)]


def refuse_shared_indices(losses: list[MultiLabelLoss], dataset: BaseDataset) -> None:
    """Refuse a training set in which two images have one ``sample_idx``, for losses that know images by it."""
    names = sorted({type(loss).__name__ for loss in losses if loss.remembers_samples})
    if not names:
        return
    indices = np.asarray([index for index, _ in _data_infos(dataset)])
    found, counts = np.unique(indices, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f'sample_idx must name one image each for {", ".join(names)}, got {found[counts > 1][0]} for '
            f'{counts.max()} images: the parts of a ConcatDataset number their images alike'
        )


def warn_of_iterations(losses: list[MultiLabelLoss], runner: Runner) -> None:
    """Say it when losses that go by epochs train by iterations, where the epoch stays 0."""
    names = sorted({type(loss).__name__ for loss in losses if loss.goes_by_epochs})
    if names and isinstance(runner.train_loop, IterBasedTrainLoop):
        print_log(
            f'{", ".join(names)} goes by epochs, and the training is by iterations, where the epoch stays 0: it will '
            'never begin to correct. Use EpochBasedTrainLoop.',
            logger='current',
            level=logging.WARNING,
        )


def head_classes(model: nn.Module) -> int | None:
    """Number of classes of the first head with a loss of this package, or None."""
    for module in model.modules():
        number = getattr(module, 'num_classes', None)
        if isinstance(number, int) and losses_of(module):
            return number
    return None


def read_training_labels(dataset: BaseDataset, num_classes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The labels of a training set.

    Args:
        dataset: One of MMEngine's kind, whose data infos have ``gt_score`` (C,), or ``gt_label`` with class indices, or
            ``instances`` with ``bbox_label`` as MMDetection has them; or a wrapper around such.
        num_classes: C; not needed beside ``gt_score``.

    Returns:
        Labels (M, C), int8 with 1, 0 and -1, or float32 if some are soft; and the ``sample_idx`` of each image, (M,).
    """
    sample_idx, lengths, indices, scores = [], [], [], {}
    for position, (index, info) in enumerate(_data_infos(dataset)):
        sample_idx.append(index)
        if info.get('gt_score') is not None:
            scores[position] = np.asarray(info['gt_score'], dtype=np.float32)
            present = ()
        else:
            present = _label_indices(info, dataset, position)
        lengths.append(len(present))
        indices.extend(present)
    if num_classes is None and scores:
        num_classes = next(iter(scores.values())).size
    if num_classes is None:
        raise ValueError(
            f"classes must be in the metainfo of {type(dataset).__name__}, or num_classes in the model's head, to "
            'count labels: got neither'
        )
    labels = np.zeros((len(sample_idx), num_classes), dtype=np.int8)
    owners, indices = np.repeat(np.arange(len(labels)), lengths), np.asarray(indices, dtype=np.int64)
    wrong = np.flatnonzero((indices < 0) | (indices >= num_classes))
    if len(wrong):
        raise ValueError(
            f'labels must be class indices from 0 to {num_classes - 1}, got {indices[wrong[0]]} in training image '
            f'{owners[wrong[0]]}'
        )
    labels[owners, indices] = 1
    if scores:
        labels = _with_scores(labels, scores)
    return labels, np.asarray(sample_idx, dtype=np.int64)


def _data_infos(dataset: BaseDataset) -> Iterator[tuple[int, dict]]:
    """Each image of a dataset once, as its ``sample_idx`` and its data info."""
    if isinstance(dataset, ConcatDataset):
        for part in dataset.datasets:
            yield from _data_infos(part)
    elif isinstance(dataset, (RepeatDataset, ClassBalancedDataset)):
        yield from _data_infos(dataset.dataset)
    elif not hasattr(dataset, 'get_data_info'):
        raise ValueError(
            f"TrainingSetHook needs a dataset of MMEngine's kind, with get_data_info, to read labels, got "
            f'{type(dataset).__name__}: give class_frequencies as a list or a json file'
        )
    elif type(dataset).get_data_info is BaseDataset.get_data_info and not dataset.serialize_data:
        # MMEngine would copy every data info deeply, which takes far longer than to read it.
        dataset.full_init()
        yield from enumerate(dataset.data_list)
    else:
        for position in range(len(dataset)):
            info = dataset.get_data_info(position)
            yield info.get('sample_idx', position), info


def _label_indices(info: dict, dataset: BaseDataset, position: int) -> Iterable[int]:
    if info.get('gt_label') is not None:
        labels = info['gt_label']
        return labels if isinstance(labels, list) else np.atleast_1d(labels).tolist()
    if info.get('instances') is not None:
        return [each['bbox_label'] for each in info['instances'] if not each.get('ignore_flag', 0)]
    raise ValueError(
        f'{type(dataset).__name__} must have one of {", ".join(LABEL_KEYS)} for each training image, got none for '
        f'image {position}'
    )


def _with_scores(labels: np.ndarray, scores: dict[int, np.ndarray]) -> np.ndarray:
    """Labels in which the rows that have scores are these."""
    for position, score in scores.items():
        if score.shape != labels.shape[1:]:
            raise ValueError(
                f'gt_score must have one entry for each of the {labels.shape[1]} classes, got the shape {score.shape} '
                f'in training image {position}'
            )
    rows = np.stack(list(scores.values()))
    # Written so that NaN is wrong, too.
    wrong = np.argwhere(~((rows == -1) | ((rows >= 0) & (rows <= 1))))
    if len(wrong):
        row, label = wrong[0]
        raise ValueError(
            f'gt_score must be 1, 0, -1 for unknown, or between 0 and 1, got {rows[row, label]} for class {label} in '
            f'training image {list(scores)[row]}'
        )
    if (rows != rows.round()).any():
        labels = labels.astype(np.float32)
    labels[list(scores)] = rows
    return labels


def describe_labels(labels: np.ndarray, classes: Iterable[str] | None = None) -> str:
    """In one sentence, what the labels (M, C) of a training set are like."""
    counts = labels.clip(min=0).sum(axis=0, dtype=np.float64)
    names = [str(name) for name in classes] if classes else [f'class {number}' for number in range(len(counts))]
    rarest, most_frequent = (
        f'{names[number]} ({_figure(counts[number])})' for number in (counts.argmin(), counts.argmax())
    )
    unknown = int((labels < 0).sum())
    return (
        f'{len(labels):,} images, {_figure(counts.sum())} labels of {len(counts):,} classes, '
        f'{counts.sum() / max(len(labels), 1):.2f} an image; rarest {rarest}, most frequent {most_frequent}'
        + (f'; {unknown:,} labels are unknown' if unknown else '')
    )


def _figure(count: float) -> str:
    return f'{count:,.0f}' if count == round(count) else f'{count:,.1f}'

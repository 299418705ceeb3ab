"""The multi-label head for MMPretrain, and the functions that compute its loss and stack its targets."""

from collections.abc import Sequence
from functools import reduce

import torch
from mmpretrain.models.heads import MultiLabelClsHead
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from ..hosts.mmpretrain import reject_unknown_labels
from ..losses import MultiLabelLoss, SumLoss
from ..losses.core.context import runner_info
from ..registry import MODELS


@MODELS.register_module()
class MultiLabelHead(MultiLabelClsHead):
    """Multi-label classifier on pooled features for MMPretrain, trained by any multi-label loss.

    Probabilities are the sigmoid of the logits, unless the loss defines another map from logits to probabilities (its
    link). Losses of this package get no ``avg_factor``, so that the ``reduction`` of their config is used.

    Args:
        num_classes: Number of classes C.
        in_channels: Number of features from the last stage; give either this or ``classifier``.
        loss: Config of a loss of this package, BCE by default, or of MMPretrain, whose losses take no unknown labels.
        classifier: Module, or its config, that maps features of the last stage to logits (N, C). A linear layer by
            default. Its parameters are always named ``head.fc``.
        thr: Smallest probability of a predicted label; 0.5 if neither ``thr`` nor ``topk`` is given.
        topk: Number of labels to predict, the most probable ones; not used if ``thr`` is given.
        init_cfg: Config of the weight initialisation, by default that of MMPretrain's linear head.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int | None = None,
        loss: dict | nn.Module | None = None,
        classifier: dict | nn.Module | None = None,
        thr: float | None = None,
        topk: int | None = None,
        init_cfg: dict | list | None = None,
    ):
        if (in_channels is None) == (classifier is None):
            raise ValueError(f'give either in_channels or classifier, got {in_channels} and {classifier}')
        super().__init__(
            loss=loss or dict(type='mmml_losses.BCELoss'),
            thr=thr,
            topk=topk,
            init_cfg=init_cfg or dict(type='Normal', layer='Linear', std=0.01),
        )
        self.num_classes = num_classes
        if in_channels is not None:
            classifier = nn.Linear(in_channels, num_classes)
        self.fc = classifier if isinstance(classifier, nn.Module) else MMPRETRAIN_MODELS.build(classifier)

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Return logits (N, C), computed from the last stage of ``feats``, a tuple of features by stage."""
        return self.fc(self.pre_logits(feats))

    def _get_loss(self, cls_score: Tensor, data_samples: list[DataSample], **kwargs) -> dict[str, Tensor]:
        return compute_loss(self.loss_module, cls_score, data_samples, **kwargs)

    def _get_predictions(self, cls_score: Tensor, data_samples: list[DataSample] | None) -> list[DataSample]:
        ours = isinstance(self.loss_module, MultiLabelLoss)
        scores = self.loss_module.probabilities(cls_score) if ours else cls_score.sigmoid()
        data_samples = [DataSample() for _ in scores] if data_samples is None else data_samples
        for sample, score in zip(data_samples, scores, strict=True):
            labels = score.topk(self.topk).indices if self.thr is None else (score >= self.thr).nonzero().flatten()
            sample.set_pred_score(score).set_pred_label(labels)
        return data_samples


def compute_loss(
    loss_module: nn.Module, cls_score: Tensor, data_samples: list[DataSample], **kwargs
) -> dict[str, Tensor]:
    """Return a dict with the ``loss`` to train by and, for the log, each part of a :class:`SumLoss` by its name.

    Args:
        loss_module: A loss of this package or of MMPretrain.
        cls_score: Logits (N, C).
        data_samples: The N samples, with their labels.
        **kwargs: More arguments of the loss, such as ``views``, logits of other augmentations of the images.
    """
    target = stack_targets(data_samples, cls_score.size(1))
    if not isinstance(loss_module, MultiLabelLoss):
        reject_unknown_labels(loss_module, [target])
        return {'loss': loss_module(cls_score, target, avg_factor=len(cls_score), **kwargs)}
    kwargs.update(epoch=runner_info('epoch'), sample_idx=stack_sample_indices(data_samples))
    if isinstance(loss_module, SumLoss):
        parts = loss_module.parts(cls_score, target, **kwargs)
        return {'loss': reduce(torch.add, parts.values()), **{name: part.detach() for name, part in parts.items()}}
    return {'loss': loss_module(cls_score, target, **kwargs)}


def stack_targets(data_samples: Sequence[DataSample], num_classes: int) -> Tensor:
    """Return targets (N, C) float32: each sample's ``gt_score`` or, without it, ones at its ``gt_label`` indices."""
    rows = [
        sample.gt_score.float() if 'gt_score' in sample else _row_of_labels(sample.gt_label, num_classes)
        for sample in data_samples
    ]
    return torch.stack(rows)


def _row_of_labels(labels: Tensor, num_classes: int) -> Tensor:
    if labels.numel() and not (labels.min() >= 0 and labels.max() < num_classes):
        raise ValueError(f'gt_label must be class indices from 0 to {num_classes - 1}, got {labels.tolist()}')
    row = labels.new_zeros(num_classes, dtype=torch.float32)
    row[labels] = 1
    return row


def stack_sample_indices(data_samples: list[DataSample]) -> Tensor | None:
    """Return the samples' indices in their dataset (``sample_idx``) as a tensor (N,), or None if a sample has none."""
    indices = [sample.get('sample_idx') for sample in data_samples]
    return None if None in indices else torch.as_tensor(indices)

"""The multi-label head for MMPretrain."""

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
    """A classifier on pooled features, trained by any multi-label loss, with probabilities through the loss's link.

    Unlike MMPretrain's heads it passes no ``avg_factor`` to losses of this package, so that the ``reduction`` of the
    config is used.

    Args:
        num_classes: Number of labels.
        in_channels: Width of the features of the last stage. Not needed with ``classifier``.
        loss: Config of a loss of this package, BCE by default, or of a loss of MMPretrain, which cannot take unknown
            labels.
        classifier: A module from the features of the last stage to (N, ``num_classes``) logits, or its config. A
            linear layer by default. Its parameters are called ``head.fc`` in any case.
        thr: Smallest probability of a label that is predicted. 0.5 by default.
        topk: Number of labels that are predicted, the most probable ones; only without ``thr``.
        init_cfg: Initialisation, by default as in MMPretrain's linear head.
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
        """Compute logits (N, C) from the features of the last stage."""
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
    """Compute the loss of logits (N, C) as ``loss``, and the parts of a :class:`SumLoss` by name, for the log.

    Args:
        loss_module: A loss of this package or of MMPretrain.
        cls_score: (N, C).
        data_samples: The N samples, with their labels.
        **kwargs: More arguments of the loss, such as ``views``.
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
    """Stack targets (N, C) from the scores of the samples, or from the label indices of samples without scores."""
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
    """Stack the positions of the samples in their dataset, or return None if the pipeline does not pack them."""
    indices = [sample.get('sample_idx') for sample in data_samples]
    return None if None in indices else torch.as_tensor(indices)

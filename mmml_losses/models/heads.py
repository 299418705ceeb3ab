"""The multi-label head for MMPretrain, and the link for MMPretrain's own heads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import wraps

import torch
from mmpretrain.models.heads import MultiLabelClsHead
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from ..losses import MultiLabelLoss, SumLoss
from ..losses.core.context import runner_info
from ..registry import MODELS


@MODELS.register_module()
class MultiLabelHead(MultiLabelClsHead):
    """A classifier on pooled features, trained by any multi-label loss and read through that loss's link.

    Unlike MMPretrain's heads it passes no ``avg_factor`` to losses of this package: their ``reduction`` is what the
    config says.

    Args:
        num_classes: Number of labels.
        in_channels: Width of the features of the last stage. Not needed with ``classifier``.
        loss: Config of a loss of this package, BCE by default, or of one of MMPretrain's, which then must not meet
            unknown labels.
        classifier: A module from the features of the last stage to (N, ``num_classes``) logits, or its config. A
            linear layer by default. Whatever it is, its parameters are ``head.fc``.
        thr: A label is predicted where its probability reaches it. 0.5 by default.
        topk: Without ``thr``: so many most probable labels are predicted.
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
        classifier = nn.Linear(in_channels, num_classes) if classifier is None else classifier
        self.fc = classifier if isinstance(classifier, nn.Module) else MMPRETRAIN_MODELS.build(classifier)

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Logits (N, C) from the features of the last stage."""
        return self.fc(self.pre_logits(feats))

    def _get_loss(self, cls_score: Tensor, data_samples: list[DataSample], **kwargs) -> dict[str, Tensor]:
        return compute_loss(self.loss_module, cls_score, data_samples, **kwargs)


def compute_loss(
    loss_module: nn.Module, cls_score: Tensor, data_samples: list[DataSample], **kwargs
) -> dict[str, Tensor]:
    """The loss of logits (N, C) as ``loss``, and the parts of a :class:`SumLoss` by name, for the log.

    Args:
        loss_module: A loss of this package, or one of MMPretrain's.
        cls_score: (N, C).
        data_samples: The N samples, with their labels.
        **kwargs: More for the loss, such as ``views``.
    """
    target = stack_targets(data_samples, cls_score.size(1))
    if not isinstance(loss_module, MultiLabelLoss):
        _refuse_unknown_labels(loss_module, [target])
        return {'loss': loss_module(cls_score, target, avg_factor=len(cls_score), **kwargs)}
    kwargs.update(epoch=runner_info('epoch'), sample_idx=stack_sample_indices(data_samples))
    if isinstance(loss_module, SumLoss):
        parts = loss_module.parts(cls_score, target, **kwargs)
        return {'loss': sum(parts.values()), **{name: part.detach() for name, part in parts.items()}}
    return {'loss': loss_module(cls_score, target, **kwargs)}


def stack_targets(data_samples: list[DataSample], num_classes: int) -> Tensor:
    """Targets (N, C): of each sample its scores where it has them, and otherwise its label indices."""
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
    """Positions of the samples in their dataset, or None where the pipeline does not pack them."""
    indices = [sample.get('sample_idx') for sample in data_samples]
    return None if None in indices else torch.as_tensor(indices)


def _refuse_unknown_labels(loss: nn.Module, targets: Iterable[Tensor]) -> None:
    if any((target < 0).any() for target in targets):
        raise ValueError(
            f'{type(loss).__name__} does not know unknown labels (-1): use a loss of mmml_losses, or a dataset without '
            'them'
        )


def _keep_unknown_labels_away(get_loss):
    """Make a head refuse unknown labels, unless its loss is one of ours."""

    @wraps(get_loss)
    def checked(self, cls_score, data_samples, **kwargs):
        if not isinstance(self.loss_module, MultiLabelLoss):
            _refuse_unknown_labels(self.loss_module, (each.gt_score for each in data_samples if 'gt_score' in each))
        return get_loss(self, cls_score, data_samples, **kwargs)

    return checked


def _ask_the_loss(get_predictions):
    """Make a head read its logits through the link of its loss, where that loss has one."""

    @wraps(get_predictions)
    def through_link(self, cls_score, data_samples):
        if isinstance(self.loss_module, MultiLabelLoss):
            # The head goes on to take the sigmoid, which turns log-odds into the probabilities of the link.
            cls_score = self.loss_module.logit_probabilities(cls_score)
        return get_predictions(self, cls_score, data_samples)

    return through_link


# MMPretrain's multi-label heads (1.0 to 1.3) spell the sigmoid when they predict. With a loss of ours that would be
# silently wrong for every link but one, so they ask the loss; with any other loss they do what they always did.
MultiLabelClsHead._get_predictions = _ask_the_loss(MultiLabelClsHead._get_predictions)
# Their own losses take -1 for a number like any other, and fall without bound where it stands.
MultiLabelClsHead._get_loss = _keep_unknown_labels_away(MultiLabelClsHead._get_loss)

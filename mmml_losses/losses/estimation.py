"""How many labels are positive, and which: expected positives (EPR) and estimated labels (ROLE)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .. import functional as F
from ..functional.estimation import role_values
from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .core.context import require_sample_idx
from .core.inputs import count_known
from .core.memory import fingerprint_rows
from .core.reduction import Values
from .links import SigmoidLink
from .pointwise import PairLoss

# The estimates start between the probabilities 0.4 and 0.6, and those of observed positives at 0.995.
_LARGEST_START = math.log(0.6 / 0.4)
_OBSERVED_START = math.log(0.995 / 0.005)


@LOSSES.register_module()
class ExpectedPositiveRegularizer(MultiLabelLoss):
    """Holds the predicted number of positives at the expected one (Cole et al., 2021).

    The penalty is one number for the batch (see
    :func:`mmml_losses.functional.expected_positive_regularizer`), and every sample has it as its
    value: ``'mean'`` is the penalty itself, ``'sum'`` the penalty times the number of samples, and ``avg_factor``
    divides that sum. Unknown labels, and labels of weight 0, are left out of the count of positives; other weights must
    be the same for all labels of a sample.

    It reads the logits through a link, as :class:`LabelPairRegularizer` does.

    Args:
        expected_positives: The expected number of positive labels of a sample.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    pointwise = False

    def __init__(self, expected_positives: float, **kwargs):
        if expected_positives < 0:
            raise ValueError(f'expected_positives must be at least 0, got {expected_positives}')
        super().__init__(**kwargs)
        self.expected_positives = expected_positives

    def parts_of(self, logits: Tensor, target: Tensor, weight: Tensor | None, **kwargs) -> list[Values]:
        # As (N, C), so that samples of weight 0 leave the count of positives, too.
        return super().parts_of(logits, target, None if weight is None else weight.expand_as(target), **kwargs)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        penalty = F.expected_positive_regularizer(self.link(logits), self.expected_positives, target)
        return penalty * (target >= 0).any(dim=1)


@LOSSES.register_module()
class EPRLoss(PairLoss):
    """Expected positive regularisation, EPR (Cole et al., 2021): observed positives pay BCE, unobserved labels nothing,
    and :class:`ExpectedPositiveRegularizer` holds their number.

    With ``'mean'`` it is the authors' code: the mean over all known labels plus the regulariser. With
    ``avg_factor`` the number of samples it is the paper's formula: the sum over the labels of a sample, averaged over
    samples, plus the regulariser. ``'none'`` is not defined, and weights are as in the regulariser.

    Args:
        expected_positives: The expected number of positive labels of a sample.
        regularizer_weight: Factor of the regulariser, the paper's lambda.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    def __init__(self, expected_positives: float, regularizer_weight: float = 1.0, **kwargs):
        super().__init__(positive='bce', negative=F.nothing, **kwargs)
        self.regularizer = ExpectedPositiveRegularizer(expected_positives, link=SigmoidLink())
        self.regularizer_weight = regularizer_weight

    def parts_of(self, logits: Tensor, target: Tensor, weight: Tensor | None, **kwargs) -> list[Values]:
        (penalty,) = self.regularizer.parts_of(logits, target, weight)
        return [*super().parts_of(logits, target, weight, **kwargs), _scaled(penalty, self.regularizer_weight)]


@LOSSES.register_module()
class ROLELoss(MultiLabelLoss):
    """Regularised online label estimation, ROLE (Cole et al., 2021).

    A logit for every label of every training sample estimates the labels, and trains together with the model (see
    :func:`mmml_losses.functional.role_loss`). The estimates are the parameter ``label_estimator`` of
    the loss: in the checkpoint, in the optimiser and, in a distributed training, kept equal by DDP. The authors train
    them with ten times the learning rate; weight decay would pull them towards 0.5::

        optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0))))

    The loss needs ``sample_idx``, and the labels of the training set before the first call, from which it knows where
    the observed positives are: ``TrainingSetHook`` hands them over. It refuses a sample that comes with other labels
    than it had then.

    The values are averaged over the known labels, and the regulariser is added as in :class:`EPRLoss`.

    Args:
        num_samples: Number of samples of the training set.
        num_classes: Number of labels.
        expected_positives: The expected number of positive labels of a sample.
        regularizer_weight: Factor of the regulariser.
        seed: Of the first estimates, which are the same in all processes.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    remembers_samples = True

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        expected_positives: float,
        regularizer_weight: float = 1.0,
        seed: int = 0,
        **kwargs,
    ):
        if num_samples < 1 or num_classes < 1:
            raise ValueError(f'num_samples and num_classes must be at least 1, got {num_samples} and {num_classes}')
        super().__init__(**kwargs)
        self.num_samples = num_samples
        self.num_classes = num_classes
        self.regularizer = ExpectedPositiveRegularizer(expected_positives, link=SigmoidLink())
        self.regularizer_weight = regularizer_weight
        uniform = torch.rand(num_samples, num_classes, generator=torch.Generator().manual_seed(seed))
        self.label_estimator = nn.Parameter((2 * uniform - 1) * _LARGEST_START)
        self.register_buffer('fingerprints', torch.zeros(num_samples, dtype=torch.int64))

    @property
    def wants_training_labels(self) -> bool:
        return not self.fingerprints.any()

    @torch.no_grad()
    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        """Start the estimates of observed positives near 1, unless a checkpoint has brought estimates.

        Args:
            labels: (M, C), with 1 positive, 0 unobserved, -1 unknown, or soft.
            sample_idx: (M,), by which the samples are named in :meth:`forward`.
        """
        if not self.wants_training_labels:
            return
        if labels.dim() != 2 or labels.size(1) != self.num_classes:
            raise ValueError(f'labels must be of shape (M, {self.num_classes}), got {tuple(labels.shape)}')
        device = self.label_estimator.device
        indices = self._rows(sample_idx, len(labels))
        labels = labels.to(device)
        fingerprints = fingerprint_rows(labels)
        self.fingerprints[indices] = fingerprints
        if (self.fingerprints[indices] != fingerprints).any():
            self.fingerprints.zero_()
            raise ValueError(
                'sample_idx must name one sample each, got samples of different labels under one index: indices repeat '
                'in a ConcatDataset, and ROLELoss cannot tell its samples apart'
            )
        positive = torch.zeros_like(self.label_estimator, dtype=torch.bool)
        positive[indices] = labels == 1
        self.label_estimator.masked_fill_(positive, _OBSERVED_START)

    def corrected_targets(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        """The estimated probabilities of the labels of samples, (N, C); unknown labels stay unknown.

        Args:
            logits: (N, C); not used.
            target: (N, C).
            epoch: Not used.
            sample_idx: (N,).
            **kwargs: Ignored.
        """
        estimates = self._estimates(sample_idx, target).detach().sigmoid().to(target)
        return estimates.masked_fill(target < 0, -1)

    def parts_of(
        self, logits: Tensor, target: Tensor, weight: Tensor | None, sample_idx: Tensor | None = None, **kwargs
    ) -> list[Values]:
        estimates = self._estimates(sample_idx, target).to(logits)
        values = role_values(logits, target, estimates)
        parts = [Values(values if weight is None else values * weight, count_known(target))]
        for estimate in (logits, estimates):
            (penalty,) = self.regularizer.parts_of(estimate, target, weight)
            parts.append(_scaled(penalty, self.regularizer_weight / 2))
        return parts

    def _estimates(self, sample_idx: Tensor | None, target: Tensor) -> Tensor:
        indices = self._rows(sample_idx, len(target))
        differs = self.fingerprints[indices] != fingerprint_rows(target).to(indices.device)
        if differs.any():
            if self.wants_training_labels:
                raise RuntimeError(
                    "ROLELoss must see the labels of the training set first: add dict(type='mmml_losses."
                    "TrainingSetHook') to custom_hooks, or call see_training_labels(labels, sample_idx) of the loss"
                )
            raise ValueError(
                'sample_idx must name one sample for good, got other labels for '
                f'{indices[differs][0].item()} than in the training set: ROLELoss estimates the labels of the samples '
                'it has seen, and augmentations that change labels (mixup, CutMix) cannot be used'
            )
        return self.label_estimator[indices]

    def _rows(self, sample_idx: Tensor | None, count: int) -> Tensor:
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, count)
        if sample_idx.numel():
            lowest, highest = (bound.item() for bound in sample_idx.aminmax())
            if lowest < 0 or highest >= self.num_samples:
                raise ValueError(
                    f'sample_idx must be from 0 to {self.num_samples - 1}, the samples that ROLELoss was told of by '
                    f'num_samples, got {lowest} to {highest}'
                )
        return sample_idx.to(self.label_estimator.device)


def _scaled(part: Values, factor: float) -> Values:
    return part._replace(values=part.values * factor)

"""Losses that do not take unobserved labels (0) as negative: EM, EM + APL, EPR and ROLE."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .. import functional as F
from ..functional.estimation import epr_values, lowest_per_class, pseudo_negative_counts, role_values
from ..registry import LOSSES
from ..utils.arguments import check_choice
from .core.base import FunctionLoss, MultiLabelLoss
from .core.context import require_sample_idx, resolve
from .core.inputs import count_known
from .core.memory import SampleMemory, fingerprint_rows
from .core.reduction import Values, rescaling
from .links import SigmoidLink
from .regularizers import ExpectedPositiveRegularizer

_LARGEST_LOG_ODDS = 1e4  # half precision can hold it, and minus infinity stays free for "none"
READINGS = ('code', 'paper')

# The estimates of ROLE start between the probabilities 0.4 and 0.6, and those of observed positives at 0.995.
_LARGEST_START = math.log(0.6 / 0.4)
_OBSERVED_START = math.log(0.995 / 0.005)


@LOSSES.register_module()
class EMLoss(FunctionLoss):
    """EM, entropy maximisation (Zhou et al., 2022).

    A positive label costs BCE. An unobserved label (0) costs minus its entropy, so the loss may be negative.

    Args:
        alpha: Weight of the entropy.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.em_loss)
    negative_term = F.entropy_negative


@LOSSES.register_module()
class EMAPLLoss(FunctionLoss):
    """EM + APL, entropy maximisation with asymmetric pseudo-labelling (Zhou et al., 2022).

    The first epochs (warm-up) are :class:`EMLoss`. At the start of each later epoch, in each class, the unobserved
    labels (0) with the lowest probabilities in the previous epoch become pseudo-negatives, in addition to the earlier
    ones. Their number grows evenly until the last epoch reaches ``negative_share``. A pseudo-negative costs BCE against
    that probability, its soft label for the rest of the training. Other labels cost as in :class:`EMLoss`.

    The loss needs ``sample_idx``. For each label of the training set it stores two log-odds of two bytes: the latest
    prediction and, of a pseudo-negative, the soft label. The checkpoint has both. If a sample occurs several times in
    an epoch, its largest probabilities count. In evaluation mode the loss reads what it stored and does not write.

    Args:
        alpha: Weight of the entropy.
        beta: Weight of the pseudo-negatives.
        negative_share: Fraction of the unobserved labels of each class that are pseudo-negatives in the last epoch.
        warmup_epochs: Number of epochs without pseudo-negatives, below ``max_epochs``.
        max_epochs: Number of training epochs; None for that of the running Runner.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    goes_by_epochs = True
    remembers_samples = True
    function = staticmethod(F.em_apl_loss)

    def __init__(
        self, *values, negative_share: float = 0.9, warmup_epochs: int = 5, max_epochs: int | None = None, **kwargs
    ):
        if not 0 <= negative_share <= 1:
            raise ValueError(f'negative_share must be in [0, 1], got {negative_share}')
        if warmup_epochs < 0:
            raise ValueError(f'warmup_epochs must be at least 0, got {warmup_epochs}')
        super().__init__(*values, **kwargs)
        self.negative_share = negative_share
        self.warmup_epochs = warmup_epochs
        self.max_epochs = max_epochs
        # Log-odds instead of probabilities: in half precision they still rank the labels that are surely negative.
        self.predictions = SampleMemory(type(self).__name__, torch.float16, -math.inf)
        self.pseudo_negatives = SampleMemory(type(self).__name__, torch.float16, -math.inf)

    def check_settings(self, **inputs: Any) -> None:
        super().check_settings(pseudo_negatives=torch.zeros(1, 2))

    def synchronize(self) -> None:
        self.predictions.synchronize()
        self.pseudo_negatives.synchronize()

    def corrected_targets(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        """Return a copy of ``target`` with soft labels at pseudo-negatives, -1 (unknown) at other unobserved labels.

        Args:
            logits: Not used.
            target: (N, C) with 1 positive, 0 unobserved.
            epoch: Not used.
            sample_idx: Indices of the samples in the training set, (N,).
            **kwargs: Not used.
        """
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
        self.pseudo_negatives.visit(sample_idx, target, remember=False)
        return torch.where(target == 0, self._soft_labels(sample_idx, target), target)

    def values(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
        if self.training:
            self._train(logits.detach(), target, resolve('epoch', epoch, type(self).__name__), sample_idx)
        else:
            self.pseudo_negatives.visit(sample_idx, target, remember=False)
        return self.function(logits, target, self._soft_labels(sample_idx, target), **self.settings)

    def _train(self, logits: Tensor, target: Tensor, epoch: int, sample_idx: Tensor) -> None:
        max_epochs = resolve('max_epochs', self.max_epochs, type(self).__name__)
        if self.warmup_epochs >= max_epochs:
            raise ValueError(
                f'warmup_epochs must be below the {max_epochs} epochs of the training, got {self.warmup_epochs}'
            )
        if self.pseudo_negatives.visit(sample_idx, target, epoch):
            self._add_pseudo_negatives(epoch, max_epochs)
        if epoch + 1 >= self.warmup_epochs:
            log_odds = logits.clamp(-_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)
            self.predictions.write(sample_idx, log_odds.masked_fill(target != 0, -math.inf))

    def _soft_labels(self, sample_idx: Tensor, target: Tensor) -> Tensor:
        """Return the stored soft labels of pseudo-negatives, and -1 at all other labels, (N, C) as ``target``."""
        log_odds = self.pseudo_negatives.read(sample_idx, target.size(1)).to(target)
        return log_odds.sigmoid().masked_fill(log_odds.isneginf(), -1)

    def _add_pseudo_negatives(self, epoch: int, max_epochs: int) -> None:
        predictions = self.predictions.rows()
        if epoch >= self.warmup_epochs and len(predictions):
            present = ~self.pseudo_negatives.rows()[: len(predictions)].isneginf()
            candidates = ~predictions.isneginf() & ~present
            already = present.sum(dim=0)
            unobserved = already + candidates.sum(dim=0)
            wanted = pseudo_negative_counts(unobserved, self.negative_share, epoch, self.warmup_epochs, max_epochs)
            found = lowest_per_class(predictions, candidates, (wanted - already).clamp(min=0))
            everything = torch.arange(len(predictions), device=predictions.device)
            self.pseudo_negatives.write(everything, predictions.masked_fill(~found, -math.inf))
        self.predictions.clear()


@LOSSES.register_module()
class EPRLoss(FunctionLoss):
    """EPR, expected positive regularisation (Cole et al., 2021).

    An observed positive costs BCE, an unobserved label (0) nothing. :class:`ExpectedPositiveRegularizer` is added: it
    keeps the predicted number of positives near the expected one.

    ``'mean'`` is the loss of the authors' code; ``'batchmean'`` with ``reading='paper'`` is the formula of the paper.
    Every reduction keeps the proportion of costs and regulariser. ``'none'`` is an error. All weights of a sample must
    be equal or 0.

    Args:
        expected_positives: The expected number of positive labels of a sample.
        regularizer_weight: Factor of the regulariser, the paper's lambda.
        reading: ``'code'`` adds the regulariser to the mean of the costs over all labels, as the authors' code does.
            ``'paper'`` adds it to the costs of a sample's labels, as the papers of EPR and LASD print it: the
            regulariser then weighs less by the number of labels.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(epr_values)
    negative_term = F.nothing

    def __init__(self, expected_positives: float, regularizer_weight: float = 1.0, reading: str = 'code', **kwargs):
        check_choice('reading', reading, READINGS)
        super().__init__(**kwargs)
        self.reading = reading
        self.regularizer = ExpectedPositiveRegularizer(expected_positives, link=SigmoidLink())
        self.regularizer_weight = regularizer_weight

    def parts_of(self, logits: Tensor, target: Tensor, weight: Tensor | None, **kwargs) -> list[Values]:
        costs = super().parts_of(logits, target, weight, **kwargs)
        (penalty,) = self.regularizer.parts_of(logits, target, weight)
        return [*costs, beside_labels(penalty, self.regularizer_weight, target, self.reading)]


def beside_labels(penalty: Values, factor: float, target: Tensor, reading: str) -> Values:
    """Return a penalty with one value per sample as a part that is reduced like costs of labels, (N, C).

    By ``'code'``, the mean of the part is ``factor`` times the penalty; by ``'paper'``, it is divided by the number of
    known labels of a sample.
    """
    weighted = factor * penalty.values
    if reading == 'code':
        weighted = weighted * rescaling('labelmean', 'batchmean', True, target)
    return Values(weighted, count_known(target))


@LOSSES.register_module()
class ROLELoss(MultiLabelLoss):
    """ROLE, regularised online label estimation (Cole et al., 2021).

    For each label of each training sample the loss has one trainable logit, an estimate of the label. Estimates and
    model train each other (see :func:`mmml_losses.functional.role_loss`). The estimates are the parameter
    ``label_estimator`` of the loss: saved in checkpoints, updated by the optimiser, and synchronised by DDP. The
    authors give them ten times the learning rate. Weight decay would pull them towards 0.5::

        optim_wrapper = dict(paramwise_cfg=dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0))))

    The loss needs ``sample_idx``. Before the first call it also needs the labels of the training set, to know the
    observed positives; ``TrainingSetHook`` passes them. A sample whose labels differ from those raises an error.

    :class:`EPRLoss`'s regulariser is added: half for predictions, half for estimates. See there for the reductions.

    Args:
        num_samples: Number of samples of the training set.
        num_classes: Number of classes.
        expected_positives: The expected number of positive labels of a sample.
        regularizer_weight: Factor of the regulariser.
        reading: ``'code'`` or ``'paper'``, how the regulariser is added, see :class:`EPRLoss`.
        seed: Random seed of the initial estimates (0.4 to 0.6), which are equal in all processes.
        **kwargs: The arguments of :class:`MultiLabelLoss`; ``reduction='none'`` is an error.
    """

    remembers_samples = True

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        expected_positives: float,
        regularizer_weight: float = 1.0,
        seed: int = 0,
        reading: str = 'code',
        **kwargs,
    ):
        check_choice('reading', reading, READINGS)
        if num_samples < 1 or num_classes < 1:
            raise ValueError(f'num_samples and num_classes must be at least 1, got {num_samples} and {num_classes}')
        super().__init__(**kwargs)
        self.num_samples = num_samples
        self.num_classes = num_classes
        self.reading = reading
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
        """Set the estimates of observed positives to 0.995, unless an earlier call or a checkpoint has set them.

        Args:
            labels: Labels of the training set, (M, C), with 1 positive, 0 unobserved, -1 unknown, or soft.
            sample_idx: Index of each sample, (M,), the ``sample_idx`` of calls of the loss.
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
        """Return the estimates (probabilities) of all known labels, observed or not, and -1 at unknown ones, (N, C).

        Args:
            logits: Not used.
            target: Labels of the samples, (N, C), with -1 unknown.
            epoch: Not used.
            sample_idx: Indices of the samples in the training set, (N,).
            **kwargs: Not used.
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
            parts.append(beside_labels(penalty, self.regularizer_weight / 2, target, self.reading))
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

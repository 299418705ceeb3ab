"""Losses that reject unobserved labels of large loss, or take them as positive (Kim et al., 2022)."""

from typing import Any

import torch
from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from ..utils.arguments import check_ratio
from .core.context import require_sample_idx, resolve_epoch
from .core.memory import SampleMemory
from .pointwise import PairLoss

RELATIVE_INCREASE = 0.002


class LargeLoss(PairLoss):
    """Base of the losses that treat the unobserved labels of the largest loss in a batch in another way.

    Args:
        relative_increase: By how much their share grows each epoch, relative to all labels of the batch.
        clean_rate: Fixes the share of the other labels instead, whatever the epoch.
        **kwargs: The terms of :class:`PairLoss`, and the arguments of :class:`MultiLabelLoss`.
    """

    goes_by_epochs = True
    looks_across_samples = True

    def __init__(
        self, relative_increase: float = RELATIVE_INCREASE, clean_rate: float | None = None, *values, **kwargs
    ):
        check_ratio('relative_increase', relative_increase)
        if clean_rate is not None:
            check_ratio('clean_rate', clean_rate)
        super().__init__(*values, **kwargs)
        self.relative_increase = relative_increase
        self.clean_rate = clean_rate

    def check_settings(self, **inputs: Any) -> None:
        super().check_settings(clean_rate=1.0)

    def large_losses(self, logits: Tensor, target: Tensor, epoch: int | None) -> Tensor:
        """Return the mask (N, C) of the labels of a batch that have the largest loss."""
        return F.large_losses(logits, target, 1 - self.clean_rate_of(epoch), self.settings['negative'])

    def clean_rate_of(self, epoch: int | None) -> float:
        """Return the share of labels that is trusted in an epoch."""
        if self.clean_rate is not None:
            return self.clean_rate
        return F.clean_rate_of(resolve_epoch(epoch, type(self).__name__), self.relative_increase)


@LOSSES.register_module()
class LargeLossRejection(LargeLoss):
    """Large loss rejection, LL-R: the largest losses of unobserved labels of a batch count as 0.

    Their number grows from epoch to epoch (see :mod:`mmml_losses.functional.large_loss`); the first epoch is plain
    training. ``'mean'`` counts the rejected labels, as the authors' code does.

    Args:
        relative_increase: By how much the share of rejected labels grows each epoch, relative to all labels of the
            batch: 0.002 for 0.2 per cent.
        clean_rate: Fixes the share of labels that is kept instead, whatever the epoch.
        positive: The term of positive labels, as in :class:`PairLoss`.
        negative: The term of unobserved labels. The largest losses are those of this term.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.large_loss_rejection)

    def rejected(self, logits: Tensor, target: Tensor, epoch: int | None = None, **kwargs) -> Tensor:
        """Return the mask (N, C) of the labels of a batch that are left out in an epoch, by default the Runner's."""
        return self.large_losses(logits, target, epoch)

    def values(self, logits: Tensor, target: Tensor, epoch: int | None = None, **kwargs) -> Tensor:
        return self.function(logits, target, self.clean_rate_of(epoch), **self.settings)


@LOSSES.register_module()
class LargeLossCorrection(LargeLoss):
    """Large loss correction, LL-Ct and LL-Cp: the unobserved labels of the largest loss become positive.

    A temporary correction is valid for one batch, and the number of corrected labels grows from epoch to epoch. A
    permanent correction remains: every batch after the first epoch corrects a constant number of labels. It needs
    ``sample_idx``, takes a byte of memory for each label of the training set, and saves it in the checkpoint. In
    evaluation mode it reads its memory and does not write.

    Args:
        relative_increase: By how much the share of corrected labels grows, relative to all labels of the batch: each
            epoch, or each batch of a permanent correction.
        permanent: Whether corrections stay (LL-Cp) or not (LL-Ct).
        clean_rate: Fixes the share of labels that is kept instead, whatever the epoch. A permanent correction only
            looks at whether it is below 1.
        positive: The term of positive and of corrected labels, as in :class:`PairLoss`.
        negative: The term of unobserved labels. The largest losses are those of this term.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.large_loss_correction)

    def __init__(
        self,
        relative_increase: float = RELATIVE_INCREASE,
        permanent: bool = False,
        clean_rate: float | None = None,
        *values,
        **kwargs,
    ):
        super().__init__(relative_increase, clean_rate, *values, **kwargs)
        self.permanent = permanent
        self.memory = SampleMemory(type(self).__name__, torch.uint8) if permanent else None

    @property
    def remembers_samples(self) -> bool:  # type: ignore[override]
        """Whether the loss keeps something for every sample, so that processes must share it."""
        return self.memory is not None

    def synchronize(self) -> None:
        if self.memory is not None:
            self.memory.synchronize()

    def corrected_targets(
        self,
        logits: Tensor,
        target: Tensor,
        epoch: int | None = None,
        sample_idx: Tensor | None = None,
        **kwargs,
    ) -> Tensor:
        """Return the corrected targets: 1 where an unobserved label is corrected.

        A permanent correction returns what it remembers, and does not compare losses.

        Args:
            logits: (N, C).
            target: (N, C).
            epoch: Counted from 0; by default that of the running Runner.
            sample_idx: (N,), for a permanent correction.
            **kwargs: Ignored.
        """
        if self.memory is not None:
            sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
            self.memory.visit(sample_idx, target, remember=False)
            return target.masked_fill(self._remembered(sample_idx, target) & (target == 0), 1)
        return target.masked_fill(
            F.large_losses(logits, target, 1 - self.clean_rate_of(epoch), self.settings['negative']), 1
        )

    def values(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        if self.memory is None:
            return self.function(logits, target, self.clean_rate_of(epoch), **self.settings)
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
        if self.clean_rate is None:
            epoch = resolve_epoch(epoch, type(self).__name__)
        self.memory.visit(sample_idx, target, epoch, remember=self.training)
        values, corrected = F.large_loss_permanent_correction(
            logits,
            target,
            self.relative_increase if self.clean_rate_of(epoch) < 1 else 0.0,
            self._remembered(sample_idx, target),
            **self.settings,
        )
        if self.training:
            self.memory.write(sample_idx, corrected)
        return values

    def _remembered(self, sample_idx: Tensor, target: Tensor) -> Tensor:
        assert self.memory is not None
        return self.memory.read(sample_idx, target.size(1)).to(target.device) > 0

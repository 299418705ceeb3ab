"""LL-R, LL-Ct, LL-Cp: losses that reject or correct the unobserved labels of large loss (Kim et al., 2022)."""

from typing import Any

import torch
from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from ..utils.arguments import check_ratio
from .core.context import require_sample_idx, resolve
from .core.memory import SampleMemory
from .pointwise import PairLoss

RELATIVE_INCREASE = 0.002


class LargeLoss(PairLoss):
    """Base of the losses that reject or correct the unobserved labels (0) with the largest losses of a batch.

    Args:
        relative_increase: By how much the fraction of large losses among known labels grows per epoch; 0.002 is 0.2 %.
        clean_rate: Fraction of labels that are no large losses, in every epoch; None to use ``relative_increase``.
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
        """Return a mask (N, C) of the unobserved labels of largest loss.

        They are 1 - ``clean_rate_of(epoch)`` of all known labels, see :func:`mmml_losses.functional.large_losses`.
        """
        return F.large_losses(logits, target, 1 - self.clean_rate_of(epoch), self.settings['negative'])

    def clean_rate_of(self, epoch: int | None) -> float:
        """Return the fraction of known labels not to reject or correct in ``epoch``; None is the Runner's epoch."""
        if self.clean_rate is not None:
            return self.clean_rate
        return F.clean_rate_of(resolve('epoch', epoch, type(self).__name__), self.relative_increase)


@LOSSES.register_module()
class LargeLossRejection(LargeLoss):
    """LL-R, large loss rejection: the unobserved labels (0) with the largest losses of a batch cost 0.

    Their number grows from epoch to epoch (see :mod:`mmml_losses.functional.large_loss`). The first epoch rejects none.
    ``'mean'`` divides by all known labels, the rejected ones included, as the authors' code does.

    Args:
        relative_increase: By how much the rejected fraction of known labels in a batch grows per epoch; 0.002 is 0.2 %.
        clean_rate: Fraction of labels that are not rejected, in every epoch. None to follow ``relative_increase``.
        positive: Cost of a positive label, a term as in :class:`PairLoss`.
        negative: Cost of an unobserved label, a term. It also decides which losses are the largest.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.large_loss_rejection)

    def rejected(self, logits: Tensor, target: Tensor, epoch: int | None = None, **kwargs) -> Tensor:
        """Return a boolean mask (N, C) of the labels that are rejected in ``epoch``; None is the Runner's epoch."""
        return self.large_losses(logits, target, epoch)

    def values(self, logits: Tensor, target: Tensor, epoch: int | None = None, **kwargs) -> Tensor:
        return self.function(logits, target, self.clean_rate_of(epoch), **self.settings)


@LOSSES.register_module()
class LargeLossCorrection(LargeLoss):
    """LL-Ct, LL-Cp, large loss correction: the unobserved labels (0) with the largest losses become positive.

    A temporary correction (LL-Ct) is valid for one batch. The number of corrected labels grows from epoch to epoch. A
    permanent correction (LL-Cp) remains: every batch after the first epoch corrects the same number of further labels.
    It needs ``sample_idx`` and stores a byte for each label of the training set, also in the checkpoint. In evaluation
    mode it reads these corrections and stores no new ones.

    Args:
        relative_increase: By how much the corrected fraction of the known labels of a batch grows each epoch. If
            permanent: the fraction of known labels of each batch that is newly corrected.
        permanent: Whether corrections stay (LL-Cp) or not (LL-Ct).
        clean_rate: Fraction of labels that are not corrected, in every epoch; None to follow ``relative_increase``. If
            permanent: 1 corrects nothing; any lower value makes the first epoch correct labels as well.
        positive: Cost of a positive or corrected label, a term as in :class:`PairLoss`.
        negative: Cost of an unobserved label, a term. It also decides which losses are the largest.
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
        """Whether the loss stores corrections for every sample, which processes must share: True if ``permanent``."""
        return self.memory is not None

    def synchronize(self) -> None:
        if self.memory is not None:
            self.memory.synchronize()

    def corrected_targets(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        """Return a copy of ``target`` (N, C) with 1 at corrected labels.

        A permanent correction uses the stored corrections of earlier batches only, and not ``logits``.

        Args:
            logits: (N, C).
            target: (N, C) with 1 positive, 0 unobserved, -1 unknown.
            epoch: Counted from 0; None for that of the running Runner. Not used by a permanent correction.
            sample_idx: Indices of the samples in the training set, (N,). Only for a permanent correction.
            **kwargs: Ignored.
        """
        if self.memory is not None:
            sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
            self.memory.visit(sample_idx, target, remember=False)
            return target.masked_fill(self._remembered(sample_idx, target) & (target == 0), 1)
        return target.masked_fill(self.large_losses(logits, target, epoch), 1)

    def values(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        if self.memory is None:
            return self.function(logits, target, self.clean_rate_of(epoch), **self.settings)
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
        if self.clean_rate is None:
            epoch = resolve('epoch', epoch, type(self).__name__)
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

"""Unobserved labels left to entropy, and those that turn out negative (Zhou et al., 2022)."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from .. import functional as F
from ..functional.estimation import lowest_per_class, pseudo_negative_counts
from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .core.context import require_sample_idx, resolve_epoch, resolve_max_epochs
from .core.memory import SampleMemory
from .pointwise import PairLoss

_LARGEST_LOG_ODDS = 1e4  # half precision can hold it, and minus infinity stays free for "none"


@LOSSES.register_module()
class EMLoss(PairLoss):
    """Entropy maximisation, EM (Zhou et al., 2022): positives pay BCE, unobserved labels minus their entropy.

    The loss may be negative.

    Args:
        alpha: Weight of the entropy.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    def __init__(self, alpha: float = 0.2, **kwargs):
        super().__init__(positive='bce', negative=partial(F.entropy_negative, alpha=alpha), **kwargs)


@LOSSES.register_module()
class EMAPLLoss(MultiLabelLoss):
    """Entropy maximisation with asymmetric pseudo-labelling, EM + APL (Zhou et al., 2022).

    It starts as :class:`EMLoss`. After the warm-up, at the start of each epoch, the unobserved labels that had the
    lowest probabilities of their class in the epoch before become pseudo-negatives. Each keeps that probability as its
    soft label for good; in the last epoch they are ``negative_share`` of the unobserved labels of every class.

    The loss needs ``sample_idx``. It takes four bytes of memory for each label of the training set, two for the
    log-odds of the epoch and two for those of the pseudo-negatives, and saves both in the checkpoint. Of a sample that
    comes several times in an epoch the largest probabilities count. In evaluation mode it reads its memory and does
    not write.

    Args:
        alpha: Weight of the entropy.
        beta: Weight of the pseudo-negatives.
        negative_share: How many of the unobserved labels of a class end as pseudo-negatives.
        warmup_epochs: Epochs without pseudo-negatives.
        max_epochs: Length of the training; by default that of the running Runner.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    goes_by_epochs = True
    leaves_out_unknown = True
    remembers_samples = True

    def __init__(
        self,
        alpha: float = 0.2,
        beta: float = 0.4,
        negative_share: float = 0.9,
        warmup_epochs: int = 5,
        max_epochs: int | None = None,
        **kwargs,
    ):
        if not 0 <= negative_share <= 1:
            raise ValueError(f'negative_share must be in [0, 1], got {negative_share}')
        if warmup_epochs < 0:
            raise ValueError(f'warmup_epochs must be at least 0, got {warmup_epochs}')
        super().__init__(**kwargs)
        self.alpha = alpha
        self.beta = beta
        self.negative_share = negative_share
        self.warmup_epochs = warmup_epochs
        self.max_epochs = max_epochs
        # Log-odds instead of probabilities: in half precision they still rank the labels that are surely negative.
        self.predictions = SampleMemory(type(self).__name__, torch.float16, -math.inf)
        self.pseudo_negatives = SampleMemory(type(self).__name__, torch.float16, -math.inf)

    def synchronize(self) -> None:
        self.predictions.synchronize()
        self.pseudo_negatives.synchronize()

    def corrected_targets(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        """The targets as the loss believes them: soft at pseudo-negatives, and unknown at other unobserved labels.

        Args:
            logits: (N, C); not used.
            target: (N, C).
            epoch: Not used.
            sample_idx: (N,).
            **kwargs: Ignored.
        """
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
        self.pseudo_negatives.visit(sample_idx, target, remember=False)
        return torch.where(target == 0, self._soft_labels(sample_idx, target), target)

    def values(
        self, logits: Tensor, target: Tensor, epoch: int | None = None, sample_idx: Tensor | None = None, **kwargs
    ) -> Tensor:
        sample_idx = require_sample_idx(sample_idx, type(self).__name__, len(target))
        if self.training:
            self._train(logits.detach(), target, resolve_epoch(epoch, type(self).__name__), sample_idx)
        else:
            self.pseudo_negatives.visit(sample_idx, target, remember=False)
        return F.em_apl_loss(logits, target, self._soft_labels(sample_idx, target), self.alpha, self.beta)

    def _train(self, logits: Tensor, target: Tensor, epoch: int, sample_idx: Tensor) -> None:
        max_epochs = resolve_max_epochs(self.max_epochs, type(self).__name__)
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
        """Probabilities (N, C) at pseudo-negatives, and -1 elsewhere."""
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

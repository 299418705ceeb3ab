"""SPLC and LASD: losses that take unobserved labels (given as 0) of high probability as positive."""

from typing import Any

import torch
from mmengine.dist import all_reduce, get_world_size
from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from .core.base import FunctionLoss
from .core.context import resolve
from .pointwise import PairLoss


@LOSSES.register_module()
class SPLCLoss(PairLoss):
    """SPLC, self-paced loss correction for missing labels, with any pair of terms (Zhang et al., Eq. 10).

    From ``change_epoch`` on, an unobserved label (0) whose probability exceeds ``threshold`` costs like a positive.

    Args:
        positive: Cost of a positive label, see :class:`PairLoss`. Default: focal margin, as in the paper's best result.
        negative: Cost of a negative label, see :class:`PairLoss`; focal by default. Table VII pairs ``'bce'`` with
            ``'bce'``, ``'focal'`` with ``'focal'``, and positive ``'bce'`` with negative ``'asymmetric'``.
        threshold: The probability above which an unobserved label is corrected to positive.
        change_epoch: The first epoch that corrects, counted from 0.
        margin_for_pseudo: Whether the margin of the positive term also shifts the logits of corrected labels, as in Eq.
            10. The authors' code shifts those of observed positives only.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The epoch is the argument ``epoch`` of the call, or that of the running Runner. The authors use ``reduction='sum'``.
    """

    goes_by_epochs = True
    soft_targets = False
    function = staticmethod(F.splc_loss)
    inputs = ('spared_margin', 'logit_probabilities')

    def __init__(self, *values, change_epoch: int = 1, margin_for_pseudo: bool = False, **kwargs):
        super().__init__(*values, **kwargs)
        self.change_epoch, self.margin_for_pseudo = change_epoch, margin_for_pseudo
        self.spared_margin = 0.0 if margin_for_pseudo else self.settings['positive'].logit_shift

    def values(self, logits: Tensor, target: Tensor, epoch: int | None = None, **kwargs) -> Tensor:
        settings = self.settings | dict(threshold=self._threshold_of(epoch), spared_margin=self.spared_margin)
        log_odds = self.link.logit_probabilities(logits)
        return self.function(logits, target, **settings, logit_probabilities=log_odds)

    def corrected_targets(self, logits: Tensor, target: Tensor, epoch: int | None = None, **kwargs) -> Tensor:
        """Return a copy of ``target`` (N, C) with 1 at labels corrected in ``epoch`` (from 0; None is the Runner's)."""
        log_odds = self.link.logit_probabilities(logits)
        return target.masked_fill(F.believed_positives(log_odds, target, self._threshold_of(epoch)), 1)

    def _threshold_of(self, epoch: int | None) -> float:
        corrects = resolve('epoch', epoch, type(self).__name__) >= self.change_epoch
        return self.settings['threshold'] if corrects else 1.0


@LOSSES.register_module()
class LASDLoss(FunctionLoss):
    """LASD, leveraged asymmetric loss with disambiguation, for single positive labels (paper of LASD, Eq. 6).

    Args:
        positive_leverage: Weight of the pseudo-positives: unobserved labels (0) that take the positive term. Table 4
            has 0.1 for VOC12, 0.03 (COCO), 0.015 (NUS) and 0.005 (CUB).
        threshold: The probability above which an unobserved label is a pseudo-positive; for these datasets 0.9, 0.9,
            0.95 and 0.93.
        expected_positives: Mean number of positive labels of an image; for these datasets 1.46, 2.94, 1.89 and 31.4.
            None estimates it by a running mean, over training batches, of the observed and pseudo-positives per image
            that has a known label. All processes of a distributed training share the estimate; with class indices
            (detectors) each process has its own. Together with ``negative_leverage`` it is an error.
        negative_leverage: Weight of the other unobserved labels. None derives it by Theorem 5.4 from n expected
            positives (given or estimated) of C classes: (1 + positive_leverage (n - 1)) / (C - n).
        gamma_positive: Focusing power of positives and pseudo-positives.
        gamma_negative: Focusing power of the other unobserved labels.
        momentum: Weight of a new batch in the running mean.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The paper adds over the C classes and takes the mean over the batch: use ``loss_weight=C`` if all labels are known.
    """

    looks_across_samples = True
    soft_targets = False
    function = staticmethod(F.lasd_loss)

    def __init__(
        self,
        positive_leverage: float = 0.1,
        threshold: float = 0.9,
        expected_positives: float | None = None,
        negative_leverage: float | None = None,
        *,
        momentum: float = 0.01,
        **kwargs,
    ):
        if expected_positives is not None and negative_leverage is not None:
            raise ValueError(
                'give expected_positives or negative_leverage, not both: the one follows from the other, '
                f'got {expected_positives} and {negative_leverage}'
            )
        if not 0 < momentum <= 1:
            raise ValueError(f'momentum must be in (0, 1], got {momentum}')
        super().__init__(**kwargs)
        self.settings |= dict(positive_leverage=positive_leverage, threshold=threshold)
        super().check_settings(negative_leverage=1.0 if negative_leverage is None else negative_leverage)
        self.expected_positives = expected_positives
        self.negative_leverage = negative_leverage
        self.momentum = momentum
        if expected_positives is None and negative_leverage is None:
            # 0 until the first batch; in the checkpoint, so that a resumed training goes on from it.
            self.register_buffer('estimated_positives', torch.zeros(()))

    def check_settings(self, **inputs: Any) -> None:
        """Do nothing when the base class calls it: the constructor of LASD then checks all settings together."""

    def forward(self, cls_score: Tensor, target: Tensor, *args, **kwargs) -> Tensor:
        """Return the loss as :meth:`MultiLabelLoss.forward`. For class indices, processes share no running mean."""
        # Heads of detectors call the loss only where there is something to classify: to wait there for the others may
        # be to wait for ever.
        kwargs['shared'] = not (isinstance(target, Tensor) and target.dim() == 1)
        return super().forward(cls_score, target, *args, **kwargs)

    def values(self, logits: Tensor, target: Tensor, shared: bool = True, **kwargs) -> Tensor:
        return self.function(
            logits, target, negative_leverage=self._negative_leverage(logits, target, shared), **self.settings
        )

    def corrected_targets(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        """Return a copy of ``target`` (N, C) with 1 at unobserved labels (0) of probability above ``threshold``."""
        return target.masked_fill(F.believed_positives(logits, target, self.settings['threshold']), 1)

    def _negative_leverage(self, logits: Tensor, target: Tensor, shared: bool) -> float | Tensor:
        if self.negative_leverage is not None:
            return self.negative_leverage
        positive_leverage, classes = self.settings['positive_leverage'], logits.size(1)
        if self.expected_positives is not None:
            return F.balanced_leverage(positive_leverage, self.expected_positives, classes)
        self._update_estimate(logits, target, shared)
        # An image has at least the positive that was observed, and not every class.
        expected = self.estimated_positives.clamp(min=1.0, max=max(classes - 1.0, 1.0))
        return ((1 + positive_leverage * (expected - 1)) / (classes - expected).clamp(min=1.0)).to(logits.dtype)

    @torch.no_grad()
    def _update_estimate(self, logits: Tensor, target: Tensor, shared: bool) -> None:
        if not self.training:
            return
        positives = (self.corrected_targets(logits, target) == 1).sum()
        totals = torch.stack([positives, (target >= 0).any(dim=1).sum()]).float()
        if shared and get_world_size() > 1:  # some processes may have an empty batch
            all_reduce(totals)
        mean = totals[0] / totals[1].clamp(min=1)
        before = self.estimated_positives
        estimate = torch.where(before > 0, before.lerp(mean, self.momentum), mean)
        before.copy_(torch.where(totals[1] > 0, estimate, before))

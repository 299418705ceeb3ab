"""Regularisers as losses, to be joined with others in a :class:`SumLoss`."""

from __future__ import annotations

from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from .base import MultiLabelLoss


@LOSSES.register_module()
class LabelPairRegularizer(MultiLabelLoss):
    """Label pair regulariser, LPR (Cheng and Vasconcelos, Eq. 20).

    It compares estimated probabilities, so it reads the logits through a link: its own, the link of the
    :class:`SumLoss` it stands in when it has none, and the sigmoid when it stands alone.

    Args:
        **kwargs: ``reduction``, ``loss_weight`` (the paper's lambda) and ``link`` of :class:`MultiLabelLoss`.
            ``'mean'`` is over samples.
    """

    pointwise = False
    soft_targets = False

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.label_pair_regularizer(self.link.logit_probabilities(logits), target)

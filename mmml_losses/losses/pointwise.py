"""Losses that are a pair of partial losses, one for positive and one for negative labels."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from .. import functional as F
from ..functional.pointwise import Term
from ..registry import LOSSES
from .base import MultiLabelLoss
from .links import SPALink


class PairLoss(MultiLabelLoss):
    """Any positive term with any negative term.

    Args:
        positive: Maps logits to the cost of a positive label.
        negative: Maps logits to the cost of a negative label.
        **kwargs: ``reduction``, ``loss_weight`` and ``link`` of :class:`MultiLabelLoss`.
    """

    def __init__(self, positive: Term, negative: Term, **kwargs):
        super().__init__(**kwargs)
        self.positive = positive
        self.negative = negative

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.pair_loss(logits, target, self.positive, self.negative)


@LOSSES.register_module()
class BCELoss(PairLoss):
    """Binary cross-entropy. With unobserved labels given as 0 it is the assume-negative loss (AN)."""

    def __init__(self, **kwargs):
        super().__init__(positive=F.bce_positive, negative=F.bce_negative, **kwargs)


@LOSSES.register_module()
class AsymmetricLoss(PairLoss):
    """ASL (Ridnik et al., 2021): focusing powers of its own for positives and negatives, and a probability shift.

    Args:
        gamma_positive: Focusing power of the positives. The authors' class defaults to 1, their training used 0.
        gamma_negative: Focusing power of the negatives.
        margin: Probability shift; a negative below it costs nothing. 0 leaves it out.
        detach_weight: Whether the focusing weights are constants for the gradient.
        **kwargs: ``reduction``, ``loss_weight`` and ``link`` of :class:`MultiLabelLoss`.

    The authors train with ``reduction='sum'``.
    """

    def __init__(
        self,
        gamma_positive: float = 0.0,
        gamma_negative: float = 4.0,
        margin: float = 0.05,
        detach_weight: bool = False,
        **kwargs,
    ):
        if gamma_positive < 0 or gamma_negative < 0:
            raise ValueError(
                f'gamma_positive and gamma_negative must be at least 0, got {gamma_positive} and {gamma_negative}'
            )
        if not 0 <= margin < 1:
            raise ValueError(f'margin must be in [0, 1), got {margin}')
        super().__init__(
            positive=partial(F.asymmetric_positive, gamma=gamma_positive, detach_weight=detach_weight),
            negative=partial(F.asymmetric_negative, gamma=gamma_negative, margin=margin, detach_weight=detach_weight),
            **kwargs,
        )


@LOSSES.register_module()
class SPALoss(PairLoss):
    """Strictly proper asymmetric loss (Cheng and Vasconcelos, Eq. 16), with the link that makes it proper.

    The loss acts on the logit; its probabilities are read through :class:`SPALink`, never through a sigmoid.

    Args:
        positive_scale: Divides the cost of positives.
        positive_slope: Slope of the logit of positives.
        positive_shift: Shift of the logit of positives.
        negative_scale: Divides the cost of the many negatives.
        negative_slope: Slope of the logit of negatives: how fast easy ones stop to cost.
        negative_shift: Shift of the logit of negatives.
        **kwargs: ``reduction``, ``loss_weight`` and ``link`` of :class:`MultiLabelLoss`.

    The defaults are the paper's for all its datasets. Its Eq. 21 averages over the labels of a sample, as
    ``reduction='mean'`` does.
    """

    def __init__(
        self,
        positive_scale: float = 1.0,
        positive_slope: float = 1.0,
        positive_shift: float = 0.0,
        negative_scale: float = 5.0,
        negative_slope: float = 3.0,
        negative_shift: float = 1.0,
        **kwargs,
    ):
        if min(positive_scale, positive_slope, negative_scale, negative_slope) <= 0:
            raise ValueError(
                'positive_scale, positive_slope, negative_scale and negative_slope must be above 0, got '
                f'{positive_scale}, {positive_slope}, {negative_scale} and {negative_slope}'
            )
        link = SPALink(
            positive_scale=positive_scale,
            positive_slope=positive_slope,
            positive_shift=positive_shift,
            negative_scale=negative_scale,
            negative_slope=negative_slope,
            negative_shift=negative_shift,
        )
        super().__init__(
            positive=partial(F.spa_positive, scale=positive_scale, slope=positive_slope, shift=positive_shift),
            negative=partial(F.spa_negative, scale=negative_scale, slope=negative_slope, shift=negative_shift),
            **{'link': link, **kwargs},
        )

"""Losses that are a pair of partial losses, one for positive and one for negative labels."""

from __future__ import annotations

from torch import Tensor

from .. import functional as F
from ..functional.pair import Term
from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .links import Link, PhiLink
from .terms import build_negative, build_positive, describe_term, own_link_of, teaches_absence


@LOSSES.register_module()
class PairLoss(MultiLabelLoss):
    """Any positive term with any negative term, as in the ablations of Hill (Zhang et al., Table VI).

    Args:
        positive: What a positive label costs: a name (``bce``, ``focal``, ``asymmetric``, ``focal_margin``, ``spa``), a
            dict with it as ``type`` beside the arguments of that term and ``weight``, a factor; or any function of the
            logits.
        negative: What a negative label costs, likewise (``bce``, ``focal``, ``asymmetric``, ``mse``, ``hill``,
            ``spa``, ``entropy``).
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    Example:
        >>> PairLoss(positive=dict(type='focal_margin', margin=0.5), negative='hill')
    """

    leaves_out_unknown = True

    def __init__(self, positive: Term | str | dict = 'bce', negative: Term | str | dict = 'bce', **kwargs):
        positive, negative = build_positive(positive), build_negative(negative)
        super().__init__(own_link=own_link_of(positive, negative), **kwargs)
        self.positive = positive
        self.negative = negative

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.pair_loss(logits, target, self.positive, self.negative)

    def own_reason_against_anchors(self) -> str | None:
        if not teaches_absence(self.negative):
            return 'its negative term never says that a class is absent, which is all that most anchors can teach'
        return None

    def extra_repr(self) -> str:
        return f'positive={describe_term(self.positive)}, negative={describe_term(self.negative)}'


@LOSSES.register_module()
class BCELoss(PairLoss):
    """Binary cross-entropy. With unobserved labels given as 0 it is the assume-negative loss (AN)."""

    def __init__(self, **kwargs):
        super().__init__(positive='bce', negative='bce', **kwargs)


@LOSSES.register_module()
class LabelSmoothingBCELoss(PairLoss):
    """BCE towards softened labels: BCE-LS, or AN-LS where unobserved labels are given as 0 (Cole et al., 2021).

    Args:
        epsilon: How much of a label is given away.
        reading: ``'code'`` moves positives to 1 - epsilon and negatives to epsilon, as the authors' code does;
            ``'paper'`` to 1 - epsilon / 2 and epsilon / 2, as their text says.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    def __init__(self, epsilon: float = 0.1, reading: str = 'code', **kwargs):
        super().__init__(*F.label_smoothing_terms(epsilon, reading), **kwargs)


@LOSSES.register_module()
class WANLoss(MultiLabelLoss):
    """Weak assume-negative loss (Cole et al., 2021): BCE with the negatives weighted down.

    Args:
        negative_weight: Weight of the negatives; by default 1 / (C - 1) for C classes, with which one positive weighs
            as much as all other labels of the sample.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    leaves_out_unknown = True

    def __init__(self, negative_weight: float | None = None, **kwargs):
        super().__init__(**kwargs)
        if negative_weight is not None and negative_weight < 0:
            raise ValueError(f'negative_weight must be at least 0, got {negative_weight}')
        self.negative_weight = negative_weight

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.wan_loss(logits, target, self.negative_weight)


@LOSSES.register_module()
class FocalLoss(PairLoss):
    """Focal loss, symmetric or asymmetric; FAN where unobserved labels are given as 0.

    Args:
        gamma: Focusing power of positives and negatives.
        alpha: Weight of the positives, 1 - alpha that of the negatives, as detectors use it; None for neither.
        gamma_positive: Focusing power of the positives where it differs from ``gamma``.
        gamma_negative: Focusing power of the negatives where it differs from ``gamma``.
        link: As in :class:`MultiLabelLoss`; ``'phi'`` reads probabilities through the map that undoes the bias of the
            focusing and of ``alpha`` (Cheng and Vasconcelos, Eq. 14). The sigmoid by default.
        **kwargs: The other arguments of :class:`MultiLabelLoss`.

    The focusing weights belong to the gradient, as in the original paper. MMDetection's loss of this name is the same
    with ``alpha=0.25``.
    """

    def __init__(
        self,
        gamma: float = 2.0,
        alpha: float | None = None,
        gamma_positive: float | None = None,
        gamma_negative: float | None = None,
        link: Link | dict | str | None = None,
        **kwargs,
    ):
        gamma_positive = gamma if gamma_positive is None else gamma_positive
        gamma_negative = gamma if gamma_negative is None else gamma_negative
        terms = F.focal_terms(gamma_positive, gamma_negative, alpha)
        if link == 'phi':
            link = PhiLink(gamma_positive, gamma_negative, margin=0.0, alpha=0.5 if alpha is None else alpha)
        super().__init__(*terms, link=link, **kwargs)


@LOSSES.register_module()
class AsymmetricLoss(PairLoss):
    """ASL (Ridnik et al., 2021): focusing powers of its own for positives and negatives, and a probability shift.

    Args:
        gamma_positive: Focusing power of the positives. The authors' class defaults to 1, their training used 0.
        gamma_negative: Focusing power of the negatives.
        margin: Probability shift; a negative below it costs nothing. 0 leaves it out.
        detach_weight: Whether the focusing weights are constants for the gradient.
        link: As in :class:`FocalLoss`.
        **kwargs: The other arguments of :class:`MultiLabelLoss`.

    The authors train with ``reduction='sum'``.
    """

    def __init__(
        self,
        gamma_positive: float = 0.0,
        gamma_negative: float = 4.0,
        margin: float = 0.05,
        detach_weight: bool = False,
        link: Link | dict | str | None = None,
        **kwargs,
    ):
        terms = F.asymmetric_terms(gamma_positive, gamma_negative, margin, detach_weight)
        if link == 'phi':
            if detach_weight:
                raise ValueError(
                    "link must not be 'phi' with detach_weight=True: phi undoes the bias of focusing weights that have "
                    'a gradient'
                )
            link = PhiLink(gamma_positive, gamma_negative, margin)
        super().__init__(*terms, link=link, **kwargs)


@LOSSES.register_module()
class FocalMarginLoss(PairLoss):
    """Focal margin for positives (Zhang et al., Eq. 11) with the focal loss for negatives.

    Args:
        margin: Shift of the positive logit; the paper recommends 0.5 to 1.
        gamma: Focusing power.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    For the row of the paper's Table VI that pairs it with BCE, take :class:`PairLoss`. The authors train with
    ``reduction='sum'``.
    """

    def __init__(self, margin: float = 1.0, gamma: float = 2.0, **kwargs):
        super().__init__(*F.focal_margin_terms(margin, gamma), **kwargs)


@LOSSES.register_module()
class MSENegativeLoss(PairLoss):
    """BCE for positives, squared error for negatives: MSE- in Zhang et al., Table VI.

    The authors train with ``reduction='sum'``.
    """

    def __init__(self, **kwargs):
        super().__init__(positive='bce', negative='mse', **kwargs)


@LOSSES.register_module()
class HillLoss(PairLoss):
    """Hill loss for missing labels (Zhang et al., Eq. 5 and 11).

    Args:
        lamb: Where the negative gradient turns; 1.5 puts it at p = 0.5.
        margin: Shift of the positive logit; the paper recommends 0.5 to 1.
        gamma: Focusing power of the positive term.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The authors train with ``reduction='sum'``.
    """

    def __init__(self, lamb: float = 1.5, margin: float = 1.0, gamma: float = 2.0, **kwargs):
        super().__init__(*F.hill_terms(lamb, margin, gamma), **kwargs)


@LOSSES.register_module()
class SPALoss(PairLoss):
    """Strictly proper asymmetric loss (Cheng and Vasconcelos, Eq. 16), with the link that makes it proper.

    The loss acts on the logit; its probabilities are read through :class:`SPALink` of the same constants, never
    through a sigmoid. A :class:`PairLoss` of two ``spa`` terms does the same.

    Args:
        positive_scale: Divides the cost of positives.
        positive_slope: Slope of the logit of positives.
        positive_shift: Shift of the logit of positives.
        negative_scale: Divides the cost of the many negatives.
        negative_slope: Slope of the logit of negatives: how fast easy ones stop to cost.
        negative_shift: Shift of the logit of negatives.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

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
        parameters = dict(
            positive_scale=positive_scale,
            positive_slope=positive_slope,
            positive_shift=positive_shift,
            negative_scale=negative_scale,
            negative_slope=negative_slope,
            negative_shift=negative_shift,
        )
        super().__init__(*F.spa_terms(**parameters), **kwargs)


@LOSSES.register_module()
class LASLoss(MultiLabelLoss):
    """Leveraged asymmetric loss for single positive labels (paper of LASD, Eq. 5).

    Args:
        negative_leverage: Weight of the unobserved labels; by default 1 / (C - n) for C classes and n expected
            positives, the balance of Theorem 5.4 without pseudo-positives.
        expected_positives: Positive labels of an image, on average.
        gamma_positive: Focusing power of the positives.
        gamma_negative: Focusing power of the unobserved labels.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    leaves_out_unknown = True

    def __init__(
        self,
        negative_leverage: float | None = None,
        expected_positives: float = 1.0,
        gamma_positive: float = 0.0,
        gamma_negative: float = 4.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if negative_leverage is not None and negative_leverage < 0:
            raise ValueError(f'negative_leverage must be at least 0, got {negative_leverage}')
        self.negative_leverage = negative_leverage
        self.expected_positives = expected_positives
        self.gamma_positive = gamma_positive
        self.gamma_negative = gamma_negative

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.las_loss(
            logits, target, self.negative_leverage, self.expected_positives, self.gamma_positive, self.gamma_negative
        )

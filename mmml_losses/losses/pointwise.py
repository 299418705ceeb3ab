"""Losses that are a pair of terms, one for positive and one for negative labels."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from .core.base import FunctionLoss
from .links import Link, PhiLink, SPALink


@LOSSES.register_module()
class PairLoss(FunctionLoss):
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

    function: ClassVar[Callable[..., Tensor]] = staticmethod(F.pair_loss)

    def own_link_of(self, settings: dict[str, Any]) -> Link | None:
        positive, negative = settings['positive'], settings['negative']
        if not (isinstance(positive, F.SPAPositive) and isinstance(negative, F.SPANegative)):
            return None
        sides = dict(positive=vars(positive), negative=vars(negative))
        return SPALink(**{f'{side}_{name}': value for side, fields in sides.items() for name, value in fields.items()})


@LOSSES.register_module()
class BCELoss(FunctionLoss):
    """Binary cross-entropy. With unobserved labels given as 0 it is the assume-negative loss (AN)."""

    function = staticmethod(F.bce_loss)


@LOSSES.register_module()
class LabelSmoothingBCELoss(FunctionLoss):
    """BCE towards softened labels: BCE-LS, or AN-LS where unobserved labels are given as 0 (Cole et al., 2021).

    Args:
        epsilon: How much of a label is given away.
        reading: ``'code'`` moves positives to 1 - epsilon and negatives to epsilon, as the authors' code does;
            ``'paper'`` to 1 - epsilon / 2 and epsilon / 2, as in their text.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.label_smoothing_bce_loss)


@LOSSES.register_module()
class WANLoss(FunctionLoss):
    """Weak assume-negative loss (Cole et al., 2021): BCE with the negatives weighted down.

    Args:
        negative_weight: Weight of the negatives; by default 1 / (C - 1) for C classes, with which one positive weighs
            as much as all other labels of the sample.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.wan_loss)


@LOSSES.register_module()
class FocalLoss(FunctionLoss):
    """Focal loss, symmetric or asymmetric; FAN where unobserved labels are given as 0.

    Args:
        gamma: Focusing power of positives and negatives.
        alpha: Weight of the positives, 1 - alpha that of the negatives, as detectors use it; None for neither.
        gamma_positive: Focusing power of the positives where it differs from ``gamma``.
        gamma_negative: Focusing power of the negatives where it differs from ``gamma``.
        link: As in :class:`MultiLabelLoss`. ``'phi'`` maps logits to probabilities by the function that undoes the bias
            of the focusing and of ``alpha`` (Cheng and Vasconcelos, Eq. 14). The sigmoid by default.
        **kwargs: The other arguments of :class:`MultiLabelLoss`.

    The focusing weights are part of the gradient, as in the original paper. MMDetection's loss of this name is the same
    with ``alpha=0.25``.
    """

    function = staticmethod(F.focal_loss)

    def __init__(
        self,
        gamma: float = F.FocalPositive.gamma,
        alpha: float | None = None,
        gamma_positive: float | None = None,
        gamma_negative: float | None = None,
        link: Link | dict | str | None = None,
        **kwargs,
    ):
        super().__init__(
            gamma if gamma_positive is None else gamma_positive,
            gamma if gamma_negative is None else gamma_negative,
            alpha,
            link=None if link == 'phi' else link,
            **kwargs,
        )
        if link == 'phi':
            self.link = PhiLink(**self.settings | dict(margin=0.0, alpha=0.5 if alpha is None else alpha))


@LOSSES.register_module()
class AsymmetricLoss(FunctionLoss):
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

    function = staticmethod(F.asymmetric_loss)

    def __init__(self, *values, link: Link | dict | str | None = None, **kwargs):
        super().__init__(*values, link=None if link == 'phi' else link, **kwargs)
        if link == 'phi':
            constants = dict(self.settings)
            if constants.pop('detach_weight'):
                raise ValueError(
                    "link must not be 'phi' with detach_weight=True: phi undoes the bias of focusing weights that have "
                    'a gradient'
                )
            self.link = PhiLink(**constants)


@LOSSES.register_module()
class FocalMarginLoss(FunctionLoss):
    """Focal margin for positives (Zhang et al., Eq. 11) with the focal loss for negatives.

    Args:
        margin: Shift of the positive logit; the paper recommends 0.5 to 1.
        gamma: Focusing power.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    For the row of the paper's Table VI that pairs it with BCE, take :class:`PairLoss`. The authors train with
    ``reduction='sum'``.
    """

    function = staticmethod(F.focal_margin_loss)


@LOSSES.register_module()
class MSENegativeLoss(FunctionLoss):
    """BCE for positives, squared error for negatives: MSE- in Zhang et al., Table VI.

    The authors train with ``reduction='sum'``.
    """

    function = staticmethod(F.mse_negative_loss)


@LOSSES.register_module()
class HillLoss(FunctionLoss):
    """Hill loss for missing labels (Zhang et al., Eq. 5 and 11).

    Args:
        lamb: Where the negative gradient turns; 1.5 puts it at p = 0.5.
        margin: Shift of the positive logit; the paper recommends 0.5 to 1.
        gamma: Focusing power of the positive term.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The authors train with ``reduction='sum'``.
    """

    function = staticmethod(F.hill_loss)


@LOSSES.register_module()
class SPALoss(FunctionLoss):
    """Strictly proper asymmetric loss (Cheng and Vasconcelos, Eq. 16), with the link that makes it proper.

    The loss acts on the logit. Its probabilities come from :class:`SPALink` of the same constants, never from a
    sigmoid. A :class:`PairLoss` of two ``spa`` terms does the same.

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

    function = staticmethod(F.spa_loss)

    def own_link_of(self, settings: dict[str, Any]) -> Link | None:
        return SPALink(**settings)


@LOSSES.register_module()
class LASLoss(FunctionLoss):
    """Leveraged asymmetric loss for single positive labels (paper of LASD, Eq. 5).

    Args:
        negative_leverage: Weight of the unobserved labels; by default 1 / (C - n) for C classes and n expected
            positives, the balance of Theorem 5.4 without pseudo-positives.
        expected_positives: Positive labels of an image, on average.
        gamma_positive: Focusing power of the positives.
        gamma_negative: Focusing power of the unobserved labels.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.las_loss)

    def check_settings(self, **inputs: Any) -> None:
        """Check all settings but ``expected_positives``, whose bound is the number of classes."""
        leverage = self.settings['negative_leverage']
        settings = self.settings | dict(negative_leverage=1.0 if leverage is None else leverage)
        self.function(torch.zeros(1, 2), torch.zeros(1, 2), **settings)

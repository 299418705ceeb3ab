"""Losses with one value per label, most of them a pair of terms: the costs of a positive and a negative label."""

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
    """Loss with any positive and any negative term, as in the ablations of Hill (Zhang et al., Table VI).

    Args:
        positive: Term of positive labels, which is a label's cost as a function of its logit. Either a name: ``bce``,
            ``focal``, ``asymmetric``, ``focal_margin`` or ``spa``; or a dict with the name as ``type``, the term's
            arguments, and optionally a factor ``weight``; or any function of the logits.
        negative: Term of negative labels, in the same forms: ``bce``, ``focal``, ``asymmetric``, ``mse``, ``hill``,
            ``spa`` or ``entropy``.
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
    """BCE, binary cross-entropy; the assume-negative loss (AN) if unobserved labels are given as 0."""

    function = staticmethod(F.bce_loss)


@LOSSES.register_module()
class LabelSmoothingBCELoss(FunctionLoss):
    """BCE with softened labels (BCE-LS); AN-LS if unobserved labels are given as 0 (Cole et al., 2021).

    Args:
        epsilon: How far labels are moved from 1 and 0.
        reading: ``'code'`` moves positives to 1 - epsilon and negatives to epsilon, as the authors' code does.
            ``'paper'`` moves positives to 1 - epsilon / 2 and negatives to epsilon / 2, as in their text.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.label_smoothing_bce_loss)


@LOSSES.register_module()
class WANLoss(FunctionLoss):
    """WAN, weak assume-negative loss (Cole et al., 2021): BCE with a low weight of the negatives.

    Args:
        negative_weight: Weight of the negatives. None is 1 / (C - 1) for C classes: one positive then weighs as much as
            all other labels of the sample.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.wan_loss)


@LOSSES.register_module()
class FocalLoss(FunctionLoss):
    """Focal loss, with one focusing power or two; the focal assume-negative loss (FAN) if unobserved labels are 0.

    Args:
        gamma: Focusing power of positives and negatives.
        alpha: Weight of the positives, as detectors use it; that of the negatives is 1 - alpha. None weighs neither.
        gamma_positive: Focusing power of the positives; None for ``gamma``.
        gamma_negative: Focusing power of the negatives; None for ``gamma``.
        link: Map from logits to probabilities, see :class:`MultiLabelLoss`; the sigmoid by default. ``'phi'`` corrects
            the probabilities for the bias that focusing and ``alpha`` cause (Cheng and Vasconcelos, Eq. 14). With
            ``detach_weight`` it is only an approximation, see :func:`mmml_losses.functional.phi_link`.
        detach_weight: Whether the focusing weights are constants for the gradient. In the original paper they are not;
            in the code of Hill's authors they are.
        **kwargs: The other arguments of :class:`MultiLabelLoss`.

    ``alpha=0.25`` is MMDetection's ``FocalLoss``.
    """

    function = staticmethod(F.focal_loss)

    def __init__(
        self,
        gamma: float = F.FocalPositive.gamma,
        alpha: float | None = None,
        gamma_positive: float | None = None,
        gamma_negative: float | None = None,
        link: Link | dict | str | None = None,
        detach_weight: bool = F.FocalPositive.detach_weight,
        **kwargs,
    ):
        super().__init__(
            gamma if gamma_positive is None else gamma_positive,
            gamma if gamma_negative is None else gamma_negative,
            alpha,
            detach_weight,
            link=None if link == 'phi' else link,
            **kwargs,
        )
        if link == 'phi':
            powers = {name: self.settings[name] for name in ('gamma_positive', 'gamma_negative')}
            self.link = PhiLink(**powers, margin=0.0, alpha=0.5 if alpha is None else alpha)


@LOSSES.register_module()
class AsymmetricLoss(FunctionLoss):
    """ASL (Ridnik et al., 2021): focal loss with two focusing powers, and a probability shift of the negatives.

    Args:
        gamma_positive: Focusing power of the positives. The authors' class defaults to 1, their training used 0.
        gamma_negative: Focusing power of the negatives.
        margin: Probability that is subtracted from that of a negative; a negative below it costs nothing.
        detach_weight: Whether the focusing weights are constants for the gradient. The authors train with constants;
            their formula, and the default here, has a gradient.
        link: Map from logits to probabilities; the sigmoid by default, or ``'phi'`` as in :class:`FocalLoss`.
        **kwargs: The other arguments of :class:`MultiLabelLoss`. The authors train with ``reduction='sum'``.
    """

    function = staticmethod(F.asymmetric_loss)

    def __init__(self, *values, link: Link | dict | str | None = None, **kwargs):
        super().__init__(*values, link=None if link == 'phi' else link, **kwargs)
        if link == 'phi':
            self.link = PhiLink(**{name: value for name, value in self.settings.items() if name != 'detach_weight'})


@LOSSES.register_module()
class FocalMarginLoss(FunctionLoss):
    """Focal margin for positives (Zhang et al., Eq. 11) with the focal loss for negatives.

    Args:
        margin: Amount subtracted from the logit of a positive; the paper recommends 0.5 to 1.
        gamma: Focusing power of positives and negatives.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    For BCE of negatives, as in the paper's Table VI, use :class:`PairLoss`. The authors train with ``reduction='sum'``.
    """

    function = staticmethod(F.focal_margin_loss)


@LOSSES.register_module()
class MSENegativeLoss(FunctionLoss):
    """BCE for positives, squared error of the probability for negatives: MSE- in Zhang et al., Table VI.

    The authors train with ``reduction='sum'``.
    """

    function = staticmethod(F.mse_negative_loss)


@LOSSES.register_module()
class HillLoss(FunctionLoss):
    """Hill loss for missing labels (Zhang et al., Eq. 5 and 11): a negative costs (lamb - p) p^2, p its probability.

    Args:
        lamb: Sets the p at which the gradient of a negative is largest; 1.5 sets 0.5. For larger p the gradient falls.
        margin: Amount subtracted from the logit of a positive; the paper recommends 0.5 to 1.
        gamma: Focusing power of the positive term.
        **kwargs: The arguments of :class:`MultiLabelLoss`. The authors train with ``reduction='sum'``.
    """

    function = staticmethod(F.hill_loss)


@LOSSES.register_module()
class SPALoss(FunctionLoss):
    """SPA, strictly proper asymmetric loss (Cheng and Vasconcelos, Eq. 16), with the link that makes it proper.

    A positive costs -log(sigmoid(slope (logit - shift))) / scale; for a negative, the slope has the opposite sign.
    Probabilities come from :class:`SPALink` with the same constants, and not from the sigmoid. A :class:`PairLoss` of
    two ``spa`` terms is the same loss.

    Args:
        positive_scale: Divisor of the cost of a positive.
        positive_slope: Slope for positives.
        positive_shift: Shift for positives.
        negative_scale: Divisor of the cost of a negative.
        negative_slope: Slope for negatives: how fast the cost of an easy negative falls.
        negative_shift: Shift for negatives.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The defaults are the paper's for all datasets. Its Eq. 21 averages over a sample's labels, as ``'mean'`` does.
    """

    function = staticmethod(F.spa_loss)

    def own_link_of(self, settings: dict[str, Any]) -> Link | None:
        return SPALink(**settings)


@LOSSES.register_module()
class LASLoss(FunctionLoss):
    """LAS, leveraged asymmetric loss for single positive labels (paper of LASD, Eq. 5).

    Args:
        negative_leverage: Weight of the unobserved labels (0). None is 1 / (C - n) for C classes and n expected
            positives, the balance of Theorem 5.4 without pseudo-positives.
        expected_positives: Mean number of positive labels of an image; ignored if ``negative_leverage`` is given.
        gamma_positive: Focusing power of the positives.
        gamma_negative: Focusing power of the unobserved labels.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.las_loss)

    def check_settings(self, **inputs: Any) -> None:
        """Check all settings but ``expected_positives``: its upper bound, the number of classes, is not known yet."""
        leverage = self.settings['negative_leverage']
        settings = self.settings | dict(negative_leverage=1.0 if leverage is None else leverage)
        self.function(torch.zeros(1, 2), torch.zeros(1, 2), **settings)

"""Regularisers as losses, to be joined with others in a :class:`SumLoss`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .core.inputs import promote


@LOSSES.register_module()
class LabelPairRegularizer(MultiLabelLoss):
    """Label pair regulariser, LPR (Cheng and Vasconcelos, Eq. 20).

    It compares estimated probabilities, so it reads the logits through a link: its own, the link of the
    :class:`SumLoss` it stands in when it has none, and the sigmoid when it stands alone.

    Args:
        **kwargs: The arguments of :class:`MultiLabelLoss`; ``loss_weight`` is the paper's lambda, ``'mean'`` is over
            samples.
    """

    pointwise = False
    soft_targets = False

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.label_pair_regularizer(self.link.logit_probabilities(logits), target)


@LOSSES.register_module()
class ConsistencyRegularizer(MultiLabelLoss):
    """Pulls the outputs for several views of an image together (paper of LASD, Eq. 7).

    It compares probabilities through a link, as :class:`LabelPairRegularizer` does.

    Args:
        **kwargs: The arguments of :class:`MultiLabelLoss`; ``loss_weight`` is the paper's alpha, ``'mean'`` is over
            samples.
    """

    pointwise = False

    def own_reason_against_anchors(self) -> str | None:
        return 'it compares several views of an image, and a detector sees one'

    def values(self, logits: Tensor, target: Tensor, views: Sequence[Tensor] | None = None, **kwargs) -> Tensor:
        """One value per sample.

        Args:
            logits: (N, C), of the image itself.
            target: (N, C), of which only -1 matters.
            views: Logits (N, C) of one or two more views.
            **kwargs: Not used.
        """
        if not views:
            raise ValueError(
                f'views must be the logits of one or two more views of the images, got {views!r}: pass them as views=, '
                'or use a classifier that runs several views'
            )
        for view in views:
            if view.shape != logits.shape:
                raise ValueError(
                    f'views must be of the shape of cls_score, {tuple(logits.shape)}, got {tuple(view.shape)}'
                )
        outputs = [self.link(promote(view)) for view in (logits, *views)]
        return F.consistency_regularizer(outputs, target)

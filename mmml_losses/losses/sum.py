"""A sum of named losses."""

from functools import reduce

import torch
from torch import Tensor, nn

from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .core.inputs import one_hot_targets
from .core.reduction import reject_divisor, rescaling
from .links import Link


@LOSSES.register_module()
class SumLoss(MultiLabelLoss):
    """Sum of losses and regularisers, each with its own ``loss_weight`` and ``reduction``.

    The link of the sum, unless ``link`` is given, is the link of its first pointwise loss. Losses that compare labels
    and have no link of their own, such as LPR, use the link of the sum.

    Args:
        losses: Dict from name to loss, or to its config. The names appear in the training log. They must not contain
            ``'loss'``, because MMEngine would add a logged value of such a name to the total, and no dots.
        loss_weight: Factor of the whole sum.
        reduction: Scale of the whole sum: it is multiplied by the one number that turns the reduction of its first
            pointwise part into this one, so that the parts keep their proportions. None leaves the parts as they are.
        link: Replaces the link of the first pointwise loss, or scales its log-odds (:class:`TemperatureLink`).
        use_sigmoid: Must be True, see :class:`MultiLabelLoss`.
        check_inputs: Whether the losses check their inputs; False switches the checks off in all of them.
        compile: Whether each loss is compiled, by itself, because heads call the losses one by one.

    Example:
        >>> SumLoss(losses=dict(spa=dict(type='SPALoss'), lpr=dict(type='LabelPairRegularizer', loss_weight=0.5)))
    """

    def __init__(
        self,
        losses: dict[str, MultiLabelLoss | dict],
        loss_weight: float = 1.0,
        link: Link | dict | None = None,
        use_sigmoid: bool = True,
        check_inputs: bool = True,
        compile: bool = False,
        reduction: str | None = None,
    ):
        if not isinstance(losses, dict):
            raise TypeError(f'losses must be a dict of losses by name, got {type(losses).__name__}')
        parts = {name: _build_part(name, loss) for name, loss in losses.items()}
        if not parts:
            raise ValueError('losses must name at least one part, got none')
        first = next((part for part in parts.values() if part.pointwise), None)
        if reduction == 'none':
            raise ValueError("reduction must be a mean or 'sum' for SumLoss, whose parts differ in shape, got 'none'")
        super().__init__(
            reduction=reduction or (first or next(iter(parts.values()))).reduction,
            loss_weight=loss_weight,
            link=link,
            use_sigmoid=use_sigmoid,
            check_inputs=check_inputs,
            own_link=first.link if first else None,
        )
        # A sum of regularisers alone is one, too: in a sum with a loss it reads through the link of that loss.
        self.pointwise = first is not None
        self.adopts_link = link is None and first is None
        self.scaled_from = (first or next(iter(parts.values()))).reduction
        self.losses = nn.ModuleDict(parts)
        self.adopt_link(self.link)
        for part in parts.values():
            part.check_inputs = part.check_inputs and check_inputs
            if compile:
                part.switch_compile_on()

    def adopt_link(self, link: Link) -> None:
        super().adopt_link(link)
        for part in self.losses.values():
            part.adopt_link(self.link)

    def own_reason_against_anchors(self) -> str | None:
        reasons = ((name, part.reason_against_anchors) for name, part in self.losses.items())
        return next((f'of its part {name!r}, {reason}' for name, reason in reasons if reason is not None), None)

    def parts(
        self, cls_score: Tensor, target: Tensor, reduction_override: str | None = None, **kwargs
    ) -> dict[str, Tensor]:
        """Return a dict from name to each part's reduced loss, a scalar, times the ``loss_weight`` of the sum."""
        if reduction_override == 'none':
            raise ValueError("reduction_override must be a mean or 'sum' for SumLoss: its parts differ in shape")
        if (reduction_override or self.reduction) == 'sum':
            reject_divisor(kwargs.get('avg_factor'))
        factor: float | Tensor = self.loss_weight
        if self.reduction != self.scaled_from and reduction_override is None and kwargs.get('avg_factor') is None:
            labels = one_hot_targets(target, cls_score)
            factor = factor * rescaling(self.scaled_from, self.reduction, self.pointwise, labels)
        return {
            name: factor * loss(cls_score, target, reduction_override=reduction_override, **kwargs)
            for name, loss in self.losses.items()
        }

    def forward(
        self,
        cls_score: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        avg_factor: float | Tensor | None = None,
        reduction_override: str | None = None,
        **kwargs,
    ) -> Tensor:
        """Return the sum of :meth:`parts`, a scalar. Arguments as in :meth:`MultiLabelLoss.forward`, no ``'none'``."""
        parts = self.parts(cls_score, target, reduction_override, weight=weight, avg_factor=avg_factor, **kwargs)
        return reduce(torch.add, parts.values())


def _build_part(name: str, loss: MultiLabelLoss | dict) -> MultiLabelLoss:
    if 'loss' in name or '.' in name:
        raise ValueError(f"losses must have names without 'loss' and without dots, got {name!r}")
    part = loss if isinstance(loss, nn.Module) else LOSSES.build(loss)
    if not isinstance(part, MultiLabelLoss):
        raise TypeError(f'losses must hold losses of mmml_losses, got {type(part).__name__} as {name!r}')
    if part.reduction == 'none':
        raise ValueError(f"reduction must be a mean or 'sum' in a part of SumLoss, got 'none' in {name!r}")
    return part

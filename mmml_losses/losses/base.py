"""What all losses share: the call convention, unknown labels, reduction and the link."""

from __future__ import annotations

from torch import Tensor, nn

from ..registry import MODELS
from .inputs import check_targets, one_hot_targets, promote
from .links import Link, SigmoidLink
from .reduction import REDUCTIONS, align_weight, reduce_values


class MultiLabelLoss(nn.Module):
    """Base of every loss. A subclass writes :meth:`values` and nothing else.

    Args:
        reduction: ``'mean'`` over the known labels (over samples for a loss with one value a sample), ``'sum'`` or
            ``'none'``.
        loss_weight: Factor of the reduced loss.
        link: How logits read as probabilities: a :class:`Link` or its config. ``None`` means the sigmoid, or, for a
            loss that is not pointwise, the link of the :class:`SumLoss` it stands in.
        use_sigmoid: Always True: every class is scored by itself. Configs of other projects pass it on.
    """

    pointwise = True
    """Whether :meth:`values` gives one value per entry, (N, C); otherwise one per sample, (N,)."""
    soft_targets = True
    """Whether the loss is defined for targets between 0 and 1."""

    def __init__(
        self,
        reduction: str = 'mean',
        loss_weight: float = 1.0,
        link: Link | dict | None = None,
        use_sigmoid: bool = True,
    ):
        super().__init__()
        if not use_sigmoid:
            raise ValueError(f'use_sigmoid must be True: {type(self).__name__} scores every class by itself')
        self.use_sigmoid = use_sigmoid
        if reduction not in REDUCTIONS:
            raise ValueError(f'reduction must be one of {REDUCTIONS}, got {reduction!r}')
        self.reduction = reduction
        self.loss_weight = loss_weight
        self.adopts_link = link is None and not self.pointwise
        self.link = build_link(link)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        """The unreduced loss.

        Args:
            logits: (N, C), float32 or float64.
            target: (N, C) of the logits' dtype; 1, 0, -1 for unknown, or soft where ``soft_targets`` allows it. A
                pointwise loss may return any finite value at an unknown label: :meth:`forward` leaves it out.
            **kwargs: ``epoch`` and ``sample_idx`` where the caller knows them.
        """
        raise NotImplementedError

    def forward(
        self,
        cls_score: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        avg_factor: float | Tensor | None = None,
        reduction_override: str | None = None,
        **kwargs,
    ) -> Tensor:
        """The loss, in OpenMMLab's call convention.

        Args:
            cls_score: Logits, (N, C). Half precision is computed in float32.
            target: (N, C) with 1 positive, 0 negative, -1 unknown, or a soft value in [0, 1]; or class indices (N,),
                where C means background and -1 unknown.
            weight: Factors of the unreduced values: (N,), (N, C) or flat (N * C,).
            avg_factor: Divisor that replaces the count under ``'mean'``.
            reduction_override: Replaces ``reduction`` for this call.
            **kwargs: ``epoch`` and ``sample_idx``, for the losses that use them.
        """
        logits = promote(cls_score)
        target = one_hot_targets(target, logits)
        check_targets(target, self.soft_targets, type(self).__name__)
        known = target >= 0
        if weight is not None:
            weight, target = align_weight(weight, target, self.pointwise)
        values = self.values(logits, target, **kwargs)
        if self.pointwise:
            values = values.masked_fill(~known, 0)
        else:
            known = known.any(dim=1)
        return self.loss_weight * reduce_values(values, known, weight, reduction_override or self.reduction, avg_factor)

    def adopt_link(self, link: Link) -> None:
        """Read through the link of the sum that this loss stands in, unless it has its own."""
        if self.adopts_link:
            self.link = link

    def probabilities(self, cls_score: Tensor) -> Tensor:
        """What the logits of this loss read as, through its link."""
        return self.link(promote(cls_score))

    def logit_probabilities(self, cls_score: Tensor) -> Tensor:
        """The log-odds of :meth:`probabilities`, exact in the tails."""
        return self.link.logit_probabilities(promote(cls_score))


def build_link(link: Link | dict | None) -> Link:
    """The link that a loss was given, by value or by config; the sigmoid by default."""
    if link is None:
        return SigmoidLink()
    return link if isinstance(link, nn.Module) else MODELS.build(link)

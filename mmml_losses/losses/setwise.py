"""Losses that compare positive labels with negative ones, over the samples or over the classes."""

import torch
from mmengine.dist import get_world_size
from torch import Tensor

from .. import functional as F
from ..functional.sets import count_sets
from ..registry import LOSSES
from .core.base import FunctionLoss
from .core.detection import has_background
from .core.distributed import join_batches, sum_over_ranks
from .core.reduction import Values, weigh_samples


class SetwiseLoss(FunctionLoss):
    """A loss that compares positives with negatives. A subclass names its function.

    Args:
        way: ``'sample'`` compares the labels of a sample, ``'class'`` the samples of a class, ``'both'`` does the one
            and the other, ``'joint'`` compares all labels of all samples.
        bucket_size: How many consecutive samples of the batch are compared with each other with ``'class'`` and
            ``'joint'``; None for all. It does not depend on the batch size: the rest of the batch is one more, smaller
            bucket, and so is a whole batch that is smaller than it.
        across_ranks: Whether to compare the samples of all processes of a distributed training, in the order of their
            ranks, instead of those of each process alone. A bucket can then be larger than the batch of a process.
            Value and training are those of one process with the whole batch, also under ``'sum'`` and with an
            ``avg_factor`` of each process. Not for ``way='sample'``, which compares no samples.
        **kwargs: The settings of the function, and ``reduction``, ``loss_weight`` and ``link`` of
            :class:`MultiLabelLoss`.

    ``reduction='mean'`` is over the sets, all classes of all buckets alike, that have a known label (for two-way and
    softmax: a positive one). In ``'both'`` the mean over samples and the mean over classes are added. ``'none'`` gives
    the shapes of :meth:`mmml_losses.functional.sets.Sets.split` and is not defined for ``'both'``.

    ``weight`` is how often a sample counts. In the comparison of its labels it is a factor of the loss. In the
    comparison of samples, a sample of weight 2 is the same as two samples. All labels of a sample have one weight, or
    0, which makes them unknown.

    Detectors send anchors, queries or proposals: class indices with the background C among them. With ``'class'`` and
    ``'both'`` they are compared in buckets only, so that the cost is linear in their number. They are shuffled first,
    because neighbours in the list are neighbours in the image, and those of weight 0 are left out. With ``'sample'``
    the loss must not be 0 without a positive, because most anchors have none.
    """

    pointwise = False
    soft_targets = False
    needs_positive = False
    """Whether the mean is over the sets with a positive only."""

    def __init__(self, *values, across_ranks: bool = False, **kwargs):
        super().__init__(*values, **kwargs)
        self.way = self.settings['way']
        self.bucket_size = self.settings['bucket_size']
        if across_ranks and self.way == 'sample':
            raise ValueError("across_ranks must be False for way='sample', which compares no samples, got True")
        self.across_ranks = across_ranks
        negatives_alone = self.function(torch.zeros(1, 1), torch.zeros(1, 1), **self.settings)
        self.trains_without_positive = self.way != 'both' and bool(negatives_alone.any())

    def forward(
        self,
        cls_score: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        avg_factor: float | Tensor | None = None,
        reduction_override: str | None = None,
        **kwargs,
    ) -> Tensor:
        """Compute the loss as :meth:`MultiLabelLoss.forward`, of the samples of all processes with ``across_ranks``."""
        # Before anything is checked: all processes then raise the error of a bad batch, and none waits.
        if self.across_ranks and get_world_size() > 1:
            cls_score, target, weight = join_batches(cls_score, target, weight)
            avg_factor = None if avg_factor is None else sum_over_ranks(avg_factor)
        if self.way != 'sample' and isinstance(target, Tensor):
            kwargs['shuffled'] = has_background(cls_score, target)
        return super().forward(cls_score, target, weight, avg_factor, reduction_override, **kwargs)

    def own_reason_against_anchors(self) -> str | None:
        if self.way == 'joint':
            return "way must be 'sample', 'class' or 'both' there, got 'joint', which compares all anchors at once"
        if self.way == 'sample' and not self.trains_without_positive:
            return (
                "way must be 'class' or 'both' there, with a bucket_size, got 'sample': a row without a positive costs "
                'nothing, and the background would never be trained'
            )
        if self.way != 'sample' and self.bucket_size is None:
            return f'bucket_size must be a number of anchors for way={self.way!r} there, such as 128, got None'
        if self.across_ranks:
            return 'across_ranks must be False there, got True: the buckets of a process are cut from its own anchors'
        return None

    def parts_of(
        self, logits: Tensor, target: Tensor, weight: Tensor | None, shuffled: bool = False, **kwargs
    ) -> list[Values]:
        if shuffled:
            logits, target, weight = draw_rows(logits, target, weight)
        if weight is not None:
            weight, target = weigh_samples(weight, target)
            if self.check_inputs and not torch.compiler.is_compiling() and (weight < 0).any():
                raise ValueError(f'weight must be at least 0 in a loss that compares labels, got {weight.min().item()}')
        values = self.function(logits, target, weight=weight, **self.settings)
        counts = count_sets(target, self.way, self.bucket_size, weight, self.needs_positive)
        return [Values(*part) for part in zip(values if self.way == 'both' else (values,), counts, strict=True)]


@torch.compiler.disable  # how many rows are left depends on the data
def draw_rows(logits: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Shuffle the rows, and drop those whose labels all have weight 0.

    Args:
        logits: (N, C).
        target: (N, C).
        weight: (N, 1) or (N, C), or None.

    Returns:
        Those rows of all three; None for weights that are all 1, as in most heads: sums without weights cost half.
    """
    if weight is None:
        rows = torch.randperm(len(logits), device=logits.device)
    else:
        rows = (weight != 0).any(dim=1).nonzero().squeeze(1)
        rows = rows[torch.randperm(len(rows), device=rows.device)]
        weight = weight[rows]
        weight = None if (weight == 1).all() else weight
    # Faster than brackets, forward and back.
    return logits.index_select(0, rows), target.index_select(0, rows), weight


@LOSSES.register_module()
class LSEPLoss(SetwiseLoss):
    """LSEP (Li et al., 2017); with ``way='class'`` the C-LSEP of Lin et al.

    Args:
        way: See :class:`SetwiseLoss`.
        gamma: Scale of the differences between logits; Lin et al. use 5 for C-LSEP.
        logit_bias: Margin by which positives are to exceed negatives.
        **kwargs: ``bucket_size`` and ``across_ranks`` of :class:`SetwiseLoss` and ``reduction``, ``loss_weight`` and
            ``link`` of :class:`MultiLabelLoss`.

    Lin et al. add up the samples or classes, ``reduction='sum'``.
    """

    function = staticmethod(F.lsep_loss)


@LOSSES.register_module()
class ZLPRLoss(SetwiseLoss):
    """ZLPR (Su et al., 2022): positives and negatives compared with zero; with ``way='class'`` C-ZLPR.

    Args:
        way: See :class:`SetwiseLoss`.
        logit_bias: Distance from zero that either side is to keep.
        **kwargs: As in :class:`LSEPLoss`.
    """

    function = staticmethod(F.zlpr_loss)


@LOSSES.register_module()
class TwoWayLoss(SetwiseLoss):
    """Two-way multi-label loss (Kobayashi, Eq. 17): hardest positive against hardest negative, of samples and classes.

    Args:
        way: See :class:`SetwiseLoss`.
        positive_temperature: A larger one enlarges the margin between positives and negatives.
        negative_temperature: The same for the negatives, which are many: 1 is margin enough.
        logit_bias: Margin that does not adapt to the logits.
        **kwargs: As in :class:`LSEPLoss`. The paper's buckets are of 128 samples.
    """

    needs_positive = True
    function = staticmethod(F.two_way_loss)


@LOSSES.register_module()
class SoftmaxLoss(SetwiseLoss):
    """Softmax cross-entropy with the labels of a sample or class normalised to sum 1 (Kobayashi, Eq. 18).

    Args:
        way: See :class:`SetwiseLoss`.
        temperature: Divides the logits.
        logit_bias: Margin that is added to the logits of the negatives.
        **kwargs: As in :class:`LSEPLoss`.
    """

    needs_positive = True
    function = staticmethod(F.softmax_loss)


@LOSSES.register_module()
class MultiSimilarityLoss(SetwiseLoss):
    """Multi-similarity loss of logits (Kobayashi, Eq. 20 and Table 4a): ZLPR with temperatures.

    Args:
        way: See :class:`SetwiseLoss`.
        positive_temperature: A larger one enlarges the distance of the positives from zero.
        negative_temperature: The same for the negatives.
        logit_bias: Distance from zero that either side is to keep.
        **kwargs: As in :class:`LSEPLoss`.
    """

    function = staticmethod(F.multi_similarity_loss)


@LOSSES.register_module()
class CircleLoss(SetwiseLoss):
    """Circle loss (Sun et al., 2020) of logits: every label learns at the pace of its distance from the optimum.

    Args:
        way: See :class:`SetwiseLoss`.
        gamma: Scale of the similarities.
        margin: Positives are to have a similarity above 1 - margin, negatives below margin.
        similarity: How a logit reads as a similarity, ``'sigmoid'`` or ``'logit'``; see
            :func:`mmml_losses.functional.circle_loss`.
        **kwargs: As in :class:`LSEPLoss`.
    """

    function = staticmethod(F.circle_loss)


@LOSSES.register_module()
class DRLoss(SetwiseLoss):
    """Distributionally robust loss (Lin et al., Eq. 8): C-LSEP with a gradient constraint.

    Args:
        way: See :class:`SetwiseLoss`.
        pair_scale: Scale of the differences between logits, the paper's gamma 1.
        constraint_scale: Scale of the constrained logits, gamma 2: 7 for VOC-LT, 10 for COCO-LT.
        constraint: ``'negative'`` (NGC), ``'positive'`` (PGC), ``'both'`` (GC) or None, which is C-LSEP.
        logit_bias: Margin by which positives are to exceed negatives.
        **kwargs: As in :class:`LSEPLoss`.

    The paper adds up the classes, ``reduction='sum'``.
    """

    function = staticmethod(F.dr_loss)

"""Losses that compare positive with negative labels: of each sample, of each class, or of the batch."""

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
    """Base of the losses that compare positives with negatives in sets of labels. A subclass sets ``function``.

    Args:
        way: Which labels form a set: ``'sample'`` all labels of a sample, ``'class'`` the label of a class in all
            samples, ``'both'`` both kinds of sets, ``'joint'`` all labels of all samples.
        bucket_size: Number of consecutive samples that are compared with each other, unless ``way`` is ``'sample'``;
            None for the whole batch. The last bucket is smaller if the batch size is no multiple.
        across_ranks: Whether the batches of all processes of a distributed training are joined, in the order of their
            ranks, before samples are compared. A bucket can then be larger than the batch of a process. Value and
            training are as in one process with the whole batch, also with ``'sum'`` or an ``avg_factor`` of each
            process. Not for ``way='sample'``, which compares no samples.
        **kwargs: The settings (arguments with defaults) of ``function``, and the arguments of :class:`MultiLabelLoss`.

    ``reduction='mean'`` is over the sets that have a known label (for two-way and softmax: a positive one). With
    buckets, each class of each bucket is a set. ``'both'`` adds the mean over samples and the mean over classes.
    ``'none'`` gives one value per set: (N,) for ``'sample'``, (C,) or (buckets, C) for ``'class'``, (buckets,) for
    ``'joint'``; it is not defined for ``'both'``.

    ``weight`` is how often a sample counts. For ``'sample'`` it is a factor of the sample's loss. Where samples are
    compared, weight 2 is the same as two samples. All labels of a sample must have one weight, or 0 (unknown).

    Detectors pass anchors, queries or proposals as samples: class indices that include the background C. They are
    shuffled first, because consecutive anchors are neighbours in the image. Anchors of weight 0 are left out. In a
    detector, ``'class'`` and ``'both'`` need a ``bucket_size``, so that the cost is linear in the number of anchors.
    ``'joint'`` and ``across_ranks`` raise a ValueError there. So does ``'sample'`` for a loss that is 0 without a
    positive, because most anchors have none.
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
        """Return the loss as :meth:`MultiLabelLoss.forward`; with ``across_ranks``, of all processes' joined batch."""
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
    """Shuffle the samples, and drop those whose labels all have weight 0.

    Args:
        logits: (N, C).
        target: Labels, (N, C).
        weight: Weights of samples, (N, 1), or of labels, (N, C); None without weights.

    Returns:
        (logits, target, weight) of the M samples left. The weight is None if all are 1: sums without weights cost half.
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
    """LSEP, log-sum-exp pairwise loss (Li et al., 2017); with ``way='class'`` the C-LSEP of Lin et al.

    Args:
        way: Which labels are compared, see :class:`SetwiseLoss`.
        gamma: Factor of the differences between logits; Lin et al. use 5 for C-LSEP.
        logit_bias: Margin by which the logits of positives should exceed those of negatives.
        **kwargs: ``bucket_size`` and ``across_ranks`` of :class:`SetwiseLoss`, and those of :class:`MultiLabelLoss`.

    Lin et al. add up the samples or classes, ``reduction='sum'``.
    """

    function = staticmethod(F.lsep_loss)


@LOSSES.register_module()
class ZLPRLoss(SetwiseLoss):
    """ZLPR, zero-bounded log-sum-exp loss (Su et al., 2022), which compares logits with 0; C-ZLPR for ``way='class'``.

    Args:
        way: Which labels form a set, see :class:`SetwiseLoss`.
        logit_bias: Margin by which positives should be above zero, and negatives below.
        **kwargs: ``bucket_size``, ``across_ranks`` and other arguments, as in :class:`LSEPLoss`.
    """

    function = staticmethod(F.zlpr_loss)


@LOSSES.register_module()
class TwoWayLoss(SetwiseLoss):
    """Two-way multi-label loss (Kobayashi, Eq. 17): hardest positive against hardest negative, of samples and classes.

    Args:
        way: Which labels are compared, see :class:`SetwiseLoss`.
        positive_temperature: Temperature of the soft minimum of positives. A larger one enlarges the margin.
        negative_temperature: Temperature of the soft maximum of negatives. They are many, so 1 is margin enough.
        logit_bias: Constant margin between positives and negatives.
        **kwargs: ``bucket_size`` (128 in the paper), ``across_ranks`` and others, as in :class:`LSEPLoss`.
    """

    needs_positive = True
    function = staticmethod(F.two_way_loss)


@LOSSES.register_module()
class SoftmaxLoss(SetwiseLoss):
    """Softmax cross-entropy over a sample or class, with labels normalised to sum 1 (Kobayashi, Eq. 18).

    Args:
        way: Which labels form a softmax, see :class:`SetwiseLoss`.
        temperature: Divisor of the logits.
        logit_bias: Margin that is added to the logits of the negatives, after the division.
        **kwargs: ``bucket_size``, ``across_ranks`` and other arguments, as in :class:`LSEPLoss`.
    """

    needs_positive = True
    function = staticmethod(F.softmax_loss)


@LOSSES.register_module()
class MultiSimilarityLoss(SetwiseLoss):
    """Multi-similarity loss of logits (Kobayashi, Eq. 20 and Table 4a): ZLPR with temperatures.

    Args:
        way: Which labels form a set, see :class:`SetwiseLoss`.
        positive_temperature: Temperature of positives; a larger one pushes them further above zero.
        negative_temperature: Temperature of negatives; a larger one pushes them further below zero.
        logit_bias: Margin by which positives should be above zero, and negatives below.
        **kwargs: ``bucket_size``, ``across_ranks`` and other arguments, as in :class:`LSEPLoss`.
    """

    function = staticmethod(F.multi_similarity_loss)


@LOSSES.register_module()
class CircleLoss(SetwiseLoss):
    """Circle loss (Sun et al., 2020) of logits: a label's gradient is weighted by its distance from the optimum.

    Args:
        way: Which labels are compared, see :class:`SetwiseLoss`.
        gamma: Factor of the similarities.
        margin: Positives should have a similarity above 1 - margin, negatives below margin.
        similarity: Similarity of sample and class: ``'sigmoid'`` of the logit, or the ``'logit'`` itself; see
            :func:`mmml_losses.functional.circle_loss`.
        **kwargs: ``bucket_size``, ``across_ranks`` and other arguments, as in :class:`LSEPLoss`.
    """

    function = staticmethod(F.circle_loss)


@LOSSES.register_module()
class DRLoss(SetwiseLoss):
    """DR, distributionally robust loss (Lin et al., Eq. 8): C-LSEP with a gradient constraint.

    C-LSEP is the logarithm of a sum over pairs of a positive and a negative. The paper's constraint adds exp(gamma 2
    times the logit) of each negative to that sum; :func:`mmml_losses.functional.dr_loss` has the formula.

    Args:
        way: Which labels are compared, see :class:`SetwiseLoss`; the paper compares the samples of a class.
        pair_scale: Factor of the differences between logits, the paper's gamma 1.
        constraint_scale: Factor of the logits in the constraint, gamma 2: 7 for VOC-LT, 10 for COCO-LT.
        constraint: ``'negative'`` (NGC) pushes negatives below 0, ``'positive'`` (PGC) positives above 0, ``'both'``
            (GC) does both; None leaves the constraint out, which is C-LSEP.
        logit_bias: Margin by which the logits of positives should exceed those of negatives.
        **kwargs: ``bucket_size``, ``across_ranks`` and others, as in :class:`LSEPLoss`; the paper: ``reduction='sum'``.
    """

    function = staticmethod(F.dr_loss)

r"""Set-wise losses: compare the positive labels of a set with its negative labels, for :math:`\min x_p > \max x_n`.

The sets are rows, columns or blocks of the logit matrix (see :mod:`mmml_losses.functional.sets`). In formulas,
:math:`x_p` are the logits of the positives of a set, and :math:`x_n` of its negatives. Sums over pairs factorise,
:math:`\sum_p\sum_n e^{x_n - x_p} = \sum_p e^{-x_p}\sum_n e^{x_n}`, so time is linear in the number of labels. Logits
may have any size; half precision is computed in float32. Without labels to compare, value and gradient are 0.
"""

import torch
from torch import Tensor

from ..utils.arguments import check_above_0, check_choice
from .sets import Sets, SetValues, promote_half
from .terms import exact_softplus

__all__ = ['circle_loss', 'dr_loss', 'lsep_loss', 'multi_similarity_loss', 'softmax_loss', 'two_way_loss', 'zlpr_loss']

CONSTRAINTS = ('negative', 'positive', 'both', None)
SIMILARITIES = ('sigmoid', 'logit')


def lsep_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'sample',
    gamma: float = 1.0,
    logit_bias: float = 0.0,
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute LSEP, log-sum-exp pairwise loss, per set (Li et al., 2017); C-LSEP with ``way='class'`` (Lin et al.).

    .. math::
        \log\Big(1 + e^{\epsilon}\sum_{p}\sum_{n} e^{\gamma(x_n - x_p)}\Big)

    Args:
        logits: (N, C) logits; in a set, :math:`x_p` are those of positives and :math:`x_n` those of negatives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        gamma: Factor of the differences. With a large one, easy pairs cost almost nothing; Lin et al. use 5.
        logit_bias: Margin :math:`\epsilon` by which positives are to exceed negatives (Kobayashi, Table 2).
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
        0 for sets without positives or negatives.
    """
    check_above_0(gamma=gamma)
    sets = Sets(targets, way, bucket_size, weight)
    positives, negatives = sets.opponents(logits, logits, -gamma, gamma)
    return sets.split(exact_softplus(positives + negatives + logit_bias))


def zlpr_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'sample',
    logit_bias: float = 0.0,
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute ZLPR, the zero-bounded log-sum-exp loss, per set (Su et al., 2022); C-ZLPR with ``way='class'``.

    .. math::
        \log\Big(1 + e^{\epsilon}\sum_p e^{-x_p}\Big) + \log\Big(1 + e^{\epsilon}\sum_n e^{x_n}\Big)

    Positives and negatives are compared with zero instead of each other (Lin et al., Eq. 4). So a set with positives
    only, or negatives only, still costs. It is :func:`multi_similarity_loss` with temperatures of 1.

    Args:
        logits: (N, C) logits; in a set, :math:`x_p` are those of positives and :math:`x_n` those of negatives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        logit_bias: Margin :math:`\epsilon`: positives are to be above it, negatives below its opposite.
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
    """
    return multi_similarity_loss(logits, targets, way, 1.0, 1.0, logit_bias, bucket_size, weight)


def multi_similarity_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'sample',
    positive_temperature: float = 1.0,
    negative_temperature: float = 1.0,
    logit_bias: float = 0.0,
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute the multi-similarity loss (Wang et al., 2019) per set, in the form of Kobayashi, Eq. 20 and Table 4a.

    .. math::
        \mathrm{softplus}\Big(\epsilon + T_P\log\sum_p e^{-x_p / T_P}\Big)
        + \mathrm{softplus}\Big(\epsilon + T_N\log\sum_n e^{x_n / T_N}\Big)

    Wang et al. multiply the softplus by the temperature, and select pairs (mining). Kobayashi has the temperatures
    inside, as in :func:`two_way_loss`, and selects nothing.

    Args:
        logits: (N, C) logits; in a set, :math:`x_p` are those of positives and :math:`x_n` those of negatives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        positive_temperature: :math:`T_P`. A larger one enlarges the margin; Table 4a tries 1, 2 and 4.
        negative_temperature: :math:`T_N`, 1 in Table 4a.
        logit_bias: Margin :math:`\epsilon`: positives are to be above it, negatives below its opposite.
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
    """
    check_above_0(positive_temperature=positive_temperature, negative_temperature=negative_temperature)
    sets = Sets(targets, way, bucket_size, weight)
    positives = positive_temperature * sets.positives(logits, -1 / positive_temperature)
    negatives = negative_temperature * sets.negatives(logits, 1 / negative_temperature)
    return sets.split(exact_softplus(positives + logit_bias) + exact_softplus(negatives + logit_bias))


def two_way_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'both',
    positive_temperature: float = 4.0,
    negative_temperature: float = 1.0,
    logit_bias: float = 0.0,
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute the two-way multi-label loss per set (Kobayashi, Eq. 14 to 17; Eq. 22 with ``way='joint'``).

    .. math::
        \mathrm{softplus}\Big(\epsilon + T_P\log\sum_p e^{-x_p / T_P} + T_N\log\sum_n e^{x_n / T_N}\Big)

    The log-sum-exps approximate the hardest positive and the hardest negative of a set. The paper adds the mean over
    samples with a positive and the mean over classes with a positive. Adding a constant to all logits changes nothing.

    Args:
        logits: (N, C) logits; in a set, :math:`x_p` are those of positives and :math:`x_n` those of negatives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        positive_temperature: :math:`T_P`. A larger one enlarges the margin between positives and negatives.
        negative_temperature: :math:`T_N`. The negatives are many, so that 1 gives margin enough.
        logit_bias: Margin :math:`\epsilon` that does not depend on the logits (Table 2).
        bucket_size: Consecutive samples in a column or ``'joint'`` set (paper: 128); None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
        0 for sets without positives or negatives.
    """
    check_above_0(positive_temperature=positive_temperature, negative_temperature=negative_temperature)
    sets = Sets(targets, way, bucket_size, weight)
    positives, negatives = sets.opponents(logits, logits, -1 / positive_temperature, 1 / negative_temperature)
    cost = positive_temperature * positives + negative_temperature * negatives + logit_bias
    return sets.split(exact_softplus(cost))


def softmax_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'sample',
    temperature: float = 1.0,
    logit_bias: float = 0.0,
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute the softmax cross-entropy per set, with equal probabilities for its positives (Kobayashi, Eq. 18).

    .. math::
        \log\sum_c e^{x_c / T} - \frac{1}{|P|}\sum_p \frac{x_p}{T}

    At the minimum, all :math:`|P|` positives of a set have the same logit. With one positive and :math:`T = 1`, it is
    :func:`two_way_loss` with temperatures of 1.

    Args:
        logits: (N, C) logits; in a set, :math:`x_c` are those of known labels and :math:`x_p` those of positives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        temperature: :math:`T`, divisor of the logits.
        logit_bias: Margin, added to :math:`x_c / T` of the negatives.
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
        0 for sets without positives.
    """
    check_above_0(temperature=temperature)
    sets = Sets(targets, way, bucket_size, weight)
    logits = promote_half(logits)
    biased = logits if logit_bias == 0 else logits + temperature * logit_bias * (targets == 0)
    cost = sets.known(biased, 1 / temperature) - sets.positive_mean(logits) / temperature
    return sets.split(torch.where(sets.highest_target() == 1, cost, 0))


def circle_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'sample',
    gamma: float = 80.0,
    margin: float = 0.4,
    similarity: str = 'sigmoid',
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute the circle loss per set (Sun et al., 2020), with logits as similarities of samples and classes.

    .. math::
        \log\Big(1 + \sum_n e^{\gamma\alpha_n(s_n - m)}\sum_p e^{-\gamma\alpha_p(s_p - (1 - m))}\Big),\qquad
        \alpha_p = [1 + m - s_p]_+,\quad \alpha_n = [s_n + m]_+

    The weights :math:`\alpha` are distances from the optimum, :math:`1 + m` for positives and :math:`-m` for negatives:
    labels far from it learn faster. As in the authors' code, the weights are constants for the gradient.

    Args:
        logits: (N, C) logits; :math:`s_p` are the similarities of the positives of a set, :math:`s_n` of its negatives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        gamma: Factor :math:`\gamma`; the authors use 80 (margin 0.4) for retrieval, 256 (margin 0.25) for faces.
        margin: :math:`m`; positives are to be above :math:`1 - m` and negatives below :math:`m`.
        similarity: ``'sigmoid'``: :math:`s` is the sigmoid of the logit, at most 1 as the optima assume; its gradient
            vanishes for logits far from 0. ``'logit'``: :math:`s` is the logit itself; then positives above
            :math:`1 + m` and negatives below :math:`-m` have no gradient. Lin et al. do not name theirs.
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
        0 for sets without positives or negatives.
    """
    check_above_0(gamma=gamma)
    check_choice('similarity', similarity, SIMILARITIES)
    sets = Sets(targets, way, bucket_size, weight)
    logits = promote_half(logits)
    similarities = logits.sigmoid() if similarity == 'sigmoid' else logits
    fixed = similarities.detach()
    positive_scores = gamma * (fixed - (1 + margin)).clamp(max=0) * (similarities - (1 - margin))
    negative_scores = gamma * (fixed + margin).clamp(min=0) * (similarities - margin)
    positives, negatives = sets.opponents(positive_scores, negative_scores)
    return sets.split(exact_softplus(positives + negatives))


def dr_loss(
    logits: Tensor,
    targets: Tensor,
    way: str = 'class',
    pair_scale: float = 5.0,
    constraint_scale: float = 7.0,
    constraint: str | None = 'negative',
    logit_bias: float = 0.0,
    bucket_size: int | None = None,
    weight: Tensor | None = None,
) -> SetValues:
    r"""Compute the distributionally robust loss, DR, per set: C-LSEP with a gradient constraint (Lin et al., Eq. 8).

    .. math::
        \log\Big(1 + e^{\epsilon}\sum_p\sum_n e^{\gamma_1(x_n - x_p)} + \sum_n e^{\gamma_2 x_n}\Big)

    The last sum, the negative gradient constraint (NGC), pushes negatives below 0, even in a class that has no positive
    in the batch and so no pairs. The authors' code takes the exponential of a log-sum-exp and overflows in float32 at
    logits of 9; here the three terms are added as logarithms. Eq. 6 of the paper sums the values of all sets.

    Args:
        logits: (N, C) logits; in a set, :math:`x_p` are those of positives and :math:`x_n` those of negatives.
        targets: (N, C) labels; 1 positive, 0 negative, -1 unknown.
        way: What a set is: ``'sample'`` (row), ``'class'`` (column), ``'both'`` or ``'joint'``; see :class:`Sets`.
        pair_scale: Factor :math:`\gamma_1` of the differences.
        constraint_scale: Factor :math:`\gamma_2` of the logits in the constraint; 7 for VOC-LT, 10 for COCO-LT.
        constraint: ``'negative'`` for NGC; ``'positive'`` for :math:`\sum_p e^{-\gamma_2 x_p}` instead (PGC);
            ``'both'`` for both sums (GC); None for neither, plain :func:`lsep_loss` (Table 4).
        logit_bias: Margin :math:`\epsilon` by which positives are to exceed negatives.
        bucket_size: Number of consecutive samples in a column or ``'joint'`` set; None for all. See :class:`Sets`.
        weight: (N,), how often each sample counts; None for once. See :class:`Sets`.

    Returns:
        One value per set: rows (N,), columns (C,) or (buckets, C), tuple of both, joint (buckets,): :meth:`Sets.split`.
    """
    check_above_0(pair_scale=pair_scale, constraint_scale=constraint_scale)
    check_choice('constraint', constraint, CONSTRAINTS)
    sets = Sets(targets, way, bucket_size, weight)
    positives, negatives = sets.opponents(logits, logits, -pair_scale, pair_scale)
    terms = [positives + negatives + logit_bias]
    if constraint in ('negative', 'both'):
        terms.append(sets.negatives(logits, constraint_scale))
    if constraint in ('positive', 'both'):
        terms.append(sets.positives(logits, -constraint_scale))
    return sets.split(exact_softplus(torch.stack(terms).logsumexp(dim=0)))

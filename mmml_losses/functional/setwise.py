r"""Losses that compare the positive labels of a set with its negative ones, for :math:`\min x_p > \max x_n`.

The sets are the rows of the logit matrix, its columns, or blocks of it (see :mod:`mmml_losses.functional.sets`), and
every loss works for each of them. Sums over pairs factorise, :math:`\sum_p\sum_n e^{x_n - x_p} = \sum_p
e^{-x_p}\sum_n e^{x_n}`, so that each loss is a function of few log-sum-exps and costs as much as there are labels. It
takes logits of any size, half precision in float32, and where a set has nothing to compare, value and gradient are 0.
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
    r"""Compute LSEP, the log-sum-exp pairwise loss (Li et al., 2017); C-LSEP with ``way='class'`` (Lin et al.).

    .. math::
        \log\Big(1 + e^{\epsilon}\sum_{p}\sum_{n} e^{\gamma(x_n - x_p)}\Big)

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared, as for all losses of this file: see :class:`Sets`.
        gamma: Scale of the differences. A larger one leaves easy pairs alone; Lin et al. use 5.
        logit_bias: Margin :math:`\epsilon` by which positives are to exceed negatives (Kobayashi, Table 2).
        bucket_size: Samples compared with each other along the classes: see :class:`Sets`.
        weight: How often each sample counts, (N,): see :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`; 0 for sets without positives or negatives.
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
    r"""Compute ZLPR, the zero-bounded log-sum-exp loss (Su et al., 2022); C-ZLPR with ``way='class'``.

    .. math::
        \log\Big(1 + e^{\epsilon}\sum_p e^{-x_p}\Big) + \log\Big(1 + e^{\epsilon}\sum_n e^{x_n}\Big)

    Positives and negatives are compared with zero instead of each other (Lin et al., Eq. 4), so that a set with only
    one of the two still costs. It is :func:`multi_similarity_loss` without temperatures.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared: see :class:`Sets`.
        logit_bias: Distance :math:`\epsilon` from zero that either side is to keep.
        bucket_size: See :class:`Sets`.
        weight: See :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`.
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
    r"""Compute the multi-similarity loss (Wang et al., 2019) of logits, in the form of Kobayashi, Eq. 20 and Table 4a.

    .. math::
        \mathrm{softplus}\Big(\epsilon + T_P\log\sum_p e^{-x_p / T_P}\Big)
        + \mathrm{softplus}\Big(\epsilon + T_N\log\sum_n e^{x_n / T_N}\Big)

    Wang et al. put the temperature in front of the softplus and mine the pairs; Kobayashi compares with temperatures
    inside, as in :func:`two_way_loss`, and without mining.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared: see :class:`Sets`.
        positive_temperature: :math:`T_P`. A larger one enlarges the margin; Table 4a tries 1, 2 and 4.
        negative_temperature: :math:`T_N`, 1 in that table.
        logit_bias: Distance :math:`\epsilon` from zero that either side is to keep.
        bucket_size: See :class:`Sets`.
        weight: See :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`.
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
    r"""Compute the two-way multi-label loss (Kobayashi, Eq. 14 to 17; Eq. 22 with ``way='joint'``).

    .. math::
        \mathrm{softplus}\Big(\epsilon + T_P\log\sum_p e^{-x_p / T_P} + T_N\log\sum_n e^{x_n / T_N}\Big)

    The log-sum-exps stand for the hardest positive and the hardest negative of a sample, of a class, or of all. The
    paper adds the mean over the samples that have a positive and the mean over the classes that have one. Shifting all
    logits changes nothing.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared: see :class:`Sets`.
        positive_temperature: :math:`T_P`. A larger one enlarges the margin between positives and negatives.
        negative_temperature: :math:`T_N`. The negatives are many, and 1 is margin enough.
        logit_bias: Margin :math:`\epsilon` that does not adapt to the logits (Table 2).
        bucket_size: See :class:`Sets`. The paper's training compared 128 samples, those of one GPU, with each other.
        weight: See :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`; 0 for sets without positives or negatives.
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
    r"""Compute the softmax cross-entropy with the labels of a set normalised to sum 1 (Kobayashi, Eq. 18).

    .. math::
        \log\sum_c e^{x_c / T} - \frac{1}{|P|}\sum_p \frac{x_p}{T}

    At its minimum, all positives of a set have the same logit. With one positive it is :func:`two_way_loss` with unit
    temperatures.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared: see :class:`Sets`.
        temperature: :math:`T`, by which the logits are divided.
        logit_bias: Margin that is added to the logits of the negatives.
        bucket_size: See :class:`Sets`.
        weight: See :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`; 0 for sets without positives.
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
    r"""Compute the circle loss (Sun et al., 2020), with a logit as the similarity of a sample and a class.

    .. math::
        \log\Big(1 + \sum_n e^{\gamma\alpha_n(s_n - m)}\sum_p e^{-\gamma\alpha_p(s_p - (1 - m))}\Big),\qquad
        \alpha_p = [1 + m - s_p]_+,\quad \alpha_n = [s_n + m]_+

    The weights :math:`\alpha` let a label learn at the pace of its distance from the optimum, :math:`1 + m` or
    :math:`-m`. As in the authors' code they are constants for the gradient.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared: see :class:`Sets`.
        gamma: Scale of the similarities. 80 and a margin of 0.4 are what the authors use for retrieval, 256 and 0.25
            for faces.
        margin: :math:`m`; positives are to be above :math:`1 - m` and negatives below :math:`m`.
        similarity: How a logit reads as :math:`s`. The optima are those of similarities that end at 1, which
            ``'sigmoid'`` provides, at the price of a gradient that vanishes for logits far from 0 on either side.
            ``'logit'`` takes the logit itself: then positives above :math:`1 + m` and negatives below :math:`-m` cost
            nothing more. Lin et al. do not say which they compare with.
        bucket_size: See :class:`Sets`.
        weight: See :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`; 0 for sets without positives or negatives.
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
    r"""Compute the distributionally robust loss, DR: C-LSEP with a gradient constraint (Lin et al., Eq. 8).

    .. math::
        \log\Big(1 + e^{\epsilon}\sum_p\sum_n e^{\gamma_1(x_n - x_p)} + \sum_n e^{\gamma_2 x_n}\Big)

    The last sum, the negative gradient constraint (NGC), keeps pushing negatives below 0. A class without a positive
    in the batch has no pairs and still pays it. The authors' code takes the exponential of a log-sum-exp and overflows
    at logits of 9; here the three terms are added as logarithms.

    Args:
        logits: (N, C).
        targets: (N, C) with 1 positive, 0 negative, -1 unknown.
        way: Which labels are compared: see :class:`Sets`.
        pair_scale: :math:`\gamma_1`, the scale of the differences.
        constraint_scale: :math:`\gamma_2`, the scale of the constrained logits; 7 for VOC-LT, 10 for COCO-LT.
        constraint: ``'negative'`` for NGC; ``'positive'`` for PGC, :math:`\sum_p e^{-\gamma_2 x_p}`; ``'both'`` for
            GC; None for plain :func:`lsep_loss` (Table 4).
        logit_bias: Margin :math:`\epsilon` of the pairs, as in :func:`lsep_loss`.
        bucket_size: See :class:`Sets`.
        weight: See :class:`Sets`.

    Returns:
        One value per set, not reduced, in the shapes of :meth:`Sets.split`. Eq. 6 of the paper adds them up.
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

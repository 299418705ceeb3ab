"""What a retrieval evaluation returns, and how its means come from the strata of the query space."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import nan, sqrt
from typing import NamedTuple

from .space import Counts

# Half of the width, in standard errors, of an interval that holds 95 % of a normal distribution.
NORMAL_95 = 1.959963984540054


class RetrievalMean(NamedTuple):
    """Mean average precision over some queries.

    Attributes:
        value: The mean in [0, 1] over all queries with a relevant image; NaN when there are none.
        half_width: Half of the width of its 95 % interval; 0 when every query was evaluated.
        num_queries: Number of queries with a relevant image; estimated when they were sampled.
        num_evaluated: Number of queries whose average precision is in the mean.
        num_skipped: Number of queries left out because no image is relevant; estimated when they were sampled.
    """

    value: float
    half_width: float
    num_queries: int
    num_evaluated: int
    num_skipped: int


@dataclass(frozen=True)
class RetrievalResult:
    """How well a model answers queries.

    Attributes:
        overall: Mean over all queries.
        by_conditions: Mean over the queries of each number of conditions :math:`|P| + |N|`.
        by_counts: Mean over the queries of each (:math:`|P|`, :math:`|N|`).
        num_images: Number of images that were ranked.
        num_classes: Number of classes that queries name.
        exhaustive: Whether all queries were evaluated, or a sample.
        complete: False for what an interrupted evaluation has so far.
    """

    overall: RetrievalMean
    by_conditions: dict[int, RetrievalMean]
    by_counts: dict[Counts, RetrievalMean]
    num_images: int
    num_classes: int
    exhaustive: bool = True
    complete: bool = True


class RetrievalInterrupted(KeyboardInterrupt):
    """The user stopped an evaluation; ``result`` has what was finished.

    The finished part of a sample estimates the whole. The finished part of all queries does not: it holds the
    classes that come first, and its intervals are NaN.
    """

    def __init__(self, result: RetrievalResult, checkpoint_file: str | os.PathLike | None = None):
        mean = result.overall
        so_far = f', with mAP {100 * mean.value:.2f} so far' if mean.num_evaluated else ''
        rest = '' if checkpoint_file is None else f'; the same call goes on from {os.fspath(checkpoint_file)}'
        super().__init__(f'stopped after {mean.num_evaluated:,} queries{so_far}{rest}')
        self.result = result


@dataclass(frozen=True)
class Stratum:
    """What is known of the queries with one (:math:`|P|`, :math:`|N|`).

    Attributes:
        size: Number of queries.
        num_queries: Number of queries with a relevant image, or its estimate.
        count_variance: Variance of that estimate.
        mean: Mean average precision of those evaluated.
        mean_variance: Variance of the mean.
        num_evaluated: Number of those evaluated.
    """

    size: int
    num_queries: float
    count_variance: float
    mean: float
    mean_variance: float
    num_evaluated: int


def combine(strata: Collection[Stratum]) -> RetrievalMean:
    r"""Mean over the queries of several strata.

    With :math:`M_h` the (estimated) number of queries with a relevant image in stratum h, :math:`m_h` their mean
    average precision and :math:`M = \sum_h M_h`, the mean is the ratio :math:`R = \sum_h M_h m_h / M`, and to first
    order

    .. math::
        \mathrm{Var}(R) = \frac{1}{M^2} \sum_h \left[ M_h^2\,\mathrm{Var}(m_h) + (m_h - R)^2\,\mathrm{Var}(M_h) \right],

    the numbers of queries and the means being estimated independently.
    """
    size = sum(stratum.size for stratum in strata)
    filled = [stratum for stratum in strata if stratum.num_queries]
    if not filled:
        return RetrievalMean(nan, nan, 0, 0, size)
    total = sum(stratum.num_queries for stratum in filled)
    value = sum(stratum.num_queries * stratum.mean for stratum in filled) / total
    variance = sum(
        stratum.num_queries**2 * stratum.mean_variance + (stratum.mean - value) ** 2 * stratum.count_variance
        for stratum in filled
    )
    num_queries = round(total)
    return RetrievalMean(
        float(value),
        float(NORMAL_95 * sqrt(variance) / total),
        num_queries,
        sum(stratum.num_evaluated for stratum in filled),
        size - num_queries,
    )


def result_of(strata: Mapping[Counts, Stratum], **attributes) -> RetrievalResult:
    """Make the result from the strata."""
    lengths = sorted({sum(counts) for counts in strata})
    return RetrievalResult(
        overall=combine(strata.values()),
        by_conditions={
            length: combine([stratum for counts, stratum in strata.items() if sum(counts) == length])
            for length in lengths
        },
        by_counts={counts: combine([stratum]) for counts, stratum in strata.items()},
        **attributes,
    )

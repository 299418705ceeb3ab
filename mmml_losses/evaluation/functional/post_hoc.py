"""Scores that are recalibrated after the fact: from probabilities to log-odds, and through another link."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ...utils.arrays import ArrayLike, as_probabilities, row_blocks
from .predictions import Predictions

# Probabilities come as float32, whose neighbours of 0 and 1 are 2^-149 and 1 - 2^-24. The log-odds that stand for 0 and
# 1 lie just beyond: their probabilities, 2^-151 and 1 - 2^-26, round to 0 and 1.
LOWEST_LOG_ODDS = -151 * math.log(2)
HIGHEST_LOG_ODDS = 26 * math.log(2)


def log_odds_of(probabilities: ArrayLike) -> Tensor:
    """Log-odds of probabilities, float64 and finite: 0 and 1 read as what float32 rounds to them.

    Args:
        probabilities: (N, C), in [0, 1].
    """
    values = torch.tensor(as_probabilities(probabilities), dtype=torch.float64)
    return values.logit().clamp(LOWEST_LOG_ODDS, HIGHEST_LOG_ODDS)


def recalibrate(predictions: Predictions, link: Callable[[Tensor], Tensor]) -> Predictions:
    """Predictions with other probabilities of the same samples.

    A link that grows strictly keeps the order of the scores, and with it every ranking measure; equal scores stay
    equal. The scores are float32 as before: probabilities that a link moves close to 1 may become equal.

    Args:
        predictions: Their scores are probabilities.
        link: From (n, C) log-odds to probabilities, such as :class:`mmml_losses.losses.links.PhiLink`. Scores of a
            loss that has a link of its own were read through it already: this one comes on top.
    """
    scores = np.empty_like(predictions.scores)
    with torch.no_grad():
        for rows in row_blocks(*scores.shape):
            scores[rows] = link(log_odds_of(predictions.scores[rows])).numpy()
    return replace(predictions, scores=scores)

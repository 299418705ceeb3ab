r"""Inverse links: how a logit :math:`v` reads as a probability :math:`\eta`.

``*_logit_probabilities`` is the log-odds :math:`\log\frac{\eta}{1 - \eta}`. It is computed without the probability, so
that it stays exact where :math:`\eta` rounds to 0 or 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def sigmoid_link(logits: Tensor) -> Tensor:
    r"""The logistic link, :math:`\eta = \sigma(v)`, whose log-odds are the logits themselves."""
    return logits.sigmoid()


def spa_logit_probabilities(
    logits: Tensor,
    positive_scale: float = 1.0,
    positive_slope: float = 1.0,
    positive_shift: float = 0.0,
    negative_scale: float = 5.0,
    negative_slope: float = 3.0,
    negative_shift: float = 1.0,
) -> Tensor:
    r"""Log-odds of the SPA link, :math:`\log a - \log b` with :math:`a, b` as in :func:`spa_link`."""
    log_ratio = math.log(negative_slope / negative_scale) - math.log(positive_slope / positive_scale)
    log_a = logsigmoid(negative_slope * (logits - negative_shift))
    log_b = logsigmoid(-positive_slope * (logits - positive_shift))
    return log_ratio + log_a - log_b


def spa_link(logits: Tensor, **parameters: float) -> Tensor:
    r"""The link that makes SPA strictly proper: its conditional risk is minimal at the true probability.

    .. math::
        \eta(v) = \frac{a}{a + b},\qquad
        a = \frac{k^-}{\zeta^-}\,\sigma(k^-(v - b^-)),\qquad
        b = \frac{k^+}{\zeta^+}\,\sigma(-k^+(v - b^+))

    Setting the derivative of :math:`\eta\,\ell_+(v) + (1 - \eta)\,\ell_-(v)` to zero gives this form. Eq. 17 of the
    paper prints the signs inside both sigmoids the other way round, which would fall as the logit grows.

    Args:
        logits: Any shape.
        **parameters: The scales, slopes and shifts of :func:`spa_logit_probabilities`.
    """
    return spa_logit_probabilities(logits, **parameters).sigmoid()


def spa_inverse_link(probabilities: Tensor, **parameters: float) -> Tensor:
    r"""The logits whose :func:`spa_link` is ``probabilities``.

    The log-odds grow strictly with the logit, so bisection finds the one root; it has no closed form.

    Args:
        probabilities: Any shape, inside (0, 1).
        **parameters: The scales, slopes and shifts of :func:`spa_logit_probabilities`.
    """
    wanted = probabilities.double().logit()
    if not wanted.isfinite().all():
        raise ValueError('probabilities must be inside (0, 1), where the logit is finite')
    low, high = torch.full_like(wanted, -1.0), torch.full_like(wanted, 1.0)
    while (too_high := spa_logit_probabilities(low, **parameters) > wanted).any():
        low = torch.where(too_high, 2 * low, low)
    while (too_low := spa_logit_probabilities(high, **parameters) < wanted).any():
        high = torch.where(too_low, 2 * high, high)
    for _ in range(64):  # as many halvings as the float64 bracket has bits
        middle = (low + high) / 2
        below = spa_logit_probabilities(middle, **parameters) < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return ((low + high) / 2).to(probabilities.dtype)

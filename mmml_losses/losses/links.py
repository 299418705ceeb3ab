"""Links as modules, so that a loss can own one and a config can name one."""

from __future__ import annotations

from torch import Tensor, nn

from .. import functional as F
from ..registry import MODELS


class Link(nn.Module):
    """How a logit reads as a probability. ``link(logits)`` gives the probabilities."""

    def forward(self, logits: Tensor) -> Tensor:
        return F.sigmoid_link(self.logit_probabilities(logits))

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        """The log-odds of the probabilities, computed without going through them."""
        raise NotImplementedError

    def inverse(self, probabilities: Tensor) -> Tensor:
        """The logits that read as ``probabilities``."""
        raise NotImplementedError


@MODELS.register_module()
class SigmoidLink(Link):
    """The logistic link of BCE, Focal and ASL."""

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return logits

    def inverse(self, probabilities: Tensor) -> Tensor:
        return probabilities.logit()


@MODELS.register_module()
class SPALink(Link):
    """The link of SPA (see :func:`mmml_losses.functional.spa_link`).

    Args:
        **parameters: Scales, slopes and shifts, as in :class:`SPALoss`.
    """

    def __init__(self, **parameters: float):
        super().__init__()
        self.constants = parameters

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return F.spa_logit_probabilities(logits, **self.constants)

    def inverse(self, probabilities: Tensor) -> Tensor:
        return F.spa_inverse_link(probabilities, **self.constants)

"""Links as modules: maps from logits to probabilities that a loss owns and a config names."""

import inspect
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..functional import links as F
from ..registry import MODELS
from ..utils.logistic import fit_bounded_line, logistic_loss
from .core.inputs import check_targets, promote

# Labels that the log-odds separate without an error would drive a fitted scale to infinity.
LARGEST_SCALE = 100.0


class Link(nn.Module):
    """Map from logits to probabilities: ``link(logits)`` are the probabilities."""

    def forward(self, logits: Tensor) -> Tensor:
        return F.sigmoid_link(self.logit_probabilities(logits))

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        """Compute the log-odds of the probabilities, without rounding to probabilities first."""
        raise NotImplementedError

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        """Invert :meth:`logit_probabilities`."""
        raise NotImplementedError

    def inverse(self, probabilities: Tensor) -> Tensor:
        """Compute the logits that have these probabilities."""
        return self.inverse_logit_probabilities(probabilities.double().logit()).to(probabilities.dtype)


@MODELS.register_module()
class SigmoidLink(Link):
    """The logistic link, of BCE and of every loss that has no other."""

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return logits

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        return log_odds


class FunctionLink(Link):
    """A link that is a function of the logit and of constants. A subclass names the function and its inverse.

    The arguments are the constants of the function, with its defaults.
    """

    log_odds_of: ClassVar[Callable[..., Tensor]]
    logits_of: ClassVar[Callable[..., Tensor]]

    def __init__(self, *values: float, **constants: float):
        super().__init__()
        _, *parameters = inspect.signature(self.log_odds_of).parameters.values()
        bound = inspect.Signature(parameters).bind(*values, **constants)
        bound.apply_defaults()
        self.constants = bound.arguments
        self.log_odds_of(torch.zeros(1), **self.constants)  # raises the errors for bad constants

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return self.log_odds_of(logits, **self.constants)

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        return self.logits_of(log_odds, **self.constants)

    def extra_repr(self) -> str:
        return ', '.join(f'{name}={value}' for name, value in self.constants.items())


@MODELS.register_module()
class SPALink(FunctionLink):
    """The link of SPA (see :func:`mmml_losses.functional.spa_link`).

    Args:
        **constants: Scales, slopes and shifts, as in :class:`SPALoss`.
    """

    log_odds_of = staticmethod(F.spa_logit_probabilities)
    logits_of = staticmethod(F.spa_inverse_logit_probabilities)


@MODELS.register_module()
class PhiLink(FunctionLink):
    """The link of Focal and ASL (see :func:`mmml_losses.functional.phi_link`), with an inverse where the margin is 0.

    Args:
        **constants: The powers ``gamma_positive`` and ``gamma_negative``, the probability shift ``margin`` of the
            negatives, with which small logits all have the probability 0, and the weight ``alpha`` of the positives
            beside 1 - alpha of the negatives, as Focal has it in detectors.
    """

    log_odds_of = staticmethod(F.phi_logit_probabilities)
    logits_of = staticmethod(F.phi_inverse_logit_probabilities)


class Fit(NamedTuple):
    """Mean negative log-likelihood of the known labels before and after a fit."""

    before: float
    after: float


class ScaledLink(Link):
    """A link on top of another, with parameters that are fitted after training, on held-out data.

    The values are buffers: they go into the checkpoint and no optimiser sees them. They start as the identity.

    Args:
        base: The link whose log-odds are scaled, or its config. ``None`` means the own link of the loss that this one
            is given to, the first if there are several; outside a loss, logits are taken for log-odds.
    """

    def __init__(self, base: Link | dict | None = None):
        super().__init__()
        self.base: Link | None = MODELS.build(base) if isinstance(base, dict) else base

    def take_base(self, own: Link) -> None:
        """Take the own link of a loss as the base, unless there is one."""
        if self.base is None:
            self.base = own
        elif isinstance(self.base, ScaledLink):
            self.base.take_base(own)

    def scale_log_odds(self, log_odds: Tensor) -> Tensor:
        """Map the log-odds of the base to those of this link."""
        raise NotImplementedError

    def unscale_log_odds(self, log_odds: Tensor) -> Tensor:
        """Map the log-odds of this link to those of the base."""
        raise NotImplementedError

    def fit_values(self, log_odds: Tensor, targets: Tensor) -> None:
        """Set the buffers to the values that minimise the negative log-likelihood.

        Args:
            log_odds: (N, C) of the base, in float64.
            targets: (N, C) in float64, with -1 for unknown.
        """
        raise NotImplementedError

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return self.scale_log_odds(logits if self.base is None else self.base.logit_probabilities(logits))

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        log_odds = self.unscale_log_odds(log_odds)
        return log_odds if self.base is None else self.base.inverse_logit_probabilities(log_odds)

    def fit(self, logits: Tensor, targets: Tensor) -> Fit:
        """Fit the buffers to labelled data: minimise the negative log-likelihood by Newton's method in float64.

        Scales stay between 1/100 and 100.

        Args:
            logits: (N, C), as the model gives them.
            targets: (N, C) with 1 positive, 0 negative or a soft value between, and -1 for unknown, which is ignored.

        Returns:
            The mean negative log-likelihood of the known labels before and after.
        """
        if logits.dim() != 2 or targets.shape != logits.shape:
            raise ValueError(
                f'logits and targets must be of one shape (N, C), got {tuple(logits.shape)} and {tuple(targets.shape)}'
            )
        with torch.inference_mode(False), torch.no_grad():
            # The base computes in the precision in which it will be read; the fit goes on from there.
            log_odds = logits if self.base is None else self.base.logit_probabilities(promote(logits))
            log_odds = log_odds.to(torch.float64, copy=True)
            targets = targets.to(logits.device, torch.float64, copy=True)
            if not log_odds.isfinite().all():
                raise ValueError('logits must be finite, got some that are not')
            check_targets(targets, soft=True, loss_name=type(self).__name__)
            if not (targets >= 0).any():
                raise ValueError(f'targets must hold known labels, got none in {tuple(targets.shape)}')
            before = negative_log_likelihood(self.scale_log_odds(log_odds), targets)
            self.fit_values(log_odds, targets)
            return Fit(before, negative_log_likelihood(self.scale_log_odds(log_odds), targets))


@MODELS.register_module()
class TemperatureLink(ScaledLink):
    """Temperature scaling: log-odds divided by one number above 0.

    Args:
        base: The link whose log-odds are scaled, or its config; by default the own link of the loss.
    """

    def __init__(self, base: Link | dict | None = None):
        super().__init__(base)
        self.register_buffer('temperature', torch.ones(()))

    def scale_log_odds(self, log_odds: Tensor) -> Tensor:
        return F.temperature_scaling(log_odds, self.temperature)

    def unscale_log_odds(self, log_odds: Tensor) -> Tensor:
        return log_odds * self.temperature

    def fit_values(self, log_odds: Tensor, targets: Tensor) -> None:
        scale, _ = _fit_scale_and_bias(log_odds.reshape(-1, 1), targets.reshape(-1, 1), with_bias=False)
        self.temperature.fill_(1 / scale.item())


@MODELS.register_module()
class PlattLink(ScaledLink):
    """Platt scaling: log-odds times one scale above 0, plus one bias.

    Args:
        base: The link whose log-odds are scaled, or its config; by default the own link of the loss.
    """

    def __init__(self, base: Link | dict | None = None):
        super().__init__(base)
        self.register_buffer('scale', torch.ones(()))
        self.register_buffer('bias', torch.zeros(()))

    def scale_log_odds(self, log_odds: Tensor) -> Tensor:
        return F.platt_scaling(log_odds, self.scale, self.bias)

    def unscale_log_odds(self, log_odds: Tensor) -> Tensor:
        return (log_odds - self.bias) / self.scale

    def fit_values(self, log_odds: Tensor, targets: Tensor) -> None:
        scale, bias = _fit_scale_and_bias(log_odds.reshape(-1, 1), targets.reshape(-1, 1))
        self.scale.fill_(scale.item())
        self.bias.fill_(bias.item())


@MODELS.register_module()
class VectorLink(ScaledLink):
    """Vector scaling: a scale above 0 and a bias for each class.

    A class whose known labels are all positive or all negative has no best values and keeps its log-odds.

    Args:
        num_classes: Number of classes.
        base: The link whose log-odds are scaled, or its config; by default the own link of the loss.
    """

    def __init__(self, num_classes: int, base: Link | dict | None = None):
        super().__init__(base)
        if num_classes < 1:
            raise ValueError(f'num_classes must be at least 1, got {num_classes}')
        self.register_buffer('scale', torch.ones(num_classes))
        self.register_buffer('bias', torch.zeros(num_classes))

    def scale_log_odds(self, log_odds: Tensor) -> Tensor:
        return F.vector_scaling(log_odds, self.scale, self.bias)

    def unscale_log_odds(self, log_odds: Tensor) -> Tensor:
        return (log_odds - self.bias) / self.scale

    def fit_values(self, log_odds: Tensor, targets: Tensor) -> None:
        scale, bias = _fit_scale_and_bias(log_odds, targets)
        self.scale.copy_(scale)
        self.bias.copy_(bias)


def negative_log_likelihood(log_odds: Tensor, targets: Tensor) -> float:
    """Compute the mean negative log-likelihood of the known labels, in float64; NaN without one.

    Args:
        log_odds: (N, C).
        targets: (N, C), with -1 for unknown.
    """
    known = targets >= 0
    losses = logistic_loss(log_odds[known].double().cpu().numpy(), targets[known].double().cpu().numpy())
    return float(losses.mean()) if losses.size else float('nan')


def _fit_scale_and_bias(log_odds: Tensor, targets: Tensor, with_bias: bool = True) -> tuple[Tensor, Tensor]:
    """Fit a scale and a bias to each column, to minimise its negative log-likelihood.

    A column without both positive and negative labels gets 1 and 0. If all are such, a ValueError is raised.

    Args:
        log_odds: (N, C), float64.
        targets: (N, C), with -1 for unknown.
        with_bias: Whether to fit a bias; otherwise it is 0.
    """
    lines = np.tile([1.0, 0.0], (log_odds.size(1), 1))
    is_fitted = False
    for line, x, y in zip(lines, log_odds.T.cpu().numpy(), targets.T.cpu().numpy(), strict=True):
        x, y = x[y >= 0], y[y >= 0]
        if 0 < y.sum() < y.size:
            line[:] = fit_bounded_line(x, y, 1 / LARGEST_SCALE, LARGEST_SCALE, with_bias)
            is_fitted = True
    if not is_fitted:
        raise ValueError('targets must hold positive and negative labels, got only one kind')
    scale, bias = torch.from_numpy(lines).to(log_odds.device).unbind(dim=1)
    return scale, bias

"""Links: maps from logits to probabilities, as modules that are part of a loss and that configs can name."""

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
    """Map from logits to probabilities: ``link(logits)`` returns probabilities of the same shape."""

    def forward(self, logits: Tensor) -> Tensor:
        return F.sigmoid_link(self.logit_probabilities(logits))

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        """Return the log-odds, log(p / (1 - p)), of the probabilities p of logits, exact also near 0 and 1."""
        raise NotImplementedError

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        """Return the logits that :meth:`logit_probabilities` maps to ``log_odds``, in the same shape."""
        raise NotImplementedError

    def inverse(self, probabilities: Tensor) -> Tensor:
        """Return the logits that the link maps to ``probabilities``, in the same shape and dtype."""
        return self.inverse_logit_probabilities(probabilities.double().logit()).to(probabilities.dtype)


@MODELS.register_module()
class SigmoidLink(Link):
    """Link whose probability is the sigmoid of the logit; the default of BCE and of most other losses."""

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return logits

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        return log_odds


class FunctionLink(Link):
    """Base of the links that are a function of the logit and of constants, such as slopes.

    A subclass sets ``log_odds_of``, a function of logits and constants, and its inverse ``logits_of``. The constructor
    takes the constants, with the same defaults.
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
    """Link that maps logits trained with SPA to probabilities (see :func:`mmml_losses.functional.spa_link`).

    Args:
        **constants: The arguments of :class:`SPALoss`, with its defaults: scales, slopes and shifts of the two terms.
    """

    log_odds_of = staticmethod(F.spa_logit_probabilities)
    logits_of = staticmethod(F.spa_inverse_logit_probabilities)


@MODELS.register_module()
class PhiLink(FunctionLink):
    """Link that maps logits trained with Focal or ASL to probabilities (see :func:`mmml_losses.functional.phi_link`).

    Args:
        **constants: The focusing powers ``gamma_positive`` and ``gamma_negative``; the probability shift ``margin`` of
            the negatives; and ``alpha`` (0.5), the weight of the positives, where the negatives weigh 1 - alpha. The
            other defaults are those of :class:`AsymmetricLoss`. Unless ``margin`` is 0, all small logits have the
            probability 0, and the inverse raises a ValueError.
    """

    log_odds_of = staticmethod(F.phi_logit_probabilities)
    logits_of = staticmethod(F.phi_inverse_logit_probabilities)


class Fit(NamedTuple):
    """Mean negative log-likelihood of the known labels, ``before`` and ``after`` the fit of a link."""

    before: float
    after: float


class ScaledLink(Link):
    """Base of the links that scale the log-odds of another link by parameters fitted to held-out data after training.

    The parameters are buffers: checkpoints save them, and no optimiser changes them. At first they change nothing.

    Args:
        base: The link whose log-odds are scaled, or its config. ``None`` is the default link of the loss that has this
            link; if losses share the link, of the first. Without a loss, the logits are taken as log-odds.
    """

    def __init__(self, base: Link | dict | None = None):
        super().__init__()
        self.base: Link | None = MODELS.build(base) if isinstance(base, dict) else base

    def take_base(self, own: Link) -> None:
        """Set a missing base to ``own``, the default link of a loss; pass it on if the base is a ScaledLink."""
        if self.base is None:
            self.base = own
        elif isinstance(self.base, ScaledLink):
            self.base.take_base(own)

    def scale_log_odds(self, log_odds: Tensor) -> Tensor:
        """Map log-odds of the base link to log-odds of this link, in the same shape."""
        raise NotImplementedError

    def unscale_log_odds(self, log_odds: Tensor) -> Tensor:
        """Map log-odds of this link back to log-odds of the base link, in the same shape."""
        raise NotImplementedError

    def fit_values(self, log_odds: Tensor, targets: Tensor) -> None:
        """Set the buffers to the values that minimise the negative log-likelihood of the known labels.

        Args:
            log_odds: Log-odds of the base link, (N, C) float64.
            targets: Labels, (N, C) float64, with -1 for unknown.
        """
        raise NotImplementedError

    def logit_probabilities(self, logits: Tensor) -> Tensor:
        return self.scale_log_odds(logits if self.base is None else self.base.logit_probabilities(logits))

    def inverse_logit_probabilities(self, log_odds: Tensor) -> Tensor:
        log_odds = self.unscale_log_odds(log_odds)
        return log_odds if self.base is None else self.base.inverse_logit_probabilities(log_odds)

    def fit(self, logits: Tensor, targets: Tensor) -> Fit:
        """Fit the buffers to labelled data: minimise the negative log-likelihood by Newton's method in float64.

        Scales stay in [1/100, 100]. Raise a ValueError if all known labels are equal, 1 or 0. A :class:`VectorLink`
        raises it only if that is so in every class.

        Args:
            logits: Logits of the model, (N, C).
            targets: (N, C) with 1 positive, 0 negative or a soft value between, and -1 for unknown, which is ignored.

        Returns:
            ``Fit(before, after)``, the mean negative log-likelihood of the known labels, two floats.
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
        base: The link whose log-odds are scaled, or its config; None for the default link of the loss.
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
        base: The link whose log-odds are scaled, or its config; None for the default link of the loss.
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

    A class whose known labels are all positive or all negative cannot be fitted: its scale is 1 and its bias 0.

    Args:
        num_classes: Number of classes.
        base: The link whose log-odds are scaled, or its config; None for the default link of the loss.
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
    """Return the mean negative log-likelihood of targets (N, C) that are not -1, in float64; NaN without any."""
    known = targets >= 0
    losses = logistic_loss(log_odds[known].double().cpu().numpy(), targets[known].double().cpu().numpy())
    return float(losses.mean()) if losses.size else float('nan')


def _fit_scale_and_bias(log_odds: Tensor, targets: Tensor, with_bias: bool = True) -> tuple[Tensor, Tensor]:
    """Return (scale, bias), both (C,) float64: those that minimise the negative log-likelihood of each class.

    A class without both positive and negative labels has scale 1 and bias 0. If all are such, raise a ValueError.

    Args:
        log_odds: (N, C), float64.
        targets: Labels, (N, C), with -1 for unknown.
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

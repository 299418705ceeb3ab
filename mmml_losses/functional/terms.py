"""Terms: the cost of one positive or negative label as a function of its logit. ``pointwise.py`` joins two into a loss.

A term is a small object. Its fields are its hyper-parameters, and their defaults are written nowhere else.
:meth:`Term.value` is the formula, in plain torch operations. :meth:`Term.value_and_slope` computes the cost together
with its derivative, for training (see :mod:`mmml_losses.functional.pair`). Tests compare the two methods. Logarithms of
probabilities use ``logsigmoid``, which is exact and has a gradient for logits of any size.

The lower-case names, such as :data:`hill_negative`, are terms with their defaults; ``hill_negative(logits, lamb=2)``
is ``HillNegative(lamb=2)(logits)``. CONTRIBUTING.md, "Add a loss", lists all steps for a new loss.
"""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

__all__ = [
    'AsymmetricNegative',
    'AsymmetricPositive',
    'BCENegative',
    'BCEPositive',
    'EntropyNegative',
    'FocalMarginPositive',
    'FocalNegative',
    'FocalPositive',
    'HillNegative',
    'MSENegative',
    'Nothing',
    'SPANegative',
    'SPAPositive',
    'Scaled',
    'SmoothedBCE',
    'Stretched',
    'Term',
    'asymmetric_negative',
    'asymmetric_positive',
    'bce_negative',
    'bce_positive',
    'entropy_negative',
    'focal_margin_positive',
    'focal_negative',
    'focal_positive',
    'hill_negative',
    'mse_negative',
    'nothing',
    'spa_negative',
    'spa_positive',
    'value_and_slope_of',
]


@dataclass(frozen=True)
class Term:
    """Base class of terms, costs of a logit. Subclasses define ``value``, and ``value_and_slope`` for speed."""

    teaches_absence: ClassVar[bool] = True
    """Whether the term, as the cost of a negative label, teaches that the label is absent."""
    logit_shift: ClassVar[float] = 0.0
    """By how much the term lowers the logit."""
    _has_own_slope: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if 'value' in vars(cls) or 'value_and_slope' in vars(cls):  # an inherited slope is that of another formula
            cls._has_own_slope = 'value_and_slope' in vars(cls)

    @property
    def has_slope(self) -> bool:
        """Whether :meth:`value_and_slope` computes the derivatives; if not, autograd differentiates :meth:`value`."""
        return self._has_own_slope

    def value(self, logits: Tensor) -> Tensor:
        """Return the cost of each logit :math:`v`, in the shape of ``logits``."""
        raise NotImplementedError

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return (costs, derivatives of the costs by the logits), both in the shape of ``logits``.

        Both must be new tensors, and not the same one: the caller changes them in place.
        """
        raise NotImplementedError

    def __call__(self, logits: Tensor, *values: float, **settings: float) -> Tensor:
        """Return the cost of each logit, with new hyper-parameters for this call, by position or name, if given."""
        if not (values or settings):
            return self.value(logits)
        given = inspect.signature(type(self)).bind_partial(*values, **settings).arguments
        return replace(self, **given).value(logits)

    @property
    def per_class(self) -> bool:
        """Whether a hyper-parameter is a tensor with one value per class, so that logits must be rows (..., C)."""
        values = [getattr(self, field.name) for field in fields(self)]
        return any(each.per_class if isinstance(each, Term) else is_class_vector(each) for each in values)


def is_class_vector(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


@dataclass(frozen=True)
class BCEPositive(Term):
    r"""Positive term of the binary cross-entropy for a logit :math:`v`, :math:`-\log\sigma(v)`."""

    def value(self, logits: Tensor) -> Tensor:
        return -logsigmoid(logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return _mirrored_bce(-logits)


@dataclass(frozen=True)
class BCENegative(Term):
    r"""Negative term of the binary cross-entropy for a logit :math:`v`, :math:`-\log(1 - \sigma(v))`."""

    def value(self, logits: Tensor) -> Tensor:
        return -logsigmoid(-logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return exact_softplus(logits), logits.sigmoid()


def exact_softplus(logits: Tensor) -> Tensor:
    """Return ``log(1 + exp(logits))``. Above 50 it is the logit itself, which is exact in float64, too."""
    return softplus(logits, threshold=50)


def _mirrored_bce(mirrored: Tensor) -> tuple[Tensor, Tensor]:
    """Return (costs, derivatives) of :class:`BCEPositive` at the logits ``-mirrored``; overwrite ``mirrored``."""
    return exact_softplus(mirrored), mirrored.sigmoid_().neg_()


@dataclass(frozen=True)
class SmoothedBCE(Term):
    r"""BCE of a logit :math:`v` for a fixed soft label :math:`t`, :math:`-t\log\sigma(v) - (1 - t)\log(1 - \sigma(v))`.

    Args:
        label: Soft label :math:`t`, in [0, 1].
    """

    label: float

    def value(self, logits: Tensor) -> Tensor:
        return -self.label * logsigmoid(logits) - (1 - self.label) * logsigmoid(-logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        # Both logarithms of one exponential: log(1 + e^v) = max(v, 0) + log(1 + e^-|v|).
        hinge = (1 - self.label) * logits.clamp(min=0) - self.label * logits.clamp(max=0)
        return hinge.add_(exact_softplus(-logits.abs())), logits.sigmoid() - self.label


@dataclass(frozen=True)
class AsymmetricNegative(Term):
    r"""Negative term of Focal and ASL, :math:`-p_m^{\gamma}\log(1 - p_m)` with :math:`p_m = \max(\sigma(v) - m, 0)`.

    Args:
        gamma: Focusing power :math:`\gamma`: a larger one lowers the cost of easy negatives.
        margin: Probability shift :math:`m`; negatives with a lower probability cost nothing. 0 gives the focal loss.
        detach_weight: Whether the focusing weight :math:`p_m^{\gamma}` is a constant for the gradient.
    """

    gamma: float = 4.0
    margin: float = 0.05
    detach_weight: bool = False

    def value(self, logits: Tensor) -> Tensor:
        if self.margin == 0:
            # As an exponential, the weight has a finite gradient also where the probability underflows.
            weight, cost = (self.gamma * logsigmoid(logits)).exp(), -logsigmoid(-logits)
        else:
            # The smallest normal number instead of 0 keeps the gradient of the power finite for every gamma; the clamp
            # already cuts that gradient off, and the term itself underflows to 0.
            shifted = (logits.sigmoid() - self.margin).clamp(min=torch.finfo(logits.dtype).tiny)
            weight, cost = shifted.pow(self.gamma), -torch.log1p(-shifted)
        return (weight.detach() if self.detach_weight else weight) * cost

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        if self.margin == 0:
            return _focused(exact_softplus(logits), logits.sigmoid(), self.gamma, self.detach_weight)
        # With the shifted probability s and c = -log(1 - s), the value is s^g c and its derivative
        # p (1 - p) s^(g - 1) (s / (1 - s) + g c). Where that is not 0, 1 - s is 1 - p + m, whose digits do not cancel.
        p, rest = logits.sigmoid(), torch.sigmoid(-logits)
        shifted = (p - self.margin).clamp_(min=0)
        p.mul_(rest)
        rise = shifted / rest.add_(self.margin)
        del rest  # one tensor less while the others are made
        cost = (-shifted).log1p_().neg_()
        if not self.detach_weight:
            rise.add_(cost, alpha=self.gamma)
        rise.mul_(p)
        if self.gamma < 1:
            # The power of 0 is infinite, but below the margin the cost does not rise.
            rise = rise * (shifted > 0)
            shifted = shifted.clamp(min=torch.finfo(logits.dtype).tiny)
        weight = _power(shifted, self.gamma - 1)
        return cost.mul_(weight).mul_(shifted), rise.mul_(weight)


@dataclass(frozen=True)
class AsymmetricPositive(Term):
    r"""Positive term of Focal and ASL, :math:`-(1 - p)^{\gamma}\log p` with :math:`p = \sigma(v)`.

    Args:
        gamma: Focusing power :math:`\gamma`: a larger one lowers the cost of easy positives.
        detach_weight: Whether the weight :math:`(1 - p)^{\gamma}` is constant for the gradient; ASL's code offers both.
    """

    gamma: float = 0.0
    detach_weight: bool = False

    def value(self, logits: Tensor) -> Tensor:
        return AsymmetricNegative(self.gamma, 0.0, self.detach_weight).value(-logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return _mirrored_focal(-logits, self.gamma, self.detach_weight)


@dataclass(frozen=True)
class FocalPositive(AsymmetricPositive):
    r"""Positive focal term, :math:`-(1 - p)^\gamma\log p`: :class:`AsymmetricPositive`, default power 2."""

    gamma: float = 2.0


@dataclass(frozen=True)
class FocalNegative(AsymmetricNegative):
    r"""Negative focal term, :math:`-p^\gamma\log(1 - p)`: :class:`AsymmetricNegative`, default power 2, margin 0."""

    gamma: float = FocalPositive.gamma
    margin: float = 0.0


@dataclass(frozen=True)
class FocalMarginPositive(Term):
    r"""Positive term of Hill (focal margin), :math:`-(1 - p_m)^{\gamma}\log p_m` with :math:`p_m = \sigma(v - m)`.

    Args:
        margin: Shift :math:`m` of the logit. Between 0.5 and 1 it moves weight from hard positives to semi-hard
            positives; 0 gives the focal loss.
        gamma: Focusing power :math:`\gamma`: a larger one lowers the cost of easy positives.
    """

    margin: float = 1.0
    gamma: float = FocalPositive.gamma

    @property
    def logit_shift(self) -> float:  # type: ignore[override]
        return self.margin

    def value(self, logits: Tensor) -> Tensor:
        return AsymmetricPositive(self.gamma).value(logits - self.margin)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return _mirrored_focal(self.margin - logits, self.gamma)


def _mirrored_focal(mirrored: Tensor, gamma: float, detach_weight: bool = False) -> tuple[Tensor, Tensor]:
    """Return (costs, derivatives) of :class:`AsymmetricPositive` at logits ``-mirrored``; overwrite ``mirrored``."""
    value, slope = _focused(exact_softplus(mirrored), mirrored.sigmoid_(), gamma, detach_weight)
    return value, slope.neg_()


def _focused(cost: Tensor, p: Tensor, gamma: float, detach_weight: bool) -> tuple[Tensor, Tensor]:
    """Return (p^g c, its v-derivative p^g (g (1 - p) c + p)), c = -log(1 - p), p = sigma(v); overwrite cost and p.

    With ``detach_weight`` the factor p^g is a constant, and the derivative p^g p.
    """
    if gamma == 0:
        return cost, p
    weight = _power(p, gamma)
    if detach_weight:
        return cost.mul_(weight), p.mul_(weight)  # p^g is a constant
    slope = p.addcmul_(1 - p, cost, value=gamma)
    return cost.mul_(weight), slope.mul_(weight)


def _power(base: Tensor, exponent: float) -> Tensor:
    """Return ``base ** exponent``; for 4 by squaring twice, ten times as fast as ``torch.pow``."""
    return base.square().square_() if exponent == 4 else base.pow(exponent)


@dataclass(frozen=True)
class MSENegative(Term):
    r"""Negative term of MSE-, the squared error :math:`p^2` with :math:`p = \sigma(v)` (Zhang et al., Sec. III-C)."""

    def value(self, logits: Tensor) -> Tensor:
        return logits.sigmoid().square()

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        p = logits.sigmoid()
        square = p.square()
        return square, torch.addcmul(square, square, p, value=-1).mul_(2)


@dataclass(frozen=True)
class HillNegative(Term):
    r"""Negative term of Hill, :math:`(\lambda - p)\,p^2` with :math:`p = \sigma(v)` (Zhang et al., Eq. 5).

    It is a squared error whose factor :math:`\lambda - p` lowers the gradient for a probable label, which may be a
    missed positive.

    Args:
        lamb: Parameter :math:`\lambda`; 1.5 puts the maximum of the gradient at :math:`p = 0.5`.
    """

    lamb: float = 1.5

    def value(self, logits: Tensor) -> Tensor:
        p = logits.sigmoid()
        return (self.lamb - p) * p.square()

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        p = logits.sigmoid()
        square = p.square()
        value = (self.lamb - p).mul_(square)
        # d/dp = (2 lamb - 3 p) p, and dp/dv = p (1 - p).
        return value, square.mul_(1 - p).mul_(p.mul_(-3).add_(2 * self.lamb))


@dataclass(frozen=True)
class SPAPositive(Term):
    r"""Positive term of SPA, :math:`-\frac{1}{\zeta^+}\log\sigma(k^+(v - b^+))` (Cheng and Vasconcelos, Eq. 16).

    Args:
        scale: Divisor :math:`\zeta^+`; a larger one lowers the weight of positives.
        slope: Factor :math:`k^+` of the logit; a larger one makes the cost of easy positives fall faster.
        shift: Shift :math:`b^+`, subtracted from the logit.
    """

    scale: float = 1.0
    slope: float = 1.0
    shift: float = 0.0

    def value(self, logits: Tensor) -> Tensor:
        return -logsigmoid(self.slope * (logits - self.shift)) / self.scale

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        value, derivative = _mirrored_bce((self.shift - logits).mul_(self.slope))
        return value.div_(self.scale), derivative.mul_(self.slope / self.scale)


@dataclass(frozen=True)
class SPANegative(Term):
    r"""Negative term of SPA, :math:`-\frac{1}{\zeta^-}\log\sigma(-k^-(v - b^-))` (Cheng and Vasconcelos, Eq. 16).

    Args:
        scale: Divisor :math:`\zeta^-`; a larger one lowers the weight of the many negatives.
        slope: Factor :math:`k^-` of the logit; a larger one makes the cost of easy negatives fall faster.
        shift: Shift :math:`b^-`, the logit at which the cost starts to grow.
    """

    scale: float = 5.0
    slope: float = 3.0
    shift: float = 1.0

    def value(self, logits: Tensor) -> Tensor:
        return -logsigmoid(-self.slope * (logits - self.shift)) / self.scale

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        moved = (logits - self.shift).mul_(self.slope)
        return exact_softplus(moved).div_(self.scale), moved.sigmoid_().mul_(self.slope / self.scale)


@dataclass(frozen=True)
class EntropyNegative(Term):
    r"""Cost of an unobserved label in entropy maximisation, EM: :math:`\alpha(p\log p + (1 - p)\log(1 - p))`.

    It is negative; its gradient vanishes where :math:`p = \sigma(v)` is 0, 0.5 or 1 (Zhou et al., 2022).

    Args:
        alpha: Weight :math:`\alpha` of the entropy.
    """

    teaches_absence = False
    alpha: float = 0.2

    def value(self, logits: Tensor) -> Tensor:
        p = logits.sigmoid()
        return self.alpha * (p * logsigmoid(logits) + (1 - p) * logsigmoid(-logits))

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        # -H = v p - softplus(v), with the derivative v p (1 - p). By |v| there is no difference of large numbers.
        size = logits.abs()
        rest = torch.sigmoid(-size)
        value = exact_softplus(-size).addcmul_(size, rest).mul_(-self.alpha)
        return value, torch.addcmul(rest, rest, rest, value=-1).mul_(logits).mul_(self.alpha)


@dataclass(frozen=True)
class Nothing(Term):
    """Term that is 0 for every logit."""

    teaches_absence = False

    def value(self, logits: Tensor) -> Tensor:
        return torch.zeros_like(logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(logits), torch.zeros_like(logits)


@dataclass(frozen=True)
class TermOfTerm(Term):
    """Base class of terms that change another term, which is in the field ``term``."""

    term: Term

    def __post_init__(self) -> None:
        object.__setattr__(self, 'term', as_term(self.term))

    @property
    def teaches_absence(self) -> bool:  # type: ignore[override]
        return self.term.teaches_absence

    @property
    def logit_shift(self) -> float:  # type: ignore[override]
        return self.term.logit_shift

    @property
    def has_slope(self) -> bool:
        return self._has_own_slope and self.term.has_slope


@dataclass(frozen=True, eq=False)
class Scaled(TermOfTerm):
    """The term ``term`` times ``factor``: a number, or a (C,) tensor with one factor per class."""

    factor: float | Tensor

    def value(self, logits: Tensor) -> Tensor:
        return self.factor * self.term.value(logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = self.term.value_and_slope(logits)
        return value.mul_(self.factor), slope.mul_(self.factor)


@dataclass(frozen=True)
class Stretched(TermOfTerm):
    r"""A term :math:`\ell` of stretched logits, :math:`\frac{1}{\lambda}\,\ell(\lambda v)`.

    Args:
        term: Term :math:`\ell`; the maximum of its gradient does not change.
        slope: Factor :math:`\lambda` of the logits. Above 1, the gradient of an easy label vanishes earlier.
    """

    slope: float

    def value(self, logits: Tensor) -> Tensor:
        return self.term.value(self.slope * logits) / self.slope

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        value, derivative = self.term.value_and_slope(self.slope * logits)
        return value.div_(self.slope), derivative


@dataclass(frozen=True)
class FunctionTerm(Term):
    """Term from a plain ``function``. ``declared`` maps logits to (costs, derivatives); None leaves it to autograd."""

    function: Callable[[Tensor], Tensor]
    declared: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None

    @property
    def has_slope(self) -> bool:
        return self.declared is not None

    @property
    def per_class(self) -> bool:
        return any(map(is_class_vector, getattr(self.function, 'keywords', {}).values()))

    def value(self, logits: Tensor) -> Tensor:
        return self.function(logits)

    def value_and_slope(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        assert self.declared is not None
        return self.declared(logits)


bce_positive = BCEPositive()
bce_negative = BCENegative()
asymmetric_positive = AsymmetricPositive()
asymmetric_negative = AsymmetricNegative()
focal_positive = FocalPositive()
focal_negative = FocalNegative()
focal_margin_positive = FocalMarginPositive()
mse_negative = MSENegative()
hill_negative = HillNegative()
spa_positive = SPAPositive()
spa_negative = SPANegative()
entropy_negative = EntropyNegative()
nothing = Nothing()

# The terms that configs give by name.
POSITIVE_TERMS: dict[str, Term] = {
    'bce': bce_positive,
    'focal': focal_positive,
    'asymmetric': asymmetric_positive,
    'focal_margin': focal_margin_positive,
    'spa': spa_positive,
}
NEGATIVE_TERMS: dict[str, Term] = {
    'bce': bce_negative,
    'focal': focal_negative,
    'asymmetric': asymmetric_negative,
    'mse': mse_negative,
    'hill': hill_negative,
    'spa': spa_negative,
    'entropy': entropy_negative,
}

AnyTerm = Callable[[Tensor], Tensor]  # a Term is one
NamedTerm = AnyTerm | str | dict


def build_positive(term: NamedTerm) -> Term:
    """Return a positive :class:`Term` from a Term, a function of logits, a name in :data:`POSITIVE_TERMS` or a dict.

    A dict has the name as ``type``, and optionally hyper-parameters and ``weight``, a factor. Raise a ValueError for
    unknown names or hyper-parameters, and negative weight, gamma, scale or slope; a TypeError for other types.
    """
    return _build_term(term, POSITIVE_TERMS, 'positive')


def build_negative(term: NamedTerm) -> Term:
    """Return a negative :class:`Term` as :func:`build_positive` does, but with the names of :data:`NEGATIVE_TERMS`."""
    return _build_term(term, NEGATIVE_TERMS, 'negative')


def _build_term(term: NamedTerm, known: dict[str, Term], argument: str) -> Term:
    if isinstance(term, str):
        term = dict(type=term)
    if not isinstance(term, dict):
        if not callable(term):
            raise TypeError(f'{argument} must be a function, a name or a dict with a type, got {term!r}')
        return as_term(term)
    settings = dict(term)
    name, weight = settings.pop('type', None), settings.pop('weight', None)
    if name not in known:
        raise ValueError(f'{argument} must be one of {", ".join(known)}, got {name!r}')
    allowed = [field.name for field in fields(known[name])]
    for setting in settings:
        if setting not in allowed:
            raise ValueError(f'{argument} term {name!r} takes {", ".join(["weight", *allowed])}, got {setting!r}')
    for setting, value in (*settings.items(), *([('weight', weight)] if weight is not None else [])):
        if not isinstance(value, Real):
            raise TypeError(f'{setting} of the {argument} term {name!r} must be a number, got {value!r}')
        if setting in ('weight', 'gamma', 'scale', 'slope') and value < 0:
            raise ValueError(f'{setting} of the {argument} term {name!r} must be at least 0, got {value}')
    built = replace(known[name], **settings)
    return built if weight is None else Scaled(built, weight)


def as_term(term: AnyTerm) -> Term:
    """Return a :class:`Term` unchanged, and any other function from logits to costs as a :class:`FunctionTerm`.

    A ``functools.partial`` of a term returns the term with these hyper-parameters.
    """
    if isinstance(term, Term):
        return term
    function, settings = (term.func, term.keywords) if isinstance(term, partial) else (term, {})
    if isinstance(function, Term):
        return replace(function, **settings)
    if isinstance(function, type) and issubclass(function, Term):
        raise TypeError(f'a term must be an object, such as {function.__name__}(), got the class itself')
    declared = _declared.get(function)
    return FunctionTerm(term, declared and partial(declared, **settings))


_declared: dict[Callable, Callable] = {}


def value_and_slope_of(function: Callable) -> Callable[[Callable], Callable]:
    """Return a decorator that registers how to compute (costs, derivatives) of ``function``. Deprecated: use Term."""
    warnings.warn('value_and_slope_of is superseded by subclasses of Term', DeprecationWarning, stacklevel=2)

    def declare(value_and_slope: Callable) -> Callable:
        _declared[function] = value_and_slope
        return value_and_slope

    return declare

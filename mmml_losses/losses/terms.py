"""Partial losses by name, so that a config can pair any positive term with any negative one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from numbers import Real

from .. import functional as F
from ..functional.pair import Term
from .links import Link, SPALink

POSITIVE_TERMS: dict[str, Callable] = {
    'bce': F.bce_positive,
    'focal': partial(F.asymmetric_positive, gamma=2.0),
    'asymmetric': F.asymmetric_positive,
    'focal_margin': F.focal_margin_positive,
    'spa': F.spa_positive,
}
NEGATIVE_TERMS: dict[str, Callable] = {
    'bce': F.bce_negative,
    'focal': partial(F.asymmetric_negative, gamma=2.0, margin=0.0),
    'asymmetric': F.asymmetric_negative,
    'mse': F.mse_negative,
    'hill': F.hill_negative,
    'spa': F.spa_negative,
    'entropy': F.entropy_negative,
}


def build_positive(term: Term | str | dict) -> Term:
    """A positive term from a function, a name of :data:`POSITIVE_TERMS`, or ``dict(type=name, weight=..., ...)``."""
    return _build(term, POSITIVE_TERMS, 'positive')


def build_negative(term: Term | str | dict) -> Term:
    """A negative term, as :func:`build_positive` of :data:`NEGATIVE_TERMS`."""
    return _build(term, NEGATIVE_TERMS, 'negative')


def _build(term: Term | str | dict, known: dict[str, Callable], argument: str) -> Term:
    if isinstance(term, str):
        term = dict(type=term)
    if not isinstance(term, dict):
        if not callable(term):
            raise TypeError(f'{argument} must be a function, a name or a dict with a type, got {term!r}')
        return term
    settings = dict(term)
    name, weight = settings.pop('type', None), settings.pop('weight', None)
    if name not in known:
        raise ValueError(f'{argument} must be one of {", ".join(known)}, got {name!r}')
    function = known[name]
    allowed = [parameter for parameter in inspect.signature(function).parameters if parameter != 'logits']
    for setting in settings:
        if setting not in allowed:
            raise ValueError(f'{argument} term {name!r} takes {", ".join(["weight", *allowed])}, got {setting!r}')
    for setting, value in (*settings.items(), *([('weight', weight)] if weight is not None else [])):
        if not isinstance(value, Real):
            raise TypeError(f'{setting} of the {argument} term {name!r} must be a number, got {value!r}')
        if setting in ('weight', 'gamma', 'scale', 'slope') and value < 0:
            raise ValueError(f'{setting} of the {argument} term {name!r} must be at least 0, got {value}')
    built = partial(function, **settings) if settings else function
    return built if weight is None else partial(F.scaled, term=built, factor=weight)


def describe_term(term: Term) -> str:
    """A term as the representation of a loss shows it."""
    if not isinstance(term, partial):
        return getattr(term, '__name__', repr(term))
    settings = (f'{key}={describe_term(value) if callable(value) else value}' for key, value in term.keywords.items())
    return f'{describe_term(term.func)}({", ".join(settings)})'


def own_link_of(positive: Term, negative: Term) -> Link | None:
    """The link that belongs to a pair of terms: SPA's for both terms of SPA, otherwise the sigmoid, by None."""
    settings = {}
    for sign, term, of_spa in (('positive', positive, F.spa_positive), ('negative', negative, F.spa_negative)):
        function, given = (term.func, term.keywords) if isinstance(term, partial) else (term, {})
        if function is not of_spa:
            return None
        defaults = {name: parameter.default for name, parameter in inspect.signature(of_spa).parameters.items()}
        settings |= {f'{sign}_{name}': given.get(name, defaults[name]) for name in ('scale', 'slope', 'shift')}
    return SPALink(**settings)


def teaches_absence(negative: Term) -> bool:
    """Whether a negative term says that its labels are absent; entropy leaves that open, and nothing says nothing."""
    function = negative.func if isinstance(negative, partial) else negative
    if function is F.scaled:
        return teaches_absence(negative.keywords['term'])
    return function not in (F.entropy_negative, F.nothing)


def margin_of(term: Term) -> float:
    """By how much a positive term shifts the logit; 0 for all but focal margin."""
    if not isinstance(term, partial):
        return inspect.signature(term).parameters['margin'].default if term is F.focal_margin_positive else 0.0
    if term.func is F.scaled:
        return margin_of(term.keywords['term'])
    return term.keywords.get('margin', margin_of(term.func)) if term.func is F.focal_margin_positive else 0.0

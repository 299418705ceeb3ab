"""Former place of :func:`uniform_numbers` (:mod:`mmml_losses.datasets.labels.random_numbers`), and its former name."""

import warnings

from .random_numbers import uniform_numbers as uniform_draws

__all__ = ['uniform_draws']

warnings.warn('labels.draws.uniform_draws is now labels.random_numbers.uniform_numbers', stacklevel=2)

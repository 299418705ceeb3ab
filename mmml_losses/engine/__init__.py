"""Hooks, and what the command-line tools share."""

from .epoch_seed import EpochSeedHook
from .training_set import TrainingSetHook

__all__ = ['EpochSeedHook', 'TrainingSetHook']

"""Hooks, and what the command-line tools share."""

from .epoch_seed import EpochSeedHook

__all__ = ['EpochSeedHook']

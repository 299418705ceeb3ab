"""Hooks, and what the command-line tools share."""

from .epoch_seed import EpochSeedHook
from .label_recovery import LabelRecoveryHook
from .reliability_hook import ReliabilityDiagramHook
from .training_set import TrainingSetHook

__all__ = ['EpochSeedHook', 'LabelRecoveryHook', 'ReliabilityDiagramHook', 'TrainingSetHook']

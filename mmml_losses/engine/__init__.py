"""Hooks of the Runner, and steps around a Runner: check the data, change the loss of a config, build it, resume."""

from .hooks.classifier_prior import ClassifierPriorHook
from .hooks.detector_check import DetectorCheckHook
from .hooks.label_recovery import LabelRecoveryHook
from .hooks.label_summary import LabelSummaryHook
from .hooks.post_hoc import PostHocCalibrationHook
from .hooks.reliability import ReliabilityDiagramHook
from .hooks.training_set import FeatureStatisticsHook, TrainingSetHook
from .resuming import EpochSeedHook

__all__ = [
    'ClassifierPriorHook',
    'DetectorCheckHook',
    'EpochSeedHook',
    'FeatureStatisticsHook',
    'LabelRecoveryHook',
    'LabelSummaryHook',
    'PostHocCalibrationHook',
    'ReliabilityDiagramHook',
    'TrainingSetHook',
]

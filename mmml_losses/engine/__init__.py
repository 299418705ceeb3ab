"""Hooks for MMEngine's Runner, and functions to check data, change a config's loss, and build or resume a Runner."""

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

"""Hooks, and what the command-line tools share."""

from .classifier_prior import ClassifierPriorHook
from .detector_check import DetectorCheckHook
from .epoch_seed import EpochSeedHook
from .feature_statistics import FeatureStatisticsHook
from .label_recovery import LabelRecoveryHook
from .label_summary import LabelSummaryHook
from .post_hoc_hook import PostHocCalibrationHook
from .reliability_hook import ReliabilityDiagramHook
from .training_set import TrainingSetHook

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

"""Metrics registered with MMEngine; each wraps functions of ``mmml_losses.evaluation.functional``."""

from .ap_and_f1 import MultiLabelAP, MultiLabelF1
from .base import PredictionMetric, SavePredictions
from .calibration import CalibrationError, DetectionCalibrationError
from .evaluator import MultiLabelEvaluator
from .query_retrieval import QueryRetrieval
from .recovery import MissingLabelRecovery
from .vqa import VQAAccuracy

__all__ = [
    'CalibrationError',
    'DetectionCalibrationError',
    'MissingLabelRecovery',
    'MultiLabelAP',
    'MultiLabelEvaluator',
    'MultiLabelF1',
    'PredictionMetric',
    'QueryRetrieval',
    'SavePredictions',
    'VQAAccuracy',
]

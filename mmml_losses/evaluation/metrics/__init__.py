"""Metrics registered with MMEngine, each a thin layer over a function of :mod:`mmml_losses.evaluation`."""

from .average_precision import MultiLabelAP
from .base import PredictionMetric
from .calibration import CalibrationError
from .detection_calibration import DetectionCalibrationError
from .evaluator import MultiLabelEvaluator
from .f1 import MultiLabelF1
from .query_retrieval import QueryRetrieval
from .recovery import MissingLabelRecovery
from .save_predictions import SavePredictions

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
]

"""Metrics registered with MMEngine, each a thin layer over a function of :mod:`mmml_losses.evaluation`."""

from .average_precision import MultiLabelAP
from .base import PredictionMetric
from .calibration import CalibrationError
from .save_predictions import SavePredictions

__all__ = ['CalibrationError', 'MultiLabelAP', 'PredictionMetric', 'SavePredictions']

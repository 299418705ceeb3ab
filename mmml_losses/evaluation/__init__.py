"""Measures of multi-label predictions: functions on arrays and tensors, and the MMEngine metrics on top of them.

The functions need torch and numpy alone; the registered metrics appear when MMEngine is installed.
"""

from importlib.util import find_spec

from .calibration import CalibrationErrors, ReliabilityBins, calibration_errors, reliability_bins
from .predictions import Predictions, load_predictions, save_predictions
from .ranking import MeanAveragePrecision, average_precision, mean_average_precision
from .retrieval import Query, parse_query, rank_images, relevant_images, retrieval_scores

__all__ = [
    'CalibrationErrors',
    'MeanAveragePrecision',
    'Predictions',
    'Query',
    'ReliabilityBins',
    'average_precision',
    'calibration_errors',
    'load_predictions',
    'mean_average_precision',
    'parse_query',
    'rank_images',
    'relevant_images',
    'reliability_bins',
    'retrieval_scores',
    'save_predictions',
]

if find_spec('mmengine') is not None:
    from .metrics import CalibrationError, MultiLabelAP, PredictionMetric, SavePredictions

    __all__ += ['CalibrationError', 'MultiLabelAP', 'PredictionMetric', 'SavePredictions']

"""Measure multi-label predictions, by functions on arrays and tensors and by MMEngine metrics.

The functions need only torch and numpy. The registered metrics need MMEngine, and are left out without it.
"""

import warnings
from importlib.util import find_spec

from ..utils.frequencies import group_classes, load_class_frequencies
from .functional import retrieval
from .functional.average_precision import (
    MeanAveragePrecision,
    average_precision,
    mean_average_precision,
    mean_average_precision_of_groups,
    micro_average_precision,
)
from .functional.calibration import (
    CalibrationErrors,
    ClassCalibrationErrors,
    ClassReliabilityBins,
    ReliabilityBins,
    calibration_errors,
    class_calibration_errors,
    class_reliability_bins,
    reliability_bins,
)
from .functional.detection import Detections, MatchedDetections, Objects, match_detections, match_images
from .functional.f1 import BestThreshold, F1Scores, best_threshold, f1_scores, midpoint_threshold
from .functional.hamming import cost_sensitive_hamming_loss
from .functional.intervals import Interval, calibration_intervals
from .functional.label_statistics import (
    LabelStatistics,
    LabelSummary,
    describe_labels,
    label_statistics,
    summarize_labels,
)
from .functional.margin import classification_margins
from .functional.predictions import Predictions, load_predictions, log_odds_of, recalibrate, save_predictions
from .functional.recovery import LabelRecovery, label_recovery
from .functional.retrieval import *
from .functional.scores import (
    CalibrationLine,
    brier_score,
    calibration_line,
    class_brier_scores,
    class_negative_log_likelihoods,
    negative_log_likelihood,
    negative_log_likelihood_of_log_odds,
)

__all__ = [
    'BestThreshold',
    'CalibrationErrors',
    'CalibrationLine',
    'ClassCalibrationErrors',
    'ClassReliabilityBins',
    'Detections',
    'F1Scores',
    'Interval',
    'LabelRecovery',
    'LabelStatistics',
    'LabelSummary',
    'MatchedDetections',
    'MeanAveragePrecision',
    'Objects',
    'Predictions',
    'ReliabilityBins',
    'average_precision',
    'best_threshold',
    'brier_score',
    'calibration_errors',
    'calibration_intervals',
    'calibration_line',
    'class_brier_scores',
    'class_calibration_errors',
    'class_negative_log_likelihoods',
    'class_reliability_bins',
    'classification_margins',
    'cost_sensitive_hamming_loss',
    'describe_labels',
    'f1_scores',
    'group_classes',
    'label_recovery',
    'label_statistics',
    'load_class_frequencies',
    'load_predictions',
    'log_odds_of',
    'match_detections',
    'match_images',
    'mean_average_precision',
    'mean_average_precision_of_groups',
    'micro_average_precision',
    'midpoint_threshold',
    'negative_log_likelihood',
    'negative_log_likelihood_of_log_odds',
    'recalibrate',
    'reliability_bins',
    'save_predictions',
    'summarize_labels',
    *retrieval.__all__,
]

if find_spec('mmengine') is not None:
    from . import metrics
    from .metrics import *

    __all__ += metrics.__all__


def __getattr__(name: str) -> type[BaseException]:
    if name == 'RetrievalInterrupted':
        warnings.warn('RetrievalInterrupted is now KeyboardInterrupt itself, without a result', stacklevel=2)
        return KeyboardInterrupt
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')

"""Loss classes; most wrap a function of :mod:`mmml_losses.functional`. CONTRIBUTING.md tells how to add a loss."""

from .core.base import MultiLabelLoss
from .corrections import LASDLoss, SPLCLoss
from .estimation import EMAPLLoss, EMLoss, EPRLoss, ROLELoss
from .large_loss import LargeLossCorrection, LargeLossRejection
from .links import Link, PhiLink, PlattLink, SigmoidLink, SPALink, TemperatureLink, VectorLink
from .pointwise import (
    AsymmetricLoss,
    BCELoss,
    FocalLoss,
    FocalMarginLoss,
    HillLoss,
    LabelSmoothingBCELoss,
    LASLoss,
    MSENegativeLoss,
    PairLoss,
    SPALoss,
    WANLoss,
)
from .regularizers import ConsistencyRegularizer, ExpectedPositiveRegularizer, LabelPairRegularizer
from .reweighted import CBFocalLoss, DBFocalLoss, DBLoss, LDAMLoss, ReweightedBCELoss, WeightedBCELoss
from .setwise import CircleLoss, DRLoss, LSEPLoss, MultiSimilarityLoss, SoftmaxLoss, TwoWayLoss, ZLPRLoss
from .sum import SumLoss

__all__ = [
    'AsymmetricLoss',
    'BCELoss',
    'CBFocalLoss',
    'CircleLoss',
    'ConsistencyRegularizer',
    'DBFocalLoss',
    'DBLoss',
    'DRLoss',
    'EMAPLLoss',
    'EMLoss',
    'EPRLoss',
    'ExpectedPositiveRegularizer',
    'FocalLoss',
    'FocalMarginLoss',
    'HillLoss',
    'LASDLoss',
    'LASLoss',
    'LDAMLoss',
    'LSEPLoss',
    'LabelPairRegularizer',
    'LabelSmoothingBCELoss',
    'LargeLossCorrection',
    'LargeLossRejection',
    'Link',
    'MSENegativeLoss',
    'MultiLabelLoss',
    'MultiSimilarityLoss',
    'PairLoss',
    'PhiLink',
    'PlattLink',
    'ROLELoss',
    'ReweightedBCELoss',
    'SPALink',
    'SPALoss',
    'SPLCLoss',
    'SigmoidLink',
    'SoftmaxLoss',
    'SumLoss',
    'TemperatureLink',
    'TwoWayLoss',
    'VectorLink',
    'WANLoss',
    'WeightedBCELoss',
    'ZLPRLoss',
]

"""Registered losses over :mod:`mmml_losses.functional`."""

from .base import MultiLabelLoss
from .links import Link, SigmoidLink, SPALink
from .pointwise import AsymmetricLoss, BCELoss, PairLoss, SPALoss
from .regularizers import LabelPairRegularizer
from .sum import SumLoss

__all__ = [
    'AsymmetricLoss',
    'BCELoss',
    'LabelPairRegularizer',
    'Link',
    'MultiLabelLoss',
    'PairLoss',
    'SPALink',
    'SPALoss',
    'SigmoidLink',
    'SumLoss',
]

"""Heads of MMDetection that score through the link of their loss. Imported on demand: see ``registry.py``."""

from .heads import (
    ConditionalDETRHead,
    DABDETRHead,
    DeformableDETRHead,
    DETRHead,
    DINOHead,
    FoveaHead,
    PAAHead,
    RepPointsHead,
)
from .linked_scores import LinkedQueries, LinkedScores

__all__ = [
    'ConditionalDETRHead',
    'DABDETRHead',
    'DETRHead',
    'DINOHead',
    'DeformableDETRHead',
    'FoveaHead',
    'LinkedQueries',
    'LinkedScores',
    'PAAHead',
    'RepPointsHead',
]

"""Heads of MMDetection that score through the link of their loss. Imported on demand: see ``registry.py``."""

from ...hosts.mmdet import require_mmdet

require_mmdet('mmml_losses.models.detection')

from .heads import (  # noqa: E402 (it imports MMDetection)
    ConditionalDETRHead,
    DABDETRHead,
    DeformableDETRHead,
    DETRHead,
    DINOHead,
    FoveaHead,
    PAAHead,
    RepPointsHead,
)
from .linked_scores import LinkedQueries, LinkedScores  # noqa: E402

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

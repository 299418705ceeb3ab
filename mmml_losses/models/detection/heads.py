"""Heads of MMDetection that spell the sigmoid, under their own names and with their own arguments."""

from __future__ import annotations

from mmdet.models import dense_heads as mmdet

from ...registry import MODELS
from .linked_scores import LinkedQueries, LinkedScores


@MODELS.register_module()
class DETRHead(LinkedQueries, mmdet.DETRHead):
    """MMDetection's head of DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class ConditionalDETRHead(LinkedQueries, mmdet.ConditionalDETRHead):
    """MMDetection's head of Conditional DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class DABDETRHead(LinkedQueries, mmdet.DABDETRHead):
    """MMDetection's head of DAB-DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class DeformableDETRHead(LinkedQueries, mmdet.DeformableDETRHead):
    """MMDetection's head of Deformable DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class DINOHead(LinkedQueries, mmdet.DINOHead):
    """MMDetection's head of DINO, matched and scored through the link of the loss."""


@MODELS.register_module()
class PAAHead(LinkedScores, mmdet.PAAHead):
    """MMDetection's head of PAA, scored through the link of the loss."""


@MODELS.register_module()
class FoveaHead(LinkedScores, mmdet.FoveaHead):
    """MMDetection's head of FoveaBox, scored through the link of the loss."""


@MODELS.register_module()
class RepPointsHead(LinkedScores, mmdet.RepPointsHead):
    """MMDetection's head of RepPoints, scored through the link of the loss."""

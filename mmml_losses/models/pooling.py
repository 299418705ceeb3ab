"""The neck that ML-GCN pools with, which MMPretrain does not have."""

from __future__ import annotations

from mmengine.model import BaseModule
from torch import Tensor

from ..registry import MODELS


@MODELS.register_module()
class GlobalMaxPooling(BaseModule):
    """Takes the maximum of each channel over the image, of every stage."""

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Maps (N, D, H, W) as features (N, D)."""
        for stage in feats:
            if stage.dim() != 4:
                raise ValueError(f'feats must be maps of shape (N, D, H, W), got {tuple(stage.shape)}')
        return tuple(stage.amax(dim=(2, 3)) for stage in feats)

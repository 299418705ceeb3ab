"""The neck for two kinds of features of one sample."""

from __future__ import annotations

from collections.abc import Sequence

from mmengine.model import BaseModule
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ..registry import MODELS


@MODELS.register_module()
class FeatureFusion(BaseModule):
    """Fuses two kinds of features that stand side by side in one row, such as those of a question and of an image.

    Each is projected to one width, the two are multiplied entry by entry, and activation and dropout follow: an answer
    needs what the question asks for and the image shows.

    Args:
        in_channels: Widths of the first and the second kind; a row has both, in this order.
        out_channels: Width of the projections, and of what comes out.
        act_cfg: Config of the activation.
        dropout: Probability of an entry to be dropped in training.
        init_cfg: Initialisation, PyTorch's own by default.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        act_cfg: dict | None = None,
        dropout: float = 0.0,
        init_cfg: dict | list | None = None,
    ):
        super().__init__(init_cfg)
        if not isinstance(in_channels, Sequence) or len(in_channels) != 2 or min(in_channels) < 1:
            raise ValueError(f'in_channels must be two widths of at least 1, got {in_channels}')
        if not 0 <= dropout < 1:
            raise ValueError(f'dropout must be in [0, 1), got {dropout}')
        self.in_channels = tuple(in_channels)
        self.in_features = sum(in_channels)
        self.first, self.second = (nn.Linear(width, out_channels) for width in in_channels)
        self.activation = MMPRETRAIN_MODELS.build(act_cfg or dict(type='ReLU'))
        self.dropout = nn.Dropout(dropout)

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[Tensor]:
        """The features of the last stage, (N, sum of ``in_channels``), as (N, ``out_channels``)."""
        features = feats[-1]
        if features.dim() != 2 or features.size(1) != self.in_features:
            first, second = self.in_channels
            raise ValueError(
                f'features must be of shape (N, {self.in_features}), {first} of the first kind and {second} of the '
                f'second as in_channels says, got {tuple(features.shape)}'
            )
        first, second = features.split(self.in_channels, dim=1)
        return (self.dropout(self.activation(self.first(first) * self.second(second))),)

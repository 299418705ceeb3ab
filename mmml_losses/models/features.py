"""Backbone and preprocessor of a classifier on frozen features, and necks that MMPretrain does not have."""

from collections.abc import Sequence

import torch
from mmengine.model import BaseModule
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ..registry import MODELS
from .preprocessing import MultiLabelPreprocessor


@MODELS.register_module()
class FeatureBackbone(BaseModule):
    """Backbone for inputs that are features already; it returns them unchanged."""

    def forward(self, inputs: Tensor) -> tuple[Tensor]:
        """Return the inputs (N, D) as the features of the only stage."""
        if inputs.dim() != 2:
            raise ValueError(f'inputs must be features (N, D), got {tuple(inputs.shape)}')
        return (inputs,)


@MODELS.register_module()
class FeaturePreprocessor(MultiLabelPreprocessor):
    """Stacks features, makes them float32 and, if requested, standardises them by the training set.

    ``mmml_losses.FeatureStatisticsHook`` computes mean and deviation at the start of a training. They are part of the
    model and its checkpoints, so that a test on another file uses the mean and deviation of the training.

    Args:
        standardize: Whether to subtract the mean of each feature and divide by its deviation.
        **kwargs: Arguments of :class:`MultiLabelPreprocessor` that make sense without images.
    """

    def __init__(self, standardize: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.standardize = standardize
        # A training or a checkpoint sets them, and with them their width.
        self.register_buffer('feature_mean', None)
        self.register_buffer('feature_deviation', None)

    def set_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        """Set the mean and deviation, (D,) each, by which batches are standardised."""
        self.feature_mean = mean.float().to(self.device)
        self.feature_deviation = deviation.float().to(self.device)

    def forward(self, data: dict, training: bool = False) -> dict:
        """Stack and standardise a batch, and move it to the device."""
        if self.standardize and self.feature_mean is None:
            raise ValueError(
                'FeaturePreprocessor does not know the mean of the features: train with mmml_losses.'
                'FeatureStatisticsHook among the custom_hooks, load a checkpoint of such a training, or set '
                'standardize=False'
            )
        batch = super().forward(data, training)
        if self.standardize:
            batch['inputs'] = (batch['inputs'] - self.feature_mean) / self.feature_deviation
        return batch

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args, **kwargs) -> None:
        for name in ('feature_mean', 'feature_deviation'):
            stored = state_dict.get(prefix + name)
            if stored is not None:
                # PyTorch would not load a buffer that is None or has another width.
                setattr(self, name, torch.empty_like(stored, device=self.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


@MODELS.register_module()
class FeatureFusion(BaseModule):
    """Fuses two kinds of features that are concatenated in one row, such as features of a question and of an image.

    Both are projected to the same width and multiplied entry by entry; activation and dropout follow.

    Args:
        in_channels: Widths of the first and the second kind; a row has both, in this order.
        out_channels: Width of the projections and of the output.
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
        """Fuse the features of the last stage, (N, sum of ``in_channels``), to (N, ``out_channels``)."""
        features = feats[-1]
        if features.dim() != 2 or features.size(1) != self.in_features:
            first, second = self.in_channels
            raise ValueError(
                f'features must be of shape (N, {self.in_features}), {first} of the first kind and {second} of the '
                f'second as in_channels says, got {tuple(features.shape)}'
            )
        first, second = features.split(self.in_channels, dim=1)
        return (self.dropout(self.activation(self.first(first) * self.second(second))),)


@MODELS.register_module()
class GlobalMaxPooling(BaseModule):
    """Takes the maximum of each channel over the image, for every stage."""

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Pool maps (N, D, H, W) to features (N, D)."""
        for stage in feats:
            if stage.dim() != 4:
                raise ValueError(f'feats must be maps of shape (N, D, H, W), got {tuple(stage.shape)}')
        return tuple(stage.amax(dim=(2, 3)) for stage in feats)

"""Backbone and preprocessor for a classifier of precomputed features, and two necks that MMPretrain lacks."""

from collections.abc import Sequence

import torch
from mmengine.model import BaseModule
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ..registry import MODELS
from .preprocessing import MultiLabelPreprocessor


@MODELS.register_module()
class FeatureBackbone(BaseModule):
    """Backbone for precomputed features instead of images; it returns them unchanged."""

    def forward(self, inputs: Tensor) -> tuple[Tensor]:
        """Return ``(inputs,)``: the features, (N, D), as a tuple of one stage. Another shape raises a ValueError."""
        if inputs.dim() != 2:
            raise ValueError(f'inputs must be features (N, D), got {tuple(inputs.shape)}')
        return (inputs,)


@MODELS.register_module()
class FeaturePreprocessor(MultiLabelPreprocessor):
    """Data preprocessor for precomputed features: stacks them as float32 and standardises them by the training set.

    ``mmml_losses.FeatureStatisticsHook`` computes mean and standard deviation when a training starts. Checkpoints
    contain them, so that a test on another file uses those values. Without them, :meth:`forward` raises a ValueError.

    Args:
        standardize: Whether to subtract the mean of each feature and divide by its standard deviation.
        **kwargs: Arguments of :class:`MultiLabelPreprocessor`, such as ``num_classes``; not those about pixels.
    """

    def __init__(self, standardize: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.standardize = standardize
        # A training or a checkpoint sets them, and with them their width.
        self.register_buffer('feature_mean', None)
        self.register_buffer('feature_deviation', None)

    def set_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        """Store the mean and the standard deviation of each feature, (D,) each, for :meth:`forward`."""
        self.feature_mean = mean.float().to(self.device)
        self.feature_deviation = deviation.float().to(self.device)

    def forward(self, data: dict, training: bool = False) -> dict:
        """Return a dict: ``inputs``, (N, D) float32 on the device, standardised if configured; and ``data_samples``."""
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
    """Neck that fuses two feature vectors of a sample into one, such as the vectors of a question and of an image.

    A linear layer projects each vector. Activation and dropout follow on the element-wise product of both projections.

    Args:
        in_channels: Lengths of the two vectors, in the order in which they are concatenated in the input.
        out_channels: Length of the projections and of the output.
        act_cfg: Config of the activation, ReLU by default.
        dropout: Probability that an output value is set to 0 in training.
        init_cfg: Config of MMEngine's weight initialisation; by default, PyTorch initialises the layers.
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
        """Return ``(fused,)``, (N, ``out_channels``), from the last stage of ``feats``, (N, sum of ``in_channels``)."""
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
    """Neck that takes the maximum of each channel over height and width, at every stage."""

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return a tuple of features (N, D), one for each stage in ``feats``, a tuple of maps (N, D, H, W)."""
        for stage in feats:
            if stage.dim() != 4:
                raise ValueError(f'feats must be maps of shape (N, D, H, W), got {tuple(stage.shape)}')
        return tuple(stage.amax(dim=(2, 3)) for stage in feats)

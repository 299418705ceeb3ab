"""What a classifier on frozen features needs in MMPretrain's ``ImageClassifier``."""

from __future__ import annotations

import torch
from mmengine.model import BaseModule
from torch import Tensor

from ..registry import MODELS
from .preprocessing import MultiLabelPreprocessor


@MODELS.register_module()
class FeatureBackbone(BaseModule):
    """The place of the backbone where the inputs are features already: it hands them on."""

    def forward(self, inputs: Tensor) -> tuple[Tensor]:
        """The inputs (N, D) as the features of the only stage."""
        if inputs.dim() != 2:
            raise ValueError(f'inputs must be features (N, D), got {tuple(inputs.shape)}')
        return (inputs,)


@MODELS.register_module()
class FeaturePreprocessor(MultiLabelPreprocessor):
    """Stacks features, makes them float32 and, if asked, standardises them by the training set.

    ``mmml_losses.FeatureStatisticsHook`` finds mean and deviation at the start of a training. They are part of the
    model and its checkpoints, so that a test, on whatever file, uses those of the training.

    Args:
        standardize: Whether to subtract the mean and divide by the deviation, feature by feature.
        **kwargs: Arguments of :class:`MultiLabelPreprocessor` that make sense without images.
    """

    def __init__(self, standardize: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.standardize = standardize
        # Known, and of a certain width, from the training or a checkpoint on.
        self.register_buffer('feature_mean', None)
        self.register_buffer('feature_deviation', None)

    def set_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        """Standardise by these from now on, (D,) each."""
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
                # What is not there yet, or has another width, would not be loaded.
                setattr(self, name, torch.empty_like(stored, device=self.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

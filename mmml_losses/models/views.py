"""The classifier for several views of each training image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mmpretrain.models.classifiers import ImageClassifier
from mmpretrain.structures import DataSample
from torch import Tensor

from ..losses import ConsistencyRegularizer
from ..registry import MODELS
from .preprocessing import are_views


@MODELS.register_module()
class MultiViewClassifier(ImageClassifier):
    """MMPretrain's classifier, which also trains on several views of an image (paper of LASD, Eq. 7 and 8).

    The loss of the head is on the first view. The logits of the others go to it as ``views``, where its
    :class:`mmml_losses.losses.ConsistencyRegularizer` compares them; a loss without one is refused. Batches of single
    images, and predictions, are those of ``ImageClassifier``.

    The views come from :class:`mmml_losses.datasets.PackViews` and :class:`MultiLabelPreprocessor`, and have one size.
    The arguments are those of ``ImageClassifier``.
    """

    def loss(self, inputs: Tensor | Sequence[Tensor], data_samples: list[DataSample]) -> dict[str, Tensor]:
        """The losses of a batch.

        Args:
            inputs: Images (N, ...), or a list of V such batches, view by view.
            data_samples: The N samples, with their labels.
        """
        if not are_views(inputs):
            return super().loss(inputs, data_samples)
        self._check_views(inputs)
        # In one pass: batch norm takes all views by the same statistics, so that they differ by their images alone,
        # and its running statistics, with which a test goes on, move once a step and know every kind of view.
        features = self.extract_feat(torch.cat(list(inputs)))
        count = len(inputs[0])
        image, *others = (_rows(features, slice(v * count, (v + 1) * count)) for v in range(len(inputs)))
        return self.head.loss(image, data_samples, views=[self.head(other) for other in others])

    def extract_feat(self, inputs: Tensor, stage: str = 'neck') -> tuple[Tensor, ...] | Tensor:
        """Features of single images, see ``ImageClassifier``."""
        if are_views(inputs):
            raise ValueError(f'inputs must be single images outside of training, got {len(inputs)} views of each')
        return super().extract_feat(inputs, stage)

    def _check_views(self, views: Sequence[Tensor]) -> None:
        shapes = [tuple(view.shape) for view in views]
        if len(set(shapes)) > 1:
            raise ValueError(f'inputs must be views of one shape, got {" and ".join(map(str, shapes))}')
        if not any(isinstance(module, ConsistencyRegularizer) for module in self.head.modules()):
            loss = type(getattr(self.head, 'loss_module', self.head)).__name__
            raise ValueError(
                f'loss must have a mmml_losses.ConsistencyRegularizer to train on several views, got {loss}, which '
                'would leave all but the first one out: join both in a mmml_losses.SumLoss, or train on single images'
            )


def _rows(features: Tensor | Sequence, rows: slice) -> Tensor | tuple:
    """Some samples of features, which are a tensor, or tensors by stage."""
    return features[rows] if isinstance(features, Tensor) else tuple(_rows(each, rows) for each in features)

"""Data preprocessor for unknown labels and several views (augmented versions) of an image, and its classifier."""

from collections.abc import Sequence
from typing import Any

import torch
from mmpretrain.models.classifiers import ImageClassifier
from mmpretrain.models.utils.data_preprocessor import ClsDataPreprocessor
from mmpretrain.structures import DataSample
from torch import Tensor

from ..losses import ConsistencyRegularizer
from ..registry import MODELS
from .heads import stack_targets

# Keys of a data sample that describe one image, and are wrong for an image merged from several.
ABOUT_ONE_IMAGE = ('sample_idx', 'true_label')


@MODELS.register_module()
class MultiLabelPreprocessor(ClsDataPreprocessor):
    """MMPretrain's preprocessor for classification, extended for unknown labels (-1) and several views of an image.

    - Views are versions of one image, made by :class:`mmml_losses.datasets.PackViews` or MMPretrain's ``MultiView``. V
      views become a list of V batches (N, channels, H, W), the first with the first view of all N images. There is one
      data sample per image. :class:`MultiViewClassifier` trains on such lists.
    - If only some samples of a batch have ``gt_score``, as from a ``ConcatDataset``, the others get a ``gt_score`` from
      their ``gt_label``. A repeated label counts once.
    - ``batch_augments`` merge images, which then have no single index. In training, samples lose ``sample_idx`` and
      ``true_label``, and losses that remember samples raise an error. ``gt_label`` becomes the positives of
      ``gt_score``. With several views, ``batch_augments`` raise an error in training.

    Args:
        num_classes: Number of classes; needed for ``batch_augments`` and ``to_onehot``.
        batch_augments: ``dict(augments=..., probs=...)`` as in MMPretrain. With unknown labels the augmentations must
            be ``mmml_losses.UnionMixup`` and ``mmml_losses.UnionMosaic``.
        **kwargs: ``mean``, ``std``, ``to_rgb``, ``pad_size_divisor``, ``pad_value``, ``to_onehot``, as in MMPretrain.
    """

    takes_views = True
    """A mark for the patch of MMPretrain's preprocessor: this one handles several views of an image."""

    def __init__(self, num_classes: int | None = None, batch_augments: dict | None = None, **kwargs):
        super().__init__(num_classes=num_classes, batch_augments=batch_augments, **kwargs)
        if self.to_onehot and num_classes is None:
            raise ValueError('num_classes must be given with batch_augments or to_onehot, got None')

    def forward(self, data: dict, training: bool = False) -> dict:
        """Return a dict of normalised ``inputs``, (N, channels, H, W) or a list of V such views, and ``data_samples``.

        Args:
            data: ``inputs`` and, if there are labels, ``data_samples``, as the dataloader collates them.
            training: Whether to apply ``batch_augments``.
        """
        samples: Any = data.get('data_samples')
        labelled = samples is not None and isinstance(samples[0], DataSample)
        if labelled:
            self._complete_scores(samples)
        if are_views(data['inputs']):
            return self._stack_views(data['inputs'], samples, training)
        stacked = super().forward(data, training)
        if labelled and training and self.batch_augments is not None:
            _forget_single_images(samples)
        return stacked

    def _stack_views(self, views: Sequence, samples: Sequence[DataSample] | None, training: bool) -> dict:
        if training and self.batch_augments is not None:
            raise ValueError('batch_augments must be None for several views, which would be joined with other images')
        for view in views:
            if samples is not None and len(view) != len(samples):
                raise ValueError(f'inputs must have {len(samples)} images in each view, got {len(view)}')
        stack = super().forward
        first = stack(dict(inputs=views[0], data_samples=samples))
        others = [stack(dict(inputs=view))['inputs'] for view in views[1:]]
        return dict(inputs=[first['inputs'], *others], data_samples=first['data_samples'])

    def _complete_scores(self, samples: Sequence[DataSample]) -> None:
        """Add missing ``gt_score`` from ``gt_label``, in place, if any sample has ``gt_score`` or an option needs it.

        These options are ``batch_augments`` and ``to_onehot``. Nothing changes if a sample has neither label nor score.
        """
        scored = [sample for sample in samples if 'gt_score' in sample]
        if len(scored) == len(samples) or not (scored or self.to_onehot):
            return
        if any('gt_score' not in sample and 'gt_label' not in sample for sample in samples):
            return  # the inferencer passes images without labels
        num_classes = len(scored[0].gt_score) if scored else self.num_classes
        for sample, row in zip(samples, stack_targets(samples, num_classes), strict=True):
            sample.set_gt_score(row)


def are_views(inputs: Tensor | Sequence) -> bool:
    """Return True for several views of images: a list of batches, each a list of images or a tensor of 4 dimensions."""
    return isinstance(inputs, (list, tuple)) and (isinstance(inputs[0], (list, tuple)) or inputs[0].dim() == 4)


def _forget_single_images(samples: Sequence[DataSample]) -> None:
    for sample in samples:
        for key in ABOUT_ONE_IMAGE:
            sample.pop(key, None)
        if 'gt_label' in sample and 'gt_score' in sample:
            sample.set_gt_label((sample.gt_score == 1).nonzero().flatten())


@MODELS.register_module()
class MultiViewClassifier(ImageClassifier):
    """MMPretrain's ``ImageClassifier``, with its arguments, that can train on several views (versions) of each image.

    As in the paper of LASD (Eq. 7 and 8), the loss of the head is computed on the first view. The loss gets the logits
    of the other views as ``views``, for its :class:`mmml_losses.losses.ConsistencyRegularizer`; a loss without one
    raises an error. Batches of single images, and predictions, are treated as in ``ImageClassifier``.

    :class:`mmml_losses.datasets.PackViews` and :class:`MultiLabelPreprocessor` make the views, all of one size.
    """

    def loss(self, inputs: Tensor | Sequence[Tensor], data_samples: list[DataSample]) -> dict[str, Tensor]:
        """Return a dict of the head's losses for the first view; the loss gets the other views' logits as ``views``.

        Args:
            inputs: Images (N, channels, H, W), or a list of V such batches: batch v has view v of all N images.
            data_samples: The N samples, with their labels.
        """
        if not are_views(inputs):
            return super().loss(inputs, data_samples)
        self._check_views(list(inputs))
        # In one pass: batch norm normalises all views by the same statistics, so that they differ by their images
        # alone. Its running statistics, which a test uses, are updated once a step and include every kind of view.
        features = self.extract_feat(torch.cat(list(inputs)))
        count = len(inputs[0])
        image, *others = (_rows(features, slice(v * count, (v + 1) * count)) for v in range(len(inputs)))
        return self.head.loss(image, data_samples, views=[self.head(other) for other in others])

    def extract_feat(self, inputs: Tensor, stage: str = 'neck') -> tuple[Tensor, ...] | Tensor:
        """Return features of single images at ``stage``, as ``ImageClassifier``; several views raise a ValueError."""
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
    """Return the given rows (samples) of a tensor, or of each tensor in nested lists of features, as nested tuples."""
    return features[rows] if isinstance(features, Tensor) else tuple(_rows(each, rows) for each in features)

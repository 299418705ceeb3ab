"""The data preprocessor for several views and unknown labels, and the classifier that trains on several views."""

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

# Entries of a data sample about one image, which are wrong for an image that was joined with others.
ABOUT_ONE_IMAGE = ('sample_idx', 'true_label')


@MODELS.register_module()
class MultiLabelPreprocessor(ClsDataPreprocessor):
    """MMPretrain's preprocessor for classification, extended by several views of an image and by unknown labels.

    - Samples of several views (:class:`mmml_losses.datasets.PackViews`, or MMPretrain's ``MultiView``) give a list of V
      batches (N, C, H, W), of which the first has the first view of all N images. There is one data sample for each
      image. A classifier runs each batch, uses the logits of the first as the logits of the images, and passes the
      others to :class:`mmml_losses.losses.ConsistencyRegularizer` as ``views``.
    - If some samples of a batch have ``gt_score`` and others only ``gt_label``, as from a ``ConcatDataset``, all
      get a ``gt_score``, in which a repeated label counts once.
    - Images that ``batch_augments`` join have no single index. In training they have no ``sample_idx``, so that losses
      that remember samples raise an error, and their ``gt_label`` lists the positives of ``gt_score``.

    Args:
        num_classes: Number of labels; needed for ``batch_augments`` and ``to_onehot``.
        batch_augments: ``dict(augments=..., probs=...)`` as in MMPretrain. With unknown labels the augmentations must
            be ``mmml_losses.UnionMixup`` and ``mmml_losses.UnionMosaic``.
        **kwargs: ``mean``, ``std``, ``to_rgb``, ``pad_size_divisor``, ``pad_value`` and ``to_onehot`` of MMPretrain's
            ``ClsDataPreprocessor``.
    """

    takes_views = True
    """A mark for the patch of MMPretrain's preprocessor: this one handles several views of an image."""

    def __init__(self, num_classes: int | None = None, batch_augments: dict | None = None, **kwargs):
        super().__init__(num_classes=num_classes, batch_augments=batch_augments, **kwargs)
        if self.to_onehot and num_classes is None:
            raise ValueError('num_classes must be given with batch_augments or to_onehot, got None')

    def forward(self, data: dict, training: bool = False) -> dict:
        """Stack, normalise and move a batch, and augment it in training.

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
        """Give all samples a ``gt_score``, if any sample has one, or if ``batch_augments`` or ``to_onehot`` need it."""
        scored = [sample for sample in samples if 'gt_score' in sample]
        if len(scored) == len(samples) or not (scored or self.to_onehot):
            return
        if any('gt_score' not in sample and 'gt_label' not in sample for sample in samples):
            return  # the inferencer passes images without labels
        num_classes = len(scored[0].gt_score) if scored else self.num_classes
        for sample, row in zip(samples, stack_targets(samples, num_classes), strict=True):
            sample.set_gt_score(row)


def are_views(inputs: Tensor | Sequence) -> bool:
    """Check whether a collated batch has several views: it is a list of batches, stacked or not, and not of images."""
    return isinstance(inputs, (list, tuple)) and (isinstance(inputs[0], (list, tuple)) or inputs[0].dim() == 4)


def _forget_single_images(samples: Sequence[DataSample]) -> None:
    for sample in samples:
        for key in ABOUT_ONE_IMAGE:
            sample.pop(key, None)
        if 'gt_label' in sample and 'gt_score' in sample:
            sample.set_gt_label((sample.gt_score == 1).nonzero().flatten())


@MODELS.register_module()
class MultiViewClassifier(ImageClassifier):
    """MMPretrain's classifier, which also trains on several views of an image (paper of LASD, Eq. 7 and 8).

    The loss of the head is computed on the first view. The logits of the other views are passed to it as ``views``, for
    its :class:`mmml_losses.losses.ConsistencyRegularizer`; a loss without one raises an error. Batches of single
    images, and predictions, are treated as in ``ImageClassifier``.

    The views come from :class:`mmml_losses.datasets.PackViews` and :class:`MultiLabelPreprocessor`, and have one size.
    The arguments are the arguments of ``ImageClassifier``.
    """

    def loss(self, inputs: Tensor | Sequence[Tensor], data_samples: list[DataSample]) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            inputs: Images (N, ...), or a list of V such batches, view by view.
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
        """Extract the features of single images, see ``ImageClassifier``."""
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
    """Return some rows (samples) of the features, which are a tensor or a nested list of tensors for each stage."""
    return features[rows] if isinstance(features, Tensor) else tuple(_rows(each, rows) for each in features)

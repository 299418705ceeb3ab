"""Features with observed labels, which know the true ones."""

from __future__ import annotations

import numpy as np

from ...registry import DATASETS
from ..errors import AnnotationError
from ..labels.sample_labels import SampleLabels
from ..readers.feature_dataset import FeatureDataset
from .label_wrapper import LabelWrapper


@DATASETS.register_module()
class StoredLabels(LabelWrapper):
    """A :class:`FeatureDataset` of true labels that serves other labels of the same file.

    Training on the observed labels alone needs no wrapper (``FeatureDataset(labels=...)``). With it, hooks and
    analyses have both, as with every label wrapper.

    Args:
        dataset: The dataset with the true labels, or its config.
        labels: Name of the array of the labels to serve, with 1, 0 and -1.
        lazy_init: Whether to leave reading to :meth:`full_init`. The wrapped dataset has a ``lazy_init`` of its own.

    Example:
        >>> full = dict(type='mmml_losses.FeatureDataset', ann_file='features.npz', split='train', labels='train_full')
        >>> dataset = StoredLabels(full, labels='train_40')
    """

    def __init__(self, dataset: FeatureDataset | dict, labels: str, lazy_init: bool = False):
        self.labels_name = labels
        super().__init__(dataset, lazy_init=lazy_init)

    def relabel(self, samples: SampleLabels) -> np.ndarray:
        """The labels of the array."""
        if not isinstance(self.dataset, FeatureDataset):
            raise TypeError(f'dataset must be a FeatureDataset, got {type(self.dataset).__name__}')
        labels = self.dataset.label_array(self.labels_name)
        if labels.dtype != np.int8:
            raise AnnotationError(f'{self.dataset.ann_file}, array {self.labels_name!r}: labels must be 1, 0 or -1')
        return labels

    def settings(self) -> dict:
        """The arguments that determine the labels."""
        return dict(type=type(self).__name__, labels=self.labels_name)

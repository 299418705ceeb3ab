"""Standardising features by the training set."""

from __future__ import annotations

import torch
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, Runner
from torch import nn

from ...datasets import AnnotationError, FeatureDataset
from ...datasets.labels.nesting import leaf_datasets
from ...datasets.readers.feature_dataset import feature_statistics
from ...registry import HOOKS
from .training_set import head_classes


@HOOKS.register_module()
class FeatureStatisticsHook(Hook):
    """Finds mean and deviation of the training features for ``mmml_losses.FeaturePreprocessor``.

    They are read once, before a checkpoint is loaded, whose own take their place; each process reads them for itself.
    Features or classes that the model is not made for are refused.
    """

    # Before EMAHook copies the model, whose buffers then have their final shapes.
    priority = 'HIGH'

    def before_run(self, runner: Runner) -> None:
        """Read the training set, if this is a training: only then the loop is built by now."""
        preprocessors = [module for module in runner.model.modules() if _wants_statistics(module)]
        if not preprocessors or not isinstance(getattr(runner, '_train_loop', None), BaseLoop):
            return
        datasets = list({id(leaf): leaf for leaf in leaf_datasets(runner.train_dataloader.dataset)}.values())
        for dataset in datasets:
            if not isinstance(dataset, FeatureDataset):
                raise ValueError(
                    f'FeatureStatisticsHook needs a FeatureDataset to train on, got {type(dataset).__name__}'
                )
            refuse_other_sizes(runner.model, dataset)
        mean, deviation = feature_statistics(datasets)
        for preprocessor in preprocessors:
            preprocessor.set_statistics(torch.from_numpy(mean), torch.from_numpy(deviation))
        print_log(f'Features are standardised by {sum(map(len, datasets)):,} training samples', logger='current')


def refuse_other_sizes(model: nn.Module, dataset: FeatureDataset) -> None:
    """Refuse features that the first layer of a model does not take, and classes that its head does not have."""
    width = len(dataset.get_data_info(0)['features'])
    # Linear layers have the attribute, and so do our modules whose layers take only a part of the features, or none.
    taken = next((module.in_features for module in model.modules() if hasattr(module, 'in_features')), width)
    if width != taken:
        raise AnnotationError(
            f'{dataset.ann_file} has features of width {width}, and the first layer of the model takes {taken}: set '
            'in_channels of model.neck, or of model.head where there is no neck'
        )
    num_classes = head_classes(model)
    if num_classes not in (None, len(dataset.CLASSES)):
        raise AnnotationError(
            f'{dataset.ann_file} has {len(dataset.CLASSES)} classes, and the head of the model {num_classes}: set '
            'model.head.num_classes'
        )


def _wants_statistics(module: nn.Module) -> bool:
    # By what it does: without MMPretrain there is no such class to ask for.
    return hasattr(module, 'set_statistics') and module.standardize

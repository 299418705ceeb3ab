"""Pass the labels or features of the training set to the modules of a model that need them."""

import logging
from collections.abc import Iterable

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, IterBasedTrainLoop, Runner
from torch import nn

from ...datasets import AnnotationError, FeatureDataset
from ...datasets.labels.data_infos import DatasetKindError
from ...datasets.labels.nesting import class_names, leaf_datasets
from ...datasets.labels.reading import LabelChanges, read_label_changes
from ...datasets.readers.feature_dataset import feature_statistics
from ...losses import MultiLabelLoss
from ...registry import HOOKS


@HOOKS.register_module()
class TrainingSetHook(Hook):
    """Pass the labels of the training set to every module of the model that requests them.

    A module requests labels by ``wants_training_labels = True`` and receives them in ``see_training_labels``, see
    :class:`mmml_losses.losses.MultiLabelLoss`. DB, CB, RW, LDAM, weighted BCE and ``ExpertsHead`` count class
    frequencies in the labels unless the config gives frequencies. ML-GCN builds its label graph from the labels, and
    receives the names of the classes in ``see_class_names``.

    Each process reads the labels once, before a checkpoint is loaded and without loading an image. Every image counts
    once, also in a ``RepeatDataset`` or ``ClassBalancedDataset``. In the dataset of a detector, an image has the
    classes of its boxes that are not ignored.

    After each epoch the processes of a distributed training share the values that losses such as ROLE keep per sample.
    """

    # Before EMAHook copies the model, whose buffers then have their final shapes, and before CheckpointHook saves it.
    priority = 'HIGH'

    def before_run(self, runner: Runner) -> None:
        """Pass the labels to the modules that request them, if the Runner trains."""
        if not is_training(runner):
            return
        names = _names(loss for loss in losses_of(runner.model) if loss.goes_by_epochs)
        if names and isinstance(runner.train_loop, IterBasedTrainLoop):
            print_log(
                f'{names} goes by epochs, and the training is by iterations, where the epoch stays 0: it will '
                'never begin to correct. Use EpochBasedTrainLoop.',
                logger='current',
                level=logging.WARNING,
            )
        self.before_train(runner)

    def before_train(self, runner: Runner) -> None:
        """Pass the labels to every module that requests them and has not received them yet."""
        modules = [module for module in runner.model.modules() if hasattr(module, 'see_training_labels')]
        waiting = [module for module in modules if module.wants_training_labels]
        remembering = [loss for loss in losses_of(runner.model) if loss.remembers_samples]
        if not waiting and not remembering:
            return
        found = read_training_set(runner.train_dataloader.dataset, head_classes(runner.model))
        indices, counts = np.unique(found.sample_idx, return_counts=True)
        if remembering and (counts > 1).any():
            raise ValueError(
                f'sample_idx must name one image each for {_names(remembering)}, got {indices[counts > 1][0]} for '
                f'{counts.max()} images: the parts of a ConcatDataset number their images alike'
            )
        for module in waiting:
            if hasattr(module, 'see_class_names'):
                module.see_class_names(found.classes)
            module.see_training_labels(torch.from_numpy(found.observed), torch.from_numpy(found.sample_idx))
        if waiting:
            shown = f'{len(found.observed):,} images, {found.observed.shape[1]:,} classes'
            print_log(f'Training set shown to {_names(waiting)}: {shown}', logger='current')

    def after_train_epoch(self, runner: Runner) -> None:
        """Let distributed processes share the values that losses keep per sample."""
        for loss in losses_of(runner.model):
            loss.synchronize()


def is_training(runner: Runner) -> bool:
    """Return True if a Runner trains: only then has it built its training loop."""
    return isinstance(getattr(runner, '_train_loop', None), BaseLoop)


def losses_of(model: nn.Module) -> list[MultiLabelLoss]:
    """Return a list of all losses of this package in a model, each before the losses inside it."""
    return [module for module in model.modules() if isinstance(module, MultiLabelLoss)]


def read_training_set(dataset: BaseDataset, num_classes: int | None = None) -> LabelChanges:
    """Return the labels of a training set as ``LabelChanges``, with one row per image even if images are repeated.

    ``num_classes`` is needed only if the dataset does not name its classes.
    """
    try:
        return read_label_changes(dataset, num_classes)
    except DatasetKindError as error:
        raise ValueError(f'{error}: give class_frequencies as a list or a json file') from error


def head_classes(model: nn.Module) -> int | None:
    """Return ``num_classes`` of the first module (a head) in which something has ``see_training_labels``; else None."""
    for module in model.modules():
        number = getattr(module, 'num_classes', None)
        if isinstance(number, int) and any(hasattr(part, 'see_training_labels') for part in module.modules()):
            return number
    return None


def _names(modules: Iterable[nn.Module]) -> str:
    return ', '.join(sorted({type(module).__name__ for module in modules}))


@HOOKS.register_module()
class FeatureStatisticsHook(Hook):
    """Compute mean and standard deviation of the training features for ``mmml_losses.FeaturePreprocessor``.

    Each process reads the features once. A checkpoint that is loaded later replaces mean and deviation by its own.
    Features whose width or classes do not fit the model raise an AnnotationError.
    """

    # Before EMAHook copies the model, whose buffers then have their final shapes.
    priority = 'HIGH'

    def before_run(self, runner: Runner) -> None:
        """Set mean and deviation in the preprocessors that standardise, if the Runner trains."""
        # By what a module has: without MMPretrain there is no class FeaturePreprocessor.
        modules = (module for module in runner.model.modules() if hasattr(module, 'set_statistics'))
        preprocessors = [module for module in modules if module.standardize]
        if not preprocessors or not is_training(runner):
            return
        datasets = list({id(leaf): leaf for leaf in leaf_datasets(runner.train_dataloader.dataset)}.values())
        for dataset in datasets:
            if not isinstance(dataset, FeatureDataset):
                raise ValueError(
                    f'FeatureStatisticsHook needs a FeatureDataset to train on, got {type(dataset).__name__}'
                )
            _reject_other_sizes(runner.model, dataset)
        mean, deviation = feature_statistics(datasets)
        for preprocessor in preprocessors:
            preprocessor.set_statistics(torch.from_numpy(mean), torch.from_numpy(deviation))
        print_log(f'Features are standardised by {sum(map(len, datasets)):,} training samples', logger='current')


def _reject_other_sizes(model: nn.Module, dataset: FeatureDataset) -> None:
    """Raise an AnnotationError if features have another width than the first layer, or other classes than the head."""
    width = len(dataset.get_data_info(0)['features'])
    # Linear layers have the attribute, and so do our modules whose layers take only a part of the features, or none.
    taken = next((module.in_features for module in model.modules() if hasattr(module, 'in_features')), width)
    if width != taken:
        raise AnnotationError(
            f'{dataset.ann_file} has features of width {width}, and the first layer of the model takes {taken}: set '
            'in_channels of model.neck, or of model.head where there is no neck'
        )
    num_classes, in_file = head_classes(model), len(class_names(dataset))
    if num_classes not in (None, in_file):
        raise AnnotationError(
            f'{dataset.ann_file} has {in_file} classes, and the head of the model {num_classes}: set '
            'model.head.num_classes'
        )

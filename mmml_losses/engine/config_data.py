"""Read the datasets of a config: name missing files before anything is built, and build one dataset alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, DefaultScope

from ..datasets import AnnotationError, MissingDataError
from ..datasets.labels.nesting import leaf_configs, leaf_datasets, walk_configs
from ..datasets.readers.reader import MultiLabelReader
from ..datasets.wrappers.label_wrapper import LabelWrapper
from ..utils.errors import UsageError

DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')
# A Runner takes them only together.
NEEDED_BY_OTHER_RUNS = (
    *('train_dataloader', 'train_cfg', 'optim_wrapper', 'param_scheduler'),
    *('val_dataloader', 'val_cfg', 'val_evaluator'),
)


def require_data(cfg: Config, config_file: str) -> None:
    """Stop when files of a dataset are missing, and say what runs without them."""
    datasets = [dataset for _, dataset in unloaded_datasets(cfg)]
    of_others = list(_missing_files_of_others(cfg))
    missing = [file for dataset in datasets for file in dataset.missing_files()] + of_others
    if missing:
        listing = '\n'.join(f'  {file}' for file in dict.fromkeys(missing))
        only_labels = not of_others and all(
            isinstance(dataset, LabelWrapper) for dataset in datasets if dataset.missing_files()
        )
        raise MissingDataError(
            f'The data of {config_file} is not complete. These files and folders must be there and are not:\n'
            f'{listing}{_advice(Path(config_file), only_labels)}',
            missing,
        )


def _advice(config_file: Path, only_labels: bool) -> str:
    if only_labels:
        return '\ntools/make_labels.py writes labels that a config draws, tools/pseudo_label.py corrected ones.'
    sibling = digits_sibling(config_file)
    if sibling is None:
        return ''
    return f'\nWithout any download, this trains on data that it makes itself:\n  python tools/train.py {sibling}'


def unloaded_datasets(cfg: Config) -> Iterator[tuple[dict, BaseDataset]]:
    """The datasets of a config that can tell what they miss, also those inside wrappers, each beside its settings."""
    for settings, kind in _dataset_settings(cfg):
        can_tell = hasattr(kind, 'missing_files')
        wraps = isinstance(kind, type) and issubclass(kind, LabelWrapper)
        if can_tell or wraps:
            arguments = {key: value for key, value in settings.items() if key != 'type'}
            dataset = _unloaded(kind, arguments)  # of every wrapper, to see whether it can be built
            if can_tell:
                yield settings, dataset


def _missing_files_of_others(cfg: Config) -> Iterator[str]:
    """Annotations and folders of images that are not there of datasets that cannot tell, such as MMDetection's."""
    for settings, kind in _dataset_settings(cfg):
        if hasattr(kind, 'missing_files') or (settings.get('backend_args') or {}).get('backend', 'local') != 'local':
            continue
        prefix = settings.get('data_prefix')
        images = prefix.get('img') if isinstance(prefix, dict) else None
        for name in filter(None, (settings.get('ann_file'), images)):
            file = os.path.join(settings.get('data_root') or '', name)
            if '://' not in file and not os.path.exists(file):
                yield file


def _dataset_settings(cfg: Config) -> Iterator[tuple[dict, type]]:
    """The settings of all datasets of a config, also inside wrappers, each with the class that it names."""
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
        for name in DATALOADERS:
            for settings in walk_configs((cfg.get(name) or {}).get('dataset')):
                if kind := settings.get('type'):
                    yield settings, DATASETS.get(kind) if isinstance(kind, str) else kind


def _unloaded(kind: type, arguments: dict):
    # The dataset inside a label wrapper is asked by itself; an empty one stands for it.
    light = dict(dataset=BaseDataset(lazy_init=True)) if issubclass(kind, LabelWrapper) else dict(pipeline=[])
    try:
        return kind(**{**arguments, **light, 'lazy_init': True})
    except (TypeError, ValueError) as error:
        raise UsageError(f'the config has a {kind.__name__} that cannot be built: {error}') from None


def digits_sibling(config_file: Path) -> Path | None:
    """The config of the same method on DigitScenes: ``spa_lpr_coco.py`` has ``spa_lpr_digits.py``.

    Of a detector without one for its loss, it is that of another loss; of a method without any, that of SPA + LPR; of
    a config elsewhere, None.
    """
    stem = config_file.stem
    while stem:
        siblings = sorted(config_file.parent.glob(f'{stem}_*_digits.py'))
        siblings = [config_file.with_name(f'{stem}_digits.py'), *siblings]
        if found := next((sibling for sibling in siblings if sibling.is_file()), None):
            return found
        stem = re.sub(r'_?[^_]*$', '', stem)
    default = config_file.with_name('spa_lpr_digits.py')
    return default if default.is_file() else None


def load_dataset(cfg: Config, dataloader: str, config_file: str) -> BaseDataset:
    """Build one of the datasets of a config, as a Runner would, from its annotations.

    The data of the other datasets need not be there, and neither need the images of this one, where it is a reader of
    this package: then they seem to lie beside the annotations. The names of the samples are the same.

    Args:
        cfg: The config, changed in place.
        dataloader: Whose dataset, such as ``'train'``.
        config_file: Where the config comes from, for error messages.

    Raises:
        UsageError: There is none, or it cannot be built.
        MissingDataError: Annotation files are missing.
    """
    asked = f'{dataloader}_dataloader'
    if (cfg.get(asked) or {}).get('dataset') is None:
        raise UsageError(f'config {config_file} has no {asked} with a dataset')
    cfg.merge_from_dict({name: None for name in DATALOADERS if name != asked})
    _do_without_images(cfg)
    require_data(cfg, config_file)
    try:
        with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
            return DATASETS.build(cfg[asked].dataset)
    except AnnotationError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(f'the dataset of {asked} in {config_file} cannot be built: {error}') from error


def _do_without_images(cfg: Config) -> None:
    for settings, dataset in unloaded_datasets(cfg):
        if not isinstance(dataset, MultiLabelReader) or not dataset.annotation_files():
            continue
        if dataset.missing_files() == [dataset.data_prefix['img_path']]:
            folders = dict(dataset.data_prefix, img_path=os.path.dirname(dataset.annotation_files()[0]))
            # They are below the data root already, which is not put before absolute paths.
            folders = {key: os.path.abspath(folder) for key, folder in folders.items()}
            settings['data_prefix'] = folders if len(folders) > 1 else folders['img_path']


def label_with_the_test_run(cfg: Config, dataloader: str) -> None:
    """Turn a config into a test run over one of its datasets: unaugmented, in order, each sample once.

    Only the pipeline of the dataset changes, so that it has the samples and labels it has in training. The config can
    no longer train or validate, and needs no other data.

    Args:
        cfg: The config, changed in place.
        dataloader: Whose dataset, such as ``'train'``.
    """
    loader = cfg.get(f'{dataloader}_dataloader')
    if loader is None:
        raise UsageError(f'the config has no {dataloader}_dataloader')
    test_loader = deepcopy(cfg.get('test_dataloader') or cfg.get('val_dataloader'))
    pipelines = [leaf.pipeline for leaf in leaf_configs(test_loader and test_loader.dataset) if leaf.get('pipeline')]
    if not pipelines:
        raise UsageError('the config has no test_dataloader with a pipeline, which pseudo labels are made with')
    dataset = deepcopy(loader.dataset)
    for leaf in leaf_configs(dataset):
        leaf.pipeline = deepcopy(pipelines[0])
    for key in ('batch_sampler', 'num_batch_per_epoch'):
        test_loader.pop(key, None)
    # One by one: update() would mix the old and the new dataset.
    test_loader.dataset = dataset
    test_loader.sampler = dict(type='DefaultSampler', shuffle=False)
    test_loader.drop_last = False
    cfg.merge_from_dict(dict.fromkeys(NEEDED_BY_OTHER_RUNS))
    cfg.test_dataloader = test_loader
    cfg.test_evaluator = []
    cfg.test_cfg = cfg.get('test_cfg') or ConfigDict()


def forbid_replacements(dataset: BaseDataset) -> None:
    """Raise an error for a sample that cannot be loaded, which MMEngine replaces by a random one in training."""
    for leaf in leaf_datasets(dataset):
        leaf.test_mode = True

"""The dataset of a config, for tools that look at its labels alone."""

from __future__ import annotations

import os

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, DefaultScope

from ..datasets import AnnotationError
from ..datasets.readers.reader import MultiLabelReader
from ..utils.errors import UsageError
from .data_check import DATALOADERS, require_data, unloaded_datasets


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

"""Check that the data files of a config exist before a Runner loads them, and build single datasets of a config."""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.dataset import BaseDataset, Compose
from mmengine.registry import DATASETS, DefaultScope

from ..datasets import AnnotationError, MissingDataError
from ..datasets.labels.nesting import leaf_configs, leaf_datasets, walk_configs
from ..datasets.readers.reader import MultiLabelReader
from ..datasets.wrappers.label_wrapper import LabelWrapper
from ..hosts.loss_places import setting_in_text, type_name
from ..registry import SCOPE
from ..utils.errors import UsageError

# Settings about how a dataset is read, not about which one it is.
NO_IDENTITY = ('pipeline', 'test_mode', 'lazy_init', 'serialize_data')
DATALOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def require_data(cfg: Config, config_file: str) -> list[tuple[dict, BaseDataset]]:
    """Raise a MissingDataError that lists the missing files of all datasets of a config. No annotations are loaded.

    The error names ``config_file``, the path of ``cfg``, and suggests tools that make label files, or a config that
    needs no download. A dataset of this package that cannot be built raises a UsageError.

    Returns:
        A list of pairs (dict in the config, dataset built from it) for datasets of this package; those whose pipeline
        or wrapped dataset was not built are left out. With :func:`with_datasets` a Runner need not build them again.
    """
    found = _build_unloaded(cfg)
    incomplete = [dataset for _, dataset, _ in found if hasattr(dataset, 'missing_files') and dataset.missing_files()]
    of_others = list(_missing_files_of_other_projects(cfg))
    missing = [file for dataset in incomplete for file in dataset.missing_files()] + of_others
    if not missing:
        return [(settings, dataset) for settings, dataset, is_whole in found if is_whole]
    advice, sibling = '', digits_sibling(Path(config_file))
    if not of_others and all(isinstance(dataset, LabelWrapper) for dataset in incomplete):
        advice = '\ntools/make_labels.py writes labels that a config draws, tools/pseudo_label.py corrected ones.'
    elif sibling is not None:
        command = f'python tools/train.py {sibling}'
        advice = f'\nWithout any download, this trains on data that it makes itself:\n  {command}'
    listing = '\n'.join(f'  {file}' for file in dict.fromkeys(missing))
    raise MissingDataError(
        f'The data of {config_file} is not complete. These files and folders must be there and are not:\n'
        f'{listing}{advice}',
        missing,
    )


def _build_unloaded(cfg: Config) -> list[tuple[dict, BaseDataset, bool]]:
    """Build the datasets of this package in a config, also those inside wrappers, without loading annotations.

    Returns:
        A list of triples (dict in the config, dataset, is_whole), wrappers before the datasets inside. ``is_whole`` is
        False if a placeholder replaces a pipeline that cannot be built, or another project's dataset in a wrapper.
    """
    found: list[tuple[dict, BaseDataset, bool]] = []
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
        for settings, kind in reversed(_dataset_settings(cfg)):  # from the inside out
            wraps = isinstance(kind, type) and issubclass(kind, LabelWrapper)
            if not wraps and not hasattr(kind, 'missing_files'):
                continue
            arguments = {key: value for key, value in settings.items() if key != 'type'} | dict(lazy_init=True)
            is_whole = True
            if wraps:
                inside = [dataset for known, dataset, whole in found if whole and known is settings.get('dataset')]
                is_whole = bool(inside)
                arguments['dataset'] = inside[0] if inside else BaseDataset(lazy_init=True)
            elif settings.get('pipeline'):
                try:
                    arguments['pipeline'] = Compose(settings['pipeline']).transforms
                except Exception:  # of any project; the Runner reports it
                    is_whole, arguments['pipeline'] = False, []
            try:
                dataset = kind(**arguments)
            except (TypeError, ValueError) as error:
                raise UsageError(f'the config has a {kind.__name__} that cannot be built: {error}') from None
            found.append((settings, dataset, is_whole))
    return found[::-1]


def with_datasets(settings: Any, built: Sequence[tuple[dict, BaseDataset]]) -> Any:
    """Return a copy of dataset settings that makes a Runner load the datasets in ``built`` instead of building them.

    Args:
        settings: Config dict of a dataset, or a list of such dicts.
        built: Pairs (settings, dataset) from :func:`require_data`, whose dicts are the same objects as in ``settings``.
    """
    if isinstance(settings, (list, tuple)):
        return [with_datasets(part, built) for part in settings]
    if not isinstance(settings, dict):
        return settings
    dataset = next((dataset for known, dataset in built if known is settings), None)
    if dataset is None:
        inside = {key: with_datasets(settings[key], built) for key in ('dataset', 'datasets') if key in settings}
        return {**settings, **inside}

    def load() -> BaseDataset:
        if not settings.get('lazy_init'):
            dataset.full_init()
        return dataset

    return dict(type=load)


def _missing_files_of_other_projects(cfg: Config) -> Iterator[str]:
    """Yield paths of missing local annotation files and image folders of other projects' datasets (MMDetection's)."""
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
        others = [settings for settings, kind in _dataset_settings(cfg) if not hasattr(kind, 'missing_files')]
    for settings in others:
        if (settings.get('backend_args') or {}).get('backend', 'local') != 'local':
            continue
        prefix, root = settings.get('data_prefix'), settings.get('data_root')
        images = prefix.get('img') if isinstance(prefix, dict) else None
        names = [name for name in (settings.get('ann_file'), images) if name]
        if root and not names and '://' not in str(root) and not Path(root).exists():
            yield str(root)  # some readers of MMPretrain know the files in it
        for name in names:
            file = f'{str(root).rstrip("/")}/{name}' if root and not Path(name).is_absolute() else name
            if '://' not in file and not Path(file).exists():
                yield file


def _dataset_settings(cfg: Config) -> list[tuple[dict, type]]:
    """Return a list of pairs (config dict, dataset class) for all datasets of a config, outer datasets first."""
    return [
        (settings, DATASETS.get(kind) if isinstance(kind, str) else kind)
        for name in DATALOADERS
        for settings in walk_configs((cfg.get(name) or {}).get('dataset'))
        if (kind := settings.get('type'))
    ]


def digits_sibling(config_file: Path) -> Path | None:
    """Return the path of a config in the same folder on DigitScenes, a dataset without download.

    Its name shares as many leading words as possible: for ``asl_coco.py`` it is ``asl_digits.py``, or the first
    ``asl_*_digits.py``. If no name shares a word, return ``spa_lpr_digits.py``, or None if that is missing, too.
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
    """Build the dataset of a dataloader (``'train'``, ``'val'`` or ``'test'``); ``cfg`` loses its other dataloaders.

    Errors name ``config_file``, the path of ``cfg``. Files of other dataloaders may be missing, and images of this
    package's readers, too. If such images are missing, image paths lead to the folder of the annotations, and only the
    file names are right.

    Raises:
        UsageError: The config has no such dataset, or the dataset cannot be built.
        MissingDataError: Annotation files are missing.
    """
    asked = f'{dataloader}_dataloader'
    if (cfg.get(asked) or {}).get('dataset') is None:
        raise UsageError(f'config {config_file} has no {asked} with a dataset')
    cfg.merge_from_dict({name: None for name in DATALOADERS if name != asked})
    for settings, dataset, _ in _build_unloaded(cfg):
        if not isinstance(dataset, MultiLabelReader) or not dataset.annotation_files():
            continue
        if dataset.missing_files() == [dataset.data_prefix['img_path']]:
            folders = dict(dataset.data_prefix, img_path=Path(dataset.annotation_files()[0]).parent)
            # They are below the data root already, which is not put before absolute paths.
            folders = {key: str(Path(folder).absolute()) for key, folder in folders.items()}
            settings['data_prefix'] = folders if len(folders) > 1 else folders['img_path']
    require_data(cfg, config_file)
    try:
        with DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
            return DATASETS.build(cfg[asked].dataset)
    except AnnotationError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(f'the dataset of {asked} in {config_file} cannot be built: {error}') from error


def label_with_the_test_run(cfg: Config, dataloader: str) -> None:
    """Change a config in place so that its test runs over the dataset of ``dataloader``, to label that dataset.

    See :func:`test_over`. The config can no longer train, validate or measure, and needs no other data.
    """
    test_over(cfg, dataloader)
    # A Runner takes the settings of training and validation only together.
    for part in ('dataloader', 'cfg'):
        cfg[f'train_{part}'] = cfg[f'val_{part}'] = None
    cfg.optim_wrapper = cfg.param_scheduler = cfg.val_evaluator = None
    cfg.test_evaluator = []
    cfg.test_cfg = cfg.get('test_cfg') or ConfigDict()


def test_over(cfg: Config, dataloader: str) -> None:
    """Change a config in place so that its test runs over the dataset of ``dataloader``.

    ``dataloader`` is ``'train'``, ``'val'`` or ``'test'``. The dataset gets the test pipeline and is else unchanged.
    Its samples come in order, each once.
    """
    loader = cfg.get(f'{dataloader}_dataloader')
    if loader is None:
        raise UsageError(f'the config has no {dataloader}_dataloader')
    test_loader = deepcopy(cfg.get('test_dataloader') or cfg.get('val_dataloader'))
    dataset = _with_pipeline_of(test_loader, loader.dataset)
    if dataset is None:
        raise UsageError(f'the config has no test_dataloader with a pipeline, which reads the {dataloader} dataset')
    for key in ('batch_sampler', 'num_batch_per_epoch'):
        test_loader.pop(key, None)
    # One by one: update() would mix the old and the new dataset.
    test_loader.dataset = dataset
    test_loader.sampler = dict(type='DefaultSampler', shuffle=False)
    test_loader.drop_last = False
    cfg.test_dataloader = test_loader


def hold_out(cfg: Config, share: float, seed: int = 0) -> None:
    """Change a config in place: train on a part of the training set and validate on the rest, the held-out part.

    Both parts are :class:`mmml_losses.datasets.HeldOut` around the training set, with ``share`` and ``seed``. The
    held-out part has the labels before all label wrappers and the pipeline of the validation. The test stays as it is.
    """
    loader = cfg.get('train_dataloader')
    if loader is None:
        raise UsageError('--hold-out: the config has no train_dataloader, whose dataset is split')
    if any(held_out_settings(loader)):
        raise UsageError('--hold-out: the config holds a part of the training set out already')
    val_loader = deepcopy(cfg.get('val_dataloader') or cfg.get('test_dataloader'))
    whole = loader.dataset
    while type_name(whole).rpartition('.')[2] in ('RepeatDataset', 'ClassBalancedDataset'):
        loader, whole = whole, whole.dataset  # an image that comes several times is in one part
    held_out = _with_pipeline_of(val_loader, whole)
    if held_out is None:
        raise UsageError('--hold-out: the config has no val_dataloader with a pipeline, for the held-out part')
    # MMPretrain's readers of single labels set it themselves, and accept none.
    if any(leaf.get('test_mode') for leaf in leaf_configs(val_loader.dataset)):
        for leaf in leaf_configs(held_out):
            leaf['test_mode'] = True
    split = dict(type=f'{SCOPE}.HeldOut', share=share, seed=seed)
    # One by one: update() would mix the old and the new dataset.
    loader.dataset = ConfigDict(**split, part='train', dataset=whole)
    val_loader.dataset = ConfigDict(**split, part='held_out', dataset=held_out)
    if cfg.get('val_dataloader') is None:
        cfg.val_cfg, cfg.val_evaluator = ConfigDict(), deepcopy(cfg.get('test_evaluator'))
    cfg.val_dataloader = val_loader


def held_out_settings(dataloader: object) -> Iterator[dict]:
    """Yield the settings of each :class:`mmml_losses.datasets.HeldOut` in a dataloader, a dict or None."""
    for settings in walk_configs(dataloader.get('dataset') if isinstance(dataloader, dict) else None):
        if type_name(settings).rpartition('.')[2] == 'HeldOut':
            yield settings


def hold_out_of(dataloader: object) -> tuple[float, int] | None:
    """Return (share, seed) of the part that a dataloader, a dict or None, holds out; None if it holds none out."""
    return next(((each.get('share', 0.2), each.get('seed', 0)) for each in held_out_settings(dataloader)), None)


def trained_hold_out(checkpoint: Mapping) -> tuple[float, int] | None:
    """Return :func:`hold_out_of` the training of a checkpoint."""
    return hold_out_of(setting_in_text(checkpoint.get('meta', {}).get('cfg'), 'train_dataloader'))


def share_data(first: dict | None, second: dict | None) -> bool:
    """Return whether two dataloaders have an innermost dataset in common, whatever its pipeline."""
    found = [[_identity(leaf) for leaf in leaf_configs((loader or {}).get('dataset'))] for loader in (first, second)]
    return any(leaf in found[1] for leaf in found[0])


def _identity(leaf: dict) -> dict:
    return {key: value for key, value in leaf.items() if key not in NO_IDENTITY}


def _with_pipeline_of(loader: dict | None, dataset: dict) -> dict | None:
    """Return a copy of ``dataset`` with the pipeline of the dataset of ``loader``; None if that has no pipeline."""
    leaves = leaf_configs(loader.get('dataset')) if loader else ()
    pipelines = [leaf['pipeline'] for leaf in leaves if leaf.get('pipeline')]
    if not pipelines:
        return None
    dataset = deepcopy(dataset)
    for leaf in leaf_configs(dataset):
        leaf['pipeline'] = deepcopy(pipelines[0])
    return dataset


def forbid_replacements(dataset: BaseDataset) -> None:
    """Make a dataset raise an error for a sample that cannot be loaded. MMEngine would load a random other sample."""
    for leaf in leaf_datasets(dataset):
        leaf.test_mode = True

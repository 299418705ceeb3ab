"""Find the network that ``--model`` names, and put it into any config of a classifier."""

import inspect
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS

from ..hosts.loss_places import is_detector, type_name
from ..utils.errors import UsageError, did_you_mean
from .losses import configs_folder

# Settings of a backbone that belong to the recipe, and not to the network.
FREEZING = ('frozen_stages', 'norm_eval')
POOLING = 'GlobalAveragePooling'


def models_folder() -> Path:
    """Return the folder ``_base_/models`` of the configs. ``--model`` selects a network by its file's stem there."""
    return configs_folder() / '_base_' / 'models'


def find_model(name_or_file: str) -> Config:
    """Return the config of a network: a file with ``model = dict(...)``, or the stem of one in :func:`models_folder`.

    Raise a UsageError if there is none, or if its model has no ``backbone`` and ``head.in_channels``.
    """
    files = [Path(name_or_file), models_folder() / f'{name_or_file}.py']
    found = next((file for file in files if file.suffix == '.py' and file.is_file()), None)
    if found is None:
        names = sorted(file.stem for file in models_folder().glob('*.py'))
        hint = ' '.join(filter(None, (did_you_mean(name_or_file, names), f'(short names: {", ".join(names)})')))
        raise UsageError(f"--model: '{name_or_file}' is neither a network nor a file: {hint}")
    network = Config.fromfile(found)
    model = network.get('model') or {}
    if 'backbone' not in model or 'in_channels' not in (model.get('head') or {}):
        raise UsageError(f'--model: {found} must define `model = dict(backbone=..., head=dict(in_channels=...))`')
    return network


def swap_model(cfg: Config, network: Config) -> None:
    """Put the backbone of ``network`` into ``cfg``, with its neck, weights and normalisation of the images.

    The head stays, with its classes and its loss; its ``in_channels`` becomes that of the network. So do the image size
    of the recipe, frozen stages, training from scratch (``init_cfg=None``), and a neck that is not average pooling.
    """
    old, new = cfg.get('model') or {}, network.model
    if is_detector(cfg) or 'head' not in old:
        raise UsageError('--model: the config must be that of a classifier with a head')
    if 'normalization' in cfg:
        raise UsageError('--model: the images of the config are normalised for its own network; take another config')
    neck, head = _join(old, new)
    model = dict(old, backbone=_backbone(cfg, new.backbone), neck=neck, head=head)
    if 'data_preprocessor' in new:
        model['data_preprocessor'] = new.data_preprocessor
    cfg.model = ConfigDict(model)
    if 'normalization' in network:
        holder = cfg.model if cfg.model.get('data_preprocessor') else cfg
        holder.data_preprocessor = ConfigDict({**(holder.get('data_preprocessor') or {}), **network.normalization})


def _class_name(settings: dict) -> str:
    return type_name(settings).rpartition('.')[2]


def _join(old: ConfigDict, new: ConfigDict) -> tuple[dict | None, dict]:
    """Return (neck, head) of the old model, or the new neck in place of average pooling, for the new backbone."""
    width = new.head.in_channels
    neck = old.get('neck')
    if neck is None or _class_name(neck) == POOLING:
        return new.get('neck'), dict(old.head, in_channels=width)
    if new.get('neck') is None or _class_name(new.neck) != POOLING:
        raise UsageError(f'--model: the neck {type_name(neck)} of the config needs a network that ends in {POOLING}')
    if 'in_channels' in neck:
        return dict(neck, in_channels=width), old.head
    return neck, dict(old.head, in_channels=width)


def _backbone(cfg: Config, new: ConfigDict) -> dict:
    """Return the new backbone with what the recipe in ``cfg`` says of it: no weights, frozen stages, image size."""
    old, backbone = cfg.model.backbone, dict(new)
    if old.get('init_cfg', old) is None:
        backbone |= dict(init_cfg=None) if 'pretrained' not in backbone else dict(pretrained=False)
    with MODELS.switch_scope_and_registry(cfg.get('default_scope', 'mmpretrain')) as registry:
        classes = registry.get(new.type).__mro__  # ResNeXt passes most arguments on to ResNet
    accepted = {name for each in classes for name in inspect.signature(each.__init__).parameters}
    for name in FREEZING:
        if name in old:
            if name not in accepted:
                raise UsageError(f'--model: the config sets {name}={old[name]}, which {new.type} does not take')
            backbone[name] = old[name]
    sizes = [step.scale for step in cfg.get('test_pipeline', ()) if _class_name(step) == 'Resize' and 'scale' in step]
    if 'img_size' in backbone and sizes:
        backbone['img_size'] = sizes[-1] if isinstance(sizes[-1], int) else sizes[-1][0]
    return backbone

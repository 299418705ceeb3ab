"""Build a model that computes features of images, and load its weights."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import CheckpointLoader
from torch import Tensor, nn

from ..engine.resuming import safe_checkpoint
from ..hosts.checkpoints import CheckpointError
from ..utils.errors import UsageError

# Keys of the weights in files of MMEngine and of other projects.
WEIGHTS_KEYS = ('state_dict', 'model')
# Parts of a model that its features do not depend on.
UNUSED_PARTS = ('head.', 'data_preprocessor.')


def build_feature_model(cfg: Config, checkpoint: str) -> nn.Module:
    """Build the model of a config for feature extraction, in eval mode. It has the weights of ``checkpoint`` alone.

    Args:
        cfg: A config with a ``model`` like MMPretrain's classifiers. Pretrained weights it names are not downloaded.
        checkpoint: Checkpoint of the model, or weights of its backbone alone (for a ``TIMMBackbone``, of timm's model).
            Path or address of a ``.pth`` file, rejected if it could run code; or path of a ``.safetensors`` file.
    """
    settings = deepcopy(cfg.model)
    settings.setdefault('data_preprocessor', deepcopy(cfg.get('data_preprocessor')))
    backbone = settings.get('backbone') or {}
    if 'pretrained' in backbone:
        backbone['pretrained'] = False
    backbone.pop('checkpoint_path', None)
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope') or 'mmpretrain'):
        model = MODELS.build(settings)
        if not isinstance(getattr(model, 'backbone', None), nn.Module):
            raise UsageError(f'features come from a classifier with a backbone, and {type(model).__name__} has none')
        if hasattr(model.backbone, 'timm_model') and not backbone.get('features_only') and _pools_plainly(model):
            model.backbone.timm_model = _pooling_timm_model(backbone)
            model.neck = None
    load_weights(model, read_weights(checkpoint, cfg), checkpoint)
    return model.eval()


def pooled_features(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the features (N, D) of a batch of images: the output of the neck, or of the backbone without a neck.

    Of several stages, the last counts. Feature maps are averaged over the image. Tokens of a transformer need a neck,
    or a backbone that pools them. The two outputs of backbones such as Conformer and distilled DeiT are concatenated.
    """
    stages = model.backbone(inputs)
    features = _last(stages)
    if isinstance(features, Tensor) and features.dim() == 3 and _pools_plainly(model):
        raise UsageError(
            f'the backbone {type(model.backbone).__name__} gives tokens of shape {tuple(features.shape)}, which an '
            "average over an image does not fit: set out_type='cls_token' or 'avg_featmap' in it, or add a neck"
        )
    if getattr(model, 'neck', None) is not None:
        features = _last(model.neck(stages))
    if isinstance(features, (tuple, list)) and all(isinstance(each, Tensor) and each.dim() == 2 for each in features):
        features = torch.cat(list(features), dim=1)
    if isinstance(features, Tensor) and features.dim() == 4:
        features = features.mean(dim=(2, 3))
    if not isinstance(features, Tensor) or features.dim() != 2:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise UsageError(f'features must be one row for each image, and the model gives {shape}: add a neck that pools')
    return features


def read_weights(path: str, cfg: Config) -> dict[str, Tensor]:
    """Return a dict from parameter name to weights; warn if they were trained with another loss than ``cfg`` has."""
    content: Any
    if path.endswith('.safetensors'):
        content = _read_safetensors(path)
    else:
        content = CheckpointLoader.load_checkpoint(safe_checkpoint(path, cfg), map_location='cpu')
    nested = next((content[key] for key in WEIGHTS_KEYS if isinstance(content.get(key), Mapping)), content)
    weights = {name: value for name, value in nested.items() if isinstance(value, Tensor)}
    if not weights:
        raise CheckpointError(f'checkpoint {path} has no weights')
    if all(name.startswith('module.') for name in weights):  # of a model that was trained on several GPUs
        weights = {name.removeprefix('module.'): value for name, value in weights.items()}
    return weights


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], path: str) -> None:
    """Load weights into a model. Raise a CheckpointError naming ``path`` if weights that features need are missing.

    Names in ``weights`` begin with ``backbone.`` for a whole classifier; otherwise they are of the backbone alone.
    """
    whole = any(name.startswith('backbone.') for name in weights)
    target = model if whole else getattr(model.backbone, 'timm_model', model.backbone)
    try:
        missing, unexpected = target.load_state_dict(dict(weights), strict=False)
    except RuntimeError as error:  # other shapes, one a line below a heading
        reason = str(error).splitlines()[:2][-1].strip()
        raise CheckpointError(f'checkpoint {path} does not fit the model: {reason}') from None
    if whole:
        missing = [name for name in missing if not name.startswith(UNUSED_PARTS)]
    elif getattr(model, 'neck', None) is not None:
        missing += [f'neck.{name}' for name, _ in model.neck.named_parameters()]
    # Older files do not count the batches of a batch norm, and no feature depends on it.
    missing = [name for name in missing if not name.endswith('num_batches_tracked')]
    if missing:
        raise CheckpointError(
            f'checkpoint {path} does not fit {type(target).__name__}: it has no {missing[0]!r}'
            + (f' and {len(missing) - 1} others' if len(missing) > 1 else '')
            + (f', but {unexpected[0]!r}' if unexpected else '')
        )


def _last(stages: object) -> object:
    return stages[-1] if isinstance(stages, (tuple, list)) else stages


def _pools_plainly(model: nn.Module) -> bool:
    """Return True if the model has no neck, or a neck that only averages over rows and columns of the feature map."""
    neck = getattr(model, 'neck', None)
    # GlobalAveragePooling(dim=1) is for backbones that give (N, C, positions).
    return neck is None or isinstance(getattr(neck, 'gap', None), nn.AdaptiveAvgPool2d)


def _pooling_timm_model(settings: Mapping) -> nn.Module:
    """Build timm's model for a ``TIMMBackbone`` config, with timm's own pooling, which ``TIMMBackbone`` removes.

    A transformer of timm pools its class token or its patches, and some networks have layers after the pooling.
    """
    import timm

    arguments = {key: value for key, value in settings.items() if key not in ('type', 'init_cfg', 'features_only')}
    arguments['in_chans'] = arguments.pop('in_channels', 3)
    if 'norm_layer' in arguments:
        arguments['norm_layer'] = MODELS.get(arguments['norm_layer'])
    return timm.create_model(**{**arguments, 'num_classes': 0})


def _read_safetensors(path: str) -> dict[str, Tensor]:
    if not Path(path).is_file():
        raise CheckpointError(f'checkpoint {path} does not exist')
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise UsageError(f'checkpoint {path} needs the package safetensors: pip install safetensors') from None
    try:
        return load_file(path)
    except SafetensorError as error:
        raise CheckpointError(f'checkpoint {path} cannot be read, it may be cut off: {error}') from error

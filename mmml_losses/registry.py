"""Registries of this package: children of MMEngine's registries, with scope ``mmml_losses``.

``dict(type='mmml_losses.SPALoss')`` works in the registries of every OpenMMLab project. Nothing is registered in
MMEngine's own registries, so a bare name such as ``FocalLoss`` always means the class of the project in use.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from mmengine import registry as mmengine_registry

from .hosts.mmdet import DETECTION_HEADS, require_mmdet
from .utils.errors import did_you_mean

SCOPE = 'mmml_losses'


class UnknownNameError(KeyError):
    """Nothing is registered in this package under the given name. The message lists similar names, or all names."""

    def __str__(self) -> str:
        return self.args[0]  # a plain KeyError would show the representation of the message


class Registry(mmengine_registry.Registry):
    """A registry of scope ``mmml_losses`` that suggests similar names for a misspelt name (:class:`UnknownNameError`).

    Args:
        name: Kind of the registered classes, such as ``'model'``, for messages.
        parent: The registry of MMEngine for the same kind.
        locations: Packages to import at the first look-up; they register all names but those in ``on_demand``.
        on_demand: A mapping from further names to the modules that register them; None for none. These modules need
            MMDetection, which is slow to import and may be absent, and are imported when such a name is looked up.
    """

    def __init__(
        self,
        name: str,
        parent: mmengine_registry.Registry,
        locations: list[str],
        on_demand: Mapping[str, str] | None = None,
    ):
        super().__init__(name, parent=parent, scope=SCOPE, locations=locations)
        self.on_demand = dict(on_demand or {})

    def get(self, key: str) -> type | None:
        name = key.removeprefix(f'{SCOPE}.')
        if name in self.on_demand and name not in self.module_dict:
            require_mmdet(f'{SCOPE}.{name}')
            import_module(self.on_demand[name])
        found = super().get(key)
        # A dotted key is another project's name or a full import path: the caller decides what its absence means.
        if found is None and '.' not in name:
            raise UnknownNameError(self._not_found_message(name))
        return found

    def build(self, cfg: dict, *args, **kwargs) -> Any:
        """Build an object; look a bare ``type`` up here, even in a Runner, where MMEngine uses the default scope."""
        if isinstance(cfg, dict) and isinstance(cfg.get('type'), str) and '.' not in cfg['type']:
            cfg = cfg.copy()
            cfg['type'] = self.get(cfg['type'])
        return super().build(cfg, *args, **kwargs)

    def _not_found_message(self, name: str) -> str:
        names = sorted({*self.module_dict, *self.on_demand})
        hint = did_you_mean(name, names) or f'it has {", ".join(names) or "no entries"}'
        return f"'{name}' is not in the {self.name} registry of {SCOPE}: {hint}"


# MMEngine has no registry for losses, and a parent takes one child per scope: losses and heads share one object.
LOSSES = MODELS = Registry(
    'model',
    mmengine_registry.MODELS,
    locations=['mmml_losses.losses', 'mmml_losses.models'],
    on_demand=dict.fromkeys(DETECTION_HEADS, 'mmml_losses.models.detection'),
)
DATASETS = Registry('dataset', mmengine_registry.DATASETS, locations=['mmml_losses.datasets'])
DATA_SAMPLERS = Registry('data sampler', mmengine_registry.DATA_SAMPLERS, locations=['mmml_losses.datasets'])
TRANSFORMS = Registry('transform', mmengine_registry.TRANSFORMS, locations=['mmml_losses.datasets'])
METRICS = Registry('metric', mmengine_registry.METRICS, locations=['mmml_losses.evaluation'])
EVALUATOR = Registry('evaluator', mmengine_registry.EVALUATOR, locations=['mmml_losses.evaluation'])
HOOKS = Registry('hook', mmengine_registry.HOOKS, locations=['mmml_losses.engine'])

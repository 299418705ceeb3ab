"""List every component that a config can name with one line each, as ``tools/list.py`` prints them."""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config

from ..datasets import LabelWrapper
from ..datasets.labels.nesting import leaf_configs
from ..hosts.loss_places import loss_of, type_name
from ..losses import MultiLabelLoss
from ..losses.links import Link
from ..registry import DATA_SAMPLERS, DATASETS, EVALUATOR, HOOKS, LOSSES, METRICS, SCOPE, TRANSFORMS, Registry
from .losses import configs_folder, losses_folder
from .models import models_folder


class Entry(NamedTuple):
    """Description of a component that a config can name, as one row of ``tools/list.py``.

    Args:
        name: Name of the component in a config.
        text: Description in one line.
        short_names: Values of ``--loss`` that select the loss; empty for a component that is no loss.
    """

    name: str
    text: str
    short_names: tuple[str, ...] = ()

    def matches(self, word: str) -> bool:
        """Return True if the name, the text or a short name contains ``word``, in upper or lower case."""
        return word.lower() in ' '.join((self.name, self.text, *self.short_names)).lower()


def _is_head(kind: type) -> bool:
    return kind.__name__.endswith('Head')


# The registries of each kind, and which of their classes belong to it.
REGISTERED: dict[str, tuple[tuple[Registry, ...], Callable[[type], bool]]] = {
    'losses': ((LOSSES,), lambda kind: issubclass(kind, MultiLabelLoss)),
    'links': ((LOSSES,), lambda kind: issubclass(kind, Link)),
    'metrics': ((METRICS, EVALUATOR), lambda kind: True),
    'wrappers': ((DATASETS,), lambda kind: issubclass(kind, LabelWrapper)),
    'readers': ((DATASETS,), lambda kind: not issubclass(kind, LabelWrapper)),
    'samplers': ((DATA_SAMPLERS,), lambda kind: True),
    'transforms': ((TRANSFORMS,), lambda kind: True),
    'hooks': ((HOOKS,), lambda kind: True),
    'heads': ((LOSSES,), _is_head),
    'models': ((LOSSES,), lambda kind: not issubclass(kind, (MultiLabelLoss, Link)) and not _is_head(kind)),
}
KINDS = (*REGISTERED, 'networks', 'configs')


def list_kind(kind: str) -> list[Entry]:
    """Return the entries of a ``kind`` in ``KINDS``, such as ``'losses'``, sorted by name (configs: ``det/`` last).

    The networks are the names that ``--model`` takes.
    """
    if kind == 'configs':
        folder = configs_folder()
        files = [*sorted(folder.glob('*.py')), *sorted(folder.glob('det/*.py'))]
        return [Entry(file.relative_to(folder).with_suffix('').as_posix(), describe_config(file)) for file in files]
    if kind == 'networks':
        files = sorted(models_folder().glob('*.py'))
        return [Entry(file.stem, describe_config(file)) for file in files]
    registries, belongs = REGISTERED[kind]
    found: dict[str, type] = {}
    for registry in registries:
        for package in registry._locations:
            import_module(package)
        with suppress(ImportError):  # MMDetection is not installed
            for name in registry.on_demand if kind == 'heads' else ():
                registry.get(name)
        found |= registry.module_dict
    short_names: dict[str, list[str]] = {}
    for file in sorted(losses_folder().glob('*.py')) if kind == 'losses' else ():
        loss = Config.fromfile(file).get('loss') or {}
        short_names.setdefault(str(loss.get('type')).removeprefix(f'{SCOPE}.'), []).append(file.stem)
    return [
        Entry(name, first_sentence(found[name]), tuple(short_names.get(name, ())))
        for name in sorted(found)
        if inspect.isclass(found[name]) and belongs(found[name])
    ]


def first_sentence(described: object) -> str:
    """Return the first sentence of an object's docstring without markup and the full stop; ``''`` if it has none."""
    paragraph = (inspect.getdoc(described) or '').partition('\n\n')[0]
    text = re.sub(r':\w+:`~?([^`]*)`', lambda role: role[1].rpartition('.')[2] or role[1], paragraph)
    return _until_full_stop(text.replace('`', ''))


def describe_config(file: Path) -> str:
    """Return the first sentence of the comment at the top of a config; without one, ``'<loss> on <dataset>'``."""
    lines = takewhile(lambda line: line.startswith('#'), file.read_text(encoding='utf-8').splitlines())
    if comment := ' '.join(line.lstrip('# ') for line in lines):
        return _until_full_stop(comment)
    cfg = Config.fromfile(file)
    data = ', '.join(dict.fromkeys(_short(leaf) for leaf in leaf_configs(cfg.train_dataloader.dataset)))
    loss = loss_of(cfg.get('model'))
    loss = loss[0] if isinstance(loss, list) else loss
    parts = (loss.get('losses') or {'': loss}).values() if isinstance(loss, Mapping) else ()
    return f'{" + ".join(map(_short, parts)) or "the loss of the head"} on {data}'


def _until_full_stop(text: str) -> str:
    # The full stop of an abbreviation does not end a sentence.
    return re.split(r'(?<!\bEq)(?<!\bal)(?<!\bFig)(?<!\bSec)\.(?:\s|$)', ' '.join(text.split()), maxsplit=1)[0]


def _short(settings: dict) -> str:
    return type_name(settings).rpartition('.')[2]

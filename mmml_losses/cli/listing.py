"""What there is: everything that a config can name, with one line about each; the work of ``tools/list.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config

from ..datasets import LabelWrapper
from ..datasets.labels.nesting import leaf_configs
from ..hosts.loss_places import loss_of
from ..losses import MultiLabelLoss
from ..losses.links import Link
from ..registry import DATA_SAMPLERS, DATASETS, EVALUATOR, HOOKS, LOSSES, METRICS, SCOPE, TRANSFORMS, Registry


class Entry(NamedTuple):
    """A line of the list.

    Args:
        name: What a config calls it.
        text: What it is.
        short_names: What ``--loss`` calls it, of losses.
    """

    name: str
    text: str
    short_names: tuple[str, ...] = ()

    def matches(self, word: str) -> bool:
        """Whether a word is in it, in whatever case."""
        return word.lower() in ' '.join((self.name, self.text, *self.short_names)).lower()


class Kind(NamedTuple):
    """Which registered classes are listed together."""

    registries: tuple[Registry, ...]
    belongs: Callable[[type], bool]


def _is_other_model(kind: type) -> bool:
    return not issubclass(kind, (MultiLabelLoss, Link)) and not kind.__name__.endswith('Head')


REGISTERED = {
    'losses': Kind((LOSSES,), lambda kind: issubclass(kind, MultiLabelLoss)),
    'links': Kind((LOSSES,), lambda kind: issubclass(kind, Link)),
    'metrics': Kind((METRICS, EVALUATOR), lambda kind: True),
    'wrappers': Kind((DATASETS,), lambda kind: issubclass(kind, LabelWrapper)),
    'readers': Kind((DATASETS,), lambda kind: not issubclass(kind, LabelWrapper)),
    'samplers': Kind((DATA_SAMPLERS,), lambda kind: True),
    'transforms': Kind((TRANSFORMS,), lambda kind: True),
    'hooks': Kind((HOOKS,), lambda kind: True),
    'heads': Kind((LOSSES,), lambda kind: kind.__name__.endswith('Head')),
    'models': Kind((LOSSES,), _is_other_model),
}
KINDS = (*REGISTERED, 'configs')


def list_kind(kind: str, configs_folder: Path) -> list[Entry]:
    """The entries of one of ``KINDS``, by name.

    Args:
        kind: Which.
        configs_folder: Where the configs are; its ``_base_/losses`` holds the short names of losses.
    """
    if kind == 'configs':
        files = [*sorted(configs_folder.glob('*.py')), *sorted(configs_folder.glob('det/*.py'))]
        names = [file.relative_to(configs_folder).with_suffix('').as_posix() for file in files]
        return [Entry(name, describe_config(file)) for name, file in zip(names, files, strict=True)]
    registries, belongs = REGISTERED[kind]
    for package in sorted({location for registry in registries for location in registry._locations}):
        import_module(package)
    if kind == 'heads':
        for registry in registries:
            _import_what_can_be(registry)
    short_names = short_names_of_losses(configs_folder / '_base_' / 'losses') if kind == 'losses' else {}
    found = {name: entry for registry in registries for name, entry in registry.module_dict.items()}
    return [
        Entry(name, first_sentence(found[name]), tuple(short_names.get(name, ())))
        for name in sorted(found)
        if inspect.isclass(found[name]) and belongs(found[name])
    ]


def _import_what_can_be(registry: Registry) -> None:
    """Register what is imported on demand, if its project is installed."""
    with suppress(ImportError):
        for name in registry.on_demand:
            registry.get(name)


def short_names_of_losses(folder: Path) -> dict[str, list[str]]:
    """What ``--loss`` calls each registered loss: the names of the files that set it up."""
    names: dict[str, list[str]] = {}
    for file in sorted(folder.glob('*.py')):
        loss = Config.fromfile(file).get('loss') or {}
        names.setdefault(str(loss.get('type')).removeprefix(f'{SCOPE}.'), []).append(file.stem)
    return names


def first_sentence(described: object) -> str:
    """The first sentence of a docstring as plain text, without the full stop."""
    paragraph = (inspect.getdoc(described) or '').partition('\n\n')[0]
    text = re.sub(r':\w+:`~?([^`]*)`', lambda role: role[1].rpartition('.')[2] or role[1], paragraph)
    return _until_full_stop(text.replace('`', ''))


def describe_config(file: Path) -> str:
    """What a config says of itself in its first comment, or the loss and the data that it joins."""
    comment = ' '.join(line.lstrip('# ') for line in _first_comment(file))
    if comment:
        return _until_full_stop(comment)
    cfg = Config.fromfile(file)
    data = ', '.join(dict.fromkeys(_short(leaf.get('type')) for leaf in leaf_configs(cfg.train_dataloader.dataset)))
    return f'{_loss_of(cfg)} on {data}'


def _until_full_stop(text: str) -> str:
    # That of an abbreviation ends no sentence.
    return re.split(r'(?<!\bEq)(?<!\bal)(?<!\bFig)(?<!\bSec)\.(?:\s|$)', ' '.join(text.split()), maxsplit=1)[0]


def _first_comment(file: Path) -> Iterator[str]:
    for line in file.read_text(encoding='utf-8').splitlines():
        if not line.startswith('#'):
            return
        yield line


def _loss_of(cfg: Config) -> str:
    loss = loss_of(cfg.get('model'))
    loss = loss[0] if isinstance(loss, list) else loss
    if isinstance(loss, Mapping):
        return ' + '.join(_short(part.get('type')) for part in (loss.get('losses') or {'': loss}).values())
    return 'the loss of the head'


def _short(name: object) -> str:
    return getattr(name, '__name__', str(name)).rpartition('.')[2]

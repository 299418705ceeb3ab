"""Add metrics and hooks to the lists of a config from the command line: ``--metric`` and ``--hook``."""

import argparse
from collections.abc import Sequence
from typing import Any

from mmengine.config import Config, ConfigDict, DictAction
from mmengine.registry import HOOKS as MMENGINE_HOOKS
from mmengine.registry import METRICS as MMENGINE_METRICS
from mmengine.registry import Registry

from ..registry import HOOKS, METRICS, SCOPE, UnknownNameError
from ..utils.errors import UsageError

EVALUATORS = ('val_evaluator', 'test_evaluator')


class PartAction(DictAction):
    """Append ``dict(type=TYPE, NAME=VALUE, ...)`` to a list, for an argument ``TYPE NAME=VALUE ...``."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *args) -> None:
        name, *settings = values
        wrong = [text for text in settings if not text.partition('=')[0].isidentifier() or '=' not in text]
        if '=' in name or wrong:
            got = ' '.join(values)
            parser.error(f'{self.option_strings[0]} must be followed by a type and NAME=VALUE settings, got {got}')
        found = argparse.Namespace()
        super().__call__(parser, found, settings, *args)
        parts = [*(getattr(namespace, self.dest) or []), dict(type=name, **getattr(found, self.dest))]
        setattr(namespace, self.dest, parts)


def add_part_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--metric TYPE NAME=VALUE ...`` and ``--hook TYPE NAME=VALUE ...``; both may be repeated."""
    for flag, what, example in (
        ('--metric', "the config's evaluators of validation and test", 'MultiLabelF1 top_k=3'),
        ('--hook', "the config's custom_hooks", 'LabelRecoveryHook threshold=0.6'),
    ):
        parser.add_argument(
            flag,
            nargs='+',
            action=PartAction,
            metavar=('TYPE', 'NAME=VALUE'),
            help=f'add to {what}, e.g. {flag} {example}; may be repeated',
        )


def append_parts(cfg: Config, args: argparse.Namespace) -> None:
    """Append the metrics and hooks of :func:`add_part_arguments` to the lists of ``cfg``, in place.

    A bare name is a class of this package or of MMEngine; one of another project has its scope,
    ``mmpretrain.SingleLabelMetric``. Each part is built once, so that a wrong name or setting is a UsageError here.
    """
    metrics = [_checked(part, '--metric', METRICS, MMENGINE_METRICS) for part in args.metric or ()]
    hooks = [_checked(part, '--hook', HOOKS, MMENGINE_HOOKS) for part in args.hook or ()]
    if metrics:
        if getattr(args, 'no_validate', False):
            raise UsageError('--metric needs the validation that --no-validate switches off')
        evaluators = [name for name in EVALUATORS if cfg.get(name)]
        if not evaluators:
            raise UsageError(f'--metric: {args.config} has neither of {" and ".join(EVALUATORS)}')
        for name in evaluators:
            cfg[name] = _extended(cfg[name], metrics)
    if hooks:
        cfg.custom_hooks = [*(cfg.get('custom_hooks') or []), *hooks]


def _extended(evaluator: dict | Sequence[dict], metrics: Sequence[dict]) -> dict | list:
    """Return a copy of an evaluator's config, one metric or a list of metrics, with more metrics."""
    if isinstance(evaluator, dict) and 'metrics' in evaluator:
        return ConfigDict(evaluator, metrics=_extended(evaluator['metrics'], metrics))
    return [*([evaluator] if isinstance(evaluator, dict) else evaluator), *metrics]


def _checked(part: dict, flag: str, ours: Registry, root: Registry) -> dict:
    """Return ``part`` with the scope in its type; raise a UsageError, which names ``flag``, if it cannot be built."""
    name = part['type']
    try:
        if ours.get(name) is not None and '.' not in name:
            part = dict(part, type=f'{SCOPE if name in ours.module_dict else "mmengine"}.{name}')
        with root.switch_scope_and_registry(part['type'].partition('.')[0]) as registry:
            registry.build(part)
    except UnknownNameError as error:
        raise UsageError(f'{flag}: {error}') from None
    except (KeyError, ImportError) as error:
        raise UsageError(f"{flag}: '{name}' is not in the {root.name} registry of its project") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f'{flag} {name} cannot be built: {error}') from None
    return part

"""Every registered loss has a plain function of its name."""

import inspect
import re

import pytest

from mmml_losses import functional as F
from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

NAMES = sorted(
    name for name, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss) and name != 'SumLoss'
)
ABBREVIATIONS = ('BCE', 'WAN', 'MSE', 'SPA', 'SPLC', 'LASD', 'LAS', 'EM', 'APL', 'EPR', 'ROLE', 'LSEP', 'ZLPR', 'DR')
ABBREVIATIONS += ('CB', 'DB', 'LDAM')


def snake_case(name: str) -> str:
    words = re.findall('|'.join(sorted(ABBREVIATIONS, key=len, reverse=True)) + '|[A-Z][a-z]+', name)
    assert ''.join(words) == name
    return '_'.join(words).lower()


@pytest.mark.parametrize('name', NAMES)
def test_every_loss_has_its_function(name):
    function = getattr(F, snake_case(name))
    assert len(function.__doc__) > 80
    documented = function.__doc__
    for argument in inspect.signature(function).parameters.values():
        if len(inspect.signature(function).parameters) > 2 and argument.kind is not argument.VAR_KEYWORD:
            assert f'{argument.name}:' in documented, argument.name


def test_everything_exported_is_documented():
    for name in F.__all__:
        assert getattr(F, name).__doc__, name

"""Test that a new pointwise loss takes few lines: a term, a function, a class, a config and a row of the table."""

import importlib.util
import sys

import pytest
import torch

from mmml_losses.cli.losses import find_loss
from mmml_losses.functional.pair import compose_pair
from mmml_losses.losses.core.base import FunctionLoss
from mmml_losses.registry import LOSSES
from tests.helpers import losses_table
from tests.test_losses import test_all_losses as promises

TERM = r'''
@dataclass(frozen=True)
class PowerNegative(Term):
    r"""Power of the probability, :math:`p^k` with :math:`p = \sigma(v)`."""

    power: float = 3.5

    def value(self, logits):
        return logits.sigmoid().pow(self.power)

    def value_and_slope(self, logits):
        value = logits.sigmoid().pow(self.power)
        return value, self.power * value * torch.sigmoid(-logits)
'''
FUNCTION = r'''
def power_loss(logits, targets, power=PowerNegative.power):
    r"""BCE for positives and a power for negatives, :math:`-y\log p + (1 - y)\,p^k`."""
    return pair_loss(logits, targets, bce_positive, PowerNegative(power))
'''
CLASS = '''
@LOSSES.register_module()
class PowerLoss(FunctionLoss):
    """BCE for positives, a power of the probability for negatives."""

    function = staticmethod(power_loss)
'''
CONFIG = "loss = dict(type='mmml_losses.PowerLoss', power=2.5)"
ROW = "'power': dict(type='PowerLoss'),"
EXPORTS = """
'PowerNegative',  # __all__ of functional/terms.py
PowerNegative,  # imports of functional/pointwise.py
'power_loss',  # __all__ of functional/pointwise.py
PowerLoss,  # imports of losses/__init__.py
'PowerLoss',  # __all__ of losses/__init__.py
"""

IMPORTS = """
from dataclasses import dataclass
import torch
from mmml_losses.functional.pair import pair_loss
from mmml_losses.functional.terms import Term, bce_positive
from mmml_losses.losses.core.base import FunctionLoss
from mmml_losses.registry import LOSSES
"""


@pytest.fixture(scope='module')
def added(tmp_path_factory):
    """Add the loss as a contributor would; take it out again for the tests that count all losses."""
    folder = tmp_path_factory.mktemp('new_loss')
    file = folder / 'new_loss.py'
    file.write_text(IMPORTS + TERM + FUNCTION + CLASS)
    spec = importlib.util.spec_from_file_location('new_loss', file)
    module = sys.modules['new_loss'] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    losses_table.TABLE |= eval('{' + ROW + '}')
    promises.POINTWISE.append('power')
    (folder / 'power.py').write_text(CONFIG)
    yield module, folder / 'power.py'
    promises.POINTWISE.remove('power')
    del sys.modules['new_loss'], losses_table.TABLE['power'], LOSSES.module_dict['PowerLoss']


def test_it_takes_at_most_25_lines():
    pieces = [TERM, FUNCTION, CLASS, CONFIG, ROW, EXPORTS]
    assert sum(bool(line.strip()) for piece in pieces for line in piece.splitlines()) <= 25


def test_its_slope_is_its_derivative(added):
    logits = torch.linspace(-30, 30, 121, dtype=torch.float64, requires_grad=True)
    term = added[0].PowerNegative()
    value, slope = term.value_and_slope(logits.detach())
    torch.testing.assert_close(value, term.value(logits).detach())
    torch.testing.assert_close(slope, torch.autograd.grad(term.value(logits).sum(), logits)[0])


def test_its_config_is_found_and_its_settings_are_those_of_the_function(added):
    module, file = added
    loss = LOSSES.build(find_loss(str(file)))
    assert 'power=2.5' in repr(loss)
    assert LOSSES.build(dict(type='PowerLoss')).settings == dict(power=3.5)
    logits, targets = losses_table.example()
    targets[0, 1] = -1
    expected = compose_pair(logits, targets, module.bce_positive, module.PowerNegative(2.5))
    torch.testing.assert_close(loss(logits, targets, reduction_override='none'), expected)
    with pytest.raises(TypeError, match=r'PowerLoss takes power, reduction, .*, got exponent'):
        LOSSES.build(dict(type='PowerLoss', exponent=2))


@pytest.mark.parametrize(
    'promise',
    [
        promises.test_gradient_is_the_derivative,
        promises.test_gradient_can_be_differentiated,
        promises.test_what_an_unknown_label_is_scored_changes_nothing,
        promises.test_unknown_rows_might_as_well_be_absent,
        promises.test_callers_tensors_are_left_alone,
        promises.test_index_targets_are_one_hot,
        promises.test_reductions_agree,
        promises.test_sample_weights_scale_samples,
        promises.test_soft_targets_mix_the_two_terms,
        promises.test_copies_and_state_survive,
    ],
    ids=lambda promise: promise.__name__,
)
def test_it_keeps_the_promises_of_all_losses(added, promise):
    promise('power')


def test_unknown_labels_are_left_out_whatever_the_function_returns(added):
    class Offset(FunctionLoss):
        function = staticmethod(lambda logits, targets, power=1.0: logits - targets)

    logits, targets = losses_table.example()
    targets[0, 1] = -1
    values = Offset()(logits, targets, reduction_override='none')
    assert values[0, 1] == 0
    assert torch.equal(values[1], (logits - targets)[1])


def test_it_compiles(added):
    loss = LOSSES.build(dict(type='PowerLoss', check_inputs=False))
    logits, targets = losses_table.example()
    compiled = torch.compile(loss, backend='aot_eager', fullgraph=True)
    torch.testing.assert_close(compiled(logits, targets), loss(logits, targets))

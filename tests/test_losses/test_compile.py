"""Losses under torch.compile: one graph, and the same figures."""

import copy
import pickle
from functools import partial

import pytest
import torch

from mmml_losses.hosts import versions as compat
from mmml_losses.losses import AsymmetricLoss, FocalLoss, HillLoss, SPALoss, TwoWayLoss
from tests.helpers.losses_table import REMEMBERING, SUMS, TABLE, build, context, example, gradient

REGULARIZERS = ['lpr', 'lpr_on_spa']
ONE_GRAPH = [name for name in TABLE if name not in (*REMEMBERING, *REGULARIZERS, *SUMS)]


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize('name', ONE_GRAPH)
def test_nothing_breaks_the_graph(name):
    logits, targets = example(dtype=torch.float32)
    targets[2, 3] = -1
    loss = build(name, labels=targets)
    compiled = torch.compile(loss, fullgraph=True, backend='aot_eager')
    kwargs = context(logits)
    for weight in (None, torch.linspace(0.5, 2, 6)):
        actual, expected = (call(logits, targets, weight, **kwargs) for call in (compiled, loss))
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(gradient(actual, logits), gradient(expected, logits))


@pytest.mark.parametrize('name', [*REMEMBERING, *REGULARIZERS, *SUMS])
def test_the_others_run_compiled(name):
    logits, targets = example(dtype=torch.float32)
    loss, eager = (build(name, labels=targets) for _ in range(2))
    compiled = torch.compile(loss, backend='aot_eager')
    actual, expected = (call(logits, targets, **context(logits)) for call in (compiled, eager))
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradient(actual, logits), gradient(expected, logits))


@pytest.mark.parametrize('kind', [AsymmetricLoss, HillLoss, SPALoss, TwoWayLoss])
def test_machine_code_gives_the_same(kind):
    """The default compiler, for one loss of each shape; it takes seconds for each."""
    logits, targets = example(samples=33, classes=21, dtype=torch.float32)
    targets[2, 3] = -1
    actual, expected = (kind(compile=compiled)(logits, targets) for compiled in (True, False))
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(gradient(actual, logits), gradient(expected, logits))


@pytest.mark.skipif(not compat.compile_settings(), reason='this torch has one list of versions for all modules')
def test_many_compiled_losses_do_not_push_each_other_out(monkeypatch):
    monkeypatch.setattr(torch, 'compile', partial(torch.compile, backend='eager'))
    logits, targets = example(dtype=torch.float32)
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        for gamma in range(3):
            actual, expected = (FocalLoss(gamma, compile=compiled)(logits, targets) for compiled in (True, False))
            torch.testing.assert_close(actual, expected)


def test_compile_is_an_argument_that_survives_copies(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, 'compile', lambda self, **settings: compiled.append(self))
    loss = HillLoss(compile=True)
    copies = copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))
    assert [id(module) for module in compiled] == [id(module) for module in (loss, *copies)]
    logits, targets = example()
    for other in copies:
        torch.testing.assert_close(other(logits, targets), loss(logits, targets))
    HillLoss()
    assert len(compiled) == 3


def test_batches_of_other_sizes_go_through():
    loss = HillLoss(compile=False)
    compiled = torch.compile(loss, fullgraph=True, backend='aot_eager')
    for samples in (4, 6, 1, 0):
        logits = torch.randn(samples, 5)
        targets = torch.zeros(samples, 5)
        torch.testing.assert_close(compiled(logits, targets), loss(logits, targets))

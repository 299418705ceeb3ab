"""Test that checkpoints of MMEngine load, and nothing else in a checkpoint does."""

import pickle

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer, MessageHub
from mmengine.optim import OneCycleLR
from mmengine.optim.scheduler.param_scheduler import OneCycleParamScheduler

from mmml_losses.hosts import checkpoints
from mmml_losses.hosts.checkpoints import CheckpointError

needs_protection = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split('.')[:2])) < (2, 6), reason='torch < 2.6 loads everything by default'
)


class Runs:
    """An object whose loading calls a function of the attacker's choice."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def harmless(text):
    raise AssertionError(f'code from a checkpoint ran: {text}')


@needs_protection
def test_mmengine_log_loads_under_protection(tmp_path):
    hub = MessageHub('test_compat')
    hub.update_scalar('train/loss', 0.5)
    hub.update_scalar('train/loss', np.float64(0.25), count=3)
    hub.update_scalar('lr', torch.tensor(0.1))
    hub.update_info('epoch', 3)
    torch.save(dict(message_hub=hub.state_dict(), state_dict=dict(weight=torch.ones(2))), tmp_path / 'log.pth')
    checkpoints.allow_mmengine_checkpoints()  # onedl-mmengine takes it off the list with every checkpoint that it loads
    loaded = torch.load(tmp_path / 'log.pth', weights_only=True)
    buffer = loaded['message_hub']['log_scalars']['train/loss']
    assert buffer.mean() == hub.get_scalar('train/loss').mean()
    assert buffer.statistics('max') == 0.5
    checkpoints.check_checkpoint(tmp_path / 'log.pth')


@needs_protection
@pytest.mark.parametrize('strategy', ['cos', 'linear'])
def test_one_cycle_schedules_load_under_protection(tmp_path, strategy):
    def schedule():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
        return OneCycleLR(optimizer, eta_max=0.1, total_steps=10, anneal_strategy=strategy)

    saved, loaded = schedule(), schedule()
    for _ in range(4):
        saved.optimizer.step()
        saved.step()
    torch.save(dict(state_dict={}, param_schedulers=[saved.state_dict()]), tmp_path / 'schedule.pth')
    checkpoints.allow_mmengine_checkpoints()
    loaded.load_state_dict(checkpoints.check_checkpoint(tmp_path / 'schedule.pth')['param_schedulers'][0])
    for each in (saved, loaded):
        each.optimizer.step()
        each.step()
    assert loaded.get_last_value() == saved.get_last_value()
    assert loaded.anneal_func is saved.anneal_func


def test_one_cycle_schedules_load_whichever_getattr_torch_takes():
    """Where onedl-mmengine lists the real one next to ours, torch takes one of them."""
    stand_in = checkpoints._OneCycleFunctions
    for name in ('_annealing_cos', '_annealing_linear'):
        assert getattr(stand_in, name) is getattr(OneCycleParamScheduler, name)
        assert checkpoints._known_method(stand_in, name) is getattr(OneCycleParamScheduler, name)
    assert not hasattr(stand_in, 'build_iter_from_epoch')


@needs_protection
@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        (Runs(harmless, 'hello'), 'harmless'),
        (Runs(getattr, HistoryBuffer, '__init__'), "may not read the attribute '__init__'"),
        (Runs(getattr, torch.Tensor, 'mean'), "may not read the attribute 'mean'"),
        (Runs(getattr, OneCycleParamScheduler, 'build_iter_from_epoch'), 'may not read the attribute'),
        (Runs(eval, '1 + 1'), 'eval'),
    ],
)
def test_a_foreign_class_is_still_rejected(tmp_path, content, reason):
    torch.save(dict(state_dict={}, meta=content), tmp_path / 'foreign.pth')
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / 'foreign.pth')
    with pytest.raises(CheckpointError, match=f'foreign.pth is rejected, loading it could run code: .*{reason}'):
        checkpoints.check_checkpoint(tmp_path / 'foreign.pth')


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r'nothing\.pth does not exist'):
        checkpoints.check_checkpoint(tmp_path / 'nothing.pth')


@needs_protection
@pytest.mark.parametrize('content', [b'', b'some text', b'PK\x03\x04 cut off'])
def test_an_unreadable_checkpoint_is_named(tmp_path, content):
    (tmp_path / 'broken.pth').write_bytes(content)
    with pytest.raises(CheckpointError, match=r'broken\.pth (cannot be read|is rejected)'):
        checkpoints.check_checkpoint(tmp_path / 'broken.pth')


def test_dtypes_ignore_the_state_of_a_pickle():
    for code in checkpoints.PLAIN_DTYPES:
        dtype = checkpoints._plain_dtype(code, False, True)
        dtype.__setstate__((3, '|', (np.dtype('O'), (1,)), None, None, 8, 8, 27))
        assert dtype == np.dtype(code)
        assert dtype.subdtype is None
    with pytest.raises(pickle.UnpicklingError, match="numpy data of type 'O'"):
        checkpoints._plain_dtype('O')


@needs_protection
def test_a_file_that_holds_no_checkpoint_is_named(tmp_path):
    torch.save([torch.zeros(1)], tmp_path / 'list.pth')
    with pytest.raises(CheckpointError, match=r'list\.pth must hold a dict, got list'):
        checkpoints.check_checkpoint(tmp_path / 'list.pth')


@needs_protection
def test_resuming_rejects_a_config_that_mmengine_would_run(tmp_path):
    torch.save(dict(state_dict={}, meta=dict(config='print("ran")')), tmp_path / 'text.pth')
    checkpoints.check_checkpoint(tmp_path / 'text.pth')
    with pytest.raises(CheckpointError, match=r"would run the text of its meta\['config'\]"):
        checkpoints.check_checkpoint(tmp_path / 'text.pth', resume=True)


@needs_protection
def test_allowing_again_changes_nothing():
    before = len(torch.serialization.get_safe_globals())
    checkpoints.allow_mmengine_checkpoints()
    assert len(torch.serialization.get_safe_globals()) == before

"""Test that a resumed training equals an uninterrupted one."""

import json
import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.multiprocessing
from mmengine.dataset import worker_init_fn
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmml_losses.engine import EpochSeedHook
from tests.helpers.interruption import StopAfter


def train(cfg, work_dir, *, stop_after=None, resume=False):
    cfg = cfg.copy()
    cfg.work_dir, cfg.resume = str(work_dir), resume
    cfg.experiment_name = f'{work_dir.name}_{stop_after}_{resume}'
    runner = Runner.from_cfg(cfg)
    if stop_after is not None:
        runner.register_hook(StopAfter(stop_after))
        with pytest.raises(KeyboardInterrupt):
            runner.train()
    else:
        runner.train()
    return runner


def same_weights(first, second) -> bool:
    first, second = first.model.state_dict(), second.model.state_dict()
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture
def cfg(small_run):
    cfg = small_run('spa_lpr_digits.py', max_epochs=3)
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    return cfg


@pytest.mark.parametrize('num_workers', [0, 2])
def test_resumed_training_equals_an_uninterrupted_one(cfg, tmp_path, num_workers):
    cfg.train_dataloader.update(num_workers=num_workers, persistent_workers=False)
    unbroken = train(cfg, tmp_path / 'unbroken')
    train(cfg, tmp_path / 'broken', stop_after=2)
    resumed = train(cfg, tmp_path / 'broken', resume=True)
    assert same_weights(unbroken, resumed)
    losses = [runner.message_hub.get_scalar('train/loss').current() for runner in (unbroken, resumed)]
    assert losses[0] == losses[1]


def test_without_the_hook_it_would_not(cfg, tmp_path):
    cfg.custom_hooks = []
    unbroken = train(cfg, tmp_path / 'unbroken')
    train(cfg, tmp_path / 'broken', stop_after=2)
    assert not same_weights(unbroken, train(cfg, tmp_path / 'broken', resume=True))


def test_epochs_draw_different_augmentations(cfg, tmp_path):
    drawn = []

    class Record(Hook):
        def before_train_iter(self, runner, batch_idx, data_batch=None):
            if batch_idx == 0:
                drawn.append(torch.rand(1).item())

    runner = Runner.from_cfg(cfg)
    runner.register_hook(Record())
    runner.train()
    assert len(set(drawn)) == 3


def test_persistent_workers_are_mentioned(cfg, capsys):
    cfg.train_dataloader.update(num_workers=1, persistent_workers=True)
    cfg.train_cfg.max_epochs = 2
    cfg.experiment_name = 'persistent_workers'  # or the logger is that of a Runner of the same second, with its output
    Runner.from_cfg(cfg).train()
    assert 'a resumed training will not repeat an unbroken one exactly' in capsys.readouterr().out


def draw_in_a_process(rank, folder):
    """Write what one of two processes draws in two epochs, and what the first worker of its dataloader draws."""
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=2)
    start_worker = partial(worker_init_fn, num_workers=1, rank=rank, seed=0)
    runner = SimpleNamespace(seed=0, epoch=0, train_dataloader=SimpleNamespace(worker_init_fn=start_worker))
    drawn = []
    for runner.epoch in range(2):
        EpochSeedHook().before_train_epoch(runner)
        process = [random.random(), np.random.rand(), torch.rand(1).item()]
        runner.train_dataloader.worker_init_fn(0)
        drawn.append([*process, random.random(), np.random.rand(), torch.rand(1).item()])
    (folder / f'{rank}.json').write_text(json.dumps(drawn))
    torch.distributed.destroy_process_group()


def test_ranks_draw_different_augmentations(tmp_path):
    torch.multiprocessing.start_processes(draw_in_a_process, args=(tmp_path,), nprocs=2, start_method='fork')
    drawn = [epoch for rank in range(2) for epoch in json.loads((tmp_path / f'{rank}.json').read_text())]
    for numbers in zip(*drawn, strict=True):  # each generator of the process and of its worker
        assert len(set(numbers)) == 2 * 2

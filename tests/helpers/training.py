"""Short trainings that are interrupted and resumed."""

from collections.abc import Callable

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from tests.helpers.interruption import StopAfter


def train(cfg: Config, folder: str, stop_after: int | None = None, resume: bool = False) -> Runner:
    """Train in a folder next to the config's own, until the end or for ``stop_after`` epochs."""
    cfg = cfg.copy()
    cfg.work_dir = f'{cfg.work_dir}_{folder}'
    cfg.resume = resume
    cfg.experiment_name = f'{folder}_{stop_after}_{resume}'
    runner = Runner.from_cfg(cfg)
    if stop_after is None:
        runner.train()
    else:
        runner.register_hook(StopAfter(stop_after))
        with pytest.raises(KeyboardInterrupt):
            runner.train()
    return runner


def assert_resumes(make: Callable[[], Config]) -> Runner:
    """Check that a training interrupted after one of two epochs ends as without interruption; return the latter."""
    unbroken = train(make(), 'unbroken')
    train(make(), 'broken', stop_after=1)
    resumed = train(make(), 'broken', resume=True)
    assert resumed.epoch == unbroken.epoch == 2
    states = unbroken.model.state_dict(), resumed.model.state_dict()
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]), key
    return unbroken

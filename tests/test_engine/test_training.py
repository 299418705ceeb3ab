"""What the tools that train refuse before they begin."""

import pytest
from mmengine.config import Config

from mmml_losses.engine.errors import UsageError
from mmml_losses.engine.training import check_schedule


def schedule(length: dict, *schedulers: dict) -> Config:
    return Config(dict(train_cfg=length, param_scheduler=list(schedulers)))


@pytest.mark.parametrize(
    ('cfg', 'message'),
    [
        (schedule(dict(max_epochs=1), dict(type='A', end=1), dict(type='B', begin=1)), 'max_epochs must be more than 1'),
        (schedule(dict(max_iters=400), dict(type='B', begin=500, by_epoch=False)), 'max_iters must be more than 500'),
        (Config(dict(train_cfg=dict(max_epochs=2), param_scheduler=dict(type='B', begin=3))), 'the B of param_scheduler'),
    ],
)
def test_a_training_that_ends_before_its_schedule_begins_is_refused(cfg, message):
    with pytest.raises(UsageError, match=message):
        check_schedule(cfg)


@pytest.mark.parametrize(
    'cfg',
    [
        schedule(dict(max_epochs=2), dict(type='A', end=1), dict(type='B', begin=1)),
        schedule(dict(max_epochs=1), dict(type='A', begin=100, by_epoch=False)),  # as long as an epoch has more
        schedule(dict(max_epochs=1), dict(type='A', begin=5, end=9)),  # MMEngine builds it, and it does nothing
        Config(dict(train_cfg=dict(max_epochs=1), param_scheduler=None)),
        Config(dict()),
    ],
)
def test_any_other_schedule_passes(cfg):
    check_schedule(cfg)

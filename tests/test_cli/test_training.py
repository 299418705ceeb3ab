"""Test which settings the tools that train reject before they begin."""

import pytest
from mmengine.config import Config

from mmml_losses.cli.launch import check_schedule, check_weight_decay
from mmml_losses.utils.errors import UsageError


def schedule(length: dict, *schedulers: dict) -> Config:
    return Config(dict(train_cfg=length, param_scheduler=list(schedulers)))


@pytest.mark.parametrize(
    ('cfg', 'message'),
    [
        (
            schedule(dict(max_epochs=1), dict(type='A', end=1), dict(type='B', begin=1)),
            'max_epochs must be more than 1',
        ),
        (schedule(dict(max_iters=400), dict(type='B', begin=500, by_epoch=False)), 'max_iters must be more than 500'),
        (
            Config(dict(train_cfg=dict(max_epochs=2), param_scheduler=dict(type='B', begin=3))),
            'the B of param_scheduler',
        ),
    ],
)
def test_a_training_that_ends_before_its_schedule_begins_is_rejected(cfg, message):
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


def learning(factors: dict, **optimizer) -> Config:
    return Config(dict(optim_wrapper=dict(optimizer=dict(type='SGD', **optimizer), paramwise_cfg=factors)))


@pytest.mark.parametrize(
    'factors', [dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0))), dict(norm_decay_mult=0.0)]
)
def test_factors_of_a_weight_decay_that_is_not_given_are_rejected(factors):
    with pytest.raises(
        UsageError, match=r'optimizer\.weight_decay must be given, 0 for none, .*decay_mult is a factor'
    ):
        check_weight_decay(learning(factors))
    check_weight_decay(learning(factors, weight_decay=0))


def test_no_weight_decay_is_needed_where_nothing_multiplies_it():
    check_weight_decay(learning(dict(custom_keys=dict(label_estimator=dict(lr_mult=10)))))
    check_weight_decay(Config(dict(optim_wrapper=dict(optimizer=dict(type='SGD')))))
    check_weight_decay(Config(dict()))

"""Losses that need more than a batch, in a real Runner: the epoch, sample indices, the training set, the checkpoint."""

import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.runner import Runner

from mmml_losses.losses import MultiLabelLoss
from tests.helpers.interruption import StopAfter

LOSSES = {
    'splc': dict(type='SPLCLoss', threshold=0.5),
    'lasd': dict(type='LASDLoss', threshold=0.5),
    'll_r': dict(type='LargeLossRejection', relative_increase=0.1),
    'll_cp': dict(type='LargeLossCorrection', permanent=True, relative_increase=0.05),
    'em_apl': dict(type='EMAPLLoss', warmup_epochs=1),
    'role': dict(type='ROLELoss', num_samples=64, num_classes=10, expected_positives=3.0),
    'two_way': dict(type='TwoWayLoss', bucket_size=8),
    'dr_db_focal': dict(
        type='SumLoss',
        losses=dict(dr=dict(type='mmml_losses.DRLoss'), db=dict(type='mmml_losses.DBFocalLoss')),
    ),
}


@pytest.fixture
def train(small_run, tmp_path):
    """Return a function that trains three epochs on a few scenes and returns the Runner."""

    def run(name: str, folder: str, stop_after: int | None = None, resume: bool = False) -> Runner:
        cfg = small_run('bce_digits.py', max_epochs=3)
        loss = LOSSES[name]
        cfg.model.head.loss = ConfigDict({**loss, 'type': f'mmml_losses.{loss["type"]}'})
        cfg.work_dir = str(tmp_path / folder)
        cfg.resume = resume
        cfg.experiment_name = f'{name}_{folder}_{stop_after}_{resume}'
        if name == 'role':
            cfg.optim_wrapper.paramwise_cfg = dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0)))
        runner = Runner.from_cfg(cfg)
        if stop_after is None:
            runner.train()
        else:
            runner.register_hook(StopAfter(stop_after))
            with pytest.raises(KeyboardInterrupt):
                runner.train()
        return runner

    return run


def loss_of(runner: Runner) -> MultiLabelLoss:
    return runner.model.head.loss_module


@pytest.mark.parametrize('name', LOSSES)
def test_trains_and_evaluates(train, name):
    runner = train(name, 'run')
    assert torch.isfinite(torch.tensor(runner.message_hub.get_scalar('train/loss').current()))
    assert runner.message_hub.get_scalar('val/multi-label/mAP@class').current() > 0
    assert not loss_of(runner).wants_training_labels


def test_the_estimator_of_role_has_its_own_learning_rate(train):
    runner = train('role', 'run')
    estimator = loss_of(runner).label_estimator
    groups = {id(parameter): group for group in runner.optim_wrapper.param_groups for parameter in group['params']}
    others = [group for key, group in groups.items() if key != id(estimator)]
    assert groups[id(estimator)]['lr'] == pytest.approx(10 * others[0]['lr'])
    assert groups[id(estimator)]['weight_decay'] == 0
    labels = torch.stack([torch.zeros(10).index_fill(0, torch.tensor(item['gt_label']), 1) for item in infos(runner)])
    assert (estimator[labels == 1].sigmoid() > 0.9).all()


def infos(runner: Runner) -> list[dict]:
    dataset = runner.train_dataloader.dataset
    return [dataset.get_data_info(index) for index in range(len(dataset))]


@pytest.mark.parametrize('name', ['ll_cp', 'em_apl', 'role', 'lasd'])
def test_a_resumed_training_ends_like_an_unbroken_one(train, name):
    unbroken = train(name, 'unbroken')
    train(name, 'broken', stop_after=2)
    resumed = train(name, 'broken', resume=True)
    assert resumed.epoch == 3
    states = unbroken.model.state_dict(), resumed.model.state_dict()
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]), key

"""Test that trainings with a memory end with the same weights whether they are interrupted or not."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.hooks import EMAHook
from mmengine.runner import Runner

from mmml_losses.engine.resuming import latest_checkpoint, safe_checkpoint
from mmml_losses.utils.errors import UsageError
from tests.helpers.few_features import NUM_CLASSES, NUM_TRAIN, feature_config, write_features
from tests.helpers.interruption import StopAfter

pytestmark = pytest.mark.usefixtures('unformatted_configs')

EPOCHS = 4
LOSSES = {
    'bce': dict(type='mmml_losses.BCELoss'),
    'll_cp': dict(type='mmml_losses.LargeLossCorrection', permanent=True, relative_increase=0.05),
    'em_apl': dict(type='mmml_losses.EMAPLLoss', warmup_epochs=1),
    'role': dict(type='mmml_losses.ROLELoss', num_samples=NUM_TRAIN, num_classes=NUM_CLASSES, expected_positives=2.0),
}


@pytest.fixture(scope='module')
def features(tmp_path_factory) -> Path:
    return write_features(tmp_path_factory.mktemp('features') / 'features.npz')


def average_weights(cfg: Config, **arguments) -> None:
    cfg.custom_hooks = [*cfg.custom_hooks, dict(type='EMAHook', momentum=0.1, **arguments)]


def follow_one_cycle(cfg: Config) -> None:
    cfg.param_scheduler = [
        dict(type='OneCycleLR', eta_max=0.1, by_epoch=True, total_steps=EPOCHS, convert_to_iter_based=True)
    ]


def sample_by_class(cfg: Config) -> None:
    cfg.train_dataloader.sampler = dict(type='mmml_losses.ClassAwareSampler', epoch_length=40)


def train_estimates_faster(cfg: Config) -> None:
    cfg.optim_wrapper.optimizer.weight_decay = 0.01
    cfg.optim_wrapper.paramwise_cfg = dict(custom_keys=dict(label_estimator=dict(lr_mult=10, decay_mult=0)))


CHANGES = {
    'll_cp with one cycle and EMA': ('ll_cp', [follow_one_cycle, average_weights]),
    'em_apl with one cycle and EMA': ('em_apl', [follow_one_cycle, average_weights]),
    'role with one cycle and EMA': ('role', [follow_one_cycle, average_weights, train_estimates_faster]),
    'll_cp with EMA of buffers': ('ll_cp', [lambda cfg: average_weights(cfg, update_buffers=True)]),
    'em_apl with EMA that begins later': ('em_apl', [lambda cfg: average_weights(cfg, begin_epoch=3)]),
    'll_cp with classes in turn': ('ll_cp', [sample_by_class]),
    'bce with classes in turn and EMA': ('bce', [sample_by_class, average_weights]),
}


@pytest.fixture
def train(features, tmp_path):
    """Trains, from the start or on, and returns the Runner."""

    def run(name: str, folder: str, stop_after: int | None = None, resume: bool = False) -> Runner:
        loss, changes = CHANGES[name]
        cfg = feature_config(features, tmp_path / folder, EPOCHS)
        cfg.model.head.loss = ConfigDict(LOSSES[loss])
        cfg.model.head.thr = 0.5
        # Single positives: most labels are unobserved, which is what these losses are about.
        cfg.train_dataloader.dataset = ConfigDict(
            type='mmml_losses.SinglePositive', dataset=cfg.train_dataloader.dataset
        )
        for change in changes:
            change(cfg)
        cfg.resume = resume
        cfg.experiment_name = f'{tmp_path.name}_{folder}_{resume}'
        runner = Runner.from_cfg(cfg)
        if stop_after is None:
            runner.train()
        else:
            runner.register_hook(StopAfter(stop_after))
            with pytest.raises(KeyboardInterrupt):
                runner.train()
        return runner

    return run


def everything_of(runner: Runner) -> dict[str, object]:
    """All that a training carries on, by name: weights, averages, memories, optimiser, schedules."""
    averages = [hook.ema_model.state_dict() for hook in runner.hooks if isinstance(hook, EMAHook)]
    return flat(
        dict(
            model=runner.model.state_dict(),
            average=averages,
            optimizer=runner.optim_wrapper.state_dict(),
            schedules=[scheduler.state_dict() for scheduler in runner.param_schedulers],
            loss=runner.message_hub.get_scalar('train/loss').current(),
        )
    )


def flat(value: object, name: str = '') -> dict[str, object]:
    if isinstance(value, dict):
        return {key: leaf for part in value for key, leaf in flat(value[part], f'{name}.{part}').items()}
    if isinstance(value, list | tuple):
        return {key: leaf for part, each in enumerate(value) for key, leaf in flat(each, f'{name}.{part}').items()}
    return {name: value}


def is_same(first: object, second: object) -> bool:
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    return first == second


@pytest.mark.parametrize('name', CHANGES)
def test_a_resumed_training_ends_like_an_uninterrupted_one(train, name):
    unbroken = everything_of(train(name, 'unbroken'))
    train(name, 'broken', stop_after=2)
    resumed = train(name, 'broken', resume=True)
    assert resumed.epoch == EPOCHS
    resumed = everything_of(resumed)
    assert unbroken.keys() == resumed.keys()
    different = [key for key, value in unbroken.items() if not is_same(value, resumed[key])]
    assert different == []


def test_the_estimates_of_role_resume_with_their_optimiser_state(train):
    runner = train('role with one cycle and EMA', 'run', stop_after=2)
    loss = runner.model.head.loss_module
    before = runner.optim_wrapper.optimizer.state[loss.label_estimator]['exp_avg'].clone()
    assert before.abs().sum() > 0
    resumed = train('role with one cycle and EMA', 'run', stop_after=3, resume=True)
    after = resumed.optim_wrapper.optimizer.state[resumed.model.head.loss_module.label_estimator]
    assert after['step'] == runner.optim_wrapper.optimizer.state[loss.label_estimator]['step'] * 3 / 2
    assert after['exp_avg'].shape == before.shape


def test_the_memories_hold_what_the_test_is_about(train):
    corrections = train('ll_cp with one cycle and EMA', 'll_cp').model.head.loss_module.memory.rows()
    assert 0 < corrections.sum() < corrections.numel()
    negatives = train('em_apl with one cycle and EMA', 'em_apl').model.head.loss_module.pseudo_negatives.rows()
    assert 0 < (~negatives.isneginf()).sum() < negatives.numel()


def test_averaged_weights_of_a_checkpoint_are_those_that_were_validated(train, features, tmp_path):
    runner = train('em_apl with one cycle and EMA', 'run')
    checkpoint = torch.load(tmp_path / 'run' / f'epoch_{EPOCHS}.pth', weights_only=False)
    average = next(hook.ema_model for hook in runner.hooks if isinstance(hook, EMAHook)).module.state_dict()
    assert torch.equal(checkpoint['state_dict']['head.fc.weight'], average['head.fc.weight'])
    assert not torch.equal(checkpoint['state_dict']['head.fc.weight'], runner.model.head.fc.weight)
    assert 'head.loss_module.pseudo_negatives.table' in checkpoint['state_dict']


def text_of(loss: str) -> str:
    return f'model = dict(head=dict(loss={loss}))'


SPA_LPR = "dict(type='mmml_losses.SumLoss', losses=dict(spa=dict(type='SPALoss'), lpr=dict(type='LPR', margin=2.0)))"
PAIR = "dict(type='mmml_losses.PairLoss', positive='bce', negative=dict(type='hill', lamb=1.0))"
HILL = "dict(type='mmml_losses.HillLoss', margin=0.5)"
LSEP, LARGE, SMOOTHED, DR = (
    f"dict(type='mmml_losses.{name}')"
    for name in ('LSEPLoss', 'LargeLossCorrection', 'LabelSmoothingBCELoss', 'DRLoss')
)


@pytest.mark.parametrize(
    ('trained', 'used', 'names'),
    [
        (SPA_LPR, HILL, ('SumLoss(lpr=LPR, spa=SPALoss)', 'HillLoss')),
        (SPA_LPR, SPA_LPR.replace("'SPALoss'", "'BCELoss'"), ('lpr=LPR, spa=SPALoss', 'lpr=LPR, spa=BCELoss')),
        (PAIR, PAIR.replace("'bce'", "'spa'"), ('PairLoss(negative=hill, positive=bce)', 'positive=spa')),
        (LSEP, LSEP.replace(')', ", way='class')"), ('LSEPLoss', 'LSEPLoss(way=class)')),
        (LARGE.replace(')', ', permanent=True)'), LARGE, ('LargeLossCorrection(permanent=True)',)),
        (SMOOTHED.replace(')', ", reading='paper')"), SMOOTHED, ('LabelSmoothingBCELoss(reading=paper)',)),
        (DR, DR.replace(')', ', constraint=None)'), ('DRLoss(constraint=None)',)),
        (HILL, HILL.replace('0.5', '1.0'), None),  # other hyper-parameters may be intended
        (HILL, HILL, None),
    ],
)
def test_a_work_folder_is_not_resumed_with_another_loss(tmp_path, trained, used, names):
    folder, cfg = tmp_path / 'run', Config.fromstring(text_of(used), '.py')
    folder.mkdir()
    cfg.work_dir = str(folder)
    checkpoint = folder / 'epoch_1.pth'
    torch.save(dict(state_dict={}, meta=dict(cfg=text_of(trained))), checkpoint)
    if names is None:
        assert safe_checkpoint(str(checkpoint), cfg, resume=True) == str(checkpoint)
    else:
        with pytest.raises(UsageError, match='cannot be resumed with the loss') as caught:
            safe_checkpoint(str(checkpoint), cfg, resume=True)
        assert all(name in str(caught.value) for name in (str(folder), *names, '--loss', '--work-dir'))
    cfg.work_dir = str(tmp_path / 'other')  # where nothing is mixed
    assert safe_checkpoint(str(checkpoint), cfg, resume=True) == str(checkpoint)


def test_a_text_that_names_no_loss_stops_no_training(tmp_path):
    torch.save(dict(state_dict={}, meta=dict(cfg='open("x", "w")')), tmp_path / 'epoch_1.pth')
    cfg = Config.fromstring(text_of(HILL), '.py')
    cfg.work_dir = str(tmp_path)
    assert safe_checkpoint(str(tmp_path / 'epoch_1.pth'), cfg, resume=True)


def test_the_latest_checkpoint_is_found_where_its_folder_was_moved_to(tmp_path):
    assert latest_checkpoint(str(tmp_path)) is None
    (tmp_path / 'last_checkpoint').write_text('/elsewhere/epoch_2.pth')
    assert latest_checkpoint(str(tmp_path)) == Path('/elsewhere/epoch_2.pth')
    (tmp_path / 'epoch_2.pth').touch()
    assert latest_checkpoint(str(tmp_path)) == tmp_path / 'epoch_2.pth'

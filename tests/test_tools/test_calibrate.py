"""Test tools/calibrate.py as a user calls it, and its steps."""

import hashlib
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample

from mmml_losses.engine.model_loss import METHODS, LossPlace, find_loss_place
from mmml_losses.hosts import loss_places as provenance
from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.losses import AsymmetricLoss, BCELoss, SPALoss, SumLoss
from mmml_losses.losses.links import PhiLink
from mmml_losses.procedures.calibrate import collect_logits, fit_link
from mmml_losses.registry import LOSSES
from mmml_losses.utils.errors import UsageError
from tests.helpers.tools import run_tool

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / 'configs' / 'spa_lpr_digits.py'


def few_scenes(scenes_folder):
    options = ['train_cfg.max_epochs=2', 'train_dataloader.batch_size=16']
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        settings = dict(data_root=scenes_folder, num_train=64, num_test=48)
        options += [f'{loader}.dataset.{key}={value}' for key, value in settings.items()]
    return ['--cfg-options', *options]


def succeed(tool, *arguments, launcher=()):
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    command = [sys.executable, '-W', 'ignore', *launcher, str(ROOT / 'tools' / tool), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope='module')
def trained(scenes_folder, tmp_path_factory):
    """Train SPA with LPR and return the checkpoint."""
    folder = tmp_path_factory.mktemp('trained')
    succeed('train.py', CONFIG, '--work-dir', folder, '--no-validate', *few_scenes(scenes_folder))
    return folder / 'epoch_2.pth'


@pytest.fixture(scope='module')
def calibrated(trained, scenes_folder, tmp_path_factory):
    """Fit a temperature; return the written files, the output, and the hash of the checkpoint before."""
    out = tmp_path_factory.mktemp('calibrated') / 'calibrated.pth'
    digest = hashlib.sha256(trained.read_bytes()).digest()
    options = ('--work-dir', out.parent / 'logs', *few_scenes(scenes_folder))
    return out, succeed('calibrate.py', CONFIG, trained, '--out', out, *options), digest


@pytest.fixture
def call(scenes_folder, tmp_path, capsys):
    """Return a function that runs a tool in this process and returns its output."""

    def run(name, *arguments, options=None):
        options = few_scenes(scenes_folder) if options is None else options
        run_tool(f'{name}.py', *arguments, '--work-dir', tmp_path / 'work_dir', *options)
        return capsys.readouterr().out

    return run


@pytest.fixture
def calibrate(call):
    return partial(call, 'calibrate')


def built_from(config_file):
    """Build the model of a written config."""
    return MODELS.build(Config.fromfile(config_file).model)


def table(output):
    """Return the rows of the printed table."""
    return {
        name: list(map(float, row.split()))
        for name, row in re.findall(r'^(before|after)((?: +[\d.]+){4})', output, re.M)
    }


def test_the_checkpoint_read_is_untouched(trained, calibrated):
    assert hashlib.sha256(trained.read_bytes()).digest() == calibrated[2]


def test_the_pair_of_files_reads_calibrated_probabilities(call, trained, calibrated, tmp_path):
    out, output, _ = calibrated
    files = tmp_path / 'before.json', tmp_path / 'after.json'
    call('test', CONFIG, trained, '--out', files[0], '--out-item', 'metrics')
    config = out.with_suffix('.py')
    printed = succeed('test.py', config, out, '--out', files[1], '--out-item', 'metrics', '--work-dir', tmp_path)
    assert 'was trained with the loss' not in printed
    before, after = (json.loads(file.read_text()) for file in files)
    assert after['multi-label/ECE'] < before['multi-label/ECE']
    # This config validates on its test scenes, so the tool must print the figures of the metric.
    rows = table(output)
    for metrics, name in ((before, 'before'), (after, 'after')):
        figures = [metrics[f'multi-label/{error}'] for error in ('ACE', 'ECE', 'MCE')]
        assert rows[name][1:] == pytest.approx(figures, abs=0.006)
    assert rows['after'][0] < rows['before'][0]
    assert 'on the data of the fit' in output


def test_files_that_do_not_belong_together_are_noticed(trained, calibrated, monkeypatch):
    messages = []
    monkeypatch.setattr(provenance, 'print_log', lambda message, **kwargs: messages.append(message))
    checkpoints = [check_checkpoint(file) for file in (trained, calibrated[0])]
    configs = [Config.fromfile(file) for file in (CONFIG, calibrated[0].with_suffix('.py'))]
    for checkpoint, config in zip(checkpoints, configs, strict=True):
        provenance.warn_of_other_loss(checkpoint, config)
    assert messages == []
    for checkpoint, config in zip(checkpoints, reversed(configs), strict=True):
        provenance.warn_of_other_loss(checkpoint, config)
    assert len(messages) == 2
    assert all('was trained with the loss' in message and 'TemperatureLink' in message for message in messages)


@pytest.mark.parametrize(
    'model',
    [
        'bbox_head=dict(loss_cls={})',
        'roi_head=dict(bbox_head=dict(loss_cls={}))',
        'roi_head=dict(bbox_head=[dict(loss_cls={})])',
    ],
    ids=['dense', 'two stages', 'cascade'],
)
def test_a_detector_that_was_trained_with_another_loss_is_noticed(model, monkeypatch):
    messages = []
    monkeypatch.setattr(provenance, 'print_log', lambda message, **kwargs: messages.append(message))
    hill, spa = (f'model = dict({model.format(f"dict(type={loss!r})")})' for loss in ('HillLoss', 'SPALoss'))
    provenance.warn_of_other_loss(dict(meta=dict(cfg=hill)), Config.fromstring(hill, '.py'))
    assert messages == []
    provenance.warn_of_other_loss(dict(meta=dict(cfg=hill)), Config.fromstring(spa, '.py'))
    assert 'HillLoss' in messages[0]
    assert 'SPALoss' in messages[0]


def test_the_checkpoint_has_the_weights_and_the_temperature(trained, calibrated):
    out, output, _ = calibrated
    checkpoint, original = torch.load(out, weights_only=True), check_checkpoint(trained)
    state = checkpoint['state_dict']
    temperature = state['head.loss_module.link.temperature']
    assert f'temperature {temperature:.4g}' in output
    assert temperature > 1
    assert all(torch.equal(state[key], value) for key, value in original['state_dict'].items())
    assert set(checkpoint) == {'meta', 'state_dict'}
    assert checkpoint['meta']['dataset_meta'] == original['meta']['dataset_meta']
    model = built_from(out.with_suffix('.py'))
    model.load_state_dict(state)
    logits = torch.linspace(-4, 4, 10).unsqueeze(0)
    expected = (SPALoss().logit_probabilities(logits) / temperature).sigmoid()
    torch.testing.assert_close(model.head.loss_module.probabilities(logits), expected)


@pytest.mark.parametrize('method', list(METHODS))
def test_every_method_writes_files_that_fit(calibrate, trained, tmp_path, method):
    rows = table(calibrate(CONFIG, trained, '--method', method))
    out = tmp_path / 'work_dir' / f'epoch_2_{method}.pth'
    assert rows['after'][0] < rows['before'][0]
    built_from(out.with_suffix('.py')).load_state_dict(torch.load(out, weights_only=True)['state_dict'])
    assert [file.name for file in out.parent.iterdir() if file.name.endswith('.tmp')] == []


def test_a_new_fit_takes_the_place_of_the_old_one(calibrate, calibrated, tmp_path):
    out = tmp_path / 'again.pth'
    rows = table(calibrate(calibrated[0].with_suffix('.py'), calibrated[0], '--method', 'vector', '--out', out))
    assert rows['before'] == table(calibrated[1])['after']
    loss = built_from(out.with_suffix('.py')).head.loss_module
    assert [type(link).__name__ for link in (loss.link, loss.link.base)] == ['VectorLink', 'SPALink']
    state = torch.load(out, weights_only=True)['state_dict']
    assert not any('temperature' in key for key in state)
    loss.load_state_dict({key.removeprefix('head.loss_module.'): state[key] for key in state if 'loss_module' in key})


def test_heads_of_mmpretrain_and_replaced_losses_are_calibrated(calibrate, trained, tmp_path):
    config = tmp_path / 'theirs.py'
    config.write_text(
        f"_base_ = '{CONFIG}'\n"
        "model = dict(head=dict(_delete_=True, type='MultiLabelLinearClsHead', num_classes=10, in_channels=128))\n"
    )
    with pytest.raises(SystemExit, match=r'must have a loss of mmml_losses.*; got CrossEntropyLoss.*--loss BCELoss'):
        calibrate(config, trained, '--out', tmp_path / 'out.pth')
    assert not (tmp_path / 'out.pth').exists()
    calibrate(config, trained, '--loss', 'BCELoss', '--out', tmp_path / 'out.pth')
    loss = Config.fromfile(tmp_path / 'out.py').model.head.loss
    link = dict(type='mmml_losses.TemperatureLink')
    assert loss == dict(type='mmml_losses.BCELoss', reduction=Config.fromfile(CONFIG).loss_reduction, link=link)
    model = built_from(tmp_path / 'out.py')
    model.load_state_dict(torch.load(tmp_path / 'out.pth', weights_only=True)['state_dict'])
    assert type(model.head).__name__ == 'MultiLabelLinearClsHead'


def test_the_written_config_keeps_what_the_user_has_and_no_more(calibrated):
    written = Config.fromfile(calibrated[0].with_suffix('.py'))
    assert written.val_dataloader.dataset.num_test == 48  # from --cfg-options
    assert written.get('launcher') == Config.fromfile(CONFIG).get('launcher')
    assert written.get('work_dir') == Config.fromfile(CONFIG).get('work_dir')
    assert 'persistent_workers' not in written.val_dataloader
    assert written.model.backbone == Config.fromfile(CONFIG).model.backbone


def test_what_is_read_is_never_written(calibrate, trained, tmp_path):
    with pytest.raises(SystemExit, match=r'epoch_2\.pth is read and cannot be written as well'):
        calibrate(CONFIG, trained, '--out', trained)
    with pytest.raises(SystemExit, match=r'spa_lpr_digits\.py is read and cannot be written as well'):
        calibrate(CONFIG, trained, '--out', CONFIG.with_suffix('.pth'))
    (tmp_path / 'mine.py').write_text('# mine')
    with pytest.raises(SystemExit, match=r'mine\.py exists and belongs to no mine\.pth'):
        calibrate(CONFIG, trained, '--out', tmp_path / 'mine.pth')
    assert (tmp_path / 'mine.py').read_text() == '# mine'


def test_bad_calls_end_with_one_sentence(calibrate, trained, tmp_path, capsys):
    with pytest.raises(SystemExit):
        calibrate(CONFIG, trained, '--out', tmp_path / 'out.txt')
    assert '--out must end in .pth' in capsys.readouterr().err
    config = tmp_path / 'no_val.py'
    config.write_text(f"_base_ = '{CONFIG}'\nval_dataloader = None\nval_cfg = None\nval_evaluator = None\n")
    with pytest.raises(SystemExit, match=r'--dataloader val: .*no_val\.py has no val_dataloader'):
        calibrate(config, trained, options=())


def test_two_processes_fit_what_one_does(calibrated, trained, scenes_folder, tmp_path):
    launcher = ('-m', 'torch.distributed.run', '--nproc_per_node=2', '--standalone')
    arguments = (CONFIG, trained, '--launcher', 'pytorch', '--out', tmp_path / 'two.pth', '--work-dir', tmp_path)
    output = succeed('calibrate.py', *arguments, *few_scenes(scenes_folder), launcher=launcher)
    assert table(output) == table(calibrated[1])


def data(classes=3, samples=200):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(samples, classes, generator=generator)
    return logits, (torch.rand(samples, classes, generator=generator) < (logits / 2).sigmoid()).float()


def rebuilt(place, calibration):
    """Build the loss from the written config and state."""
    loss = LOSSES.build(calibration.loss_config)
    loss.load_state_dict(place.module.state_dict())
    return loss


@pytest.mark.parametrize('method', list(METHODS))
@pytest.mark.parametrize(
    'config',
    [
        dict(type='SPALoss'),
        dict(type='BCELoss', link=dict(type='SPALink', negative_scale=2.0)),
        dict(type='SPALoss', link=dict(type='PlattLink', base=dict(type='SigmoidLink'))),
        dict(type='LabelPairRegularizer'),
        # MMEngine writes configs in alphabetical order, which must not change the link of the sum.
        dict(type='SumLoss', losses=dict(spa=dict(type='SPALoss'), bce=dict(type='BCELoss'))),
        dict(
            type='SumLoss',
            losses=dict(lpr=dict(type='LabelPairRegularizer'), bce=dict(type='BCELoss', link=dict(type='PlattLink'))),
        ),
    ],
)
def test_the_new_config_and_state_give_the_fitted_loss(config, method):
    logits, targets = data()
    place = LossPlace(LOSSES.build(config), 'head.loss_module.', config)
    before = place.module.logit_probabilities(logits)
    calibration = fit_link(place, method, logits, targets)
    assert calibration.after.nll < calibration.before.nll
    assert calibration.before.nll == pytest.approx(
        torch.nn.functional.binary_cross_entropy_with_logits(before, targets).item(), rel=1e-5
    )
    written = Config(dict(loss=calibration.loss_config)).pretty_text
    calibration = calibration._replace(loss_config=Config.fromstring(written, '.py').loss)
    loss = rebuilt(place, calibration)
    torch.testing.assert_close(loss.probabilities(logits), place.module.probabilities(logits))


def test_a_link_that_only_its_loss_can_name_is_written_out():
    logits, targets = data()
    parameters = dict(gamma_positive=1.0, gamma_negative=3.0, margin=0.0)
    loss = AsymmetricLoss(**parameters, link=PhiLink(**parameters))
    place = LossPlace(loss, 'head.loss_module.', dict(type='AsymmetricLoss', **parameters, link='phi'))
    calibration = fit_link(place, 'temperature', logits, targets)
    assert calibration.loss_config['link']['base'] == dict(type='mmml_losses.PhiLink', **parameters, alpha=0.5)
    torch.testing.assert_close(rebuilt(place, calibration).probabilities(logits), loss.probabilities(logits))


def test_one_class_is_enough():
    logits, targets = data(classes=1)
    for method in METHODS:
        place = LossPlace(BCELoss(), 'head.loss_module.', dict(type='BCELoss'))
        calibration = fit_link(place, method, logits, targets)
        assert calibration.after.nll < calibration.before.nll


def test_classes_without_both_kinds_of_labels_are_mentioned():
    logits, targets = data()
    targets[:, 1] = 0
    place = LossPlace(BCELoss(), 'head.loss_module.', dict(type='BCELoss'))
    summary = fit_link(place, 'vector', logits, targets).summary
    assert 'as before for 1 classes without positive or without negative labels' in summary


@pytest.mark.parametrize(
    ('value', 'message'),
    [(-1, 'targets must hold known labels'), (0, 'positive and negative labels'), (0.3, 'labels must be 1')],
)
def test_labels_that_cannot_be_fitted_are_one_clear_error(value, message):
    logits, _ = data()
    place = LossPlace(SumLoss(dict(spa=SPALoss())), 'head.loss_module.', dict(type='SumLoss'))
    with pytest.raises(UsageError, match=message):
        fit_link(place, 'temperature', logits, torch.full_like(logits, value))


def test_a_loss_that_the_config_leaves_to_the_head_is_found():
    head = dict(type='mmml_losses.MultiLabelHead', num_classes=3, in_channels=84)
    cfg = Config(dict(model=dict(type='ImageClassifier', backbone=dict(type='LeNet5'), head=head)))
    model = MODELS.build(cfg.model)
    place = find_loss_place(cfg, model)
    assert place == (model.head.loss_module, 'head.loss_module.', dict(type='mmml_losses.BCELoss'))


def test_a_model_without_a_classification_loss_is_rejected():
    with pytest.raises(UsageError, match='must have a loss of mmml_losses, whose link can be fitted; none was found'):
        find_loss_place(Config(dict(model=dict(type='GAN'))), torch.nn.Identity())


class Model(torch.nn.Module):
    """Classifier that returns its input."""

    def data_preprocessor(self, batch, training):
        return batch

    def forward(self, inputs, data_samples, mode):
        assert mode == 'tensor'
        return inputs


@pytest.mark.parametrize(
    ('inputs', 'samples', 'message'),
    [
        (torch.zeros(1, 3), [DataSample()], 'hold neither gt_score nor gt_label'),
        (torch.zeros(1, 3), None, 'hold neither gt_score nor gt_label'),
        ([torch.zeros(1, 3)], [DataSample().set_gt_label([0])], 'must be a classifier.*, Model gave others'),
    ],
)
def test_data_and_models_of_another_kind_are_rejected(inputs, samples, message):
    with pytest.raises(UsageError, match=message):
        collect_logits(Model(), [dict(inputs=inputs, data_samples=samples)])

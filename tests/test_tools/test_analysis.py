"""Test the scripts of tools/analysis as a user calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from mmml_losses.cli import runs as command_line
from mmml_losses.evaluation import Predictions, label_recovery, load_predictions, save_predictions
from mmml_losses.evaluation.functional.detection import detection_columns
from mmml_losses.procedures.sweep import train_point
from mmml_losses.utils.errors import UsageError
from mmml_losses.visualization import read_metrics
from tests.helpers.few_features import feature_options, write_features
from tests.helpers.tools import run_tool

ROOT = Path(__file__).resolve().parents[2]
ANALYSIS = ROOT / 'tools' / 'analysis'
PICTURES_OF_RUNS = {
    'reliability': ['--num-bins', '5', '--binning', 'mass'],
    'probability_histogram': ['--num-bins', '5'],
    'class_ap': [],
    'retrieval_sheet': ['--query', 'cat, -dog', '--query', 'dog', '--top', '3'],
    'examples': ['--number', '2', '--num-labels', '3'],
    'retrieval_curve': ['--max-conditions', '2'],
}


@pytest.fixture
def runs(tmp_path):
    """Write two runs on the same data, one as a file and one in a folder."""
    rng = np.random.default_rng(0)
    labels = (rng.random((20, 3)) < 0.5).astype(np.int8)
    image = tmp_path / 'image.png'
    Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(image)
    for name in ('first.npz', 'second/predictions.npz'):
        scores = np.clip(0.4 * labels + 0.6 * rng.random(labels.shape), 0, 1)
        save_predictions(tmp_path / name, Predictions(scores, labels, ('cat', 'dog', 'cow'), [str(image)] * 20))
    return [str(tmp_path / 'first.npz'), f'two={tmp_path / "second"}']


@pytest.fixture
def call(capsys):
    """Return a function that calls a script in this process and returns its output."""

    def run(name, *arguments):
        run_tool(f'analysis/{name}.py', *arguments)
        return capsys.readouterr().out

    return run


def assert_is_picture(path):
    if path.suffix == '.png':
        with Image.open(path) as image:
            image.verify()
            assert image.format == 'PNG'
            assert min(image.size) > 200
    else:
        assert ElementTree.parse(path).getroot().tag.endswith('svg')


def test_every_script_is_tested():
    of_other_things = {'loss_curves', 'margins', 'label_recovery', 'metric_curve', 'co_occurrence', 'sweep'}
    tested = {*PICTURES_OF_RUNS, *of_other_things}
    assert {file.stem for file in ANALYSIS.glob('*.py')} == tested


@pytest.mark.parametrize('suffix', ['.png', '.svg'])
@pytest.mark.parametrize('name', PICTURES_OF_RUNS)
def test_pictures_of_runs(call, runs, tmp_path, name, suffix):
    out = tmp_path / 'new folder' / f'picture{suffix}'
    printed = call(name, *runs, *PICTURES_OF_RUNS[name], '--out', out, '--title', 'Two runs')
    assert f'wrote {out}' in printed
    assert_is_picture(out)


def test_reliability_of_detectors_and_of_nothing_else(call, runs, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 2, (20, 32)).astype(np.int8)
    predictions = Predictions(rng.random(labels.shape), labels, detection_columns(32))
    file = tmp_path / 'detector.npz'
    save_predictions(file, predictions)
    call('reliability', file, '--out', tmp_path / 'picture.svg')
    assert_is_picture(tmp_path / 'picture.svg')
    save_predictions(tmp_path / 'blind.npz', Predictions(np.zeros((2, 0)), np.zeros((2, 0))))
    with pytest.raises(SystemExit, match="'blind' has no detection that counts: there is nothing to measure"):
        call('reliability', tmp_path / 'blind.npz', '--out', tmp_path / 'other.svg')
    with pytest.raises(SystemExit, match='runs must be all of classifiers or all of detectors, got both'):
        call('reliability', file, *runs, '--out', tmp_path / 'other.svg')
    for name in ('class_ap', 'probability_histogram'):
        with pytest.raises(SystemExit, match="'detector' must be the run of a classifier, got detections"):
            call(name, file, '--out', tmp_path / 'other.svg')
    assert not (tmp_path / 'other.svg').exists()


@pytest.mark.parametrize('suffix', ['.png', '.svg'])
def test_loss_curves(call, tmp_path, suffix):
    out = tmp_path / f'losses{suffix}'
    losses = ['spa', 'HillLoss', 'ASL=AsymmetricLoss(gamma_negative=4, margin=0.05)']
    call('loss_curves', *losses, '--show', 'gradient', 'link', '--against', 'logit', '--out', out)
    assert_is_picture(out)


@pytest.mark.parametrize(
    ('losses', 'message'),
    [
        (['HilLoss'], "'HilLoss' is not a loss: did you mean 'HillLoss'"),
        (['HillLoss(lamb=)'], 'a loss must be a name with arguments'),
        (['HillLoss(power=2)'], 'HillLoss takes .* got power'),
        (['spa_lpr'], 'got LabelPairRegularizer in SumLoss: draw the parts'),
        (['nowhere.py'], 'the file nowhere.py does not exist'),
        (['a=BCELoss', 'a=HillLoss'], "two curves are called 'a'"),
    ],
)
def test_losses_that_cannot_be_drawn(call, tmp_path, losses, message):
    with pytest.raises(SystemExit, match=message):
        call('loss_curves', *losses, '--out', tmp_path / 'losses.png')
    assert list(tmp_path.iterdir()) == []


def test_label_recovery(call, tmp_path):
    log = tmp_path / 'training' / '20260101_000000' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    record = {'label_recovery/precision': 80.0, 'label_recovery/recall': 20.0, 'label_recovery/NPV': 90.0, 'step': 1}
    log.write_text(json.dumps(record) + '\n')
    for arguments in ([], ['--quantity', 'NPV']):
        call('label_recovery', f'SPLC={tmp_path / "training"}', *arguments, '--out', tmp_path / 'recovery.svg')
        assert_is_picture(tmp_path / 'recovery.svg')
    with pytest.raises(SystemExit, match=r"quantities must be some of \['NPV', 'precision', 'recall'\], got \['mAP'\]"):
        call('label_recovery', tmp_path / 'training', '--quantity', 'mAP', '--out', tmp_path / 'other.png')
    with pytest.raises(SystemExit, match=r'has no log of label recovery.*LabelRecoveryHook'):
        call('label_recovery', tmp_path, '--out', tmp_path / 'other.png')
    assert not (tmp_path / 'other.png').exists()


def test_class_ap_by_frequencies_and_given_groups(call, runs, tmp_path):
    out = tmp_path / 'classes.svg'
    frequencies, groups = tmp_path / 'frequencies.json', tmp_path / 'groups.json'
    frequencies.write_text('{"class_frequencies": [300, 50, 7], "num_samples": 400}')
    groups.write_text('{"animals": [0, 1, 2], "pets": [0, 1]}')
    call('class_ap', *runs, '--frequencies', frequencies, '--out', out)
    call('class_ap', *runs, '--groups', groups, '--out', out)
    groups.write_text('[1, 2]')
    with pytest.raises(SystemExit, match=r'groups.json cannot be used: it must hold lists'):
        call('class_ap', *runs, '--groups', groups, '--out', out)
    frequencies.write_text('[1, 2]')
    with pytest.raises(SystemExit, match='entry for each of 3 classes, got 2'):
        call('class_ap', *runs, '--frequencies', frequencies, '--out', out)
    with pytest.raises(SystemExit, match=r'nowhere\.json cannot be read: No such file'):
        call('class_ap', *runs, '--frequencies', tmp_path / 'nowhere.json', '--out', out)


@pytest.fixture(scope='module')
def training(tmp_path_factory):
    """Train on single positives for two epochs; return the config, its options, the work folder and a checkpoint."""
    folder = tmp_path_factory.mktemp('training')
    config = folder / 'single.py'
    config.write_text(
        f"_base_ = '{ROOT / 'configs' / 'bce_features.py'}'\n"
        f"data = dict(_base_.train_dataloader.dataset, ann_file='{write_features(folder / 'features.npz')}')\n"
        "train_dataloader = dict(dataset=dict(_delete_=True, type='mmml_losses.SinglePositive', dataset=data))\n"
    )
    options = feature_options(folder / 'features.npz', max_epochs=2) | {'train_cfg.val_interval': 1}
    del options['train_dataloader.dataset.ann_file']
    options = ['--cfg-options', *(f'{key}={value}' for key, value in options.items())]
    recovery = ['--metric', 'MissingLabelRecovery', 'threshold=0.3', 'fully_labelled=True']
    hook = ['--hook', 'LabelRecoveryHook', 'threshold=0.3']
    run_tool('train.py', config, '--work-dir', folder / 'run', *recovery, *hook, *options)
    return config, options, folder / 'run', folder / 'run' / 'epoch_2.pth'


def test_metrics_of_the_test_set_are_drawn_as_the_training_logged_them(call, training, tmp_path):
    config, options, folder, checkpoint = training
    out = tmp_path / 'curves.svg'
    call('metric_curve', f'BCE={folder}', '--metric', 'missing-label/PPV', 'missing-label/NPV', '--out', out)
    assert_is_picture(out)
    run_tool('test.py', config, checkpoint, '--work-dir', tmp_path, '--out', tmp_path / 'test.npz', *options)
    run = load_predictions(tmp_path / 'test.npz')
    found = label_recovery(np.zeros_like(run.labels), run.labels, run.scores, 0.3)
    curves = read_metrics(folder)
    assert list(curves['missing-label/NPV']) == [1, 2]
    assert curves['missing-label/PPV'][2] == pytest.approx(100 * found.ppv)
    assert curves['missing-label/NPV'][2] == pytest.approx(100 * found.npv)
    with pytest.raises(SystemExit, match=r"no run logged 'PPV', they have label_recovery/NPV, .*missing-label/PPV"):
        call('metric_curve', folder, '--metric', 'PPV', '--out', out)


def test_pseudo_labels_of_a_trained_model_are_bands(call, training, tmp_path):
    config, options, folder, checkpoint = training
    arguments = (config, checkpoint, '--work-dir', tmp_path, '--dataloader', 'train', '--out', tmp_path / 'train.npz')
    run_tool('test.py', *arguments, *options)
    run = load_predictions(tmp_path / 'train.npz')
    with np.load(config.parent / 'features.npz') as arrays:
        np.testing.assert_array_equal(run.true_labels, arrays['train_labels'])
    assert (run.labels.sum(axis=1) == (run.true_labels.sum(axis=1) > 0)).all()
    out = tmp_path / 'recovery.svg'
    arguments = ['--pseudo-labels', tmp_path / 'train.npz', '--thresholds', '0.4', '0.6', '--out', out]
    call('label_recovery', f'BCE={folder}', *arguments)
    assert_is_picture(out)
    run_tool('test.py', config, checkpoint, '--work-dir', tmp_path, '--out', tmp_path / 'test.npz', *options)
    with pytest.raises(SystemExit, match=r'has no true labels; .* --dataloader train --out FILE\.npz'):
        call('label_recovery', folder, '--pseudo-labels', tmp_path / 'test.npz', '--out', out)


def test_examples_are_found_by_name_and_index(call, runs, tmp_path):
    out = tmp_path / 'examples.svg'
    call('examples', *runs, '--image', 'image.png', '3', '--out', out)
    assert_is_picture(out)
    with pytest.raises(SystemExit, match="--image: 'other' is neither the name of an image nor an index"):
        call('examples', *runs, '--image', 'other', '--out', out)


def test_losses_by_margin(call, tmp_path):
    losses = ["T 1=TwoWayLoss(way='sample', positive_temperature=1.0)", 'two_way']
    call('margins', *losses, '--num-positives', '2', '--out', tmp_path / 'margins.png')
    assert_is_picture(tmp_path / 'margins.png')
    with pytest.raises(SystemExit, match='loss must compare the labels of a sample, got BCELoss'):
        call('margins', 'bce', '--out', tmp_path / 'other.png')


def test_co_occurrence_of_a_training_set(call, training, tmp_path):
    config, options, *_ = training
    call('co_occurrence', config, '--out', tmp_path / 'pairs.svg', *options)
    assert_is_picture(tmp_path / 'pairs.svg')
    arguments = ['--dataloader', 'test', '--classes', 'class 1', 'class 3', '--out', tmp_path / 'two.png', *options]
    call('co_occurrence', config, *arguments)
    assert_is_picture(tmp_path / 'two.png')
    with pytest.raises(SystemExit, match="unknown class 'clas 3' did you mean 'class 3'"):
        call('co_occurrence', config, '--classes', 'clas 3', '--out', tmp_path / 'other.png', *options)


def test_a_sweep_trains_each_point_once(call, training, tmp_path, monkeypatch):
    config, options, *_ = training
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    rates = ['--grid', 'optim_wrapper.optimizer.lr', '0.1', '0.001']
    arguments = [config, *rates, '--work-dir', tmp_path / 'sweep', '--out', tmp_path / 'sweep.svg', '--loss', 'hill']
    printed = call('sweep', *arguments, *options)
    assert_is_picture(tmp_path / 'sweep.svg')
    folders = [tmp_path / 'sweep' / f'optim_wrapper.optimizer.lr={rate}' for rate in ('0.1', '0.001')]
    logged = [read_metrics(folder)['multi-label/mAP@class'] for folder in folders]
    assert all(len(curve) == 2 for curve in logged)
    for rate, curve in zip(('0.1', '0.001'), logged, strict=True):
        assert f'optim_wrapper.optimizer.lr={rate}: multi-label/mAP@class {curve[2]:.4f}' in printed
    assert logged[0][2] != logged[1][2]
    assert 'HillLoss' in next(folders[0].glob('*/vis_data/config.py')).read_text()
    # A second call takes no step, whatever it draws.
    monkeypatch.setattr('subprocess.run', pytest.fail)
    call('sweep', *arguments, '--result', 'multi-label/ACE', *options)
    with pytest.raises(SystemExit, match=r"--result: .*lr=0\.1 has no 'mAP' in its log, but .*multi-label/mAP@class"):
        call('sweep', *arguments, '--result', 'mAP', *options)
    with pytest.raises(SystemExit, match=r'lr=0\.1 holds the training of another command, give another --work-dir'):
        call('sweep', *arguments, *options, 'train_cfg.max_epochs=1')


@pytest.mark.parametrize(
    ('grid', 'message'),
    [
        (['--grid', 'a', '1'], 'a key and at least two different values, got a 1'),
        (['--grid', 'a', '1', '1'], 'a key and at least two different values, got a 1 1'),
        (['--grid', 'a=1', '2', '3'], 'a key and at least two different values, got a=1 2 3'),
        (['--grid', 'a', '1', '2'] * 2, 'one or two different keys, got a, a'),
    ],
)
def test_a_sweep_needs_keys_and_values(call, grid, message, tmp_path):
    with pytest.raises(SystemExit, match=f'--grid must .*{message}'):
        call('sweep', 'config.py', *grid, '--work-dir', tmp_path)


def test_a_point_that_fails_ends_a_sweep_and_is_trained_again(tmp_path):
    marker = tmp_path / 'ready'
    script = f'import pathlib, sys; sys.exit(0 if pathlib.Path({str(marker)!r}).exists() else 3)'
    command = [sys.executable, '-c', script]
    with pytest.raises(UsageError, match=r'the training in .*point ended with exit code 3'):
        train_point(command, tmp_path / 'point')
    marker.touch()
    train_point(command, tmp_path / 'point')
    marker.unlink()
    train_point(command, tmp_path / 'point')  # has finished


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['nowhere'], r'nowhere/predictions.npz does not exist; .* tools/test.py CONFIG CHECKPOINT --out nowhere/pred'),
        (['a=nowhere.npz'], 'nowhere.npz does not exist; this makes it'),
        (['{first}', '{first}'], "two runs are called 'first': name them apart as NAME=PATH"),
        (['{text}'], 'must be an .npz file of predictions or a work folder'),
        (['{broken}'], 'broken.npz.* is not a predictions file'),
        (['{first}', '--num-bins', '0'], 'first: num_bins must be'),
        (['{unknown}'], "'unknown' has no known label: there is nothing to measure"),
        (['{first}', '--out', '{text}/picture.png'], r'text/picture.png cannot be written: '),
        (['name='], "nothing follows the name 'name='"),
    ],
)
def test_bad_calls_end_with_one_sentence(call, runs, tmp_path, arguments, message):
    files = {name: tmp_path / name for name in ('text', 'broken.npz')}
    for file in files.values():
        file.write_text('neither')
    save_predictions(tmp_path / 'unknown.npz', Predictions(np.full((2, 3), 0.5), np.full((2, 3), -1)))
    places = dict(first=runs[0], text=files['text'], broken=files['broken.npz'], unknown=tmp_path / 'unknown.npz')
    with pytest.raises(SystemExit, match=message):
        call('reliability', *(argument.format(**places) for argument in arguments))


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--out', 'picture.pdf'], 'must end with one of .png, .svg, got'),
        (['--dpi', '0'], 'must be a whole number of at least 1, got 0'),
    ],
)
def test_bad_picture_arguments_end_before_the_work(call, capsys, arguments, message):
    with pytest.raises(SystemExit):
        call('retrieval_curve', 'nowhere.npz', *arguments)
    assert message in capsys.readouterr().err


def test_limits_of_groups_need_frequencies(call, runs, tmp_path, capsys):
    with pytest.raises(SystemExit, match='--head-from and --medium-from need --frequencies'):
        call('class_ap', *runs, '--head-from', '500', '--out', tmp_path / 'classes.svg')
    with pytest.raises(SystemExit):
        call('class_ap', *runs, '--head-from', '500', '--groups', 'groups.json', '--out', tmp_path / 'classes.svg')
    assert '--groups defines the groups' in capsys.readouterr().err


def test_unknown_classes_of_queries_are_named(call, runs, tmp_path):
    with pytest.raises(SystemExit, match="unknown class 'dogg': did you mean 'dog'"):
        call('retrieval_sheet', *runs, '--query', 'dogg', '--out', tmp_path / 'sheet.png')


def test_runs_name_themselves_by_their_folder_or_file(tmp_path):
    (tmp_path / 'lr=0.1').mkdir()
    names = command_line.split_names(['work_dirs/spa', 'work_dirs/asl/predictions.npz', 'bce.npz', 'x=a=b'])
    assert names == {
        'spa': 'work_dirs/spa',
        'asl': 'work_dirs/asl/predictions.npz',
        'bce': 'bce.npz',
        'x': 'a=b',
    }
    # A name that exists as a path is a path.
    assert list(command_line.split_names([str(tmp_path / 'lr=0.1')])) == ['lr=0.1']


def test_a_script_fails_without_a_traceback(tmp_path):
    command = [sys.executable, '-W', 'ignore', str(ANALYSIS / 'reliability.py'), 'nowhere']
    environment = {**os.environ, 'PYTHONPATH': str(ANALYSIS.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith('nowhere/predictions.npz does not exist')
    assert 'Traceback' not in done.stderr

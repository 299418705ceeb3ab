"""Test that the job of the quickstart shows progress, resumes after a kill, and reuses finished runs."""

import importlib.util
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mmml_losses.evaluation import calibration_errors, load_predictions, mean_average_precision, reliability_bins

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = [
    'train_cfg.max_epochs=3',
    'train_dataloader.batch_size=16',
    'default_hooks.logger.interval=2',
    *(f'{split}_dataloader.dataset.indices=64' for split in ('train', 'val', 'test')),
]


def start(work_dir, options=OPTIONS):
    command = [sys.executable, '-W', 'ignore', ROOT / 'tools' / 'quickstart_job.py', '--work-dir', work_dir]
    return subprocess.Popen(
        [*map(str, command), *(['--cfg-options', *options] if options else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Tests in the background of a shell ignore the signal, and so would their child processes.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def load_job():
    spec = importlib.util.spec_from_file_location('quickstart_job', ROOT / 'tools' / 'quickstart_job.py')
    module = importlib.util.module_from_spec(spec)
    sys.modules['quickstart_job'] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def finish(process):
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope='module')
def killed(tmp_path_factory):
    """Kill a quickstart after a training has written a checkpoint, and return its folder."""
    work_dir = tmp_path_factory.mktemp('quickstart')
    process = start(work_dir)
    for line in process.stdout:
        if 'epoch 2' in line:
            process.send_signal(signal.SIGINT)
            break
    process.communicate()
    assert process.returncode == 130
    assert not (work_dir / 'report.html').exists()
    return work_dir


@pytest.fixture(scope='module')
def resumed(killed):
    return killed, finish(start(killed))


def test_a_killed_quickstart_resumes(resumed):
    work_dir, output = resumed
    logs = ''.join(log.read_text() for log in work_dir.glob('*.train.log'))
    assert 'resumed epoch: 1' in logs
    for name in ('SPA + LPR', 'ASL', 'BCE'):
        assert f'[{name}] trained and tested' in output
    assert 'resumes from its last checkpoint' in output
    assert 'left' in output  # the progress
    assert 'mAP@sample' in output  # the table
    page = (work_dir / 'report.html').read_text()
    assert all(name in page for name in ('SPA + LPR', 'ASL', 'BCE', 'mAP@class', 'mAP@sample', 'ACE', 'MCE', '3 and 7'))
    assert page.count('src="data:image/png;base64,') == 7  # four of the runs, and one for each query


def test_a_second_call_reuses_what_is_there(resumed):
    work_dir, _ = resumed
    output = finish(start(work_dir))
    assert output.count('already finished') == 3
    assert 'epoch' not in output


def test_a_run_of_other_code_is_trained_again(resumed):
    work_dir, _ = resumed
    (work_dir / 'bce_digits' / 'fingerprint.txt').write_text('of other code')
    output = finish(start(work_dir))
    assert 'was made by other code, configs or versions' in output
    assert output.count('already finished') == 2
    assert '[BCE] trained and tested' in output
    assert len(list(work_dir.glob('bce_digits.*/predictions.npz'))) == 1  # kept aside


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / 'spa_lpr_digits').mkdir()
    (tmp_path / 'spa_lpr_digits' / 'thesis.txt').write_text('years of work')
    process = start(tmp_path)
    output = process.communicate()[0]
    assert process.returncode == 1
    assert 'spa_lpr_digits was made by something else' in output
    assert (tmp_path / 'spa_lpr_digits' / 'thesis.txt').is_file()


def test_a_failing_training_is_shown_with_the_end_of_its_log(tmp_path):
    process = start(tmp_path, [*OPTIONS, 'model.backbone.type=NoSuchBackbone'])
    output = process.communicate()[0]
    assert process.returncode == 1
    assert 'train.py failed; the whole output is in' in output
    assert 'NoSuchBackbone' in output
    assert 'Traceback' not in output.split('train.py failed')[1]


def test_a_failure_does_not_wait_for_the_runs_before_it(tmp_path):
    job_module = load_job()
    stopped = threading.Event()

    class SlowThenBroken(job_module.Job):
        def train_and_test(self, name, config):
            if name == 'ASL':
                raise RuntimeError('ASL broke')
            assert stopped.wait(30), 'nobody was told to stop'

        def stop(self):
            stopped.set()

    with pytest.raises(RuntimeError, match='ASL broke'):
        job_module.train_all(SlowThenBroken(tmp_path, 0, []))


@pytest.mark.slow
def test_the_report_shows_what_the_paper_claims(tmp_path):
    finish(start(tmp_path, []))
    runs = {
        name: load_predictions(tmp_path / f'{name}_digits' / 'predictions.npz') for name in ('spa_lpr', 'asl', 'bce')
    }
    ace = {name: calibration_errors(reliability_bins(run.scores, run.labels)).ace for name, run in runs.items()}
    mean_ap = {name: mean_average_precision(run.scores, run.labels).value for name, run in runs.items()}
    assert ace['asl'] > 0.15
    assert ace['spa_lpr'] < 0.04
    assert min(mean_ap['asl'], mean_ap['spa_lpr']) > mean_ap['bce'] > 0.7

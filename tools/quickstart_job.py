"""Train three losses on DigitScenes and compare them in a report: the job of ``quickstart.py`` inside its environment.

Finished trainings are reused and interrupted ones resumed. Trainings of other code or configs are repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import mmengine
import torch
from mmengine.runner import find_latest_checkpoint

import mmml_losses
from mmml_losses.datasets import make_digit_scenes
from mmml_losses.evaluation import (
    Predictions,
    calibration_errors,
    load_predictions,
    mean_average_precision,
    reliability_bins,
)
from mmml_losses.visualization import write_report

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / 'data' / 'digit_scenes'  # where configs/_base_/datasets/digit_scenes.py looks
RUNS = {'SPA + LPR': 'spa_lpr_digits', 'ASL': 'asl_digits', 'BCE': 'bce_digits'}
QUERIES = ('3 and 7, not 5', '1 and 4, not 0', '0 and 2, not 1, not 3')
PROGRESS = re.compile(r'Epoch\(train\)\s+\[(\d+)\]\[\s*(\d+)/(\d+)\].*?eta: (\S+).*?\bloss: (\S+)')


@dataclass
class Job:
    """Trainings and tests as child processes, with their progress on the screen; all of them stop together."""

    work_dir: Path
    lock: int
    cfg_options: list[str]
    children: list[subprocess.Popen] = field(default_factory=list)
    printing: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False

    def say(self, name: str, text: str) -> None:
        with self.printing:
            print(f'[{name}] {text}', flush=True)

    def train_and_test(self, name: str, config: str) -> Path:
        """Train and test one run, or resume it; return the path of its predictions file."""
        folder = self.work_dir / config
        predictions = folder / 'predictions.npz'
        self.put_aside_other_trainings(folder)
        if predictions.is_file():
            self.say(name, f'already finished: {shown(folder)}')
            return predictions
        config_file = ROOT / 'configs' / f'{config}.py'
        if (folder / 'last_checkpoint').is_file():
            self.say(name, 'resumes from its last checkpoint')
        options = ['--work-dir', folder, *(['--cfg-options', *self.cfg_options] if self.cfg_options else [])]
        self.call(name, 'train.py', config_file, '--resume', *options)
        checkpoint = find_latest_checkpoint(str(folder))
        self.call(name, 'test.py', config_file, checkpoint, '--out', predictions, *options)
        self.say(name, 'trained and tested')
        return predictions

    def put_aside_other_trainings(self, folder: Path) -> None:
        """Rename a run's folder if it is from other code, configs or options: resuming it would mix two trainings."""
        stamp = folder / 'fingerprint.txt'
        if folder.exists() and not stamp.is_file():
            raise RuntimeError(f'{shown(folder)} was made by something else: move it, or choose another --work-dir')
        if stamp.is_file() and stamp.read_text() != self.fingerprint:
            aside = folder.with_name(f'{folder.name}.{time.strftime("%Y%m%d_%H%M%S")}')
            folder.rename(aside)
            self.say(aside.name, 'was made by other code, configs or versions: it is kept, and trained again')
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that a training depends on: package, configs, options and versions."""
        versions = torch.__version__, mmengine.__version__
        digest = hashlib.sha256(repr((self.cfg_options, versions)).encode())
        for file in sorted(file for folder in ('configs', 'mmml_losses') for file in (ROOT / folder).rglob('*.py')):
            digest.update(f'{file.relative_to(ROOT)}\n'.encode())
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def call(self, name: str, tool: str, *arguments) -> None:
        """Run the script ``tool`` with one thread, its output in a log file and its progress on the screen."""
        if self.stopping:
            raise KeyboardInterrupt
        log = self.work_dir / f'{arguments[0].stem}.{Path(tool).stem}.log'
        child = subprocess.Popen(
            [sys.executable, '-W', 'ignore', str(ROOT / 'tools' / tool), *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONUNBUFFERED': '1'},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[self.lock],  # a training keeps the lock even if this process is killed
        )
        self.children.append(child)
        with log.open('a') as file:
            for line in child.stdout:
                file.write(line)
                if match := PROGRESS.search(line):
                    epoch, step, steps, left, loss = match.groups()
                    self.say(name, f'epoch {epoch}, step {step}/{steps}, loss {loss}, {left} left')
        code = child.wait()
        if self.stopping:
            raise KeyboardInterrupt
        if code != 0:
            tail = ''.join(log.read_text().splitlines(keepends=True)[-15:])
            raise RuntimeError(f'{tail}\n{name}: {tool} failed; the whole output is in {shown(log)}')

    def stop(self) -> None:
        self.stopping = True
        for child in self.children:
            if child.poll() is None:
                child.terminate()


def shown(path: Path) -> str:
    """Return a path as text, relative to the current folder if it is inside."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@contextlib.contextmanager
def locked(work_dir: Path):
    """Lock ``work_dir`` against a second call, and yield the file descriptor of the lock, which trainings inherit."""
    import fcntl

    work_dir.mkdir(parents=True, exist_ok=True)
    with (work_dir / '.lock').open('w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f'Another quickstart runs in {shown(work_dir)}: waiting for its end (Ctrl-C to stop waiting) ...')
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def train_all(job: Job) -> dict[str, Path]:
    """Run trainings in parallel with one thread each, which is fastest; return a dict from run to predictions file."""
    with ThreadPoolExecutor(max_workers=min(len(RUNS), os.cpu_count() or 1)) as pool:
        futures = {name: pool.submit(job.train_and_test, name, config) for name, config in RUNS.items()}
        try:
            finished, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in finished:
                future.result()  # raises a failure at once, not after the earlier runs
            return {name: future.result() for name, future in futures.items()}
        except BaseException:
            job.stop()
            raise


def facts() -> dict[str, str]:
    """Return a dict from name to value of facts about the runs, for the report."""
    modules = torch, mmengine, mmml_losses
    return {
        'Configs': ', '.join(f'configs/{config}.py' for config in RUNS.values()),
        'Runs': 'one training with one seed each: small differences may be chance',
        'Versions': ', '.join(f'{module.__name__} {module.__version__}' for module in modules),
    }


def print_table(runs: dict[str, Predictions]) -> None:
    print(f'{"":12}{"mAP@class":>12}{"mAP@sample":>12}{"ACE":>8}{"MCE":>8}')
    for name, run in runs.items():
        errors = calibration_errors(reliability_bins(run.scores, run.labels))
        by_class, by_sample = (
            mean_average_precision(run.scores, run.labels, by=by).value for by in ('class', 'sample')
        )
        print(f'{name:12}{by_class:12.1%}{by_sample:12.1%}{errors.ace:8.1%}{errors.mce:8.1%}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--work-dir', type=Path, default=ROOT / 'work_dirs' / 'quickstart')
    parser.add_argument('--cfg-options', nargs='+', default=[], metavar='KEY=VALUE', help='settings of all trainings')
    options = parser.parse_args()
    work_dir = options.work_dir.resolve()
    # A SIGTERM becomes an exception too, so that the trainings end with this process.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    started = time.monotonic()
    with locked(work_dir) as lock:
        make_digit_scenes(DATA)
        predictions = train_all(Job(work_dir, lock, options.cfg_options))
        runs = {name: load_predictions(path) for name, path in predictions.items()}
        title = 'SPA + LPR, ASL and BCE on DigitScenes'
        report = write_report(work_dir / 'report.html', runs, QUERIES, title=title, facts=facts())
    print_table(runs)
    print(f'Done, {time.monotonic() - started:.0f} s in this call. The report: {shown(report)}')


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except RuntimeError as error:
        sys.exit(str(error))

"""Make the virtual environments of ``quickstart.py`` and ``run_tests.py`` from the pinned sets in requirements/tested/.

Standard library only, because nothing else is installed yet. :func:`prepare` does nothing when the environment is
ready, and continues where an interrupted call stopped. An error that a user can fix is a :class:`SetupError`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTED = ROOT / 'requirements' / 'tested'
STACKS = ('openmmlab', 'onedl')
MMCV_SOURCES = {'openmmlab': 'mmcv', 'onedl': 'onedl-mmcv'}

# The package itself runs on 3.10, but half of the pinned set no longer has builds for it.
OLDEST_PYTHON = (3, 11)
# Measured with CPU builds of torch, rounded up; a CUDA build that does not fit is caught by DIAGNOSES.
GIGABYTES_NEEDED = {'lite': 3, 'full': 4}
GIGABYTES_FOR_TEMPORARY_FILES = 1
GIGABYTES_FOR_WHEELS = 0.1
HEARTBEAT_SECONDS = 20
STOP_GRACE_SECONDS = 10

# Patterns in the end of pip's log, each with advice. The first match counts: without a network pip also reports that it
# found no version of the package.
DIAGNOSES = (
    (r'No space left on device|Errno 28', 'the disk is full: free some space (or set TMPDIR to a larger disk)'),
    (r'Killed signal|fatal error: Killed', 'the compiler ran out of memory: set the environment variable MAX_JOBS=1'),
    (
        r'NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|NameResolutionError|Max retries exceeded'
        r'|Temporary failure in name resolution|Network is unreachable|Connection (refused|reset|aborted)',
        'pip could not reach its package index: check the network (or the proxy)',
    ),
    (
        r'No matching distribution found|Could not find a version|ResolutionImpossible',
        'pip found no build of a pinned package for this Python and machine: the set is tested with Python 3.11 on '
        'Linux, so pass such an interpreter as --python and a new directory as --venv',
    ),
)


class SetupError(Exception):
    """Failure that the user can fix. Its message is one sentence that tells how."""


@dataclass(frozen=True)
class Interpreter:
    """Properties of the Python that makes the virtual environment."""

    path: str
    version: tuple[int, int, int]
    include: str
    has_venv: bool

    @property
    def version_text(self) -> str:
        return '.'.join(map(str, self.version))


@dataclass(frozen=True)
class Environment:
    """Description of one virtual environment.

    Args:
        stack: ``openmmlab``, or ``onedl`` for the maintained forks with the same import names.
        compiled: Build mmcv with its operators and add mmdet; otherwise nothing is compiled.
        dev: Add the linter and the test runner.
        venv: Folder of the environment.
        python: Interpreter that makes the environment. None for that of an existing environment, else the running one.
    """

    stack: str
    compiled: bool
    dev: bool
    venv: Path
    python: str | None = None

    @property
    def flavour(self) -> str:
        return 'full' if self.compiled else 'lite'

    @property
    def kind(self) -> str:
        return f'{self.stack}-{self.flavour}'

    @property
    def executable(self) -> Path:
        return self.venv / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')

    @property
    def log(self) -> Path:
        return self.venv / 'setup.log'

    @property
    def stamp(self) -> Path:
        return self.venv / 'setup.json'

    @property
    def requirement_files(self) -> list[Path]:
        names = ['torch', 'base', self.kind]
        names += ['build'] if self.compiled else []
        names += ['dev'] if self.dev else []
        return [TESTED / f'{name}.txt' for name in names]


# ---------------------------------------------------------------------------------------------------- command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--python``, ``--venv`` and ``--stack``, the options that both scripts share."""
    parser.add_argument('--python', help='interpreter that makes the virtual environment (default: the running one)')
    parser.add_argument('--venv', type=Path, help='directory of the virtual environment (default: one per purpose)')
    parser.add_argument('--stack', choices=STACKS, default='openmmlab', help='onedl: the maintained forks')


def environment_from(options: argparse.Namespace, *, purpose: str, compiled: bool, dev: bool) -> Environment:
    """Return the :class:`Environment` for parsed options; without ``--venv``, ``purpose`` names its folder."""
    venv = (options.venv or default_venv(purpose, options.stack)).absolute()
    return Environment(stack=options.stack, compiled=compiled, dev=dev, venv=venv, python=options.python)


def default_venv(purpose: str, stack: str) -> Path:
    """Return the folder ``.venv-PURPOSE-STACK``, without an empty purpose (everyday use) and the default stack."""
    parts = ['.venv', purpose, '' if stack == 'openmmlab' else stack]
    return ROOT / '-'.join(part for part in parts if part)


@contextmanager
def clear_exits(when_interrupted: str):
    """In a ``with`` block, turn a SetupError into its message and exit code 1, an interruption into a hint and 130."""
    # A closed terminal or a cancelled CI job must stop pip and the compiler as Ctrl-C does.
    for name in ('SIGTERM', 'SIGHUP'):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _raise_interrupt)
    try:
        yield
    except SetupError as error:
        print(f'error: {error}', file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(f'\nInterrupted: {when_interrupted}', file=sys.stderr)
        sys.exit(130)


def _raise_interrupt(signum, frame):
    raise KeyboardInterrupt


# ------------------------------------------------------------------------------------------------------ preparation


def prepare(environment: Environment) -> None:
    """Make the environment, or finish it. Do nothing if it is ready."""
    interpreter = inspect_python(choose_python(environment))
    fingerprint = compute_fingerprint(environment, interpreter)
    stamp = read_stamp(environment)
    if stamp.get('fingerprint') == fingerprint and environment.executable.exists():
        return
    check_python(interpreter)
    check_venv(environment, interpreter, stamp)
    wheel = find_wheel(environment, interpreter)
    if environment.compiled and wheel is None:
        check_compiler(interpreter)
    check_disk(environment)

    environment.venv.mkdir(parents=True, exist_ok=True)
    write_stamp(environment, fingerprint=None)
    environment.log.write_text('')
    install(environment, interpreter, wheel)
    write_stamp(environment, fingerprint=fingerprint)


def install(environment: Environment, interpreter: Interpreter, wheel: Path | None) -> None:
    """Run the steps of the installation and print a line of progress for each; without a ``wheel``, compile mmcv."""
    steps = list_steps(environment, interpreter, wheel)
    start = time.monotonic()
    for number, (title, action) in enumerate(steps, start=1):
        say(f'[{number}/{len(steps)}] {title} ...')
        action()
    say(f'{display(environment.venv)} is ready after {time.monotonic() - start:.0f} s.')


def list_steps(environment: Environment, interpreter: Interpreter, wheel: Path | None) -> list[tuple[str, Callable]]:
    """Return the steps of the installation in order, as a list of (title, function without arguments)."""
    steps = [
        (
            f'making the virtual environment {display(environment.venv)} (Python {interpreter.version_text})',
            lambda: make_venv(environment, interpreter),
        ),
        (f'installing {describe("torch")}', lambda: pip_install_file(environment, 'torch')),
        ('installing the packages that both stacks share', lambda: pip_install_file(environment, 'base')),
    ]
    if environment.compiled:
        source = mmcv_requirement(environment)
        title = f'installing the cached build of {source}' if wheel else f'compiling {source}, which takes minutes'
        steps.append((title, lambda: install_mmcv(environment, interpreter, wheel)))
    steps.append((f'installing {describe(environment.kind)}', lambda: install_stack(environment)))
    if environment.dev:
        steps.append((f'installing {describe("dev")}', lambda: pip_install_file(environment, 'dev')))
    steps.append(('installing mmml_losses itself', lambda: install_project(environment)))
    return steps


def make_venv(environment: Environment, interpreter: Interpreter) -> None:
    # Without --clear: packages that an interrupted call installed stay, and venv repairs the rest.
    run_logged(environment, [interpreter.path, '-m', 'venv', environment.venv])


def pip_install_file(environment: Environment, name: str, *options: str) -> None:
    pip(environment, 'install', *options, *constraints(environment), '-r', TESTED / f'{name}.txt')


def install_stack(environment: Environment) -> None:
    # The pure-Python and the compiled onedl-mmcv have one name and version: pip's own wheel cache may hold either.
    options = ['--no-cache-dir'] if environment.kind == 'onedl-lite' else []
    pip_install_file(environment, environment.kind, *options)


def install_mmcv(environment: Environment, interpreter: Interpreter, wheel: Path | None) -> None:
    """Install compiled mmcv from the cached wheel; build the wheel if there is none."""
    wheel = wheel or build_wheel(environment, interpreter)
    # Forced: the same version built for another torch would pass as installed.
    pip(environment, 'install', '--no-deps', '--force-reinstall', wheel)


def install_project(environment: Environment) -> None:
    # Neither dependencies nor an isolated build: no pinned package may change.
    pip(environment, 'install', '--no-deps', '--no-build-isolation', '-e', ROOT)


# ------------------------------------------------------------------------------------------------- the wheel of mmcv


def wheel_cache() -> Path:
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'mmml_losses' / 'wheels'


def wheel_directory(environment: Environment, interpreter: Interpreter) -> Path:
    """Return the cache folder of compiled mmcv. It depends on torch, Python and the machine, not on the environment."""
    python_tag = 'cp{}{}'.format(*interpreter.version)
    torch_version = pinned_version('torch', 'torch')
    name = f'{environment.stack}-torch{torch_version}-{python_tag}-{platform.machine()}'
    return wheel_cache() / name


def mmcv_requirement(environment: Environment) -> str:
    """Return pip's requirement of the mmcv to compile, with its pinned version, such as ``mmcv==2.1.0``."""
    source = MMCV_SOURCES[environment.stack]
    return f'{source}=={pinned_version(f"{environment.stack}-full", source)}'


def find_wheel(environment: Environment, interpreter: Interpreter) -> Path | None:
    """Return the path of the cached wheel of the pinned mmcv; None if there is none."""
    pattern = mmcv_requirement(environment).replace('-', '_').replace('==', '-') + '-*.whl'
    return next(wheel_directory(environment, interpreter).glob(pattern), None)


def build_wheel(environment: Environment, interpreter: Interpreter) -> Path:
    """Compile mmcv next to the cache folder, move the complete wheel into it, and return the wheel's path."""
    directory = wheel_directory(environment, interpreter)
    directory.mkdir(parents=True, exist_ok=True)
    requirement = mmcv_requirement(environment)
    pip_install_file(environment, 'build')
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        # -v makes ninja's progress appear in the log. No cache and no ready wheel: either may be for another torch.
        options = ['-v', '--no-cache-dir', '--no-deps', '--no-build-isolation', '--no-binary', ':all:']
        pip(environment, 'wheel', *options, '--wheel-dir', scratch, requirement, extra_env=compile_variables())
        built = next(Path(scratch).glob('*.whl'))
        if built.name.endswith('-none-any.whl'):
            raise SetupError(f'{requirement} was built without operators; {display(environment.log)} has the reason')
        return built.replace(directory / built.name)


def compile_variables() -> dict[str, str]:
    """Return environment variables for mmcv's build: CPU operators, no debug symbols, by default one job per core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    return {
        'MMCV_WITH_OPS': '1',
        'FORCE_CUDA': '0',
        'CUDA_VISIBLE_DEVICES': '',  # with a visible GPU mmcv would need nvcc
        'CFLAGS': os.environ.get('CFLAGS', '-g0'),
        'MAX_JOBS': os.environ.get('MAX_JOBS', str(cores)),
    }


# ------------------------------------------------------------------------------------------- checks before installing


def choose_python(environment: Environment) -> str:
    """Return the path of the requested interpreter, else of the existing environment's, else of the running one."""
    if environment.python:
        return environment.python
    return str(environment.executable) if environment.executable.exists() else sys.executable


def inspect_python(path: str) -> Interpreter:
    """Run the interpreter at ``path`` and return its properties. This also works for versions that are too old."""
    question = (
        'import json, sys, sysconfig\n'
        'try:\n    import ensurepip, venv\n    has_venv = True\n'
        'except ImportError:\n    has_venv = False\n'
        'print(json.dumps([sys.executable, sys.version_info[:3], sysconfig.get_paths()["include"], has_venv]))'
    )
    try:
        answer = subprocess.run([path, '-c', question], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise SetupError(f'{path} is no Python that runs: pass the path of one as --python') from None
    executable, version, include, has_venv = json.loads(answer)
    return Interpreter(executable, tuple(version), include, has_venv)


def check_python(interpreter: Interpreter) -> None:
    if interpreter.version < OLDEST_PYTHON:
        needed = '.'.join(map(str, OLDEST_PYTHON))
        raise SetupError(
            f'{interpreter.path} is Python {interpreter.version_text}, but the pinned packages need {needed} or newer: '
            'pass such an interpreter as --python'
        )
    if not interpreter.has_venv:
        raise SetupError(
            f'{interpreter.path} cannot make virtual environments: install its venv package '
            '(Debian, Ubuntu: apt install python3-venv) or pass another interpreter as --python'
        )


def check_venv(environment: Environment, interpreter: Interpreter, stamp: dict) -> None:
    """Raise a SetupError if the folder holds something other than an environment of this kind, finished or not."""
    venv = display(environment.venv)
    if not environment.venv.exists() or not any(environment.venv.iterdir()):
        return
    configuration = environment.venv / 'pyvenv.cfg'
    if not stamp and not configuration.is_file():
        raise SetupError(f'{venv} exists and is no virtual environment: pass another directory as --venv')
    if stamp.get('kind', environment.kind) != environment.kind:
        raise SetupError(
            f'{venv} is for {stamp["kind"]}, which cannot share an environment with {environment.kind}: '
            'pass another directory as --venv'
        )
    if not stamp and any(environment.venv.glob('**/site-packages/*mmcv*.dist-info')):
        raise SetupError(f'{venv} has an mmcv that this script did not install: pass another directory as --venv')
    if environment.executable.is_symlink() and not environment.executable.exists():
        raise SetupError(f'{venv} was made by a Python that is gone: delete it or pass another directory as --venv')
    if environment.executable.exists():
        inside = inspect_python(str(environment.executable))
        if inside.version[:2] != interpreter.version[:2]:
            raise SetupError(
                f'{venv} was made by Python {inside.version_text}, not {interpreter.version_text}: '
                'delete it or pass another directory as --venv'
            )


def check_compiler(interpreter: Interpreter) -> None:
    """Raise a SetupError if the C++ compiler or the headers of Python are missing."""
    alternative = "or skip what needs compiling with run_tests.py's --fast"
    compiler = shlex.split(os.environ.get('CXX') or 'c++')[0]
    if shutil.which(compiler) is None:
        raise SetupError(
            f'compiling mmcv needs a C++ compiler and there is no {compiler}: install one '
            f'(Debian, Ubuntu: apt install build-essential), {alternative}'
        )
    if not Path(interpreter.include, 'Python.h').is_file():
        raise SetupError(
            f'compiling mmcv needs the headers of Python {interpreter.version_text} and Python.h is not in '
            f'{interpreter.include}: install them (Debian, Ubuntu: apt install python3-dev), '
            f'pass another interpreter as --python, {alternative}'
        )


def check_disk(environment: Environment) -> None:
    """Raise a SetupError if a disk has less free space than the packages still to be installed need."""
    still_to_install = GIGABYTES_NEEDED[environment.flavour] - directory_size(environment.venv) / 1e9
    needs = (
        (environment.venv, still_to_install, 'pass a directory on another disk as --venv'),
        (Path(tempfile.gettempdir()), GIGABYTES_FOR_TEMPORARY_FILES, 'set TMPDIR to a directory on another disk'),
        (wheel_cache(), GIGABYTES_FOR_WHEELS, 'set XDG_CACHE_HOME to a directory on another disk'),
    )
    for directory, needed, alternative in needs:
        free = shutil.disk_usage(existing_parent(directory)).free / 1e9
        if free < needed:
            raise SetupError(
                f'{display(directory)} needs {needed:.1f} GB and its disk has {free:.1f} GB free: '
                f'free some space or {alternative}'
            )


def directory_size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.glob('**/*')) if directory.exists() else 0


def existing_parent(path: Path) -> Path:
    path = path.absolute()
    return next(parent for parent in (path, *path.parents) if parent.exists())


# ------------------------------------------------------------------------------------------------------------ stamps


def compute_fingerprint(environment: Environment, interpreter: Interpreter) -> str:
    """Return the SHA-256, as text, of everything that determines an installed environment."""
    digest = hashlib.sha256()
    # The editable install stores the path of the project.
    digest.update(repr((environment.kind, interpreter.version[:2], str(ROOT))).encode())
    for path in [*environment.requirement_files, TESTED / 'constraints.txt', ROOT / 'setup.py']:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp(environment: Environment) -> dict:
    try:
        return json.loads(environment.stamp.read_text())
    except (OSError, ValueError):
        return {}


def write_stamp(environment: Environment, fingerprint: str | None) -> None:
    """Record the kind of the environment and its fingerprint, None until everything is installed."""
    partial = environment.stamp.with_suffix('.partial')
    partial.write_text(json.dumps({'kind': environment.kind, 'fingerprint': fingerprint}))
    partial.replace(environment.stamp)


# ------------------------------------------------------------------------------------------------- requirement files


def read_requirements(name: str) -> dict[str, str]:
    """Return a dict from package to version, read from ``requirements/tested/<name>.txt``."""
    lines = (line.split('#')[0].strip() for line in (TESTED / f'{name}.txt').read_text().splitlines())
    return dict(line.split('==') for line in lines if line)


def pinned_version(name: str, package: str) -> str:
    return read_requirements(name)[package]


def describe(name: str) -> str:
    return ', '.join(f'{package} {version}' for package, version in read_requirements(name).items())


def constraints(environment: Environment) -> list:
    """Return pip's arguments (``-c FILE``, …) with all pins, so that no step changes what an earlier one installed."""
    files = [*environment.requirement_files, TESTED / 'constraints.txt']
    return [argument for path in files for argument in ('-c', path)]


# --------------------------------------------------------------------------------------------------- running programs


def pip(environment: Environment, command: str, *arguments, extra_env: dict[str, str] | None = None) -> None:
    options = ['--disable-pip-version-check', '--no-input', '--progress-bar', 'off']
    run_logged(environment, [environment.executable, '-m', 'pip', command, *options, *arguments], extra_env)


def run_logged(environment: Environment, command: list, extra_env: dict[str, str] | None = None) -> None:
    """Run a command with its output in the log, print the elapsed time now and then, and explain a failure."""
    # Settings of the user's own pip and Python must not affect the environment.
    variables = {key: value for key, value in os.environ.items() if key not in ('PYTHONPATH', 'PYTHONHOME')}
    variables.update(PIP_USER='0', **(extra_env or {}))
    with environment.log.open('ab') as log:
        begin = log.tell()
        code = run(
            command, env=variables, output=log, heartbeat=lambda: compile_progress(read_from(environment.log, begin))
        )
    if code:
        raise SetupError(explain(environment, read_from(environment.log, begin)))


def run(command: list, env: dict[str, str] | None = None, output=None, heartbeat=None) -> int:
    """Run a command to its end and return its exit code. When interrupted, stop it and every process that it started.

    The command gets a session of its own, so that Ctrl-C reaches it only once, through this function.
    """
    command = [str(part) for part in command]
    stderr = subprocess.STDOUT if output else None
    start = time.monotonic()
    child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=output, stderr=stderr, start_new_session=True)
    try:
        while True:
            try:
                return child.wait(HEARTBEAT_SECONDS if heartbeat else None)
            except subprocess.TimeoutExpired:
                say(f'      {time.monotonic() - start:.0f} s{heartbeat()}')
    finally:
        stop(child)


def stop(child: subprocess.Popen) -> None:
    """End a child process and those it started: send SIGINT, then SIGTERM, then SIGKILL, until the child ends."""
    for name in ('SIGINT', 'SIGTERM', 'SIGKILL'):
        if child.poll() is not None:
            return
        if os.name == 'nt':
            child.terminate()
        else:
            os.killpg(child.pid, getattr(signal, name))
        try:
            child.wait(STOP_GRACE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue  # after a second Ctrl-C, send the next signal at once


def compile_progress(log: str) -> str:
    """Return the last ``[12/106]`` of ninja as ``', 12 of 106 files compiled'``; an empty text if there is none."""
    counts = re.findall(r'^\s*\[(\d+)/(\d+)\]', log, flags=re.MULTILINE)
    return ', {} of {} files compiled'.format(*counts[-1]) if counts else ''


def explain(environment: Environment, output: str) -> str:
    """Return one sentence that explains a failed command, followed by the end of the command's output."""
    tail = output.strip().splitlines()[-15:]
    recent = '\n'.join(output.splitlines()[-60:])
    reasons = (advice for pattern, advice in DIAGNOSES if re.search(pattern, recent))
    reason = next(reasons, f'a step failed, {display(environment.log)} holds all of its output')
    return f'{reason}; running the same command again continues from here.\n' + '\n'.join(
        f'    {line}' for line in tail
    )


def read_from(path: Path, begin: int) -> str:
    with path.open('rb') as file:
        file.seek(begin)
        return file.read().decode(errors='replace')


def display(path: Path) -> str:
    """Return a path as the user would type it: relative if it is inside the current folder."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def say(text: str) -> None:
    print(text, flush=True)

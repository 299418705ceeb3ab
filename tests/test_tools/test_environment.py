"""Test the set-up of environments, without a network, a compiler or an installation."""

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / 'tools'


def load_tool(name):
    """Import a script of tools/, which is not a package, as the other scripts there do."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TOOLS / f'{name}.py')
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


environment = load_tool('environment')
run_tests = load_tool('run_tests')

INTERPRETER = environment.Interpreter(sys.executable, (3, 11, 7), 'include', True)


@pytest.fixture
def lite(tmp_path):
    return environment.Environment(stack='openmmlab', compiled=False, dev=False, venv=tmp_path / 'venv')


@pytest.fixture
def full(tmp_path):
    return environment.Environment(stack='openmmlab', compiled=True, dev=True, venv=tmp_path / 'venv')


@pytest.fixture
def fake_install(monkeypatch):
    """Replace the installation by one that only makes the interpreter appear, and return the list of its calls."""
    calls = []

    def install(wanted, interpreter, wheel):
        calls.append(wanted.kind)
        wanted.executable.parent.mkdir(parents=True, exist_ok=True)
        if not wanted.executable.exists():
            wanted.executable.symlink_to(sys.executable)

    monkeypatch.setattr(environment, 'install', install)
    monkeypatch.setattr(environment, 'check_disk', lambda wanted: None)
    monkeypatch.setattr(environment, 'OLDEST_PYTHON', (3, 10))
    return calls


# ----------------------------------------------------------------------------------------------------------- stamps


def test_second_call_installs_nothing(lite, fake_install):
    environment.prepare(lite)
    environment.prepare(lite)
    assert fake_install == ['openmmlab-lite']


def test_interrupted_installation_is_continued(lite, fake_install, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(environment, 'install', interrupt)
        with pytest.raises(KeyboardInterrupt):
            environment.prepare(lite)
    environment.prepare(lite)
    assert fake_install == ['openmmlab-lite']


def test_changed_pins_install_again(lite, fake_install, monkeypatch, tmp_path):
    environment.prepare(lite)
    changed = shutil.copytree(environment.TESTED, tmp_path / 'tested')
    with (changed / 'base.txt').open('a') as file:
        file.write('tabulate==0.9.0\n')
    monkeypatch.setattr(environment, 'TESTED', changed)
    environment.prepare(lite)
    assert len(fake_install) == 2


def test_other_flavour_needs_another_directory(lite, full, fake_install, monkeypatch):
    monkeypatch.setattr(environment, 'check_compiler', lambda interpreter: None)
    environment.prepare(lite)
    with pytest.raises(
        environment.SetupError, match=r'openmmlab-lite.*openmmlab-full: pass another directory as --venv'
    ):
        environment.prepare(full)


def test_directory_of_something_else_is_left_alone(lite, fake_install):
    lite.venv.mkdir()
    (lite.venv / 'thesis.tex').touch()
    with pytest.raises(environment.SetupError, match='is no virtual environment'):
        environment.prepare(lite)
    assert [path.name for path in lite.venv.iterdir()] == ['thesis.tex']


def test_foreign_environment_with_mmcv_is_left_alone(lite, fake_install):
    site_packages = lite.venv / 'lib' / 'python3.11' / 'site-packages'
    (site_packages / 'mmcv-2.1.0.dist-info').mkdir(parents=True)
    (lite.venv / 'pyvenv.cfg').touch()
    with pytest.raises(environment.SetupError, match='an mmcv that this script did not install'):
        environment.prepare(lite)


def test_environments_have_separate_directories():
    purposes = [('', 'lite'), ('tests', 'full'), ('tests-fast', 'lite')]
    names = [environment.default_venv(purpose, stack).name for purpose, _ in purposes for stack in environment.STACKS]
    assert names == [
        '.venv',
        '.venv-onedl',
        '.venv-tests',
        '.venv-tests-onedl',
        '.venv-tests-fast',
        '.venv-tests-fast-onedl',
    ]


# ----------------------------------------------------------------------------------------------- sentences of failure


def test_old_python_is_named():
    with pytest.raises(environment.SetupError, match=r'is Python 3\.9\.18, .* 3\.11 or newer: .* --python'):
        environment.check_python(environment.Interpreter('python3.9', (3, 9, 18), 'include', True))


def test_python_without_venv_names_the_package():
    with pytest.raises(environment.SetupError, match='apt install python3-venv'):
        environment.check_python(environment.Interpreter('python3', (3, 11, 7), 'include', False))


def test_missing_interpreter_is_named():
    with pytest.raises(environment.SetupError, match='no-such-python is no Python that runs'):
        environment.inspect_python('no-such-python')


def test_inspection_describes_the_running_python():
    interpreter = environment.inspect_python(sys.executable)
    assert interpreter.version == sys.version_info[:3]


def test_missing_compiler_is_found_before_installing(full, fake_install, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setenv('CXX', 'no-such-compiler')
    with pytest.raises(environment.SetupError, match=r'there is no no-such-compiler: .* --fast'):
        environment.prepare(full)
    assert not full.venv.exists()


def test_kept_wheel_needs_no_compiler(full, fake_install, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setenv('CXX', 'no-such-compiler')
    directory = environment.wheel_directory(full, environment.inspect_python(sys.executable))
    directory.mkdir(parents=True)
    (directory / f'{environment.mmcv_requirement(full).replace("==", "-")}-cp311-cp311-linux_x86_64.whl').touch()
    environment.prepare(full)
    assert fake_install == ['openmmlab-full']


def test_missing_headers_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv('CXX', sys.executable)
    interpreter = environment.Interpreter(sys.executable, (3, 11, 7), str(tmp_path), True)
    with pytest.raises(environment.SetupError, match=r'headers of Python 3\.11\.7 .* python3-dev.* --python.* --fast'):
        environment.check_compiler(interpreter)


def test_full_disk_is_named(lite, monkeypatch):
    usage = namedtuple('usage', 'total used free')(10e9, 9e9, 1e9)
    monkeypatch.setattr(environment.shutil, 'disk_usage', lambda path: usage)
    with pytest.raises(environment.SetupError, match=r'needs 3\.0 GB and its disk has 1\.0 GB free: .* --venv'):
        environment.check_disk(lite)


@pytest.mark.parametrize(
    ('output', 'sentence'),
    [
        (
            'WARNING: Retrying ... NewConnectionError(...)\nERROR: No matching distribution found for torch',
            'the network',
        ),
        ('ERROR: Could not find a version that satisfies the requirement x==1', 'pass such an interpreter as --python'),
        ('OSError: [Errno 28] No space left on device', 'the disk is full'),
        ('c++: fatal error: Killed signal terminated program cc1plus', 'MAX_JOBS=1'),
        ('Segmentation fault', 'setup.log holds all'),
    ],
)
def test_failed_command_is_explained(lite, output, sentence):
    explanation = environment.explain(lite, output)
    assert sentence in explanation.splitlines()[0]
    assert 'running the same command again continues' in explanation
    assert output.splitlines()[-1] in explanation


def test_failed_command_shows_the_end_of_its_output(lite):
    lite.venv.mkdir()
    with pytest.raises(environment.SetupError) as error:
        environment.run_logged(lite, [sys.executable, '-c', 'print(*range(100), sep="\\n"); raise SystemExit(3)'])
    assert '    99' in str(error.value).splitlines()
    assert '    80' not in str(error.value).splitlines()


@pytest.mark.parametrize(('raised', 'code'), [(environment.SetupError('no disk'), 1), (KeyboardInterrupt(), 130)])
def test_exits_are_clear(raised, code, monkeypatch, capsys):
    monkeypatch.setattr(environment.signal, 'signal', lambda *arguments: None)
    with pytest.raises(SystemExit) as error, environment.clear_exits(when_interrupted='run it again'):
        raise raised
    assert error.value.code == code
    assert capsys.readouterr().err.strip() in ('error: no disk', 'Interrupted: run it again')


# ------------------------------------------------------------------------------------------- wheels, progress, pins


@pytest.mark.parametrize('stack', environment.STACKS)
def test_wheels_are_kept_per_stack_torch_python_and_machine(stack, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setattr(environment.platform, 'machine', lambda: 'x86_64')
    wanted = environment.Environment(stack=stack, compiled=True, dev=True, venv=tmp_path)
    torch_version = environment.pinned_version('torch', 'torch')
    directory = environment.wheel_directory(wanted, INTERPRETER)
    assert directory == tmp_path / 'mmml_losses' / 'wheels' / f'{stack}-torch{torch_version}-cp311-x86_64'


def test_progress_reads_the_last_count_of_ninja():
    assert environment.compile_progress('  [1/106] c++ a.cpp\n  [2/106] c++ b.cpp\n') == ', 2 of 106 files compiled'
    assert environment.compile_progress('Collecting mmcv') == ''


@pytest.mark.parametrize('path', sorted((ROOT / 'requirements' / 'tested').glob('*.txt')), ids=lambda path: path.stem)
def test_tested_sets_pin_every_version(path):
    pins = environment.read_requirements(path.stem)
    assert pins
    assert all(re.fullmatch(r'[\w.]+', version) for version in pins.values())


@pytest.mark.parametrize('stack', environment.STACKS)
@pytest.mark.parametrize('compiled', [False, True])
def test_pins_of_an_environment_agree(stack, compiled, tmp_path):
    wanted = environment.Environment(stack=stack, compiled=compiled, dev=True, venv=tmp_path)
    seen = {}
    for path in [*wanted.requirement_files, environment.TESTED / 'constraints.txt']:
        for package, version in environment.read_requirements(path.stem).items():
            assert seen.setdefault(package, version) == version, package


def test_plugin_itself_moves_no_package_of_the_stack():
    lines = (ROOT / 'requirements' / 'runtime.txt').read_text().splitlines()
    names = [line for line in lines if line and not line.startswith('#')]
    assert all(re.fullmatch(r'[a-z-]+', name) for name in names), 'no bounds: they could move an installed version'
    assert not [name for name in names if re.match(r'torch|mm|onedl|opencv', name)]


# --------------------------------------------------------------------------------------------- arguments for pytest


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        ([], []),
        (['-m', 'slow'], ['-m', 'slow']),
        (['-m', ''], ['-m', '']),
        (['--fast'], ['-m', '(not slow) and not needs_mmdet']),
        (['--fast', '-m', 'slow or gpu'], ['-m', '(slow or gpu) and not needs_mmdet']),
        (['--fast', '-m', ''], ['-m', 'not needs_mmdet']),
    ],
)
def test_marker_expressions_combine(arguments, expected):
    always = ['-n', '2', '--dist', 'loadfile']
    if '--fast' not in arguments:
        always.append('--fail-on-skip')
    assert run_tests.pytest_arguments(*run_tests.parse_arguments(arguments)) == always + expected


@pytest.mark.parametrize(
    ('arguments', 'processes'), [(['-n', '4'], '4'), (['-n0'], '0'), (['--pdb'], '0'), (['-n', '1', '--pdb'], '1')]
)
def test_number_of_processes_is_the_users(arguments, processes):
    assert run_tests.pytest_arguments(*run_tests.parse_arguments(arguments))[:2] == ['-n', processes]


def test_unknown_arguments_reach_pytest_in_order():
    arguments = ['tests/test_tools', '-k', 'pins and not wheel', '-vv', '--maxfail=1', '-x']
    assert run_tests.pytest_arguments(*run_tests.parse_arguments(['--stack', 'onedl', *arguments]))[5:] == arguments


def test_coverage_is_measured_on_request():
    assert '--cov' in run_tests.pytest_arguments(*run_tests.parse_arguments(['--coverage']))
    assert '--cov' not in run_tests.pytest_arguments(*run_tests.parse_arguments([]))


@pytest.mark.parametrize('options', [['--fail-on-skip'], []])
@pytest.mark.parametrize('processes', ['0', '1'])
def test_skip_fails_a_run_that_forbids_it(options, processes, tmp_path):
    file = tmp_path / 'test_one.py'
    file.write_text('import pytest\ndef test_kept(): pass\ndef test_left_out(): pytest.skip("no such package")\n')
    command = [sys.executable, '-m', 'pytest', '-p', 'tests.conftest', '-p', 'no:cacheprovider', '-n', processes]
    command += ['--rootdir', tmp_path, '-c', tmp_path / 'none.ini', *options, file]
    (tmp_path / 'none.ini').write_text('[pytest]\n')
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == bool(options), result.stdout + result.stderr
    assert ('test_left_out: Skipped: no such package' in result.stdout) == bool(options)


@pytest.mark.parametrize('codes', [(0, 0, 0, 0), (0, 0, 0, 5), (1, 0, 0, 0), (0, 0, 1, 0), (1, 1, 2, 2)])
def test_exit_code_is_that_of_the_tests_or_the_checks(codes, lite, monkeypatch):
    remaining = iter(codes)
    monkeypatch.setattr(run_tests, 'run', lambda command, env: next(remaining))
    assert run_tests.check(lite, []) == (codes[-1] or max(codes))


def test_relative_directory_means_the_users(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = argparse.Namespace(venv=Path('mine'), stack='onedl', python=None)
    wanted = environment.environment_from(options, purpose='', compiled=False, dev=False)
    assert wanted.venv == tmp_path / 'mine'


@pytest.mark.parametrize('script', ['quickstart.py', 'run_tests.py'])
def test_scripts_need_only_the_standard_library(script):
    command = [sys.executable, '-I', '-S', '-c', f'import sys, runpy; sys.path.insert(0, {str(TOOLS)!r})']
    command[-1] += f'; sys.argv = [{script!r}, "--help"]; runpy.run_path({str(TOOLS / script)!r}, run_name="__main__")'
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert '--stack {openmmlab,onedl}' in result.stdout

"""Lint the project, check its types and run its tests, in an environment that the first call makes.

    python tools/run_tests.py                  # everything: mmcv compiled from its sdist, mmdet
    python tools/run_tests.py --fast           # compile nothing, and deselect the tests that need mmdet
    python tools/run_tests.py --coverage       # report the lines that no test runs
    python tools/run_tests.py -k calibration   # other arguments go to pytest

Standard library only: it starts on a machine where nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from environment import Environment, add_arguments, clear_exits, environment_from, prepare, run, say

DEFAULT_MARKERS = 'not slow'  # the expression of addopts in pyproject.toml, which any -m replaces
DEBUGGERS = ('--pdb', '--trace')


def parse_arguments(arguments: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_arguments(parser)
    parser.add_argument('--fast', action='store_true', help='skip what needs compiled mmcv')
    parser.add_argument('--coverage', action='store_true', help='report the coverage of the package')
    parser.add_argument('-m', dest='markers', help="pytest's marker expression (default: 'not slow')")
    parser.add_argument('-n', '--numprocesses', dest='processes', help='test processes (default: 2)')
    return parser.parse_known_args(arguments)


def pytest_arguments(options: argparse.Namespace, extra: list[str]) -> list[str]:
    """Put the user's choices before ours, and deselect the tests that need mmdet where it is not installed."""
    # A file's tests share a process, because they share fixtures that train models. Debuggers need a single one.
    default_processes = '0' if any(name in extra for name in DEBUGGERS) else '2'
    arguments = ['-n', options.processes or default_processes, '--dist', 'loadfile']
    markers = options.markers
    if options.fast:
        wanted = DEFAULT_MARKERS if markers is None else markers
        markers = f'({wanted}) and not needs_mmdet' if wanted else 'not needs_mmdet'
    else:
        # Everything that a test may need is installed: a skipped one is a mistake.
        arguments.append('--fail-on-skip')
    if options.coverage:
        arguments += ['--cov', '--cov-report=term']
    if markers is not None:
        arguments += ['-m', markers]
    return arguments + extra


def check(environment: Environment, extra: list[str]) -> int:
    """Lint, check types and test, whatever each finds; return pytest's exit code, or 1 for the others alone."""
    variables = {**os.environ, 'OMP_NUM_THREADS': '1', 'MPLBACKEND': 'Agg'}
    codes = []
    for command in (['ruff', 'check', '.'], ['ruff', 'format', '--check', '.'], ['mypy'], ['pytest', *extra]):
        say(f'$ {shlex.join(command)}')
        codes.append(run([environment.executable, '-m', *command], env=variables))
    *other_codes, test_code = codes
    if any(other_codes):
        say('ruff or mypy has complaints, printed above the tests.')
    if not environment.compiled:
        # pytest in several processes does not count what it deselects.
        say('Left out by --fast: the tests marked needs_mmdet.')
    return test_code or int(any(other_codes))


def main() -> None:
    options, extra = parse_arguments()
    purpose = 'tests-fast' if options.fast else 'tests'
    environment = environment_from(options, purpose=purpose, compiled=not options.fast, dev=True)
    with clear_exits(when_interrupted='run the same command again to continue'):
        prepare(environment)
        sys.exit(check(environment, pytest_arguments(options, extra)))


if __name__ == '__main__':
    main()

"""Lint the project, check its types and run its tests. The first call makes an environment for them.

    python tools/run_tests.py                  # everything: mmcv compiled from its sdist, mmdet
    python tools/run_tests.py --fast           # compile nothing, and deselect the tests that need mmdet
    python tools/run_tests.py --coverage       # report the lines that no test runs
    python tools/run_tests.py -k calibration   # other arguments go to pytest

Needs only the standard library, so it runs on a machine where nothing is installed.
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
    """Return the arguments for pytest: defaults, tests to deselect without mmdet, and ``extra``, the user's own."""
    # The tests of a file run in one process, because they share fixtures that train models. Debuggers need one process.
    default_processes = '0' if any(name in extra for name in DEBUGGERS) else '2'
    arguments = ['-n', options.processes or default_processes, '--dist', 'loadfile']
    markers = options.markers
    if options.fast:
        wanted = DEFAULT_MARKERS if markers is None else markers
        markers = f'({wanted}) and not needs_mmdet' if wanted else 'not needs_mmdet'
    else:
        # Everything that tests need is installed: a skipped test is a mistake.
        arguments.append('--fail-on-skip')
    if options.coverage:
        arguments += ['--cov', '--cov-report=term']
    if markers is not None:
        arguments += ['-m', markers]
    return arguments + extra


def check(environment: Environment, extra: list[str]) -> int:
    """Lint, check types and test, also after failures; return pytest's exit code, or 1 if only the others failed."""
    variables = {**os.environ, 'OMP_NUM_THREADS': '1', 'MPLBACKEND': 'Agg'}
    codes = []
    for command in (['ruff', 'check', '.'], ['ruff', 'format', '--check', '.'], ['mypy'], ['pytest', *extra]):
        say(f'$ {shlex.join(command)}')
        codes.append(run([environment.executable, '-m', *command], env=variables))
    *other_codes, test_code = codes
    if any(other_codes):
        say('ruff or mypy found errors, printed above the tests.')
    if not environment.compiled:
        # pytest in several processes does not count deselected tests.
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

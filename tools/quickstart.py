"""Train three models and write a report, in one command, on a machine where nothing is installed.

    python tools/quickstart.py

The first call makes a virtual environment without compiling anything; then ``quickstart_job.py`` runs inside it.
Finished steps are reused, and a call after an interruption resumes. Needs only the standard library.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from environment import ROOT, add_arguments, clear_exits, environment_from, prepare, run


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument(
        '--work-dir',
        type=Path,
        default=ROOT / 'work_dirs' / 'quickstart',
        help='where checkpoints and the report go (default: work_dirs/quickstart)',
    )
    return parser.parse_args(arguments)


def main() -> None:
    options = parse_arguments()
    environment = environment_from(options, purpose='', compiled=False, dev=False)
    job = ROOT / 'tools' / 'quickstart_job.py'
    with clear_exits(when_interrupted='run the same command again to resume'):
        prepare(environment)
        sys.exit(run([environment.executable, job, '--work-dir', options.work_dir.absolute()]))


if __name__ == '__main__':
    main()

"""Compare two methods over seeds: ``python tools/compare_seeds.py A=work_dirs/a B=work_dirs/b``.

Both folders are those of ``tools/train.py --seeds N``, with the same seeds. Prints for every test metric both means,
their difference with its standard deviation, and the p-value of the paired t-test.
"""

from __future__ import annotations

import argparse

from mmml_losses.cli import launch
from mmml_losses.cli.runs import split_names
from mmml_losses.procedures.seeds import compare, read_seeds
from mmml_losses.utils.errors import UsageError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Compare two methods that were trained with several seeds')
    parser.add_argument('folders', nargs=2, metavar='NAME=FOLDER', help='two work folders of tools/train.py --seeds')
    return parser.parse_args()


def main() -> None:
    (first, folder), (second, other) = split_names(parse_args().folders).items()
    found = compare(read_seeds(folder), read_seeds(other))
    if not found:
        raise UsageError(f'{folder} and {other} have no test metric in common')
    launch.print_table(
        [
            {
                'metric': name,
                first: launch.figure(row.first),
                second: launch.figure(row.second),
                'difference': f'{row.second - row.first:+.4f}',
                'deviation': launch.figure(row.deviation),
                'p': f'{row.p_value:.2g}',
            }
            for name, row in found.items()
        ]
    )


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Compare runs on a page: ``python tools/report.py ASL=RUN BCE=RUN --out report.html --query '3 and 7, not 5'``.

Writes tables and pictures of any number of runs on the same data into one HTML file that needs no others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.visualization import write_report


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Write a report of one or several runs')
    command_line.add_runs(parser)
    parser.add_argument('--out', default='report.html', metavar='FILE', help='the page; %(default)s by default')
    parser.add_argument('--title', default='Multi-label report', help='heading of the page')
    parser.add_argument(
        '--query',
        action='append',
        default=[],
        metavar='QUERY',
        help="show the images found for a query such as '3 and 7, not 5'; may be repeated",
    )
    parser.add_argument('--top', type=int, default=8, help='number of images shown for each query and run')
    command_line.add_frequencies(parser)
    parser.add_argument(
        '--max-conditions', type=int, default=5, help='conditions of the queries of retrieval mAP; 0 leaves it out'
    )
    parser.add_argument('--num-bins', type=int, default=10, help='number of bins of the calibration errors')
    options = parser.parse_args()
    if Path(options.out).suffix not in ('.html', '.htm'):
        parser.error(f'--out must end in .html, got {options.out}')
    return options


def main() -> None:
    options = parse_args()
    runs = command_line.load_runs(options.runs)
    frequencies, groups = command_line.read_frequencies(options)
    with command_line.writing(options.out):
        page = write_report(
            options.out,
            runs,
            options.query,
            title=options.title,
            facts={'Predictions': ', '.join(map(str, command_line.files_of(options.runs).values()))},
            class_frequencies=frequencies,
            groups=groups,
            label_recovery=command_line.load_label_recovery(options.runs),
            max_conditions=options.max_conditions,
            top=options.top,
            num_bins=options.num_bins,
        )
    print(f'wrote {page}')


if __name__ == '__main__':
    launch.exit_clearly(main)

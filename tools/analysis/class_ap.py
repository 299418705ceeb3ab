"""Draw the average precision of each class: ``python tools/analysis/class_ap.py RUN ... --frequencies FILE``."""

from __future__ import annotations

import json
from pathlib import Path

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.visualization import plot_class_precision


def read_groups(path: Path) -> dict[str, list[int]]:
    try:
        groups = json.loads(path.read_text(encoding='utf-8'))
    except json.JSONDecodeError as error:
        raise ValueError(f'it is not json: {error}') from error
    if not isinstance(groups, dict) or not all(isinstance(members, list) for members in groups.values()):
        raise ValueError('it must hold lists of class indices by name of the group')
    return groups


def main() -> None:
    parser = command_line.picture_parser('Draw the average precision of every class by frequency', 'class_ap.png')
    command_line.add_runs(parser)
    command_line.add_frequencies(parser)
    parser.add_argument('--groups', metavar='FILE', help='json file with lists of class indices by name of the group')
    options = parser.parse_args()
    if options.groups is not None and (options.head_from is not None or options.medium_from is not None):
        parser.error('--groups defines the groups: leave out --head-from and --medium-from')
    runs = command_line.load_runs(options.runs)
    frequencies, groups = command_line.read_frequencies(options)
    if options.groups is not None:
        groups = command_line.read_file(options.groups, read_groups)
    command_line.draw(options, plot_class_precision, runs, frequencies, groups)


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Average precision of each class by frequency: ``python tools/analysis/class_ap.py RUN ... --frequencies FILE``."""

from __future__ import annotations

import json
from pathlib import Path

from mmml_losses.engine import launch
from mmml_losses.evaluation import group_classes, load_class_frequencies
from mmml_losses.evaluation.class_groups import HEAD_FROM, MEDIUM_FROM
from mmml_losses.visualization import command_line, plot_class_precision


def read_groups(path: Path) -> dict[str, list[int]]:
    groups = json.loads(path.read_text(encoding='utf-8'))
    if not isinstance(groups, dict) or not all(isinstance(members, list) for members in groups.values()):
        raise ValueError('it must hold lists of class indices by name of the group')
    return groups


def main() -> None:
    parser = command_line.picture_parser('Draw the average precision of every class by frequency', 'class_ap.png')
    command_line.add_runs(parser)
    parser.add_argument(
        '--frequencies',
        metavar='FILE',
        help='json file with the number of training images of each class, a list or {"class_frequencies": [...]}; '
        'by default they are counted in the labels of the predictions',
    )
    parser.add_argument('--head-from', type=int, default=HEAD_FROM, help='fewest training images of a head class')
    parser.add_argument('--medium-from', type=int, default=MEDIUM_FROM, help='fewest training images of a medium class')
    parser.add_argument('--groups', metavar='FILE', help='json file with lists of class indices by name of the group')
    options = parser.parse_args()
    runs = command_line.load_runs(options.runs)
    frequencies = groups = None
    if options.frequencies is not None:
        frequencies = command_line.read_file(options.frequencies, load_class_frequencies)
        with command_line.clear_errors():
            groups = group_classes(frequencies, medium_from=options.medium_from, head_from=options.head_from)
    if options.groups is not None:
        groups = command_line.read_file(options.groups, read_groups)
    command_line.draw(options, plot_class_precision, runs, frequencies, groups)


if __name__ == '__main__':
    launch.exit_clearly(main)

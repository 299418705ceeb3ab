"""Draw losses by the margin of a sample: ``python tools/analysis/margins.py "T 1=TwoWayLoss(way='sample')" ...``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.visualization import plot_margins


def main() -> None:
    parser = command_line.picture_parser('Draw set-wise losses of one sample against its margin', 'margins.png')
    parser.add_argument(
        'losses',
        nargs='+',
        metavar='LOSS',
        help='NAME=LOSS or LOSS: a registered name with or without arguments, or a file of configs/_base_/losses by '
        'its stem',
    )
    parser.add_argument('--limit', type=float, default=15.0, help='largest margin')
    parser.add_argument('--num-positives', type=int, default=3, help='positive labels of the sample')
    parser.add_argument('--num-negatives', type=int, default=77, help='negative labels of the sample')
    parser.add_argument('--spread', type=float, default=2.0, help='distance from the lowest to the highest positive')
    options = parser.parse_args()
    sample = {name: getattr(options, name) for name in ('num_positives', 'num_negatives', 'spread')}
    command_line.draw(options, plot_margins, command_line.read_losses(options.losses), options.limit, **sample)


if __name__ == '__main__':
    launch.exit_clearly(main)

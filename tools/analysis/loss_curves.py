"""Draw losses, gradients and links: ``python tools/analysis/loss_curves.py BCELoss 'HillLoss(margin=0.5)' ...``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.visualization import plot_loss_curves


def main() -> None:
    parser = command_line.picture_parser('Draw the loss of one label and its gradient by the logit', 'loss_curves.png')
    parser.add_argument(
        'losses',
        nargs='+',
        metavar='LOSS',
        help='NAME=LOSS or LOSS: a registered name with or without arguments, such as "HillLoss(margin=0.5)", a file '
        'of configs/_base_/losses by its stem, or a config file with `loss = dict(...)`',
    )
    parser.add_argument('--against', choices=['probability', 'logit'], default='probability', help='horizontal axis')
    parser.add_argument(
        '--show', nargs='+', choices=['value', 'gradient', 'link'], default=['value', 'gradient'], help='what to draw'
    )
    parser.add_argument(
        '--labels', nargs='+', choices=['positive', 'negative'], default=['positive', 'negative'], help='which labels'
    )
    parser.add_argument('--limit', type=float, default=6.0, help='largest logit')
    parser.add_argument('--epoch', type=int, default=1, help='for losses that change with it, counted from 0')
    parser.add_argument('--num-classes', type=int, default=1, help='for losses with a constant that counts classes')
    parser.add_argument(
        '--opponent', type=float, default=2.5, help='distance from 0 of the other logit in a set-wise loss'
    )
    options = parser.parse_args()
    command_line.draw(
        options,
        plot_loss_curves,
        command_line.read_losses(options.losses),
        options.against,
        options.show,
        options.labels,
        limit=options.limit,
        epoch=options.epoch,
        num_classes=options.num_classes,
        opponent=options.opponent,
    )


if __name__ == '__main__':
    launch.exit_clearly(main)

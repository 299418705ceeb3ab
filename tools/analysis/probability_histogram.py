"""Draw probabilities of positive, negative and missing labels: ``python tools/analysis/probability_histogram.py RUN``.

Missing labels are those that the dataset hid, so the predictions must hold the true labels as well.
"""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.visualization import plot_probability_histogram


def main() -> None:
    parser = command_line.picture_parser(
        'Draw the probabilities of positive, negative and missing labels', 'probability_histogram.png'
    )
    command_line.add_runs(parser)
    parser.add_argument('--num-bins', type=int, default=20, help='number of bins')
    options = parser.parse_args()
    runs = command_line.load_runs(options.runs)
    command_line.draw(options, plot_probability_histogram, runs, options.num_bins)


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Draw a reliability diagram of runs: ``python tools/analysis/reliability.py ASL=RUN BCE=RUN --out FILE``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.evaluation import reliability_bins
from mmml_losses.evaluation.functional.detection import are_detections
from mmml_losses.utils.errors import UsageError
from mmml_losses.visualization import plot_reliability


def main() -> None:
    parser = command_line.picture_parser('Draw predicted probability against observed frequency', 'reliability.png')
    command_line.add_runs(parser)
    parser.add_argument('--num-bins', type=int, default=10, help='number of bins')
    parser.add_argument('--binning', choices=['width', 'mass'], default='width', help='bins of equal width or mass')
    options = parser.parse_args()
    runs = command_line.load_runs(options.runs, with_detectors=True)
    curves = command_line.measured(
        runs, lambda name, run: reliability_bins(run.scores, run.labels, options.num_bins, options.binning)
    )
    of_detections = {are_detections(run.class_names) for run in runs.values()}
    if len(of_detections) > 1:
        raise UsageError('runs must be all of classifiers or all of detectors, got both')
    predicted = 'detections' if of_detections == {True} else 'labels'
    command_line.draw(options, plot_reliability, curves, predicted=predicted)


if __name__ == '__main__':
    launch.exit_clearly(main)

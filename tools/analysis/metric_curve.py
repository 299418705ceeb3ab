"""Draw metrics over the epochs: ``python tools/analysis/metric_curve.py WORK_DIR ... --metric multi-label/OF1``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.utils.errors import UsageError
from mmml_losses.visualization import plot_metric_curves, read_metrics


def main() -> None:
    parser = command_line.picture_parser('Draw metrics that trainings logged after each validation', 'metric_curve.png')
    command_line.add_runs(parser, 'NAME=FOLDER or FOLDER: the work folder of a training')
    parser.add_argument(
        '--metric', nargs='+', default=['multi-label/mAP@class'], help='what to draw, a panel each, as the log names it'
    )
    options = parser.parse_args()
    runs = {
        name: command_line.read_file(folder, read_metrics)
        for name, folder in command_line.split_names(options.runs).items()
    }
    known = sorted({metric for curves in runs.values() for metric in curves})
    unknown = [metric for metric in options.metric if metric not in known]
    if unknown:
        raise UsageError(f"no run logged '{unknown[0]}', they have {', '.join(known) or 'no metrics'}")
    command_line.draw(options, plot_metric_curves, runs, options.metric)


if __name__ == '__main__':
    launch.exit_clearly(main)

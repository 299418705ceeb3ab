"""Train a config for each value of one or two settings and draw the result.

``python tools/analysis/sweep.py CONFIG --grid model.head.loss.threshold 0.5 0.6 0.7 [--grid KEY VALUE ...]``.
A finished point is not trained again, and an interrupted one is resumed. All other flags are those of tools/train.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.procedures.sweep import sweep
from mmml_losses.utils.errors import UsageError
from mmml_losses.visualization import plot_sweep

TRAIN = Path(__file__).resolve().parents[1] / 'train.py'


def read_grid(axes: list[list[str]]) -> dict[str, list[str]]:
    """Return a dict from key to values for one or two arguments ``KEY VALUE VALUE ...``."""
    grid = {key: values for key, *values in axes}
    if len(axes) > 2 or len(grid) < len(axes):
        raise UsageError(f'--grid must name one or two different keys, got {", ".join(key for key, *_ in axes)}')
    for key, values in grid.items():
        if len(set(values)) < max(len(values), 2) or '=' in key:
            raise UsageError(f'--grid must be a key and at least two different values, got {key} {" ".join(values)}')
    return grid


def main() -> None:
    parser = command_line.picture_parser('Train a config for each value of one or two settings', 'sweep.png')
    parser.allow_abbrev = False  # an unknown flag is one of tools/train.py
    parser.add_argument('config', help='config file')
    parser.add_argument('--grid', nargs='+', action='append', required=True, metavar='KEY', help='a key and its values')
    parser.add_argument('--result', default='multi-label/mAP@class', help='metric to draw, as the log names it')
    parser.add_argument('--work-dir', help="folder of the points' folders; work_dirs/CONFIG-sweep by default")
    options, rest = parser.parse_known_args()
    grid = read_grid(options.grid)
    work_dir = Path(options.work_dir or f'{launch.default_work_dir(options.config, None)}-sweep')
    command = [sys.executable, str(TRAIN), options.config, *rest]
    results = sweep(grid, command, work_dir, options.result, lambda line: print(line, flush=True))
    command_line.draw(options, plot_sweep, grid, results, options.result)


if __name__ == '__main__':
    launch.exit_clearly(main)

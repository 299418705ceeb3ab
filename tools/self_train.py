"""Train, correct the labels with the trained model, and train again: ``python tools/self_train.py CONFIG``.

Unobserved labels whose probability is above the threshold become positive, and a new model is trained on them from the
start. Every stage has its own folder below the work folder. Run the same command again to resume after an interruption:
it ends with the weights of an uninterrupted run. See docs/procedures.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mmengine.dist import is_main_process

from mmml_losses.cli import launch
from mmml_losses.engine.config_data import require_data
from mmml_losses.procedures.self_train import SelfTraining


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Train, correct the labels with the trained model, and train again')
    parser.add_argument('config', help='config file')
    parser.add_argument('--rounds', type=int, default=1, help='how often to correct and train again (default: 1)')
    parser.add_argument(
        '--threshold', type=float, default=0.5, help='labels above this probability become positive (default: 0.5)'
    )
    launch.add_common_arguments(parser)
    parser.add_argument('--resume', action='store_true', help='no effect: the same command always resumes')
    launch.add_training_arguments(parser)
    return parser.parse_args()


def metric_rows(figures: Sequence[dict[str, float | None]]) -> list[dict[str, str]]:
    """Return table rows, dicts from column to text: a row for each metric, a column for each round."""
    return [
        {'metric': name} | {f'round {number}': launch.figure(found[name]) for number, found in enumerate(figures)}
        for name in figures[0]
    ]


def main() -> None:
    args = parse_args()
    cfg = launch.load_config(args)
    launch.apply_training_arguments(cfg, args)
    launch.reject_detector(cfg, args.config, ': pseudo labels are those of images, and have no boxes')
    require_data(cfg, args.config)
    try:
        figures = SelfTraining(cfg, args.threshold, args.rounds, Path(args.config).name, launch.print_once).run()
    except KeyboardInterrupt:
        print('stopped; the same command resumes from here', file=sys.stderr)
        sys.exit(130)  # as after any Ctrl-C
    if is_main_process() and figures[0]:
        launch.print_table(metric_rows(figures))


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Draw label recovery over the epochs: ``python tools/analysis/label_recovery.py SPLC=WORK_DIR LASD=WORK_DIR``."""

from __future__ import annotations

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.evaluation import LabelRecovery, label_recovery
from mmml_losses.utils.errors import UsageError
from mmml_losses.visualization import plot_label_recovery, read_label_recovery


def pseudo_labels(file: str, thresholds: list[float]) -> list[LabelRecovery]:
    (run,) = command_line.load_runs([file]).values()
    if run.true_labels is None:
        command = 'python tools/test.py CONFIG CHECKPOINT --dataloader train --out FILE.npz'
        raise UsageError(f'--pseudo-labels: {file} has no true labels; this makes a file that has: {command}')
    return [label_recovery(run.labels, run.true_labels, run.scores, threshold) for threshold in thresholds]


def main() -> None:
    parser = command_line.picture_parser('Draw how many hidden labels a training finds again', 'label_recovery.png')
    command_line.add_runs(parser, 'NAME=FOLDER or FOLDER: the work folder of a training with the label-recovery hook')
    parser.add_argument('--quantity', nargs='+', default=['precision', 'recall'], help='what to draw, a panel each')
    parser.add_argument(
        '--pseudo-labels',
        metavar='FILE.npz',
        help='predictions of a trained model on the training set, with the true labels; drawn as bands between its '
        'precisions, and its recalls, at the --thresholds',
    )
    parser.add_argument(
        '--thresholds', nargs='+', type=float, default=[0.4, 0.6], help='of pseudo labels (default: 0.4 0.6)'
    )
    options = parser.parse_args()
    runs = {}
    for name, folder in command_line.split_names(options.runs).items():
        runs[name] = command_line.read_file(folder, read_label_recovery)
        if not runs[name]:
            raise UsageError(
                f'{folder} has no log of label recovery: no */vis_data/scalars.json below it holds label_recovery/...; '
                'train with tools/train.py CONFIG --hook LabelRecoveryHook'
            )
    bands = pseudo_labels(options.pseudo_labels, options.thresholds) if options.pseudo_labels else []
    command_line.draw(options, plot_label_recovery, runs, options.quantity, pseudo_labels=bands)


if __name__ == '__main__':
    launch.exit_clearly(main)

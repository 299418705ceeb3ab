"""Write the labels that label wrappers leave: ``python tools/make_labels.py CONFIG --out FILE.json``.

The training set of the config must have ``MissingLabels``, ``SinglePositive``, ``PartialLabels`` or ``LongTailed``
around a dataset, in any nesting. The file holds the labels that these wrappers leave, their settings, and a checksum
of the dataset inside. Reads no images. Train on the file with ``mmml_losses.Relabelled``, see docs/labels.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmml_losses.cli import launch
from mmml_losses.datasets.labels.label_file import save_label_file
from mmml_losses.datasets.labels.nesting import count_views, unrepeated
from mmml_losses.datasets.wrappers.drawn_labels import read_drawn_labels
from mmml_losses.engine.config_data import load_dataset
from mmml_losses.procedures.draw_labels import describe_drawing, describe_use
from mmml_losses.utils.errors import UsageError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Write the labels that the label wrappers of a config draw')
    parser.add_argument('config', help='config file of the training')
    launch.add_label_file(parser)
    launch.add_dataloader(parser)
    launch.add_cfg_options(parser, 'train_dataloader.dataset.seed=1')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    out = launch.check_output(args.out, '.json', args.overwrite)
    dataset = load_dataset(launch.read_config(args.config, args.cfg_options), args.dataloader, args.config)
    if not count_views(dataset):
        raise UsageError(
            f'the dataset of {args.dataloader}_dataloader in {args.config} draws no labels: it must have a label '
            'wrapper, such as mmml_losses.MissingLabels, around it'
        )
    launch.make_folder(out)
    drawn = read_drawn_labels(unrepeated(dataset))
    made_by = dict(tool=Path(__file__).name, config=Path(args.config).name, dataloader=args.dataloader)
    save_label_file(out, drawn.labels, drawn.source, made_by | dict(dataset=drawn.settings), drawn.positions)
    print(describe_drawing(drawn))
    print(f'wrote {args.out}. A config next to {args.config} that trains on it:')
    print(describe_use(dataset, args.config, args.dataloader, args.out))


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Draw how often labels occur together: ``python tools/analysis/co_occurrence.py CONFIG --classes bird person``."""

from __future__ import annotations

import torch

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.datasets import read_labels
from mmml_losses.engine.config_data import load_dataset
from mmml_losses.models.ml_gcn import conditional_probabilities
from mmml_losses.utils.errors import UsageError, did_you_mean
from mmml_losses.visualization import plot_co_occurrence


def main() -> None:
    parser = command_line.picture_parser('Draw the share of the images with one label that have another', 'pairs.png')
    parser.add_argument('config', help='config file')
    launch.add_dataloader(parser)
    parser.add_argument('--classes', nargs='+', metavar='NAME', help='classes to draw; all by default')
    launch.add_cfg_options(parser, 'train_dataloader.dataset.data_root=FOLDER')
    options = parser.parse_args()
    cfg = launch.read_config(options.config, options.cfg_options)
    samples = read_labels(load_dataset(cfg, options.dataloader, options.config))
    chosen = options.classes or list(samples.classes)
    for name in chosen:
        if name not in samples.classes:
            raise UsageError(f"--classes: unknown class '{name}' {did_you_mean(name, samples.classes)}".rstrip())
    places = [samples.classes.index(name) for name in chosen]
    probabilities = conditional_probabilities(torch.from_numpy(samples.labels))[places][:, places]
    command_line.draw(options, plot_co_occurrence, probabilities, chosen)


if __name__ == '__main__':
    launch.exit_clearly(main)

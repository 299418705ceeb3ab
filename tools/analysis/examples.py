"""Show images with the probabilities of their labels: ``python tools/analysis/examples.py BCE=RUN Hill=RUN``."""

from __future__ import annotations

from pathlib import Path

from mmml_losses.cli import launch
from mmml_losses.cli import runs as command_line
from mmml_losses.evaluation import Predictions
from mmml_losses.utils.errors import UsageError
from mmml_losses.visualization import choose_images, plot_examples


def find_images(names: list[str], run: Predictions) -> list[int]:
    """Return the places of images that are named by their file or its stem, or by their index in the dataset."""
    places = {str(index): place for place, index in enumerate(run.sample_idx.tolist())}
    places |= {part: place for place, path in enumerate(run.image_paths) for part in (Path(path).stem, Path(path).name)}
    for name in names:
        if name not in places:
            raise UsageError(f"--image: '{name}' is neither the name of an image nor an index of the dataset")
    return [places[name] for name in names]


def main() -> None:
    parser = command_line.picture_parser('Show images with the probabilities of their labels', 'examples.png')
    command_line.add_runs(parser)
    parser.add_argument(
        '--image', nargs='+', metavar='NAME', help='file names or indices; by default images with missing labels'
    )
    parser.add_argument('--number', type=int, default=4, help='how many images are chosen without --image')
    parser.add_argument('--num-labels', type=int, default=6, help='labels next to an image')
    options = parser.parse_args()
    runs = command_line.load_runs(options.runs)
    first = next(iter(runs.values()))
    images = find_images(options.image, first) if options.image else choose_images(first, options.number)
    command_line.draw(options, plot_examples, runs, images, options.num_labels)


if __name__ == '__main__':
    launch.exit_clearly(main)

"""Read the predictions of the runs that a command line names, and draw pictures of them."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from matplotlib.figure import Figure

from ..evaluation import Predictions, group_classes, load_class_frequencies, load_predictions
from ..evaluation.functional.detection import are_detections
from ..utils.errors import UsageError
from ..utils.frequencies import HEAD_FROM, MEDIUM_FROM
from ..visualization import parse_loss, read_label_recovery, save_figure
from ..visualization.style import checked_picture_path
from .losses import find_loss

Content = TypeVar('Content')
Groups = dict[str, tuple[int, ...]]

PREDICTIONS_FILE = 'predictions.npz'
RUN_HELP = 'NAME=PATH or PATH: a predictions file (.npz), or a work folder that holds predictions.npz'


def picture_parser(description: str, default_out: str) -> argparse.ArgumentParser:
    """Return the parser of a tool that draws: ``--out`` (``default_out`` by default), ``--title`` and ``--dpi``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        '--out',
        default=default_out,
        type=_picture_path,  # rejected before the work, not after it
        metavar='FILE',
        help='.png or .svg; %(default)s by default',
    )
    parser.add_argument('--title', help='heading of the picture')
    parser.add_argument('--dpi', type=_resolution, default=150, help='pixels per inch of a .png')
    return parser


def add_runs(parser: argparse.ArgumentParser, help_text: str = RUN_HELP) -> None:
    """Add the positional argument ``runs``: predictions files or their folders, each as ``NAME=PATH`` or ``PATH``."""
    parser.add_argument('runs', nargs='+', metavar='RUN', help=help_text)


def add_frequencies(parser: argparse.ArgumentParser) -> None:
    """Add ``--frequencies`` (file), ``--head-from`` and ``--medium-from`` (fewest images of a head or medium class)."""
    parser.add_argument(
        '--frequencies',
        metavar='FILE',
        help='json file with the number of training images of each class, a list or {"class_frequencies": [...]}, for '
        'head, medium and tail',
    )
    parser.add_argument('--head-from', type=int, metavar='N', help=f'fewest images of a head class; {HEAD_FROM}')
    parser.add_argument('--medium-from', type=int, metavar='N', help=f'fewest images of a medium class; {MEDIUM_FROM}')


def read_frequencies(options: argparse.Namespace) -> tuple[np.ndarray | None, Groups | None]:
    """Return (frequencies (C,), dict from head, medium, tail to class indices); (None, None) without --frequencies."""
    limits = dict(head_from=options.head_from, medium_from=options.medium_from)
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    if options.frequencies is None:
        if limits:
            raise UsageError('--head-from and --medium-from need --frequencies, the numbers that they divide')
        return None, None
    frequencies = read_file(options.frequencies, load_class_frequencies)
    return frequencies, group_classes(frequencies, **limits)


def split_names(arguments: Sequence[str]) -> dict[str, str]:
    """Return a dict from name to path for arguments ``NAME=PATH`` or ``PATH``; UsageError if two have one name.

    Without a name, a folder or its ``predictions.npz`` is named after the folder, another ``.npz`` file by its stem. A
    path with an equals sign needs a name if the path does not exist yet: ``mine=./lr=0.1/predictions.npz``.
    """
    values: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition('=')
        file = Path(argument)
        if not equals or not name or file.exists():
            folder, value = file.parent if file.suffix == '.npz' else file, argument
            named = file.suffix == '.npz' and file.name != PREDICTIONS_FILE
            name = file.stem if named else folder.resolve().name or str(folder)
        if not value:
            raise UsageError(f"nothing follows the name '{name}=': give NAME=PATH")
        if name in values:
            raise UsageError(f"two runs are called '{name}': name them apart as NAME=PATH")
        values[name] = value
    return values


def load_runs(arguments: Sequence[str], with_detectors: bool = False) -> dict[str, Predictions]:
    """Return a dict from name to predictions of runs that are given as ``NAME=PATH`` or ``PATH``.

    Raise a UsageError for a run without known labels, and for the detections of a detector unless ``with_detectors``.
    """
    runs = {name: load_predictions(file) for name, file in files_of(arguments).items()}
    for name, run in runs.items():
        if are_detections(run.class_names) and not with_detectors:
            raise UsageError(f"'{name}' must be the run of a classifier, got detections, which are no labels")
        if not (run.labels >= 0).any():
            what = 'detection that counts' if are_detections(run.class_names) else 'known label'
            raise UsageError(f"'{name}' has no {what}: there is nothing to measure")
    return runs


def files_of(arguments: Sequence[str]) -> dict[str, Path]:
    """Return a dict from name to predictions file for runs ``NAME=PATH`` or ``PATH``; UsageError if one is missing."""
    files = {}
    for name, path in split_names(arguments).items():
        file = Path(path).expanduser()
        if file.suffix != '.npz':
            if file.exists() and not file.is_dir():
                raise UsageError(f'{path} must be an .npz file of predictions or a work folder')
            file = file / PREDICTIONS_FILE
        if not file.is_file():
            command = f'python tools/test.py CONFIG CHECKPOINT --out {file}'
            raise UsageError(f'{file} does not exist; this makes it: {command}')
        files[name] = file
    return files


def load_label_recovery(arguments: Sequence[str]) -> dict[str, dict[str, dict[int, float]]]:
    """Return ``curves[run][quantity][epoch]`` (quantity: ``'precision'``, …) without runs that logged none."""
    curves = {name: read_file(file.parent, read_label_recovery) for name, file in files_of(arguments).items()}
    return {name: of_run for name, of_run in curves.items() if of_run}


def read_losses(arguments: Sequence[str]) -> dict[str, dict]:
    """Return the configs of losses that are given as ``NAME=LOSS`` or ``LOSS``, by name.

    A loss is written as for :func:`find_loss`, or with arguments as for :func:`mmml_losses.visualization.parse_loss`.
    """
    losses = {}
    for argument in arguments:
        # A name has no parentheses: equals signs inside of them belong to the arguments of the loss.
        name, text = re.fullmatch(r'(?:([^()=]+)=)?(.*)', argument, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        if name in losses or (name or text) in losses:
            raise UsageError(f"two curves are called '{name or text}': name them apart as NAME=LOSS")
        try:
            losses[name or text] = parse_loss(text) if '(' in text else dict(find_loss(text))
        except UsageError as error:  # the message names the flag of other tools
            raise UsageError(str(error).removeprefix('--loss: ')) from None
    return losses


def read_file(path: str | Path, reader: Callable[[Path], Content]) -> Content:
    """Return ``reader(path)``; turn an OSError or ValueError into a UsageError that names the file."""
    try:
        return reader(Path(path).expanduser())
    except OSError as error:
        raise UsageError(f'{path} cannot be read: {error.strerror}') from error
    except ValueError as error:
        raise UsageError(f'{path} cannot be used: {error}') from error


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn an OSError in the ``with`` block into a UsageError that ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise UsageError(f'{path} cannot be written: {error.strerror}') from error


def draw(options: argparse.Namespace, plot: Callable[..., Figure], *args, **kwargs) -> None:
    """Draw a picture into ``--out``, and print where it is.

    Args:
        options: Values of the options of :func:`picture_parser`.
        plot: A function of this package that returns a figure and takes ``title``.
        *args: Positional arguments of ``plot``.
        **kwargs: Keyword arguments of ``plot``.
    """
    figure = plot(*args, title=options.title, **kwargs)
    with writing(options.out):
        print(f'wrote {save_figure(options.out, figure, options.dpi)}')


def measured(runs: Mapping[str, Predictions], measure: Callable[[str, Predictions], object]) -> dict[str, object]:
    """Return a dict of run name to ``measure(name, predictions)``; a ValueError becomes a UsageError with the name."""
    results = {}
    for name, run in runs.items():
        try:
            results[name] = measure(name, run)
        except ValueError as error:
            raise UsageError(f'{name}: {error}') from error
    return results


def _picture_path(text: str) -> Path:
    try:
        return checked_picture_path(text, 'the picture')
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _resolution(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'must be a whole number of at least 1, got {text}')
    return int(text)

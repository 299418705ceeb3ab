"""Draw single images with the probabilities that runs give to their labels."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..evaluation import Predictions
from .retrieval import ImageLoader, draw_image, load_image
from .runs import check_same_data
from .style import BACKGROUND, GREEN, GRID, INK, MUTED, RED, add_title, plain, wrapped

# Sizes in inches. An image has a square of SIDE; to its right, the names of labels and a column for each run.
SIDE, RUN_WIDTH, LINE, GAP = 1.7, 0.95, 0.24, 0.18
HEADER_HEIGHT, LEGEND_HEIGHT = 0.45, 0.3
MOST_LETTERS, LETTER = 18, 0.085
# Colour and mark of each kind of label, so that the picture can be read without colour.
_LOOKS = {'positive': (GREEN, '● '), 'missing': (RED, '○ '), 'negative': (MUTED, '')}


def choose_images(predictions: Predictions, number: int) -> list[int]:
    """Return the places of the ``number`` images with the most missing labels, else with the most positive labels."""
    positives = (predictions.labels == 1).sum(axis=1)
    missing = np.zeros_like(positives)
    if predictions.true_labels is not None:
        missing = ((predictions.true_labels == 1) & (predictions.labels != 1)).sum(axis=1)
    return np.lexsort((-positives, -missing))[:number].tolist()


def plot_examples(
    runs: Mapping[str, Predictions],
    images: Sequence[int],
    num_labels: int = 6,
    image_loader: ImageLoader = load_image,
    title: str | None = None,
) -> Figure:
    """Draw images, and next to each the probabilities that runs give to its labels.

    Positive labels are green with a dot. Missing labels, positive in ``true_labels`` alone, are red with a circle
    (Figures 6 and 9 of the Hill and SPLC paper). The negative labels with the highest probabilities fill up the lines
    (Figures 1 and 2 of the DR paper).

    Args:
        runs: Dict from name to predictions, all on the same images.
        images: Places of the images in the predictions.
        num_labels: Number of labels next to an image, all of its positive and missing labels at least.
        image_loader: Function from an image path in the predictions to an image array.
        title: Heading of the picture.
    """
    check_same_data(runs)
    if not images or num_labels < 1:
        raise ValueError(f'images and num_labels must be at least one, got {len(images)} and {num_labels}')
    kinds = {image: _kinds_of_labels(runs, image, num_labels) for image in images}
    heights = [max(SIDE, HEADER_HEIGHT + LINE * len(kinds[image])) + GAP for image in images]
    names = next(iter(runs.values())).class_names
    lengths = [len(names[index]) for of_image in kinds.values() for index in of_image]
    longest = min(max(lengths, default=0), MOST_LETTERS)
    name_width = 0.35 + LETTER * longest
    width = max(GAP + SIDE + GAP + name_width + RUN_WIDTH * len(runs), 3.4) + GAP
    top = 0.45 if title else 0.1
    height = top + sum(heights) + LEGEND_HEIGHT
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis('off')
    for image, y in zip(images, top + np.cumsum([0.0, *heights[:-1]]), strict=True):
        path = next(iter(runs.values())).image_paths[image]
        try:
            pixels = image_loader(path)
        except OSError as error:
            raise ValueError(
                f"the image '{path}' cannot be opened: paths are as the evaluation knew them, perhaps relative to the "
                'folder in which it ran'
            ) from error
        draw_image(axes, pixels, path, GAP, float(y), SIDE)
        _draw_probabilities(axes, runs, image, kinds[image], (2 * GAP + SIDE, float(y)), name_width)
    for place, kind in enumerate(_LOOKS):
        color, mark = _LOOKS[kind]
        axes.text(GAP + place * 1.1, height - LEGEND_HEIGHT / 2, mark + kind, color=color, fontsize=9, va='center')
    add_title(figure, title)
    # Last, because each image that is drawn resets the limits.
    axes.set(xlim=(0, width), ylim=(height, 0), aspect='equal')
    return figure


def _kinds_of_labels(runs: Mapping[str, Predictions], image: int, num_labels: int) -> dict[int, str]:
    """Return a dict from class to kind of label: all positives and missing labels, then the most probable negatives."""
    data = next(iter(runs.values()))
    labels = data.labels[image]
    truth = labels if data.true_labels is None else data.true_labels[image]
    positive = np.flatnonzero(labels == 1)
    missing = np.flatnonzero((labels != 1) & (truth == 1))
    negative = np.flatnonzero((labels == 0) & (truth == 0))
    highest = np.max([run.scores[image, negative] for run in runs.values()], axis=0)
    room = max(num_labels - positive.size - missing.size, 0)
    shown = (positive, missing, negative[np.argsort(-highest, kind='stable')[:room]])
    return {int(index): kind for kind, members in zip(_LOOKS, shown, strict=True) for index in members}


def _draw_probabilities(
    axes: Axes,
    runs: Mapping[str, Predictions],
    image: int,
    kinds: Mapping[int, str],
    corner: tuple[float, float],
    name_width: float,
) -> None:
    """Draw a line for each label and a column for each run, with the upper left corner at ``corner``."""
    names = next(iter(runs.values())).class_names
    x, y = corner
    left = x + name_width
    for column, name in enumerate(runs):
        heading = plain(wrapped(name, 12, 2))
        middle = left + (column + 0.5) * RUN_WIDTH
        axes.text(middle, y + HEADER_HEIGHT - 0.08, heading, fontsize=8.5, weight='bold', color=INK, ha='center')
    axes.plot([x, left + len(runs) * RUN_WIDTH], [y + HEADER_HEIGHT - 0.02] * 2, color=GRID, linewidth=1)
    for line, (index, kind) in enumerate(kinds.items()):
        color, mark = _LOOKS[kind]
        middle = y + HEADER_HEIGHT + (line + 0.5) * LINE
        axes.text(x, middle, mark + plain(wrapped(names[index], MOST_LETTERS)), fontsize=9, color=color, va='center')
        for column, run in enumerate(runs.values()):
            probability = float(run.scores[image, index])
            bar = (left + column * RUN_WIDTH + 0.06, middle - 0.4 * LINE)
            axes.add_patch(Rectangle(bar, RUN_WIDTH - 0.12, 0.8 * LINE, facecolor=BACKGROUND))
            axes.add_patch(Rectangle(bar, probability * (RUN_WIDTH - 0.12), 0.8 * LINE, facecolor=color, alpha=0.35))
            place = left + (column + 0.5) * RUN_WIDTH
            axes.text(place, middle, f'{probability:.2f}', fontsize=9, color=INK, ha='center', va='center')

"""Retrieval: sheets of the images that each run ranks first for a query, and mAP against the number of conditions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from ..evaluation import Predictions, Query, RetrievalResult, parse_query, rank_images, relevant_images
from .runs import check_same_data
from .style import BACKGROUND, GREEN, GRID, INK, MUTED, RED, add_title, line_style, percent, plain, tidy, wrapped

ImageLoader = Callable[[str], np.ndarray]

# Everything is laid out in cells of one unit: an image with its mark, and room for two lines below it.
CELL_WIDTH, CELL_HEIGHT, HEADER_HEIGHT, NAME_WIDTH, TITLE_HEIGHT = 1.12, 1.42, 0.62, 1.75, 0.5
INCHES_PER_UNIT = 1.0


def load_image(path: str, longest_side: int = 160) -> np.ndarray:
    """Read an image file as an RGB array, no larger than a sheet shows it."""
    with Image.open(path) as image:
        image.draft('RGB', (longest_side, longest_side))
        image = image.convert('RGB')
        image.thumbnail((longest_side, longest_side))
        return np.asarray(image)


def plot_retrieval_sheet(
    runs: Mapping[str, Predictions],
    queries: Sequence[str | Query],
    top: int = 8,
    image_loader: ImageLoader = load_image,
    title: str | None = None,
) -> Figure:
    """Show the images that each run ranks first for each query.

    One block a query, one row a run, best answer on the left. A right answer has a solid green frame and a check
    mark, a wrong one a dashed red frame and a cross; the line below an image names the classes that it shows.

    Args:
        runs: Name and predictions of each run, all on the same images.
        queries: Queries as text (``'3 and 7, not 5'``) or as :class:`~mmml_losses.evaluation.Query`.
        top: Number of images in a row.
        image_loader: Turns a path of the predictions into an image array. A file that it cannot open leaves a grey cell
            and a warning; if it can open none, there is nothing to show.
        title: Heading of the picture.
    """
    if not runs or not queries:
        raise ValueError(f'a sheet needs at least one run and one query, got {len(runs)} and {len(queries)}')
    if top < 1:
        raise ValueError(f'top must be at least 1, got {top}')
    check_same_data(runs)
    width = NAME_WIDTH + top * CELL_WIDTH
    start = TITLE_HEIGHT if title else 0.0
    height = start + len(queries) * (HEADER_HEIGHT + len(runs) * CELL_HEIGHT)
    figure = Figure(figsize=(width * INCHES_PER_UNIT, height * INCHES_PER_UNIT))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis('off')
    if title:
        heading = plain(wrapped(title, int(9 * width)))
        axes.text(width / 2, 0.3, heading, fontsize=14, weight='bold', color=INK, ha='center', va='center')
    loader = _Loader(image_loader)
    y = start
    for query in queries:
        y = _draw_query(axes, runs, query, top, y, loader)
    loader.tell_what_is_missing()
    # Last, because each image that is drawn resets the limits.
    axes.set(xlim=(0, width), ylim=(height, 0), aspect='equal')
    return figure


class _Loader:
    """Loads images, and remembers which it could not."""

    def __init__(self, load: ImageLoader):
        self.load = load
        self.num_found = 0
        self.missing: list[str] = []

    def __call__(self, path: str) -> np.ndarray | None:
        try:
            image = self.load(path)
        except OSError:
            self.missing.append(path)
            return None
        self.num_found += 1
        return image

    def tell_what_is_missing(self) -> None:
        if self.missing:
            number = f'{len(self.missing)} of {len(self.missing) + self.num_found}'
            message = (
                f"{number} images of the sheet cannot be opened, the first is '{self.missing[0]}': paths are as the "
                'evaluation knew them, perhaps relative to the folder in which it ran'
            )
            if not self.num_found:
                raise ValueError(message)
            warnings.warn(message, stacklevel=3)


def _draw_query(
    axes: Axes, runs: Mapping[str, Predictions], query: str | Query, top: int, y: float, image_loader: _Loader
) -> float:
    """Draw one block and return where the next one starts."""
    first = next(iter(runs.values()))
    query = parse_query(query, first.class_names) if isinstance(query, str) else query
    num_relevant = int(relevant_images(first.labels, *query).sum())
    axes.text(
        0.1, y + 0.36, plain(query.describe(first.class_names)), fontsize=13, weight='bold', color=INK, va='center'
    )
    answer = f'{num_relevant:,} of {first.num_samples:,} images match'
    right_edge = NAME_WIDTH + top * CELL_WIDTH - 0.1
    axes.text(right_edge, y + 0.36, answer, fontsize=9.5, color=MUTED, va='center', ha='right')
    axes.plot([0.1, right_edge], [y + 0.56, y + 0.56], color=GRID, linewidth=1)
    y += HEADER_HEIGHT
    for name, predictions in runs.items():
        _draw_run(axes, name, predictions, query, top, y, image_loader)
        y += CELL_HEIGHT
    return y


def _draw_run(
    axes: Axes, name: str, predictions: Predictions, query: Query, top: int, y: float, image_loader: _Loader
) -> None:
    ranking = rank_images(predictions.scores, *query, top=top)
    right = relevant_images(predictions.labels, *query)[ranking]
    axes.text(0.1, y + 0.54, plain(wrapped(name, 16, 3)), fontsize=10, weight='bold', color=INK, va='bottom')
    axes.text(0.1, y + 0.6, f'{right.sum()} of {len(ranking)} right', fontsize=9.5, color=MUTED, va='top')
    for column, (index, is_right) in enumerate(zip(ranking, right, strict=True)):
        x = NAME_WIDTH + column * CELL_WIDTH
        _draw_image(axes, predictions.image_paths[index], x, y + 0.06, image_loader)
        _draw_mark(axes, bool(is_right), x, y + 0.06)
        shown = ', '.join(predictions.class_names[i] for i in np.flatnonzero(predictions.labels[index] == 1))
        caption = plain(wrapped(shown or 'no label', 18, 2))
        axes.text(x + 0.5, y + 1.11, caption, fontsize=8.5, color=MUTED, ha='center', va='top')


def _draw_image(axes: Axes, path: str, x: float, y: float, image_loader: _Loader) -> None:
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=BACKGROUND))
    image = image_loader(path)
    if image is None:
        name = wrapped(Path(path).name or 'no file', 14, 2)
        axes.text(x + 0.5, y + 0.5, plain(f'not found\n{name}'), fontsize=7, color=MUTED, ha='center', va='center')
        return
    rows, columns = image.shape[:2]
    width, height = columns / max(rows, columns), rows / max(rows, columns)
    left, upper = x + (1 - width) / 2, y + (1 - height) / 2
    # The vertical axis points down, so the first row of the image lies at the smaller y.
    axes.imshow(image, extent=(left, left + width, upper + height, upper), cmap='gray', zorder=2)


def _draw_mark(axes: Axes, is_right: bool, x: float, y: float) -> None:
    color, sign, dashes = (GREEN, '✓', '-') if is_right else (RED, '✗', (0, (2.5, 1.5)))
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor=color, linewidth=2.6, linestyle=dashes, zorder=3))
    badge = {'boxstyle': 'circle,pad=0.18', 'facecolor': color, 'edgecolor': 'white', 'linewidth': 1}
    axes.text(
        x + 0.9,
        y + 0.1,
        sign,
        fontsize=9.5,
        weight='bold',
        color='white',
        ha='center',
        va='center',
        bbox=badge,
        zorder=4,
    )


def plot_retrieval_curve(results: Mapping[str, RetrievalResult], title: str | None = None) -> Figure:
    """Draw the mean average precision of the queries with each number of conditions, with 95 % intervals.

    Args:
        results: Name of each run and its :func:`~mmml_losses.evaluation.query_retrieval`. Bars stand where the
            queries are a sample; a mean over all queries has none.
        title: Heading of the picture.
    """
    if not results:
        raise ValueError('results must hold at least one run, got none')
    figure = Figure(figsize=(6.4, 4.6), layout='constrained')
    axes = figure.subplots()
    for index, (name, result) in enumerate(results.items()):
        _draw_result(axes, index, name, result, shift=0.04 * (index - (len(results) - 1) / 2))
    conditions = sorted({number for result in results.values() for number in result.by_conditions})
    axes.set_xticks(conditions)
    axes.set_xlabel('number of conditions, |P| + |N|', color=INK)
    axes.set_ylabel('retrieval mAP [%]', color=INK)
    axes.set_title(_note(results), loc='left', color=MUTED, fontsize=9)
    axes.legend(loc='best', fontsize=9, framealpha=0.9, edgecolor=GRID, labelcolor=INK, handlelength=3.2)
    tidy(axes)
    add_title(figure, title)
    return figure


def _draw_result(axes: Axes, index: int, name: str, result: RetrievalResult, shift: float) -> None:
    conditions = np.array(sorted(result.by_conditions), dtype=np.float64)
    means = [result.by_conditions[int(number)] for number in conditions]
    half_widths = np.array([0.0 if result.exhaustive else 100 * mean.half_width for mean in means])
    style = line_style(index)
    container = axes.errorbar(
        # A little apart, so that the bars of two runs do not hide each other.
        conditions + (shift if half_widths.any() else 0),
        [100 * mean.value for mean in means],
        yerr=half_widths if half_widths.any() else None,
        **style._asdict(),
        linewidth=2,
        markersize=7,
        markeredgecolor='white',
        markeredgewidth=0.8,
        capsize=4,
        label=plain(f'{wrapped(name, 36)} (overall {percent(result.overall.value)})'),
    )
    for bars in container.lines[2]:
        bars.set_linestyle('-')


def _note(results: Mapping[str, RetrievalResult]) -> str:
    if all(result.exhaustive for result in results.values()):
        return 'all queries that have an answer'
    return 'a random sample of the queries; bars: 95 % intervals'

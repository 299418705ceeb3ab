"""Pictures of retrieval: sheets of the images ranked first for a query; mAP by the number of classes in a query."""

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

# Sizes in inches. A cell has an image with its mark, 1 x 1, and room for two lines below it.
CELL_WIDTH, CELL_HEIGHT, HEADER_HEIGHT, NAME_WIDTH, TITLE_HEIGHT = 1.12, 1.42, 0.62, 1.75, 0.5


def load_image(path: str, longest_side: int = 160) -> np.ndarray:
    """Return an image file as an RGB array (H, W, 3), scaled down to ``longest_side`` pixels at most."""
    with Image.open(path) as file:
        file.draft('RGB', (longest_side, longest_side))
        image = file.convert('RGB')
        image.thumbnail((longest_side, longest_side))
        return np.asarray(image)


def plot_retrieval_sheet(
    runs: Mapping[str, Predictions],
    queries: Sequence[str | Query],
    top: int = 8,
    image_loader: ImageLoader = load_image,
    title: str | None = None,
) -> Figure:
    """Draw the images that each run ranks first for each query.

    Each query has a row of images for each run, the best answer on the left. An image that matches the query has a
    solid green frame and a check mark, any other a dashed red frame and a cross. The text below an image names its
    positive classes.

    Args:
        runs: Dict from name to predictions, all on the same images.
        queries: Queries as text (``'3 and 7, not 5'``) or as :class:`~mmml_losses.evaluation.Query`.
        top: Number of images in a row.
        image_loader: Function from an image path in the predictions to an image array. Images for which it raises an
            OSError are grey, with a warning; a ValueError is raised if that is so for all of them.
        title: Heading of the picture.
    """
    if not runs or not queries:
        raise ValueError(f'a sheet needs at least one run and one query, got {len(runs)} and {len(queries)}')
    if top < 1:
        raise ValueError(f'top must be at least 1, got {top}')
    check_same_data(runs)
    data = next(iter(runs.values()))
    width = NAME_WIDTH + top * CELL_WIDTH
    y = TITLE_HEIGHT if title else 0.0
    height = y + len(queries) * (HEADER_HEIGHT + len(runs) * CELL_HEIGHT)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis('off')
    if title:
        heading = plain(wrapped(title, int(9 * width)))
        axes.text(width / 2, 0.3, heading, fontsize=14, weight='bold', color=INK, ha='center', va='center')
    missing: list[str] = []
    for query in queries:
        query = parse_query(query, data.class_names) if isinstance(query, str) else query
        _draw_header(axes, data, query, y, width - 0.1)
        y += HEADER_HEIGHT
        for name, predictions in runs.items():
            missing += _draw_run(axes, name, predictions, query, top, y, image_loader)
            y += CELL_HEIGHT
    if missing:
        number = len(queries) * len(runs) * min(top, data.num_samples)
        message = (
            f"{len(missing)} of {number} images of the sheet cannot be opened, the first is '{missing[0]}': paths are "
            'as the evaluation knew them, perhaps relative to the folder in which it ran'
        )
        if len(missing) == number:
            raise ValueError(message)
        warnings.warn(message, stacklevel=2)
    # Last, because each image that is drawn resets the limits.
    axes.set(xlim=(0, width), ylim=(height, 0), aspect='equal')
    return figure


def _draw_header(axes: Axes, data: Predictions, query: Query, y: float, right_edge: float) -> None:
    text = plain(query.describe(data.class_names))
    axes.text(0.1, y + 0.36, text, fontsize=13, weight='bold', color=INK, va='center')
    answer = f'{relevant_images(data.labels, *query).sum():,} of {data.num_samples:,} images match'
    axes.text(right_edge, y + 0.36, answer, fontsize=9.5, color=MUTED, va='center', ha='right')
    axes.plot([0.1, right_edge], [y + 0.56, y + 0.56], color=GRID, linewidth=1)


def _draw_run(
    axes: Axes, name: str, run: Predictions, query: Query, top: int, y: float, image_loader: ImageLoader
) -> list[str]:
    """Draw the ``top`` best images of a run in a row with its top at ``y``; return the paths that cannot be opened."""
    ranking = rank_images(run.scores, *query, top=top)
    right = relevant_images(run.labels, *query)[ranking]
    axes.text(0.1, y + 0.54, plain(wrapped(name, 16, 3)), fontsize=10, weight='bold', color=INK, va='bottom')
    axes.text(0.1, y + 0.6, f'{right.sum()} of {len(ranking)} right', fontsize=9.5, color=MUTED, va='top')
    missing = []
    for column, (index, is_right) in enumerate(zip(ranking, right, strict=True)):
        x = NAME_WIDTH + column * CELL_WIDTH
        path = run.image_paths[index]
        try:
            image = image_loader(path)
        except OSError:
            image = None
            missing.append(path)
        draw_image(axes, image, path, x, y + 0.06)
        _draw_mark(axes, bool(is_right), x, y + 0.06)
        shown = ', '.join(run.class_names[i] for i in np.flatnonzero(run.labels[index] == 1))
        caption = plain(wrapped(shown or 'no label', 18, 2))
        axes.text(x + 0.5, y + 1.11, caption, fontsize=8.5, color=MUTED, ha='center', va='top')
    return missing


def draw_image(axes: Axes, image: np.ndarray | None, path: str, x: float, y: float, side: float = 1.0) -> None:
    """Draw an image into a square with its upper left corner at (x, y); None draws the name of the missing file.

    The vertical axis of ``axes`` must point down. The image keeps its proportions.
    """
    axes.add_patch(Rectangle((x, y), side, side, facecolor=BACKGROUND))
    if image is None:
        name = wrapped(Path(path).name or 'no file', 14, 2)
        middle = (x + side / 2, y + side / 2)
        axes.text(*middle, plain(f'not found\n{name}'), fontsize=7, color=MUTED, ha='center', va='center')
        return
    rows, columns = image.shape[:2]
    width, height = side * columns / max(rows, columns), side * rows / max(rows, columns)
    left, upper = x + (side - width) / 2, y + (side - height) / 2
    # The first row of the image lies at the smaller y.
    axes.imshow(image, extent=(left, left + width, upper + height, upper), cmap='gray', zorder=2)


def _draw_mark(axes: Axes, is_right: bool, x: float, y: float) -> None:
    color, sign, dashes = (GREEN, '✓', '-') if is_right else (RED, '✗', (0, (2.5, 1.5)))
    axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor=color, linewidth=2.6, linestyle=dashes, zorder=3))
    badge = {'boxstyle': 'circle,pad=0.18', 'facecolor': color, 'edgecolor': 'white', 'linewidth': 1}
    style = {'fontsize': 9.5, 'weight': 'bold', 'color': 'white', 'ha': 'center', 'va': 'center'}
    axes.text(x + 0.9, y + 0.1, sign, style, bbox=badge, zorder=4)


def plot_retrieval_curve(results: Mapping[str, RetrievalResult], title: str | None = None) -> Figure:
    """Draw the mean average precision of queries against their number of conditions (classes required or excluded).

    Args:
        results: Dict from run name to result of :func:`~mmml_losses.evaluation.query_retrieval`. A run has 95 %
            intervals if it was measured on a random sample of the queries. A mean over all queries is exact.
        title: Heading of the picture.
    """
    if not results:
        raise ValueError('results must hold at least one run, got none')
    figure = Figure(figsize=(6.4, 4.6), layout='constrained')
    axes = figure.subplots()
    for index, (name, result) in enumerate(results.items()):
        _draw_result(axes, index, name, result, shift=0.04 * (index - (len(results) - 1) / 2))
    axes.set_xticks(sorted({number for result in results.values() for number in result.by_conditions}))
    axes.legend(loc='best', fontsize=9, framealpha=0.9, edgecolor=GRID, labelcolor=INK, handlelength=3.2)
    sampled = not all(result.exhaustive for result in results.values())
    note = 'a random sample of the queries; bars: 95 % intervals' if sampled else 'all queries that have an answer'
    tidy(axes, 'number of conditions, |P| + |N|', 'retrieval mAP [%]', note=note)
    add_title(figure, title)
    return figure


def _draw_result(axes: Axes, index: int, name: str, result: RetrievalResult, shift: float) -> None:
    conditions = np.array(sorted(result.by_conditions), dtype=np.float64)
    means = [result.by_conditions[int(number)] for number in conditions]
    half_widths = np.array([0.0 if result.exhaustive else 100 * mean.half_width for mean in means])
    has_bars = half_widths.any()
    label = plain(f'{wrapped(name, 36)} (overall {percent(result.overall.value)})')
    container = axes.errorbar(
        # A little apart, so that the bars of two runs do not hide each other.
        conditions + (shift if has_bars else 0),
        [100 * mean.value for mean in means],
        yerr=half_widths if has_bars else None,
        **line_style(index, markersize=7, capsize=4, label=label),
    )
    for bars in container.lines[2]:
        bars.set_linestyle('-')

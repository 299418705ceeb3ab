"""Draw a result against one or two arguments."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ..utils.arrays import ArrayLike, as_array
from .heat_map import draw_heat_map
from .style import INK, add_title, line_style, plain, tidy, wrapped


def plot_sweep(
    grid: Mapping[str, Sequence[str]], results: ArrayLike, name: str = 'result', title: str | None = None
) -> Figure:
    """Draw a result as a curve over the values of one argument, or as a heat map over the values of two.

    Args:
        grid: Dict from each argument to its values as text. Numbers are placed by their value along a curve, other
            values at equal distances; a heat map has them in the given order.
        results: Array of the results, with one axis for each argument. NaN is left out.
        name: Name of the result, such as ``'multi-label/mAP@class'``.
        title: Heading of the picture.
    """
    results = as_array(results).astype(np.float64)
    if len(grid) not in (1, 2) or results.shape != tuple(map(len, grid.values())):
        raise ValueError(
            f'results must have an axis for each of one or two arguments, got the shape {results.shape} for '
            f'{ {argument: len(values) for argument, values in grid.items()} }'
        )
    names = [plain(wrapped(argument, 60)) for argument in grid]
    if len(grid) == 1:
        figure = Figure(figsize=(5.6, 3.8), layout='constrained')
        axes = figure.subplots()
        (values,) = grid.values()
        try:
            places = np.array([float(value) for value in values])
        except ValueError:
            places = np.arange(len(values))
            axes.set_xticks(places, [plain(value) for value in values])
        order = np.argsort(places, kind='stable')
        axes.plot(places[order], results[order], **line_style(0, markersize=7))
        tidy(axes, names[0], plain(name))
    else:
        rows, columns = grid.values()
        size = (float(np.clip(0.62 * len(columns) + 2.6, 4.6, 11)), float(np.clip(0.5 * len(rows) + 1.6, 3.4, 9)))
        figure = Figure(figsize=size, layout='constrained')
        axes = figure.subplots()
        draw_heat_map(figure, axes, results, rows, columns, '.1f', plain(name))
        axes.set_xlabel(names[1], color=INK)
        axes.set_ylabel(names[0], color=INK)
    add_title(figure, title)
    return figure

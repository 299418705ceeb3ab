"""Heat maps: results of two arguments, and how often labels occur together."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..utils.arrays import ArrayLike, as_array
from .style import INK, add_title, plain, wrapped

# Largest number of rows and columns whose cells hold their values, and whose names are written.
MOST_VALUES, MOST_NAMES = 20, 60


def draw_heat_map(
    figure: Figure, axes: Axes, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], text: str, label: str
) -> None:
    """Draw a matrix as coloured cells with a colour bar. NaN is white.

    Args:
        figure: The figure of the axes.
        axes: Axes to draw in.
        values: (R, C) values.
        rows: Names of the R rows, from the top.
        columns: Names of the C columns.
        text: Format of the values in the cells, such as ``'.1f'``; they are left out of large matrices.
        label: Label of the colour bar.
    """
    image = axes.imshow(values, cmap='cividis', aspect='auto')
    for side, names in ((axes.xaxis, columns), (axes.yaxis, rows)):
        if len(names) <= MOST_NAMES:
            side.set_ticks(np.arange(len(names)), [plain(wrapped(name, 18)) for name in names])
    if max(map(len, columns)) > 4:
        axes.tick_params(axis='x', labelrotation=90)
    axes.tick_params(colors=INK, labelsize=9 if len(rows) <= MOST_VALUES else 7, length=0)
    axes.spines[:].set_visible(False)
    if max(values.shape) <= MOST_VALUES:
        middle = (np.nanmin(values) + np.nanmax(values)) / 2
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value):
                color = 'white' if value < middle else INK
                axes.text(column, row, f'{value:{text}}', ha='center', va='center', fontsize=8.5, color=color)
    bar = figure.colorbar(image, ax=axes)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=9, length=0)
    bar.set_label(label, color=INK)


def plot_co_occurrence(probabilities: ArrayLike, class_names: Sequence[str], title: str | None = None) -> Figure:
    """Draw how often a label occurs where another one does, as Figure 1 of the DR paper does for birds and people.

    Args:
        probabilities: (C, C), the share of the samples with label i that also have label j, at row i and column j; see
            ``mmml_losses.models.ml_gcn.conditional_probabilities``.
        class_names: Names of the C classes.
        title: Heading of the picture.
    """
    values = as_array(probabilities)
    if values.shape != (len(class_names), len(class_names)) or not len(class_names):
        raise ValueError(
            f'probabilities must have a row and a column for each of {len(class_names)} classes, got the shape '
            f'{values.shape}'
        )
    size = float(np.clip(0.42 * len(class_names) + 1.6, 4, 10))
    figure = Figure(figsize=(size + 1, size), layout='constrained')
    axes = figure.subplots()
    draw_heat_map(figure, axes, values, class_names, class_names, '.2f', 'share of the images with the row label')
    axes.set_xlabel('that also have', color=INK)
    axes.set_ylabel('images with', color=INK)
    add_title(figure, title)
    return figure

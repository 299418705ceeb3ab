"""Retrieval mAP against the number of conditions of a query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evaluation import RetrievalResult
from .style import GRID, INK, MUTED, add_title, line_style, percent, plain, tidy, wrapped


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

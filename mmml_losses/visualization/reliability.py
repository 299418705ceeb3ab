"""Reliability diagrams: predicted probability against observed frequency."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ..evaluation import ReliabilityBins, calibration_errors
from .style import GRID, INK, MUTED, add_title, line_style, percent, plain, tidy, wrapped

# What the axes say, by what is predicted.
AXES = {
    'labels': ('predicted probability', 'share of positive labels', 'pairs per bin'),
    'detections': ('score of the detection', 'share of right detections', 'detections per bin'),
}


def plot_reliability(
    curves: Mapping[str, ReliabilityBins], title: str | None = None, predicted: str = 'labels'
) -> Figure:
    """Draw the reliability curves of several runs over one diagonal, and below how many pairs each bin holds.

    Args:
        curves: Name of each run and its :func:`~mmml_losses.evaluation.reliability_bins`.
        title: Heading of the picture.
        predicted: What the probabilities are of, ``'labels'`` of images or ``'detections'``.
    """
    if not curves:
        raise ValueError('curves must hold at least one run, got none')
    if predicted not in AXES:
        raise ValueError(f'predicted must be one of {", ".join(map(repr, AXES))}, got {predicted!r}')
    figure = Figure(figsize=(6.0, 7.2), layout='constrained')
    diagram, histogram = figure.subplots(2, 1, sharex=True, height_ratios=(3.4, 1))
    _draw_curves(diagram, curves)
    _draw_counts(histogram, curves)
    histogram.set_xlabel(AXES[predicted][0], color=INK)
    for axes, text in zip((diagram, histogram), AXES[predicted][1:], strict=True):
        axes.set_ylabel(text, color=INK)
    for axes in (diagram, histogram):
        tidy(axes)
    add_title(figure, title)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, ReliabilityBins]) -> None:
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (8, 4)), label='perfectly calibrated')
    for index, (name, bins) in enumerate(curves.items()):
        style = line_style(index)
        filled = bins.counts > 0
        axes.plot(
            bins.mean_probability[filled],
            bins.positive_rate[filled],
            **style._asdict(),
            linewidth=2,
            markersize=6.5,
            markeredgecolor='white',
            markeredgewidth=0.8,
            label=plain(f'{wrapped(name, 36)} (ACE {percent(calibration_errors(bins).ace)})'),
        )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=np.arange(11) / 10, yticks=np.arange(11) / 10)
    axes.legend(loc='best', fontsize=9, framealpha=0.9, edgecolor=GRID, handlelength=3.2)
    note = 'above the diagonal: probabilities too low · below: too high'
    axes.set_title(note, loc='left', color=MUTED, fontsize=9)


def _draw_counts(axes: Axes, curves: Mapping[str, ReliabilityBins]) -> None:
    for index, bins in enumerate(curves.values()):
        style = line_style(index)
        # An empty bin has no place on a logarithmic axis: a gap in the line says so.
        counts = np.where(bins.counts > 0, bins.counts, np.nan)
        axes.stairs(counts, bins.edges, color=style.color, linestyle=style.linestyle, linewidth=1.8, baseline=None)
    axes.set_yscale('log')
    axes.yaxis.set_minor_formatter(NullFormatter())  # over few decades it would label all of them

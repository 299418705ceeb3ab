"""Reliability diagrams: predicted probability against observed frequency."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ..evaluation import ReliabilityBins, calibration_errors
from ..utils.arguments import check_choice
from .style import GRID, MUTED, add_title, line_style, percent, plain, tidy, wrapped

# Labels of the axes, by what is predicted.
AXES = {
    'labels': ('predicted probability', 'share of positive labels', 'pairs per bin'),
    'detections': ('score of the detection', 'share of right detections', 'detections per bin'),
}


def plot_reliability(
    curves: Mapping[str, ReliabilityBins], title: str | None = None, predicted: str = 'labels'
) -> Figure:
    """Draw reliability curves of runs, observed against predicted frequency, and below them the counts of the bins.

    Args:
        curves: Dict from run name to :func:`~mmml_losses.evaluation.reliability_bins`, a curve for each run.
        title: Heading of the picture.
        predicted: What was predicted: ``'labels'`` of images or ``'detections'``. It decides the texts at the axes.
    """
    if not curves:
        raise ValueError('curves must hold at least one run, got none')
    check_choice('predicted', predicted, AXES)
    figure = Figure(figsize=(6.0, 7.2), layout='constrained')
    diagram, histogram = figure.subplots(2, 1, sharex=True, height_ratios=(3.4, 1))
    _draw_curves(diagram, curves)
    _draw_counts(histogram, curves)
    xlabel, diagram_label, histogram_label = AXES[predicted]
    tidy(diagram, ylabel=diagram_label, note='above the diagonal: probabilities too low · below: too high')
    tidy(histogram, xlabel, histogram_label)
    add_title(figure, title)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, ReliabilityBins]) -> None:
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.2, linestyle=(0, (8, 4)), label='perfectly calibrated')
    for index, (name, bins) in enumerate(curves.items()):
        filled = bins.counts > 0
        label = plain(f'{wrapped(name, 36)} (ACE {percent(calibration_errors(bins).ace)})')
        style = line_style(index, markersize=6.5, label=label)
        axes.plot(bins.mean_probability[filled], bins.positive_rate[filled], **style)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=np.arange(11) / 10, yticks=np.arange(11) / 10)
    axes.legend(loc='best', fontsize=9, framealpha=0.9, edgecolor=GRID, handlelength=3.2)


def _draw_counts(axes: Axes, curves: Mapping[str, ReliabilityBins]) -> None:
    for index, bins in enumerate(curves.values()):
        style = line_style(index)
        # A logarithmic axis has no place for an empty bin: the line has a gap there.
        counts = np.where(bins.counts > 0, bins.counts, np.nan)
        look = dict(color=style['color'], linestyle=style['linestyle'])
        axes.stairs(counts, bins.edges, **look, linewidth=1.8, baseline=None)
    axes.set_yscale('log')
    axes.yaxis.set_minor_formatter(NullFormatter())  # over few decades it would label all minor ticks

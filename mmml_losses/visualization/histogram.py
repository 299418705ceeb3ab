"""Histograms of the probabilities that a model gives to positive, negative and missing labels."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evaluation import Predictions
from ..evaluation.functional.calibration import bin_numbers, equal_width_limits
from ..utils.arrays import as_probabilities, row_blocks
from .style import BLUE, GREEN, GRID, INK, VERMILLION, add_title, plain, tidy, wrapped

COLUMNS = 3

# Colour, dashes and hatch of each kind of label; each of the three differs between the kinds.
_LOOKS = {
    'positive': (BLUE, '-', '//'),
    'negative': (VERMILLION, (0, (5, 1.5)), '..'),
    'missing': (GREEN, (0, (1, 1)), '\\\\'),
}


def probability_shares(predictions: Predictions, num_bins: int = 20) -> dict[str, tuple[int, np.ndarray]]:
    """Compute how the probabilities of positive, negative and missing labels spread over bins of equal width.

    If the predictions have no ``true_labels``, a label is positive (1) or negative (0). With them, a positive label is
    1 in the labels, a missing label is 1 in the true labels and 0 or -1 in the labels, and a negative label is 0 in
    both. All others are unknown and left out.

    Args:
        predictions: Predictions on a dataset; the scores must be probabilities.
        num_bins: Number of bins. :func:`~mmml_losses.evaluation.reliability_bins` has the same bin edges.

    Returns:
        A dict from ``'positive'``, ``'negative'`` and, with true labels, ``'missing'`` to (number of such labels, (B,)
        share of them in each bin). The shares add up to 1, or are 0 if there are no such labels.
    """
    if num_bins < 1:
        raise ValueError(f'num_bins must be at least 1, got {num_bins}')
    probabilities = as_probabilities(predictions.scores, 'scores')
    limits = equal_width_limits(num_bins)
    counts = {kind: np.zeros(num_bins, dtype=np.int64) for kind in _members(predictions, slice(0))}
    for rows in row_blocks(*probabilities.shape):
        bins = bin_numbers(probabilities[rows].astype(np.float64), limits)
        for kind, members in _members(predictions, rows).items():
            counts[kind] += np.bincount(bins[members], minlength=num_bins)
    return {kind: (int(count.sum()), count / max(1, count.sum())) for kind, count in counts.items()}


def plot_probability_histogram(runs: Mapping[str, Predictions], num_bins: int = 20, title: str | None = None) -> Figure:
    """Draw a panel for each run with histograms of the probabilities of positive, negative and missing labels.

    The bars of each kind of label add up to 100 %. The vertical axis is logarithmic, since errors are rare.

    Args:
        runs: Dict from name to predictions. Missing labels are drawn for a run with ``true_labels``.
        num_bins: Number of bins.
        title: Heading of the picture.
    """
    if not runs:
        raise ValueError('runs must hold at least one run, got none')
    shares = {name: probability_shares(run, num_bins) for name, run in runs.items()}
    columns = min(COLUMNS, len(runs))
    rows = -(-len(runs) // columns)
    figure = Figure(figsize=(max(5.2, 3.9 * columns), 3.5 * rows + 0.4), layout='constrained')
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    smallest = min(share[share > 0].min(initial=1.0) for of_run in shares.values() for _, share in of_run.values())
    floor = min(np.floor(np.log10(smallest)), -1)
    panels[0].set_yscale('log')
    # The upper quarter, above 100 %, is for the legend.
    panels[0].set_ylim(100 * 10**floor, 100 * 10 ** (-floor / 3))
    panels[0].set_yticks(100 * 10.0 ** np.arange(floor, 1))
    for axes, (name, of_run) in zip(panels, shares.items(), strict=False):
        _draw_shares(axes, name, of_run, np.arange(num_bins + 1) / num_bins)
    for axes in panels[len(shares) :]:
        axes.set_visible(False)
    figure.supxlabel('predicted probability', color=INK, fontsize=10)
    figure.supylabel('share of the labels of a kind [%]', color=INK, fontsize=10)
    add_title(figure, title)
    return figure


def _members(predictions: Predictions, rows: slice) -> dict[str, np.ndarray]:
    """Return a dict from each key of :func:`probability_shares` to its mask (n, C) in ``rows`` of the predictions."""
    labels = predictions.labels[rows]
    if predictions.true_labels is None:
        return {'positive': labels == 1, 'negative': labels == 0}
    truth = predictions.true_labels[rows]
    return {'positive': labels == 1, 'negative': (labels == 0) & (truth == 0), 'missing': (labels != 1) & (truth == 1)}


def _draw_shares(axes: Axes, name: str, shares: Mapping[str, tuple[int, np.ndarray]], edges: np.ndarray) -> None:
    for kind, (count, share) in shares.items():
        color, dashes, hatch = _LOOKS[kind]
        axes.stairs(100 * share, edges, fill=True, facecolor='none', edgecolor=color, hatch=hatch, alpha=0.35, lw=0)
        axes.stairs(100 * share, edges, color=color, linestyle=dashes, linewidth=2, label=f'{kind} ({count:,})')
    axes.yaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.set_xlim(-0.02, 1.02)
    axes.legend(loc='upper center', fontsize=8.5, framealpha=0.9, edgecolor=GRID, labelcolor=INK, handlelength=2.6)
    axes.tick_params(which='minor', length=0)
    tidy(axes, heading=plain(wrapped(name, 40)))

"""Pictures of losses: value, gradient and link against the logit or the probability of one label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..losses import MultiLabelLoss
from .loss_curves import LABEL_KINDS, LabelKind, LossCurve, build_loss, loss_curve
from .style import GRID, INK, add_title, line_style, plain, tidy, wrapped

Against = Literal['logit', 'probability']
Quantity = Literal['value', 'gradient', 'link']

NUM_POINTS = 301
MARKERS_PER_CURVE = 9
LIMIT = 6.0
AGAINST = ('logit', 'probability')
_NAMES = {'value': 'loss', 'gradient': 'gradient by the logit'}


def plot_loss_curves(
    losses: Mapping[str, MultiLabelLoss | Mapping | str],
    against: Against = 'probability',
    show: Sequence[Quantity] = ('value', 'gradient'),
    labels: Sequence[LabelKind] = LABEL_KINDS,
    *,
    limit: float = LIMIT,
    epoch: int = 1,
    num_classes: int = 1,
    opponent: float = 2.5,
    title: str | None = None,
) -> Figure:
    """Draw what one label costs under several losses, and the gradient by its logit, as the losses themselves say.

    One column for each kind of label, one row for value and gradient. The probability is that of the loss's own
    link, which ``'link'`` shows against the logit.

    Args:
        losses: Name of each curve, and a loss, its config, or its text as in
            :func:`~mmml_losses.visualization.parse_loss`.
        against: The horizontal axis: ``'probability'`` or ``'logit'``.
        show: Some of ``'value'``, ``'gradient'`` and ``'link'``.
        labels: ``'positive'``, ``'negative'`` or both.
        limit: The curves reach from the logit ``-limit`` to ``limit``; 6 is a probability of 0.9975 under a sigmoid.
        epoch: As in :func:`~mmml_losses.visualization.loss_curve`.
        num_classes: As there.
        opponent: As there.
        title: Heading of the picture.
    """
    _check_choices(losses, against, show, labels)
    if not limit > 0:
        raise ValueError(f'limit must be above 0, got {limit}')
    logits = np.linspace(-limit, limit, NUM_POINTS)
    context = dict(epoch=epoch, num_classes=num_classes, opponent=opponent)
    losses = {name: build_loss(loss) for name, loss in losses.items()}
    curves = {
        label: {name: loss_curve(loss, label, logits, **context) for name, loss in losses.items()} for label in labels
    }
    rows = [quantity for quantity in (*_NAMES, 'link') if quantity in show]
    figure = Figure(figsize=(max(5.4, 4.6 * len(curves)), 2.9 * len(rows) + 0.9), layout='constrained')
    grid = figure.add_gridspec(len(rows), len(curves))
    for row, quantity in enumerate(rows):
        if quantity == 'link':
            _draw_link(figure.add_subplot(grid[row, :]), curves[labels[0]])
            continue
        for column, label in enumerate(curves):
            _draw_panel(figure.add_subplot(grid[row, column]), curves[label], label, quantity, against)
    _draw_legend(figure, columns=3 if len(curves) == 2 else 2)
    add_title(figure, title)
    return figure


def _check_choices(losses: Mapping, against: str, show: Sequence[str], labels: Sequence[str]) -> None:
    if not losses:
        raise ValueError('losses must hold at least one loss, got none')
    if against not in AGAINST:
        raise ValueError(f'against must be one of {AGAINST}, got {against!r}')
    for name, chosen, known in (('show', show, (*_NAMES, 'link')), ('labels', labels, LABEL_KINDS)):
        if isinstance(chosen, str) or not chosen or not set(chosen) <= set(known):
            raise ValueError(f'{name} must be some of {known}, got {chosen!r}')


def _draw_panel(axes: Axes, curves: Mapping[str, LossCurve], label: str, quantity: str, against: str) -> None:
    for index, (name, curve) in enumerate(curves.items()):
        x = curve.logits if against == 'logit' else curve.probabilities
        y = curve.values if quantity == 'value' else curve.gradients
        _draw_curve(axes, index, name, x, y)
    axes.set_title(f'{_NAMES[quantity]}, {label} label', loc='left', color=INK, fontsize=10, weight='bold')
    axes.set_xlabel(against, color=INK)
    if against == 'probability':
        axes.set_xlim(-0.01, 1.01)
    tidy(axes)


def _draw_link(axes: Axes, curves: Mapping[str, LossCurve]) -> None:
    for index, (name, curve) in enumerate(curves.items()):
        _draw_curve(axes, index, name, curve.logits, curve.probabilities)
    axes.set_title('link: what a logit reads as', loc='left', color=INK, fontsize=10, weight='bold')
    axes.set_xlabel('logit', color=INK)
    axes.set_ylabel('probability', color=INK)
    axes.set_ylim(-0.02, 1.02)
    tidy(axes)


def _draw_curve(axes: Axes, index: int, name: str, x: np.ndarray, y: np.ndarray) -> None:
    # Markers at places of their own for each curve, and evenly along the axis, wherever the points lie.
    places = np.linspace(x[0], x[-1], MARKERS_PER_CURVE * 4 + 1)[1 + index % 4 :: 4]
    marked = np.unique(np.searchsorted(x, places).clip(max=len(x) - 1)).tolist()
    axes.plot(
        x,
        y,
        **line_style(index)._asdict(),
        linewidth=1.9,
        markersize=5.5,
        markeredgecolor='white',
        markeredgewidth=0.7,
        markevery=marked,
        label=plain(wrapped(name, 44, 2)),
    )


def _draw_legend(figure: Figure, columns: int) -> None:
    """One legend below all panels: inside, no corner is free under every choice of losses."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc='outside lower center',
        ncols=min(len(names), columns),
        fontsize=9,
        edgecolor=GRID,
        labelcolor=INK,
        handlelength=3.6,
    )

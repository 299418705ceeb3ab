"""Draw what set-wise losses cost, and how they pull, as functions of the margin between positives and negatives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from ..losses import MultiLabelLoss
from ..losses.setwise import SetwiseLoss
from .loss_curves import MARKERS_PER_CURVE, build_loss
from .style import add_title, legend_below, line_style, plain, tidy, wrapped


def margin_curve(
    loss: SetwiseLoss, margins: np.ndarray, num_positives: int = 3, num_negatives: int = 77, spread: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Compute a set-wise loss of one sample, and its pull on the margin, at each of several margins.

    Args:
        loss: The loss.
        margins: (P,) margins: distances from the highest negative logit to the lowest positive logit.
        num_positives: Number of positive labels.
        num_negatives: Number of negative labels.
        spread: Distance from the lowest to the highest positive logit, and from the lowest to the highest negative one.

    Returns:
        (P,) values of the loss, and (P,) pulls: how much the value falls for a margin that grows by one.
    """
    if num_positives < 1 or num_negatives < 1 or spread < 0:
        raise ValueError(
            'num_positives and num_negatives must be at least 1 and spread at least 0, got '
            f'{num_positives}, {num_negatives} and {spread}'
        )
    if not isinstance(loss, SetwiseLoss) or loss.way == 'class':
        raise ValueError(f'loss must compare the labels of a sample, got {loss}')
    above = torch.linspace(0, spread, num_positives, dtype=torch.float64)
    below = torch.linspace(-spread, 0, num_negatives, dtype=torch.float64)
    targets = torch.tensor([[1.0] * num_positives + [0.0] * num_negatives])
    values, pulls = [], []
    for margin in torch.as_tensor(margins, dtype=torch.float64):
        margin = margin.clone().requires_grad_()
        logits = torch.cat([margin + above, below])[None]
        value = loss(logits, targets, reduction_override='sum')
        values.append(float(value.detach()))
        pulls.append(-float(torch.autograd.grad(value, margin)[0]))
    return np.array(values), np.array(pulls)


def plot_margins(
    losses: Mapping[str, MultiLabelLoss | Mapping | str],
    limit: float = 15.0,
    title: str | None = None,
    **sample: Any,
) -> Figure:
    """Draw losses of one sample by its margin, and the pull of each on the margin; Fig. 1 of the two-way paper.

    Args:
        losses: Dict from name to a set-wise loss, its config, or a text for :func:`parse_loss`.
        limit: Largest margin; the smallest is ``-limit / 3``.
        title: Heading of the picture.
        **sample: ``num_positives``, ``num_negatives`` and ``spread`` of :func:`margin_curve`.
    """
    if not losses or limit <= 0:
        raise ValueError(f'losses must hold at least one loss and limit be above 0, got {len(losses)} and {limit}')
    margins = np.linspace(-limit / 3, limit, 161)
    figure = Figure(figsize=(8.4, 4.0), layout='constrained')
    panels = figure.subplots(1, 2)
    for index, (name, loss) in enumerate(losses.items()):
        curves = margin_curve(build_loss(loss), margins, **sample)
        style = line_style(index, markersize=6, markevery=(2 * index, len(margins) // MARKERS_PER_CURVE))
        for axes, curve in zip(panels, curves, strict=True):
            axes.plot(margins, curve, label=plain(wrapped(name, 40)), **style)
    for axes, heading in zip(panels, ('loss', 'pull on the margin'), strict=True):
        tidy(axes, 'margin: lowest positive - highest negative logit', heading=heading)
    legend_below(figure, *panels[0].get_legend_handles_labels(), ncols=min(len(losses), 4), handlelength=3.2)
    add_title(figure, title)
    return figure

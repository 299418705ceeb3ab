"""What one label costs, and how hard it pulls at its logit: taken from the losses themselves."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ..losses import LabelPairRegularizer, MultiLabelLoss, SumLoss
from ..losses.setwise import SetwiseLoss
from ..registry import LOSSES
from .style import GRID, INK, add_title, line_style, plain, tidy, wrapped

LabelKind = Literal['positive', 'negative']
LABEL_KINDS: tuple[LabelKind, ...] = ('positive', 'negative')
Against = Literal['logit', 'probability']
Quantity = Literal['value', 'gradient', 'link']

NUM_POINTS = 301
MARKERS_PER_CURVE = 9
LIMIT = 6.0
AGAINST = ('logit', 'probability')
_NAMES = {'value': 'loss', 'gradient': 'gradient by the logit'}


@dataclass(frozen=True)
class LossCurve:
    """A loss along the logit of one label.

    Attributes:
        logits: (P,) logits of the label.
        probabilities: (P,) what the logits read as, through the link of the loss.
        values: (P,) the loss.
        gradients: (P,) its derivative by the logit.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    values: np.ndarray
    gradients: np.ndarray


def parse_loss(text: str) -> dict:
    """Read a loss as it is written in Python, such as ``AsymmetricLoss(gamma_negative=4, margin=0.05)``.

    Arguments are keywords with plain values: numbers, strings, lists and dicts.

    Returns:
        The config of the loss, ``dict(type=..., ...)``.
    """
    example = 'such as HillLoss or AsymmetricLoss(gamma_negative=4)'
    try:
        call = ast.parse(text.strip(), mode='eval').body
    except SyntaxError:
        raise ValueError(f'a loss must be a name with arguments, {example}, got {text!r}') from None
    arguments = []
    if isinstance(call, ast.Call):
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError(f'a loss must have keyword arguments only, {example}, got {text!r}')
        call, arguments = call.func, call.keywords
    name = ast.unparse(call)
    if not all(part.isidentifier() for part in name.split('.')):
        raise ValueError(f'a loss must be a name with arguments, {example}, got {text!r}')
    config = dict(type=name)
    for argument in arguments:
        try:
            config[argument.arg] = ast.literal_eval(argument.value)
        except ValueError:
            value = ast.unparse(argument.value)
            raise ValueError(f'{argument.arg} of {name} must be a plain value, got {value}') from None
    return config


def build_loss(loss: MultiLabelLoss | Mapping | str) -> MultiLabelLoss:
    """Build a loss from a config or from what :func:`parse_loss` reads; a loss stays as it is."""
    if isinstance(loss, str):
        loss = parse_loss(loss)
    if isinstance(loss, Mapping):
        try:
            loss = LOSSES.build(dict(loss))
        except TypeError as error:
            raise ValueError(f'{loss["type"]} cannot be built with these arguments: {error}') from error
    if not isinstance(loss, MultiLabelLoss):
        raise ValueError(f'loss must be a loss of mmml_losses, got {type(loss).__name__}')
    return loss


def loss_curve(
    loss: MultiLabelLoss,
    label: LabelKind,
    logits: Sequence[float] | np.ndarray,
    *,
    epoch: int = 1,
    num_classes: int = 1,
    opponent: float = 2.5,
) -> LossCurve:
    """Evaluate a loss on one label, logit by logit, with its gradient by autograd.

    A pointwise loss sees the label alone; when ``num_classes`` is more than one, the others are unknown, which
    matters only to losses with a constant that counts classes (WAN, LAS, LASD). A set-wise loss, and the label pair
    regulariser, compares it with one label of the other kind that does not move, the setting of Fig. 3 of the DR
    paper: of the same sample, of the same class, or of each of them, by the way of the loss. The value is the sum
    over the loss's sets, times its ``loss_weight``.

    Args:
        loss: The loss.
        label: ``'positive'`` or ``'negative'``.
        logits: (P,) where to evaluate.
        epoch: For losses that change with it, counted from 0.
        num_classes: How many classes there are, for a pointwise loss.
        opponent: Logit of the other label when it is positive; minus it when it is negative.

    Raises:
        ValueError: The value of a label depends on other labels or on memory, so that it has no such curve.
    """
    if label not in LABEL_KINDS:
        raise ValueError(f'label must be one of {LABEL_KINDS}, got {label!r}')
    if num_classes < 1:
        raise ValueError(f'num_classes must be at least 1, got {num_classes}')
    points = torch.as_tensor(np.asarray(logits, dtype=np.float64))
    if points.dim() != 1 or not points.isfinite().all():
        raise ValueError(f'logits must be finite numbers of shape (P,), got the shape {tuple(points.shape)}')
    _check_has_curve(loss)
    was_training = loss.training
    loss.eval()  # no estimate is to learn from a drawing
    try:
        if loss.pointwise:
            values, gradients = _alone(loss, float(label == 'positive'), points, epoch, num_classes)
        else:
            values, gradients = _against(loss, float(label == 'positive'), points, epoch, opponent)
    finally:
        loss.train(was_training)
    with torch.no_grad():
        probabilities = _probabilities(loss, points, num_classes if loss.pointwise else 1)
    return LossCurve(*(tensor.numpy() for tensor in (points, probabilities, values, gradients)))


def _check_has_curve(loss: MultiLabelLoss) -> None:
    name = type(loss).__name__
    if isinstance(loss, SumLoss):
        for part in loss.losses.values():
            if not part.pointwise:
                raise ValueError(
                    f'only pointwise losses can be summed in one curve, got {type(part).__name__} in {name}: '
                    'draw the parts by themselves'
                )
            _check_has_curve(part)
    elif loss.remembers_samples:
        raise ValueError(f'only losses of a label by itself have such a curve, but {name} remembers samples')
    elif not loss.pointwise and not isinstance(loss, (SetwiseLoss, LabelPairRegularizer)):
        raise ValueError(f'only losses of single labels or of pairs of labels have such a curve, got {name}')


def _alone(loss: MultiLabelLoss, target: float, points: Tensor, epoch: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Values and gradients of a label by itself, point by point, so that no point can act upon another."""
    results = [_label_alone(loss, target, point[None], epoch, num_classes) for point in points]
    values, gradients = (torch.cat(columns) for columns in zip(*results, strict=True))
    together, _ = _label_alone(loss, target, points, epoch, num_classes)
    if not torch.allclose(values.sum(), together.sum(), rtol=1e-9):
        raise ValueError(
            f'only losses of a label by itself have such a curve, but in {type(loss).__name__} a label costs '
            'something else when others stand beside it'
        )
    return values, gradients


def _label_alone(
    loss: MultiLabelLoss, target: float, points: Tensor, epoch: int, num_classes: int
) -> tuple[Tensor, Tensor]:
    points = points.clone().requires_grad_()
    others = points.new_zeros(len(points), num_classes - 1)
    logits = torch.cat([points[:, None], others], dim=1)
    targets = torch.cat([torch.full_like(points[:, None], target), others - 1], dim=1)
    value = loss(logits, targets, reduction_override='sum', epoch=epoch)
    return value.detach()[None], torch.autograd.grad(value, points)[0]


def _against(loss: MultiLabelLoss, target: float, points: Tensor, epoch: int, opponent: float) -> tuple[Tensor, Tensor]:
    """Values and gradients of a label beside one of the other kind, which stands on its own side of zero."""
    way = getattr(loss, 'way', 'sample')
    other = points.new_tensor(opponent if target == 0 else -opponent)
    rest = 1 - target
    values, gradients = [], []
    for point in points:
        point = point.clone().requires_grad_()
        logits = torch.stack([point, other])
        targets = logits.new_tensor([target, rest])
        if way == 'class':
            logits, targets = logits[:, None], targets[:, None]
        elif way == 'both':
            # One opponent in the row and one in the column; the fourth label is unknown.
            logits = torch.stack([logits, torch.stack([other, torch.zeros_like(other)])])
            targets = torch.stack([targets, targets.new_tensor([rest, -1.0])])
        else:
            logits, targets = logits[None], targets[None]
        value = loss(logits, targets, reduction_override='sum', epoch=epoch)
        values.append(value.detach())
        gradients.append(torch.autograd.grad(value, point)[0])
    return torch.stack(values), torch.stack(gradients)


def _probabilities(loss: MultiLabelLoss, points: Tensor, num_classes: int) -> Tensor:
    return loss.probabilities(points[:, None].expand(-1, num_classes))[:, 0]


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

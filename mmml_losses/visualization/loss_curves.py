"""Compute the value and gradient of a loss as functions of the logit of one label, and draw them."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ..losses import LabelPairRegularizer, MultiLabelLoss, SumLoss
from ..losses.setwise import SetwiseLoss
from ..registry import LOSSES
from ..utils.arguments import check_choice
from .style import add_title, legend_below, line_style, plain, tidy, wrapped

LabelKind = Literal['positive', 'negative']
Against = Literal['logit', 'probability']
Quantity = Literal['value', 'gradient', 'link']

LABEL_KINDS: tuple[LabelKind, ...] = ('positive', 'negative')
QUANTITIES = {'value': 'loss', 'gradient': 'gradient by the logit', 'link': 'link: what a logit reads as'}
NUM_POINTS = 301
MARKERS_PER_CURVE = 9


@dataclass(frozen=True)
class LossCurve:
    """Value and gradient of a loss as functions of the logit of one label, at P logits.

    Attributes:
        logits: (P,) logits of the label.
        probabilities: (P,) probabilities of the logits, through the link of the loss.
        values: (P,) value of the loss at each logit.
        gradients: (P,) derivative of the loss with respect to the logit.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    values: np.ndarray
    gradients: np.ndarray


def parse_loss(text: str) -> dict:
    """Return the config ``dict(type=..., ...)`` of a loss written in Python.

    The text is the name of a loss, or a call such as ``AsymmetricLoss(gamma_negative=4, margin=0.05)`` whose arguments
    are keywords with plain values: numbers, strings, lists and dicts. Any other text raises a ValueError.
    """
    example = 'such as HillLoss or AsymmetricLoss(gamma_negative=4)'
    try:
        call = ast.parse(text.strip(), mode='eval').body
    except SyntaxError:
        raise ValueError(f'a loss must be a name with arguments, {example}, got {text!r}') from None
    arguments: list[ast.keyword] = []
    if isinstance(call, ast.Call):
        arguments = call.keywords
        if call.args or any(keyword.arg is None for keyword in arguments):
            raise ValueError(f'a loss must have keyword arguments only, {example}, got {text!r}')
        call = call.func
    name = ast.unparse(call)
    if not all(part.isidentifier() for part in name.split('.')):
        raise ValueError(f'a loss must be a name with arguments, {example}, got {text!r}')
    config: dict = dict(type=name)
    for argument in arguments:
        try:
            config[argument.arg] = ast.literal_eval(argument.value)
        except ValueError:
            value = ast.unparse(argument.value)
            raise ValueError(f'{argument.arg} of {name} must be a plain value, got {value}') from None
    return config


def build_loss(loss: MultiLabelLoss | Mapping | str) -> MultiLabelLoss:
    """Return the loss that a config or a text for :func:`parse_loss` describes; return a built loss unchanged."""
    config = parse_loss(loss) if isinstance(loss, str) else loss
    built: object = config
    if isinstance(config, Mapping):
        try:
            built = LOSSES.build(dict(config))
        except TypeError as error:
            raise ValueError(f'{config["type"]} cannot be built with these arguments: {error}') from error
    if not isinstance(built, MultiLabelLoss):
        raise ValueError(f'loss must be a loss of mmml_losses, got {type(built).__name__}')
    return built


def loss_curve(
    loss: MultiLabelLoss,
    label: LabelKind,
    logits: Sequence[float] | np.ndarray,
    *,
    epoch: int = 1,
    num_classes: int = 1,
    opponent: float = 2.5,
) -> LossCurve:
    """Compute a loss and its gradient, by autograd, for one label at each of several logits of the label.

    A pointwise loss, a sum over single labels, sees a sample whose other labels are unknown. The number of classes then
    matters only to losses with a constant that counts classes (WAN, LAS, LASD). A set-wise loss, and the label pair
    regulariser, compares the label with an *opponent*: a label of the other kind with a fixed logit, as in Fig. 3 of
    the DR paper. The opponent is in the same sample, in the same class, or there is one in each: as the attribute
    ``way`` of the loss says. The value is the sum over the compared sets of labels, times the ``loss_weight``.

    Args:
        loss: The loss.
        label: Kind of the label, ``'positive'`` or ``'negative'``.
        logits: (P,) logits of the label to evaluate the loss at.
        epoch: Epoch, counted from 0, for losses that depend on it.
        num_classes: Number of classes, for a pointwise loss.
        opponent: Logit of a positive opponent; a negative opponent has the logit ``-opponent``.

    Raises:
        ValueError: The loss of a label depends on further labels or on earlier samples, so it has no such curve.
    """
    if label not in LABEL_KINDS:
        raise ValueError(f'label must be one of {LABEL_KINDS}, got {label!r}')
    if num_classes < 1:
        raise ValueError(f'num_classes must be at least 1, got {num_classes}')
    points = torch.as_tensor(np.asarray(logits, dtype=np.float64))
    if points.dim() != 1 or not points.isfinite().all():
        raise ValueError(f'logits must be finite numbers of shape (P,), got the shape {tuple(points.shape)}')
    _check_has_curve(loss)
    num_classes = num_classes if loss.pointwise else 1
    was_training = loss.training
    loss.eval()  # a drawing must not update the estimates of a loss
    try:
        values, gradients = _evaluate(loss, points, *_surroundings(loss, label, num_classes, opponent), epoch)
    finally:
        loss.train(was_training)
    with torch.no_grad():
        probabilities = loss.probabilities(points[:, None].expand(-1, num_classes))[:, 0]
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


def _surroundings(loss: MultiLabelLoss, label: LabelKind, num_classes: int, opponent: float) -> tuple[Tensor, Tensor]:
    """Return (logits, targets), both (n, c) float64: the label at [0, 0], and the other labels that the loss needs."""
    target = float(label == 'positive')
    other, rest = (-opponent if target else opponent), 1 - target
    way = getattr(loss, 'way', 'sample')
    if loss.pointwise:
        logits, targets = [[0.0] * num_classes], [[target] + [-1.0] * (num_classes - 1)]
    elif way == 'class':
        logits, targets = [[0.0], [other]], [[target], [rest]]
    elif way == 'both':
        # One opponent in the row and one in the column; the fourth label is unknown.
        logits, targets = [[0.0, other], [other, 0.0]], [[target, rest], [rest, -1.0]]
    else:
        logits, targets = [[0.0, other]], [[target, rest]]
    return torch.tensor(logits, dtype=torch.float64), torch.tensor(targets, dtype=torch.float64)


def _evaluate(
    loss: MultiLabelLoss, points: Tensor, logits: Tensor, targets: Tensor, epoch: int
) -> tuple[Tensor, Tensor]:
    """Return (values, gradients), both (P,): the loss with each point as ``logits[0, 0]``, and its derivative by it."""
    values, gradients = [], []
    for point in points:
        batch = logits.clone()
        batch[0, 0] = point
        batch.requires_grad_()
        value = loss(batch, targets, reduction_override='sum', epoch=epoch)
        values.append(value.detach())
        gradients.append(torch.autograd.grad(value, batch)[0][0, 0])
    if loss.pointwise:
        batch = logits.repeat(len(points), 1)
        batch[:, 0] = points
        together = loss(batch, targets.repeat(len(points), 1), reduction_override='sum', epoch=epoch)
        if not torch.allclose(torch.stack(values).sum(), together, rtol=1e-9):
            raise ValueError(
                f'only losses of a label by itself have such a curve, but in {type(loss).__name__} a label costs '
                'something else when others stand beside it'
            )
    return torch.stack(values), torch.stack(gradients)


def plot_loss_curves(
    losses: Mapping[str, MultiLabelLoss | Mapping | str],
    against: Against = 'probability',
    show: Sequence[Quantity] = ('value', 'gradient'),
    labels: Sequence[LabelKind] = LABEL_KINDS,
    *,
    limit: float = 6.0,
    epoch: int = 1,
    num_classes: int = 1,
    opponent: float = 2.5,
    title: str | None = None,
) -> Figure:
    """Draw the value and the gradient of several losses for one label, as the losses themselves compute them.

    There is a column for each kind of label, and a row for each quantity to show. Each loss maps logits to
    probabilities by its own link.

    Args:
        losses: Dict from the name of a curve to a loss, its config, or a text for :func:`parse_loss`.
        against: Quantity on the horizontal axis: ``'probability'`` or ``'logit'`` of the label.
        show: Some of ``'value'``, ``'gradient'`` (by the logit) and ``'link'`` (logit to probability, in one panel).
        labels: Kinds of label: ``'positive'``, ``'negative'`` or both.
        limit: The curves reach from the logit ``-limit`` to ``limit``; 6 is a probability of 0.9975 under a sigmoid.
        epoch: Epoch, counted from 0, for losses that depend on it.
        num_classes: Number of classes, for pointwise losses with a constant that counts them.
        opponent: Logit of a positive opponent (see :func:`loss_curve`); a negative opponent has ``-opponent``.
        title: Heading of the picture.
    """
    if not losses:
        raise ValueError('losses must hold at least one loss, got none')
    check_choice('against', against, ('logit', 'probability'))
    for name, chosen, known in (('show', show, tuple(QUANTITIES)), ('labels', labels, LABEL_KINDS)):
        if isinstance(chosen, str) or not chosen or not set(chosen) <= set(known):
            raise ValueError(f'{name} must be some of {known}, got {chosen!r}')
    if not limit > 0:
        raise ValueError(f'limit must be above 0, got {limit}')
    logits = np.linspace(-limit, limit, NUM_POINTS)
    context: dict[str, Any] = dict(epoch=epoch, num_classes=num_classes, opponent=opponent)
    built = {name: build_loss(loss) for name, loss in losses.items()}
    curves = {
        label: {name: loss_curve(loss, label, logits, **context) for name, loss in built.items()} for label in labels
    }
    rows = [quantity for quantity in QUANTITIES if quantity in show]
    figure = Figure(figsize=(max(5.4, 4.6 * len(curves)), 2.9 * len(rows) + 0.9), layout='constrained')
    grid = figure.add_gridspec(len(rows), len(curves))
    for row, quantity in enumerate(rows):
        for column, (label, of_label) in enumerate(curves.items()):
            if quantity != 'link':
                _draw_panel(figure.add_subplot(grid[row, column]), of_label, label, quantity, against)
            elif column == 0:  # the link is the same for both kinds of label
                _draw_panel(figure.add_subplot(grid[row, :]), of_label, label, quantity, 'logit')
    handles, names = figure.axes[0].get_legend_handles_labels()
    # One legend below all panels: inside, no corner is free under every choice of losses.
    columns = min(len(names), 3 if len(curves) == 2 else 2)
    legend_below(figure, handles, names, ncols=columns, handlelength=3.6)
    add_title(figure, title)
    return figure


def _draw_panel(axes: Axes, curves: Mapping[str, LossCurve], label: LabelKind, quantity: str, against: Against) -> None:
    for index, (name, curve) in enumerate(curves.items()):
        x = curve.logits if against == 'logit' else curve.probabilities
        y = {'value': curve.values, 'gradient': curve.gradients, 'link': curve.probabilities}[quantity]
        # Each curve has its markers at other places, evenly along the axis.
        places = np.linspace(x[0], x[-1], MARKERS_PER_CURVE * 4 + 1)[1 + index % 4 :: 4]
        marked = np.unique(np.searchsorted(x, places).clip(max=len(x) - 1)).tolist()
        style = line_style(index, linewidth=1.9, markersize=5.5, markeredgewidth=0.7, markevery=marked)
        axes.plot(x, y, **style, label=plain(wrapped(name, 44, 2)))
    if quantity == 'link':
        axes.set_ylim(-0.02, 1.02)
        tidy(axes, 'logit', 'probability', heading=QUANTITIES[quantity])
        return
    if against == 'probability':
        axes.set_xlim(-0.01, 1.01)
    tidy(axes, against, heading=f'{QUANTITIES[quantity]}, {label} label')

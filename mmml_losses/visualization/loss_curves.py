"""What one label costs, and how hard it pulls at its logit: taken from the losses themselves."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..losses import LabelPairRegularizer, MultiLabelLoss, SumLoss
from ..losses.setwise import SetwiseLoss
from ..registry import LOSSES

LabelKind = Literal['positive', 'negative']
LABEL_KINDS: tuple[LabelKind, ...] = ('positive', 'negative')


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

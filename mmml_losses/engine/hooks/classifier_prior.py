"""Initialise the classifiers of a detector so that every class starts with a low probability."""

import copy
import math
from collections.abc import Iterator

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from ...hosts.mmdet import is_a
from ...losses import Link, MultiLabelLoss, PhiLink, SigmoidLink
from ...losses.links import ScaledLink
from ...registry import HOOKS

# Most dense heads of MMDetection make all biases of a new classifier the log-odds of this: objects are rare.
PRIOR = 0.01
SIGMOID_BIAS = math.log(PRIOR / (1 - PRIOR))


@HOOKS.register_module()
class ClassifierPriorHook(Hook):
    """Initialise the classifiers of a detector so that every class starts with a probability of 0.01.

    MMDetection gives most dense heads biases whose *sigmoid* is 0.01. SPA maps logits to probabilities by another
    function (link), which gives these biases 3e-8, and training would take long to find the first object. RoI heads
    start with biases of 0, which suit a softmax. The sigmoid of 0 is 0.5, and the loss of the negatives would outweigh
    all else. This hook replaces such biases by the logits to which the loss gives 0.01. It changes neither trained
    classifiers nor those that MMDetection initialises in another way (DETR, RPN).
    """

    def before_train(self, runner: Runner) -> None:
        """Set the biases and log them. The weights have been initialised or loaded by then."""
        for layer, bias in start_classifiers(runner.model).items():
            runner.logger.info(f'{layer}.bias starts at {bias:.4f}, which the loss reads as a probability of {PRIOR}')


@torch.no_grad()
def start_classifiers(model: nn.Module) -> dict[str, float]:
    """Set the biases of a detector's untrained classifiers in place, to logits of probability 0.01 by their losses.

    Biases other than MMDetection's initial values stay as they are. Return a dict from the name of each changed layer
    to the mean of its new biases.
    """
    started = {}
    for head_name, head in model.named_modules():
        loss = getattr(head, 'loss_cls', None)
        if not isinstance(loss, MultiLabelLoss):
            continue
        biases = _starting_biases(loss.link, head.num_classes)
        for name, bias in _untrained_biases(head):
            new = biases.to(bias).repeat(len(bias) // head.num_classes)  # of several anchors, classes come last
            if not torch.equal(bias, new):
                bias.copy_(new)
                started['.'.join(filter(None, (head_name, name)))] = new.mean().item()
    return started


def _untrained_biases(head: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield (layer name, bias) for each classifier of a head whose bias still has MMDetection's initial value."""
    for name, layer in head.named_modules():
        bias = getattr(layer, 'bias', None)
        if not isinstance(bias, nn.Parameter) or bias.numel() % head.num_classes:
            continue
        in_roi_head = name == 'fc_cls' and is_a(head, 'BBoxHead')  # where other layers start with 0, too
        if ('cls' in name and _is_constant(bias, SIGMOID_BIAS)) or (in_roi_head and _is_constant(bias, 0)):
            yield name, bias


def _starting_biases(link: Link, num_classes: int) -> Tensor:
    """Return (C,) logits of probability 0.01: by the sigmoid for (scaled) SigmoidLink or PhiLink, else by ``link``."""
    base = link
    while isinstance(base, ScaledLink) and base.base is not None:
        base = base.base
    if isinstance(base, (SigmoidLink, PhiLink)):  # a loss with PhiLink trains the sigmoid
        return torch.full((num_classes,), SIGMOID_BIAS, dtype=torch.float64)
    link = copy.deepcopy(link).cpu()  # wherever the model is
    return link.inverse(torch.full((num_classes,), PRIOR, dtype=torch.float64))


def _is_constant(bias: Tensor, value: float) -> bool:
    return bool((bias == bias.new_tensor(value)).all())

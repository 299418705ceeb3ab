"""The probability that the classifier of a detector starts with, through the link of its loss."""

from __future__ import annotations

import copy
import math

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from ..losses import Link, MultiLabelLoss, PhiLink, SigmoidLink
from ..losses.links import ScaledLink
from ..registry import HOOKS

# Heads of MMDetection make all biases of a new classifier the log-odds of this probability: objects are rare.
PRIOR = 0.01
SIGMOID_BIAS = math.log(PRIOR / (1 - PRIOR))


@HOOKS.register_module()
class ClassifierPriorHook(Hook):
    """Lets a new classifier start with the probability that MMDetection means it to have.

    Its biases read as 0.01 by the sigmoid. By the link of SPA they would be 3e-8, a long way to go before the first
    object is found. They become the logits that the link of the loss reads as 0.01. Classifiers that have been
    trained, and losses that train the sigmoid, are left alone.
    """

    def before_train(self, runner: Runner) -> None:
        """Set the biases, after weights were initialised or loaded."""
        for layer, bias in start_classifiers(runner.model).items():
            runner.logger.info(
                f'{layer}.bias starts at {bias:.4f}, which the loss reads as a probability of {PRIOR} '
                f'(the sigmoid: {SIGMOID_BIAS:.4f})'
            )


@torch.no_grad()
def start_classifiers(model: nn.Module) -> dict[str, float]:
    """Give the untrained classifiers of a detector the biases that their losses read as a probability of 0.01.

    Args:
        model: Any model. What has biases other than those of MMDetection's initialisation stays as it is.

    Returns:
        The mean bias by the name of each layer that has new ones.
    """
    started = {}
    for head_name, head in model.named_modules():
        loss = getattr(head, 'loss_cls', None)
        if not isinstance(loss, MultiLabelLoss) or _trains_the_sigmoid(loss.link):
            continue
        # One for each class: a fitted link may read them differently. Of several anchors, classes come last.
        link = copy.deepcopy(loss.link).cpu()  # wherever the model is
        biases = link.inverse(torch.full((head.num_classes,), PRIOR, dtype=torch.float64))
        for name, layer in head.named_modules(prefix=head_name):
            if 'cls' in name.removeprefix(head_name) and _is_untrained(layer, head.num_classes):
                layer.bias.view(-1, head.num_classes).copy_(biases)
                started[name] = biases.mean().item()
    return started


def _trains_the_sigmoid(link: Link) -> bool:
    """Whether the loss of a link is one of the sigmoid; phi reads what such a loss has trained."""
    while isinstance(link, ScaledLink) and link.base is not None:
        link = link.base
    return isinstance(link, (SigmoidLink, PhiLink))


def _is_untrained(layer: nn.Module, num_classes: int) -> bool:
    bias = getattr(layer, 'bias', None)
    if not isinstance(bias, nn.Parameter) or bias.numel() % num_classes:
        return False
    return bool((bias == bias.new_tensor(SIGMOID_BIAS)).all())

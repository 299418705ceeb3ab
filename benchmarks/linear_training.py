"""Train several linear classifiers on the same batches of features, because reading the batches takes longest."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from benchmarks.experiment_figures import Order
from mmml_losses.losses import MultiLabelLoss

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = dict(
    adam=partial(Adam, fused=True), sgd=partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4)
)


class Recipe(NamedTuple):
    """Settings that the trainings of a setting share.

    Args:
        epochs: Number of epochs.
        batch_size: Samples in each step.
        start: Probability of every label before the training, low because labels are rare. With the sigmoid, 0.12 is a
            bias of -2.
        bias_factor: Learning rate of the biases, as a multiple of the rate of the weights. With a factor of 1 the
            biases would hardly move in such a short training, and the start would decide the calibration.
        optimizer: One of ``OPTIMIZERS``.
    """

    epochs: int
    batch_size: int
    start: float = 0.12
    bias_factor: float = 10.0
    optimizer: str = 'adam'


class Head:
    """A linear classifier in training.

    Args:
        loss: Loss of the training.
        rate: Largest learning rate.
        shape: Width of the features and number of classes.
        recipe: Recipe of the training.
        seed: Seed of the first weights.
    """

    def __init__(self, loss: MultiLabelLoss, rate: float, shape: tuple[int, int], recipe: Recipe, seed: int):
        torch.manual_seed(seed)
        self.loss = loss
        self.rates = rate, recipe.bias_factor * rate
        self.layer = nn.Linear(*shape)
        nn.init.normal_(self.layer.weight, std=0.01)
        nn.init.constant_(self.layer.bias, loss.link.inverse(torch.tensor(recipe.start)).item())

    def groups(self) -> list[dict]:
        """Return parameters with their rates. ROLE's label estimates are parameters too, at ten times the rate."""
        rate, bias_rate = self.rates
        groups = [
            dict(params=[self.layer.weight], peak=rate),
            dict(params=[self.layer.bias], peak=bias_rate),
            dict(params=list(self.loss.parameters()), peak=10 * rate),
        ]
        return [group for group in groups if group['params']]


def rate_at(progress: float, epochs: int) -> float:
    """Return the factor of the rate at a fraction of the training: up from 0.05 in one epoch, then down by a cosine."""
    warm_up = 1 / epochs
    if progress < warm_up:
        return 0.05 + 0.95 * progress / warm_up
    return 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def train_together(
    features: Tensor,
    labels: Tensor,
    heads: list[Head],
    recipe: Recipe,
    seed: int,
    class_aware: bool,
) -> None:
    """Train classifiers together; each gets the weights that it would get alone.

    Args:
        features: Features, (M, D).
        labels: Labels, (M, C); sample i is row i.
        heads: The classifiers.
        recipe: Recipe of the training.
        seed: Seed of the order of the samples.
        class_aware: Whether samples are drawn by class.
    """
    optimizer = OPTIMIZERS[recipe.optimizer]([group for head in heads for group in head.groups()])
    order = Order(labels, class_aware, seed)
    steps = math.ceil(len(labels) / recipe.batch_size)
    for epoch in range(recipe.epochs):
        for step, rows in enumerate(order.batches(epoch, recipe.batch_size)):
            factor = rate_at((epoch + step / steps) / recipe.epochs, recipe.epochs)
            for group in optimizer.param_groups:
                group['lr'] = factor * group['peak']
            batch, target = features[rows], labels[rows]
            optimizer.zero_grad()
            sum(head.loss(head.layer(batch), target, epoch=epoch, sample_idx=rows) for head in heads).backward()
            optimizer.step()

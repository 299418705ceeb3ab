"""Train the small network of the quickstart on digit scenes in memory, in the settings of the experiments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmpretrain.registry import MODELS
from torch import Tensor, nn
from torch.nn.functional import pad

from benchmarks.experiment_figures import Order
from benchmarks.linear_training import rate_at
from mmml_losses.datasets import DigitScenes, LongTailed, MissingLabels, SinglePositive, read_label_changes
from mmml_losses.losses import BCELoss, ConsistencyRegularizer, MultiLabelLoss
from mmml_losses.utils.files import replacing

CONFIG = Path(__file__).resolve().parents[1] / 'configs' / 'bce_digits.py'
PADDING = 3
"""Most pixels by which a scene is moved at random in training; more would cut digits off."""
VIEWS = 3
"""Views of each scene in a step, for losses that compare views."""


class Scenes(NamedTuple):
    """Scenes as grey levels (N, H, W), with the labels of the training and the full labels, both (N, C)."""

    images: Tensor
    observed: Tensor
    full: np.ndarray

    def take(self, rows: np.ndarray) -> Scenes:
        """Return the scenes of these rows."""
        return Scenes(self.images[rows], self.observed[rows], self.full[rows])


def read_scenes(dataset: BaseDataset) -> Scenes:
    """Read all scenes of a dataset, which may be inside label wrappers."""
    paths = [dataset.get_data_info(number)['img_path'] for number in range(len(dataset))]
    images = np.stack([cv2.imread(path, cv2.IMREAD_GRAYSCALE) for path in paths])
    labels = read_label_changes(dataset)
    return Scenes(torch.from_numpy(images), torch.from_numpy(labels.observed).float(), labels.true)


def read_setting(name: str, data_root: Path, train_scenes: range) -> Scenes:
    """Read the training scenes of a setting.

    Args:
        name: ``'full'``, ``'40'``, ``'single'`` or ``'lt'``. In ``'40'`` each label is left with probability 0.4. The
            paper's rule leaves at least one label, which for scenes of few digits would be the setting ``'single'``.
        data_root: Folder of the scenes, which are made if they do not exist.
        train_scenes: Indices of the training scenes to use. The long tail is drawn from all scenes.
    """
    scenes = DigitScenes('train', data_root=str(data_root))
    if name == 'lt':
        return read_scenes(LongTailed(scenes, largest=1000, smallest=5, fill_up=True))
    wrappers = {
        'full': lambda: scenes,
        '40': lambda: MissingLabels(scenes, missing_ratio=0.6, rule='bernoulli'),
        'single': lambda: SinglePositive(scenes),
    }
    return read_scenes(wrappers[name]()).take(np.array(train_scenes))


def build_network(seed: int, backbone: dict[str, Tensor] | None = None) -> tuple[nn.Module, Config]:
    """Build the network of the digits configs, with a random or the given backbone; return it with its config."""
    config = Config.fromfile(CONFIG)
    torch.manual_seed(seed)
    network = MODELS.build(config.model)
    network.init_weights()
    if backbone is not None:
        network.backbone.load_state_dict(backbone)
    return network.to(memory_format=torch.channels_last), config


def logits_of(network: nn.Module, config: Config, images: Tensor) -> Tensor:
    """Compute the logits (N, C) of grey scenes."""
    settings = config.data_preprocessor
    inputs = (images.float() - settings.mean[0]) / settings.std[0]
    inputs = inputs.unsqueeze(1).expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)
    return network.head(network.extract_feat(inputs))


def moved(images: Tensor) -> Tensor:
    """Move each scene by a few random pixels and repeat its border."""
    size = images.size(-1)
    padded = pad(images.float().unsqueeze(1), (PADDING,) * 4, mode='replicate').squeeze(1)
    offsets = torch.randint(0, 2 * PADDING + 1, (2, len(images), 1))
    steps = torch.arange(size)
    rows, columns = (offset + steps for offset in offsets)
    return padded[torch.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]


def pretrained_backbone(file: Path, scenes: Scenes, epochs: int, batch_size: int) -> dict[str, Tensor]:
    """Load the weights of a backbone that has seen strokes but no digits; train it and write the file if there is none.

    The training uses BCE on transposed scenes, so that no digit looks as in the experiments.
    """
    if not file.exists():
        transposed = scenes._replace(images=scenes.images.transpose(1, 2).contiguous())
        network, _ = train(transposed, BCELoss(check_inputs=False), epochs, batch_size, seed=0)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            torch.save(network.backbone.state_dict(), temporary)
    return torch.load(file, weights_only=True)


def train(
    scenes: Scenes,
    loss: MultiLabelLoss,
    epochs: int,
    batch_size: int,
    seed: int,
    class_aware: bool = False,
    backbone: dict[str, Tensor] | None = None,
) -> tuple[nn.Module, Config]:
    """Train a network; return it with its config, which holds the optimiser and its rate.

    Args:
        scenes: Scenes to train on.
        loss: Loss of the training.
        epochs: Number of epochs.
        batch_size: Scenes in each step.
        seed: Seed of the first weights and of the order of the scenes.
        class_aware: Whether scenes are drawn by class.
        backbone: First weights of the backbone; random by default.
    """
    network, config = build_network(seed, backbone)
    settings = config.optim_wrapper.optimizer
    groups = [dict(params=list(network.parameters())), dict(params=list(loss.parameters()), weight_decay=0.0)]
    peaks = [settings.lr, 10 * settings.lr]
    optimizer = torch.optim.AdamW(groups, lr=settings.lr, weight_decay=settings.weight_decay)
    order = Order(scenes.observed, class_aware, seed)
    steps = math.ceil(len(scenes.observed) / batch_size)
    views = VIEWS if any(isinstance(module, ConsistencyRegularizer) for module in loss.modules()) else 1
    network.train()
    for epoch in range(epochs):
        for step, rows in enumerate(order.batches(epoch, batch_size)):
            factor = rate_at((epoch + step / steps) / epochs, epochs)
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group['lr'] = factor * peak
            optimizer.zero_grad()
            images = torch.cat([moved(scenes.images[rows]) for _ in range(views)])
            logits, *others = logits_of(network, config, images).split(len(rows))
            more = dict(views=others) if others else {}
            loss(logits, scenes.observed[rows], epoch=epoch, sample_idx=rows, **more).backward()
            optimizer.step()
    return network.eval(), config


@torch.no_grad()
def predict(network: nn.Module, config: Config, images: Tensor) -> Tensor:
    """Compute the logits (N, C) of scenes that are not moved."""
    return torch.cat([logits_of(network, config, batch) for batch in images.split(250)])

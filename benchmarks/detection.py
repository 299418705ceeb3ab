"""Measure the time of a RetinaNet training step with our losses, relative to MMDetection's own focal loss.

    python benchmarks/detection.py                 # ResNet-18, 80 classes, two images of 192 pixels
    python benchmarks/detection.py --size 320 --rounds 15

Times are processor time of one thread. Every round runs each loss once, in a new order; the table has medians.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.tables import print_table, versions
from mmml_losses.hosts.mmdet import require_mmdet
from mmml_losses.registry import LOSSES

CLASSES = 80
OBJECTS = 7  # in an image
OURS = {
    'FocalLoss': dict(alpha=0.25),
    'AsymmetricLoss': {},
    'HillLoss': {},
    'SPALoss': {},
    'LASDLoss': {},
    'ZLPRLoss': {},
    'TwoWayLoss': dict(bucket_size=128),
    'DRLoss': dict(bucket_size=128),
}
# Sums with BCE, with the buckets of the configs of detectors.
JOINED = ('two_way', 'dr')
SHIPPED = Path(__file__).resolve().parents[1] / 'configs' / 'det' / '_base_' / 'losses'


def build_detector() -> nn.Module:
    """Build MMDetection's own RetinaNet with a ResNet-18, without its pretrained weights."""
    import mmdet
    from mmdet.registry import MODELS

    recipe = 'retinanet/retinanet_r18_fpn_1x_coco.py'
    cfg = Config.fromfile(Path(mmdet.__file__).parent / '.mim' / 'configs' / recipe).model
    cfg.backbone.init_cfg, cfg.data_preprocessor = None, None
    with DefaultScope.overwrite_default_scope('mmdet'):
        detector = MODELS.build(cfg)
    nn.init.constant_(detector.bbox_head.retina_cls.bias, -4.6)  # as its recipe does
    return detector.train()


def make_batch(size: int) -> tuple[Tensor, list]:
    """Make a batch of two images with random objects."""
    from mmdet.structures import DetDataSample

    shape = dict.fromkeys(('img_shape', 'ori_shape', 'pad_shape', 'batch_input_shape'), (size, size))
    samples = []
    for _ in range(2):
        corners = torch.rand(OBJECTS, 2) * size / 2
        boxes = torch.cat([corners, corners + size * (0.1 + 0.3 * torch.rand(OBJECTS, 2))], dim=1)
        sample = DetDataSample(metainfo=dict(scale_factor=(1, 1), **shape))
        sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.randint(CLASSES, (OBJECTS,)))
        samples.append(sample)
    return torch.randn(2, 3, size, size), samples


def measure(losses: dict[str, nn.Module], size: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of a step, forward and backward, with each loss."""
    detector, (images, samples) = build_detector(), make_batch(size)
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    for number in range(rounds + 1):  # the first warms up
        for name in random.sample(list(losses), len(losses)):
            detector.bbox_head.loss_cls = losses[name]
            detector.zero_grad()
            start = time.process_time()
            parts = detector.loss(images, samples)
            sum(sum(values) for values in parts.values()).backward()
            if number:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', type=int, default=192, help='of the images, in pixels (default: %(default)s)')
    parser.add_argument('--rounds', type=int, default=11, help='(default: %(default)s)')
    options = parser.parse_args()
    require_mmdet('benchmarks/detection.py')
    from mmdet.models.losses import FocalLoss

    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    torch.manual_seed(0)
    theirs = 'mmdet FocalLoss'
    losses = {theirs: FocalLoss(use_sigmoid=True, alpha=0.25)}
    losses |= {name: LOSSES.build(dict(type=name, **settings)) for name, settings in OURS.items()}
    losses |= {f'configs/det: {name}': LOSSES.build(Config.fromfile(SHIPPED / f'{name}.py').loss) for name in JOINED}
    seconds = measure(losses, options.size, options.rounds)
    title = f'RetinaNet, {options.size} pixels, one thread of {platform.machine()}, {versions("torch", "mmdet")}'
    rows = [(name, f'{value:.3f}', f'{value / seconds[theirs]:.3f}') for name, value in seconds.items()]
    print_table(title, ('loss', 'seconds', 'ratio'), rows)


if __name__ == '__main__':
    main()

"""Detectors of MMDetection's own recipes, so small that a training step takes a fraction of a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

CLASSES = 3
IMAGE = 64
MOST_DETECTIONS = 20
WIDTHS = {512: 16, 1024: 32, 2048: 32}
SMALLER = dict(
    embed_dims=16,
    feat_channels=16,
    feedforward_channels=32,
    fc_out_channels=16,
    group_num=4,
    num_feats=8,
    num_groups=4,
    num_heads=2,
    num_classes=CLASSES,
    num_layers=2,
    num_proposals=20,
    num_queries=12,
    point_feat_channels=16,
    stacked_convs=1,
)
# MMDetection's code fixes some sizes of these decoders.
FIXED = ('conditional_detr', 'dino')
FIXED_SIZES = dict(embed_dims=256, num_feats=128, num_heads=8)
RECIPES = {
    'retinanet': 'retinanet/retinanet_r50_fpn_1x_coco.py',
    'fcos': 'fcos/fcos_r50-caffe_fpn_gn-head_1x_coco.py',
    'atss': 'atss/atss_r50_fpn_1x_coco.py',
    'yolof': 'yolof/yolof_r50-c5_8xb8-1x_coco.py',
    'fovea': 'foveabox/fovea_r50_fpn_4xb4-1x_coco.py',
    'paa': 'paa/paa_r50_fpn_1x_coco.py',
    'reppoints': 'reppoints/reppoints-moment_r50_fpn_1x_coco.py',
    'detr': 'detr/detr_r50_8xb2-150e_coco.py',
    'conditional_detr': 'conditional_detr/conditional-detr_r50_8xb2-50e_coco.py',
    'dab_detr': 'dab_detr/dab-detr_r50_8xb2-50e_coco.py',
    'deformable_detr': 'deformable_detr/deformable-detr_r50_16xb2-50e_coco.py',
    'dino': 'dino/dino-4scale_r50_8xb2-12e_coco.py',
    'faster_rcnn': 'faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py',
    'cascade_rcnn': 'cascade_rcnn/cascade-rcnn_r50_fpn_1x_coco.py',
}
OURS = {
    'fovea': 'FoveaHead',
    'paa': 'PAAHead',
    'reppoints': 'RepPointsHead',
    'detr': 'DETRHead',
    'conditional_detr': 'ConditionalDETRHead',
    'dab_detr': 'DABDETRHead',
    'deformable_detr': 'DeformableDETRHead',
    'dino': 'DINOHead',
}


def detector_config(name: str, loss: dict, **head: Any) -> ConfigDict:
    """Return the config of a small detector with a loss of ours, and with our head if MMDetection's needs the sigmoid.

    Args:
        name: One of ``RECIPES``.
        loss: Config of the loss.
        **head: Other settings of the dense head.
    """
    sizes = {**SMALLER, **(FIXED_SIZES if name in FIXED else {})}
    cfg = _shrunk(read_recipe(name).model, sizes)
    cfg.backbone = ConfigDict(type='ResNet', depth=18, base_channels=8, out_indices=cfg.backbone.out_indices)
    cfg.data_preprocessor = None
    outputs = [(8, 16, 32, 64)[stage] for stage in cfg.backbone.out_indices]
    cfg.neck.in_channels = outputs[0] if name == 'yolof' else outputs
    if name in ('fcos', 'atss', 'paa'):
        cfg.bbox_head.norm_cfg = dict(type='GN', num_groups=4)
    if 'detr' in name or name == 'dino':
        cfg.bbox_head.embed_dims = sizes['embed_dims']
        cfg.test_cfg.max_per_img = MOST_DETECTIONS
    if name in OURS:
        cfg.bbox_head.type = f'mmml_losses.{OURS[name]}'
    if name == 'detr':
        cfg.train_cfg.assigner.match_costs[0] = dict(type='FocalLossCost', weight=1.0)
    if name == 'dino':
        cfg.dn_cfg.group_cfg.num_dn_queries = 4
    if 'rcnn' in name:
        _take_few_proposals(cfg)
    else:
        cfg.test_cfg.score_thr = 0.0
    for holder in loss_holders(cfg):
        holder.loss_cls = ConfigDict(loss)
    if 'bbox_head' in cfg:
        cfg.bbox_head.update(head)
    return cfg


def _take_few_proposals(cfg: ConfigDict) -> None:
    cfg.train_cfg.rpn_proposal.update(nms_pre=50, max_per_img=20)
    cfg.test_cfg.rpn.update(nms_pre=50, max_per_img=20)
    cfg.test_cfg.rcnn.update(score_thr=0.0, max_per_img=MOST_DETECTIONS)
    stages = cfg.train_cfg.rcnn
    for stage in stages if isinstance(stages, list) else [stages]:
        stage.sampler.num = 24


def read_recipe(name: str) -> Config:
    import mmdet

    # `mmengine.hub.get_config` also reads the list of all of MMDetection's checkpoints.
    return Config.fromfile(Path(mmdet.__file__).parent / '.mim' / 'configs' / RECIPES[name])


def loss_holders(cfg: ConfigDict) -> list[ConfigDict]:
    """Return the configs of the heads with a classification loss: one head, or one for each stage."""
    heads = cfg.bbox_head if 'bbox_head' in cfg else cfg.roi_head.bbox_head
    return heads if isinstance(heads, list) else [heads]


def _shrunk(node: Any, sizes: dict[str, int], key: str = '') -> Any:
    if isinstance(node, dict):
        return ConfigDict({name: _shrunk(value, sizes, name) for name, value in node.items()})
    if isinstance(node, list) and any(isinstance(each, (dict, list)) for each in node):
        return [_shrunk(each, sizes, key) for each in node]
    if key in ('in_channels', 'out_channels') and isinstance(node, int):
        return sizes['embed_dims'] if node == 256 else WIDTHS[node]
    return sizes.get(key, node)


def build_detector(cfg: ConfigDict) -> nn.Module:
    """Build a detector with torch's own random weights of a fixed seed: its logits are near 0, and it detects much."""
    from mmdet.registry import MODELS

    torch.manual_seed(0)
    detector = MODELS.build(cfg)
    for name, parameter in detector.named_parameters():
        if name.endswith('level_embed'):  # torch leaves it uninitialised
            nn.init.normal_(parameter)
    return detector


def heads_of(detector: nn.Module) -> list[nn.Module]:
    """Return the heads that classify objects, one for each stage, without the region proposal network."""
    if not hasattr(detector, 'roi_head'):
        return [detector.bbox_head]
    heads = detector.roi_head.bbox_head
    return list(heads) if isinstance(heads, nn.ModuleList) else [heads]


def set_loss(detector: nn.Module, loss: dict | nn.Module) -> list[MultiLabelLoss]:
    """Replace the loss in the heads of a detector that was built with one of ours."""
    losses = []
    for head in heads_of(detector):
        head.loss_cls = loss if isinstance(loss, nn.Module) else LOSSES.build(loss)
        if hasattr(detector, 'roi_head') and isinstance(head.loss_cls, MultiLabelLoss):
            head.loss_cls.get_cls_channels(CLASSES)  # as a RoI head does when it is built
        losses.append(head.loss_cls)
    return losses


def batch(objects: bool = True) -> tuple[Tensor, list]:
    """Return two images, the second with objects of all classes. Without ``objects`` both have none."""
    from mmdet.structures import DetDataSample

    boxes = torch.tensor([[4.0, 4.0, 28.0, 30.0], [30.0, 28.0, 60.0, 62.0], [8.0, 34.0, 26.0, 58.0]])
    samples = []
    for kept in ([2], [0, 1, 2]) if objects else ([], []):
        sample = DetDataSample(metainfo=dict(img_shape=(IMAGE, IMAGE), ori_shape=(IMAGE, IMAGE), scale_factor=(1, 1)))
        sample.set_metainfo(dict(batch_input_shape=(IMAGE, IMAGE), pad_shape=(IMAGE, IMAGE), img_id=0))
        sample.gt_instances = InstanceData(bboxes=boxes[kept], labels=torch.tensor(kept, dtype=torch.long))
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
        samples.append(sample)
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 3, IMAGE, IMAGE, generator=generator), samples


def losses_in(detector: nn.Module, images: Tensor, samples: list) -> dict[str, Tensor]:
    """Return the losses of a training step by name, each as one number."""
    torch.manual_seed(0)  # of the samplers
    detector.train()
    return {name: total(value) for name, value in detector.loss(images, samples).items() if 'loss' in name}


def total(value: Tensor | list[Tensor]) -> Tensor:
    return sum(each.sum() for each in value) if isinstance(value, list) else value.sum()


def trained_parameters(detector: nn.Module, losses: dict[str, Tensor]) -> set[str]:
    """Return the names of the parameters with a gradient other than zero; check that all gradients are finite."""
    detector.zero_grad()
    sum(losses.values()).backward()
    found = {name: parameter.grad for name, parameter in detector.named_parameters() if parameter.grad is not None}
    assert all(gradient.isfinite().all() for gradient in found.values())
    return {name for name, gradient in found.items() if gradient.any()}


def detections(detector: nn.Module, images: Tensor, samples: list) -> InstanceData:
    """Return the detections in all images together."""
    detector.eval()
    with torch.no_grad():
        found = detector.predict(images, samples, rescale=False)
    return InstanceData.cat([sample.pred_instances for sample in found])

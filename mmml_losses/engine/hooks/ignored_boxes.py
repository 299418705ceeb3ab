"""Whether a detector ignores the boxes that its training set wants to be ignored."""

from __future__ import annotations

from collections.abc import Iterator

from mmengine.dataset import BaseDataset
from torch import nn

from ...datasets import LabelWrapper
from ...datasets.labels.nesting import any_parts_of, outermost_views, walk
from ...hosts.mmdet import is_a


def check_ignored_boxes(model: nn.Module, dataset: BaseDataset) -> None:
    """Refuse boxes that a label wrapper made unknown for a detector that would take them for background.

    Most recipes of MMDetection do: their assigners look at boxes to be ignored only with an ``ignore_iof_thr`` above 0,
    and only in images that have another box, too; FCOS and the DETR family never.

    Args:
        model: Any model. Only detectors are looked at.
        dataset: What it is trained on.
    """
    makers = [part for part in walk(dataset, any_parts_of) if isinstance(part, LabelWrapper) and part.has_unknown()]
    assigning = list(_assigning_parts(model))
    if not makers or not assigning:
        return
    # Only now: all boxes are read for it.
    counts = [_count_images(part) for part in outermost_views(dataset) if isinstance(part, LabelWrapper)]
    with_unknown, without_known = (sum(count) for count in zip(*counts, strict=True))
    blind = sorted({type(part).__name__ for part in assigning if not _sees_ignored(part)})
    kind = type(makers[-1]).__name__
    if with_unknown and blind:
        raise ValueError(
            f'{kind} makes boxes unknown, and {" and ".join(blind)} would take them for background: set '
            'ignore_iof_thr=0.5 for MaxIoUAssigner and ATSSAssigner in model.train_cfg, or hide boxes with '
            "MissingBoxes(hidden='negative')"
        )
    if without_known:
        raise ValueError(
            f'{kind} must leave a known box in each image with unknown ones, but there is none in {without_known} of '
            f'{with_unknown} such images, where MMDetection takes the unknown for background: MissingBoxes and '
            'MissingLabels leave one with keep_one=True'
        )


def _count_images(dataset: BaseDataset) -> tuple[int, int]:
    """How many images have boxes that label wrappers made unknown, and how many of these have no other box."""
    with_unknown = without_known = 0
    for number in range(len(dataset)):
        boxes = dataset.get_data_info(number).get('instances', ())
        if any(box.get('is_unknown') for box in boxes):
            with_unknown += 1
            without_known += all(box.get('ignore_flag', 0) for box in boxes)
    return with_unknown, without_known


def _assigning_parts(model: nn.Module) -> Iterator[object]:
    """What assigns anchors and proposals to boxes: assigners, and heads that do it without one."""
    for module in model.modules():
        if hasattr(module, 'bbox_assigner'):  # of a RoI head, with one for each stage of a cascade
            found = module.bbox_assigner
            yield from found if isinstance(found, list) else [found]
        # A BBoxHead has a RoI head around it; that of SSD, CenterNet and CornerNet has no loss_cls.
        elif is_a(module, 'BaseDenseHead') or (hasattr(module, 'loss_cls') and not is_a(module, 'BBoxHead')):
            names = ('refine_assigner', 'cls_assigner', 'assigner')  # of RepPoints, of DDOD, of the others
            yield next((getattr(module, name) for name in names if hasattr(module, name)), module)


def _sees_ignored(part: object) -> bool:
    return is_a(part, 'CenterRegionAssigner') or getattr(part, 'ignore_iof_thr', -1) > 0

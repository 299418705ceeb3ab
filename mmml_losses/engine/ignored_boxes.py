"""Whether a detector ignores the boxes that its training set wants to be ignored."""

from __future__ import annotations

from collections.abc import Iterator

from mmengine.dataset import BaseDataset
from torch import nn

from ..datasets import MissingLabels, PartialLabels
from ..datasets.labels.nesting import parts_of
from .kinds import is_a


def check_ignored_boxes(model: nn.Module, dataset: BaseDataset) -> None:
    """Refuse unknown boxes for a detector that would take them for background.

    Most recipes of MMDetection do: their assigners look at boxes to be ignored only with an ``ignore_iof_thr`` above 0,
    and only in images that have another box, too; FCOS and the DETR family never.

    Args:
        model: Any model. Only detectors are looked at.
        dataset: What it is trained on.
    """
    wrapper = next(_unknown_makers(dataset), None)
    if wrapper is None or not any(hasattr(module, 'loss_cls') for module in model.modules()):
        return
    kind = type(wrapper).__name__
    blind = sorted({type(part).__name__ for part in _assigning_parts(model) if not _sees_ignored(part)})
    if blind:
        raise ValueError(
            f'{kind} makes boxes unknown, and {" and ".join(blind)} would take them for background: set '
            'ignore_iof_thr=0.5 for MaxIoUAssigner and ATSSAssigner in model.train_cfg, or hide boxes with '
            "MissingBoxes(hidden='negative')"
        )
    if isinstance(wrapper, MissingLabels) and wrapper.rule == 'bernoulli' and not wrapper.keep_one:
        raise ValueError(
            f"keep_one of {kind} must be True for hidden='unknown', got False: in an image of which no box is known, "
            'MMDetection takes the others for background'
        )


def _unknown_makers(dataset: BaseDataset) -> Iterator[BaseDataset]:
    """The label wrappers in a dataset, itself included, that make labels unknown."""
    if getattr(dataset, 'hidden', None) == 'unknown' or isinstance(dataset, PartialLabels):
        yield dataset
    # Wrappers of MMDetection, such as the one for mosaics, have what is inside under the same name.
    inside = [dataset.dataset] if hasattr(dataset, 'dataset') else []
    for part in parts_of(dataset) or inside:
        yield from _unknown_makers(part)


def _assigning_parts(model: nn.Module) -> Iterator[object]:
    """What assigns anchors and proposals to boxes: assigners, and heads that do it without one."""
    for module in model.modules():
        if hasattr(module, 'bbox_assigner'):  # of a RoI head, with one for each stage of a cascade
            found = module.bbox_assigner
            yield from found if isinstance(found, list) else [found]
        elif hasattr(module, 'loss_cls') and not is_a(module, 'BBoxHead'):  # which a RoI head has
            names = ('refine_assigner', 'cls_assigner', 'assigner')  # of RepPoints, of DDOD, of the others
            yield next((getattr(module, name) for name in names if hasattr(module, name)), module)


def _sees_ignored(part: object) -> bool:
    return is_a(part, 'CenterRegionAssigner') or getattr(part, 'ignore_iof_thr', -1) > 0

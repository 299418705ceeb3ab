"""Check that a detector, the losses in its heads and its training set fit together, before training or testing."""

import copy
from collections.abc import Iterator

import torch
from mmengine.dataset import BaseDataset
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from ...datasets import LabelWrapper
from ...datasets.labels.nesting import any_parts_of, outermost_views, walk
from ...hosts.mmdet import (
    CHOOSING_HEADS,
    CHOOSING_SAMPLERS,
    DETECTION_HEADS,
    UNSUITED_HEADS,
    dense_heads_score_through_loss,
    is_a,
    scores_through_loss,
)
from ...losses import ExpectedPositiveRegularizer, LabelPairRegularizer, Link, MultiLabelLoss, SigmoidLink, SumLoss
from ...registry import HOOKS, SCOPE

# Losses that do not depend on the label of an anchor.
REGULARIZERS = (ExpectedPositiveRegularizer, LabelPairRegularizer)


@HOOKS.register_module()
class DetectorCheckHook(Hook):
    """Raise an error for a detector that would train or score wrongly with a loss of this package.

    MMDetection silently goes on if ``use_sigmoid=True`` is missing, if a head takes the sigmoid although its loss maps
    logits to probabilities by another function (link), and if its assigners take ignored boxes for background.
    """

    def before_run(self, runner: Runner) -> None:
        """Check before a training, validation or test that the heads of the model fit their losses."""
        check_detector(runner.model)

    def before_train(self, runner: Runner) -> None:
        """Check that the model would not take unknown boxes of the training set for background."""
        check_ignored_boxes(runner.model, runner.train_dataloader.dataset)


def check_detector(model: nn.Module) -> None:
    """Raise a ValueError if a head of the detector has a loss of this package that does not fit it."""
    for name, module in model.named_modules():
        loss = getattr(module, 'loss_cls', None)
        if isinstance(loss, MultiLabelLoss):
            for check in (_check_loss, _check_channels, _check_use, _check_match, _check_assigners, _check_link):
                check(f'{name}.loss_cls', module, loss)
    in_soft_teacher = any(is_a(module, 'SoftTeacher') for module in model.modules())
    for name, module in model.named_modules():  # RoI heads, after the heads inside them
        if hasattr(module, 'bbox_sampler') and hasattr(module, 'bbox_head'):
            _check_roi_head(name, module, in_soft_teacher)


def _check_loss(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    """Raise a ValueError naming the loss's path ``place`` if the loss cannot train anchors or this kind of head."""
    for kind, reason in UNSUITED_HEADS.items():
        if is_a(head, kind) and getattr(head, 'use_vfl', True):  # an option of VFNet alone
            raise ValueError(f'{place} must be a loss made for {kind}, got {type(loss).__name__}: {reason}')
    if loss.reason_against_anchors is not None:
        raise ValueError(
            f'{place} must be a loss of anchors, queries or proposals, got {type(loss).__name__}: '
            f'{loss.reason_against_anchors}'
        )
    parts = (part for part in loss.modules() if isinstance(part, MultiLabelLoss) and not isinstance(part, SumLoss))
    if all(isinstance(part, REGULARIZERS) for part in parts):
        raise ValueError(
            f'{place} must be a loss, or a SumLoss with one, got {type(loss).__name__}: regularisers alone do not '
            'teach what an anchor shows'
        )


def _check_channels(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    """Raise a ValueError naming the loss's path ``place`` unless the head has one logit per class (no background)."""
    channels = getattr(getattr(head, 'fc_cls', None), 'out_features', None)  # which only a RoI head has
    if channels not in (None, head.num_classes):
        raise ValueError(
            f'{place} must be a loss with a background channel, got {type(loss).__name__}: {type(head).__name__} has '
            f'{channels} logits for {head.num_classes} classes and does not ask the loss'
        )
    channels = getattr(head, 'cls_out_channels', head.num_classes) if channels is None else channels
    if channels != head.num_classes:
        raise ValueError(
            f'{place} must have use_sigmoid=True in its config, got none: {type(head).__name__} reads it there, and '
            f'has made {channels} channels for {head.num_classes} classes'
        )


def _check_use(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    """Raise a ValueError naming the loss's path ``place`` if the head needs another reduction or a pointwise loss."""
    if is_a(head, *CHOOSING_HEADS) and (isinstance(loss, SumLoss) or not loss.pointwise):
        raise ValueError(
            f'{place} must be a pointwise loss, got {type(loss).__name__}: {type(head).__name__} chooses anchors by '
            'the loss of each label'
        )
    if is_a(head, 'FSAFHead'):
        wanted, reason = 'none', 'chooses levels of the pyramid by the loss of each label'
    else:
        wanted, reason = 'mean', 'passes the number that the sum is divided by'
    for part in loss.modules():
        if isinstance(part, MultiLabelLoss) and part.reduction != wanted:
            raise ValueError(
                f"{place} must have reduction='{wanted}', got '{part.reduction}' in {type(part).__name__}: "
                f'{type(head).__name__} {reason}'
            )


def _check_match(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    """Raise a ValueError if a DETR head matches queries to objects by other probabilities than those of its loss."""
    costs = getattr(getattr(head, 'assigner', None), 'match_costs', [])
    if any(is_a(cost, 'ClassificationCost') for cost in costs):
        raise ValueError(
            "model.train_cfg.assigner.match_costs must have 'FocalLossCost' for a loss of classes by themselves, got "
            "'ClassificationCost', which takes a softmax"
        )
    linked = isinstance(loss.link, SigmoidLink) or getattr(head, 'matches_through_link', False)
    if costs and getattr(head, 'scores_through_link', False) and not linked:
        raise ValueError(
            f'{type(head).__name__} must have LinkedQueries instead of LinkedScores among its bases for '
            f'{_with_link(loss)}: it matches queries by the sigmoid of their logits'
        )


def _check_assigners(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    """Raise a ValueError naming the loss's path ``place`` if the head assigns anchors by the sigmoid, not the link."""
    assigners = [getattr(head, name, None) for name in ('cls_assigner', 'reg_assigner')]  # which only DDOD has
    by_score = any(getattr(assigner, 'alpha', None) is not None for assigner in assigners)
    if by_score and not isinstance(loss.link, SigmoidLink):
        raise ValueError(
            f'{place} must be a loss that is read by the sigmoid, got {_with_link(loss)}: {type(head).__name__} '
            'assigns anchors by the sigmoid of their logits, unless model.train_cfg has alpha=None in assigner and '
            'reg_assigner'
        )


def _check_link(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    """Raise a ValueError naming the loss's path ``place`` unless the head has the link's classes and scores by it."""
    kind, link = type(head).__name__, _with_link(loss)
    try:
        _probabilities_of_some_logits(loss.link, head.num_classes)
    except ValueError as error:
        raise ValueError(f'{place}.link must be one for the classes of {kind}: {error}') from None
    if isinstance(loss.link, SigmoidLink):
        return
    if scores_through_loss(head):
        if (
            getattr(head, 'scores_through_link', False)
            or not is_a(head, 'BaseDenseHead')
            or dense_heads_score_through_loss()
        ):
            return
        raise ValueError(f'{place} is {link}, which dense heads ask for from MMDetection 3.3 on: install mmdet>=3.3.0')
    if kind in DETECTION_HEADS:
        raise ValueError(
            f"{place.removesuffix('.loss_cls')}.type must be '{SCOPE}.{kind}' for {link}, got '{kind}', which takes "
            'the sigmoid of its logits'
        )
    raise ValueError(
        f'{place} must be a loss that is read by the sigmoid, got {link}: {kind} takes the sigmoid of its logits, and '
        f'{SCOPE} has no head for it. A head of yours that scores by loss_cls.get_activation declares it by '
        'scores_through_link = True'
    )


def _with_link(loss: MultiLabelLoss) -> str:
    return f'{type(loss).__name__} with the link {type(loss.link).__name__}'


def _as_list(parts) -> list:
    """Return the box heads, samplers or assigners of a RoI head as a list: one per cascade stage, otherwise one."""
    return list(parts) if isinstance(parts, (list, nn.ModuleList)) else [parts]


def _check_roi_head(place: str, roi_head: nn.Module, in_soft_teacher: bool) -> None:
    """Raise a ValueError if losses of the RoI head at the path ``place`` do not fit it, its samplers or the detector.

    The losses have no background channel, which SoftTeacher (``in_soft_teacher``) needs, and no value per proposal.
    """
    heads = _as_list(roi_head.bbox_head)
    losses = [head.loss_cls for head in heads if isinstance(head.loss_cls, MultiLabelLoss)]
    if losses and in_soft_teacher:
        raise ValueError(
            'model.detector.roi_head.bbox_head.loss_cls must be a loss with a background channel for SoftTeacher, '
            f'got {type(losses[0]).__name__}: it weighs the background of unlabelled images by the score of that '
            'channel, which would be 0'
        )
    if losses and is_a(roi_head, 'PISARoIHead'):
        raise ValueError(
            f"{place}.type must be one that does not choose proposals by the loss, such as 'StandardRoIHead', for "
            f"{type(losses[0]).__name__}, got '{type(roi_head).__name__}', which runs with ScoreHLRSampler only and "
            'takes a softmax in its carl_loss'
        )
    if losses:
        _check_stages(place, heads)
    _check_samplers(roi_head)


def _check_stages(place: str, heads: list[nn.Module]) -> None:
    """Raise a ValueError unless all cascade stages map logits to probabilities alike: their logits are averaged."""
    losses, num_classes = [head.loss_cls for head in heads], heads[-1].num_classes
    links = [loss.link for loss in losses if isinstance(loss, MultiLabelLoss)]
    read = [_probabilities_of_some_logits(link, num_classes) for link in links]
    # The types are compared as well: before it is fitted, a scaled link gives the probabilities of its base.
    same = all(
        type(link) is type(links[-1]) and torch.equal(found, read[-1]) for link, found in zip(links, read, strict=True)
    )
    if len(links) < len(losses) or not same:
        raise ValueError(
            f'{place}.bbox_head must have losses of one link with the same constants in all stages, whose logits are '
            f'averaged, got {", ".join(type(loss).__name__ for loss in losses)}'
        )


def _probabilities_of_some_logits(link: Link, num_classes: int) -> Tensor:
    logits = torch.linspace(-8, 8, 17)[:, None].expand(-1, num_classes)
    return copy.deepcopy(link).cpu()(logits)  # wherever the model is


def _check_samplers(roi_head: nn.Module) -> None:
    """Raise a ValueError if a sampler needs one loss value per proposal: our losses have one value per label."""
    if not roi_head.bbox_sampler:  # without a train_cfg
        return
    for head, sampler in zip(_as_list(roi_head.bbox_head), _as_list(roi_head.bbox_sampler), strict=True):
        sides = [getattr(sampler, name, None) for name in ('pos_sampler', 'neg_sampler')]  # of most, itself
        chosen = next((type(side).__name__ for side in sides if is_a(side, *CHOOSING_SAMPLERS)), None)
        if isinstance(head.loss_cls, MultiLabelLoss) and chosen is not None:
            raise ValueError(
                f"model.train_cfg.rcnn.sampler must be one that does not go by the loss, such as 'RandomSampler', for "
                f"{type(head.loss_cls).__name__}, got '{chosen}', which wants one value of each proposal"
            )


def check_ignored_boxes(model: nn.Module, dataset: BaseDataset) -> None:
    """Raise a ValueError if boxes of the dataset are unknown and the detector would take these for background.

    Label wrappers such as ``MissingBoxes`` make boxes unknown. Assigners ignore boxes only with an ``ignore_iof_thr``
    above 0, which most MMDetection configs lack, and only in images with a known box. FCOS and DETRs never ignore any.
    """
    makers = [part for part in walk(dataset, any_parts_of) if isinstance(part, LabelWrapper) and part.has_unknown()]
    assigning = list(_assigning_parts(model))
    if not makers or not assigning:
        return
    with_unknown = without_known = 0
    # This reads all boxes, so it comes last.
    for part in outermost_views(dataset):
        for number in range(len(part)) if isinstance(part, LabelWrapper) else ():
            boxes = part.get_data_info(number).get('instances', ())
            if any(box.get('is_unknown') for box in boxes):
                with_unknown += 1
                without_known += all(box.get('ignore_flag', 0) for box in boxes)
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


def _assigning_parts(model: nn.Module) -> Iterator[object]:
    """Yield each assigner of anchors or proposals to boxes in a detector, and each head that assigns without one."""
    for module in model.modules():
        if hasattr(module, 'bbox_assigner'):
            yield from _as_list(module.bbox_assigner)
        # A BBoxHead is inside a RoI head, which assigns. The heads of SSD, CenterNet and CornerNet have no loss_cls.
        elif is_a(module, 'BaseDenseHead') or (hasattr(module, 'loss_cls') and not is_a(module, 'BBoxHead')):
            names = ('refine_assigner', 'cls_assigner', 'assigner')  # of RepPoints, of DDOD, of the others
            yield next((getattr(module, name) for name in names if hasattr(module, name)), module)


def _sees_ignored(part: object) -> bool:
    return is_a(part, 'CenterRegionAssigner') or getattr(part, 'ignore_iof_thr', -1) > 0

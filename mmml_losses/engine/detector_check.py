"""Whether the heads of a detector and the losses in them go together, before it is trained or tested."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from ..losses import MultiLabelLoss, SigmoidLink, SumLoss
from ..registry import DETECTION_HEADS, HOOKS, SCOPE

# Heads of MMDetection whose classification loss is not one of logits and labels, and what it is.
_QUALITY = 'it trains on labels together with the quality of their boxes'
_OWN_LOSS = 'it computes its classification loss itself and never calls loss_cls'
_SOFTMAX = 'it takes a softmax with a channel for the background'
_WORDS = 'it scores the words of a text'
UNSUITED_HEADS = {
    'GFLHead': _QUALITY,
    'RTMDetHead': _QUALITY,
    'TOODHead': _QUALITY,
    'VFNetHead': f'{_QUALITY}, unless it has use_vfl=False and the loss as loss_cls_fl',
    'YOLOXHead': _QUALITY,
    'AutoAssignHead': _OWN_LOSS,
    'FreeAnchorRetinaHead': _OWN_LOSS,
    'CenterNetUpdateHead': 'it hands loss_cls the probabilities of a heat map, not logits',
    'YOLOV3Head': 'it hands loss_cls the anchors of each image by themselves, in three dimensions',
    'MaskFormerHead': _SOFTMAX,
    'MultiInstanceBBoxHead': _SOFTMAX,
    'YOLACTHead': _SOFTMAX,
    'ATSSVLFusionHead': _WORDS,
    'GroundingDINOHead': _WORDS,
}
# These ask the loss for a value of each label, to choose anchors by it.
CHOOSING_HEADS = ('FSAFHead', 'PAAHead', 'PISARetinaHead')
# These ask the loss for a value of each proposal, which it has of each label only.
CHOOSING_SAMPLERS = ('OHEMSampler', 'ScoreHLRSampler')


@HOOKS.register_module()
class DetectorCheckHook(Hook):
    """Stops a detector that would train or score wrongly with a loss of this package, and says what to write instead.

    MMDetection would go on without a word where ``use_sigmoid=True`` is left out, and where a head takes the sigmoid
    of logits that read as probabilities in another way.
    """

    def before_run(self, runner: Runner) -> None:
        """Check the model of a training, validation or test."""
        check_detector(runner.model)


def check_detector(model: nn.Module) -> None:
    """Refuse a detector with a head and a loss of this package that do not go together.

    Args:
        model: Any model. Heads with losses of other projects are not looked at.
    """
    checks = (_check_head, _check_loss, _check_channels, _check_values, _check_reduction, _check_match, _check_link)
    for name, module in model.named_modules():
        loss = getattr(module, 'loss_cls', None)
        if isinstance(loss, MultiLabelLoss):
            for check in checks:
                check(f'{name}.loss_cls', module, loss)
        if hasattr(module, 'bbox_sampler') and hasattr(module, 'bbox_head'):
            _check_roi_head(name, module)


def _check_head(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    for kind, reason in UNSUITED_HEADS.items():
        if _is_a(head, kind) and getattr(head, 'use_vfl', True):  # which only VFNet has
            raise ValueError(f'{place} must be a loss made for {kind}, got {type(loss).__name__}: {reason}')


def _check_loss(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if loss.anchor_objection is not None:
        raise ValueError(
            f'{place} must be a loss of anchors, queries or proposals, got {type(loss).__name__}: '
            f'{loss.anchor_objection}'
        )


def _check_channels(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    classifier = getattr(head, 'fc_cls', None)
    of_roi_head = hasattr(classifier, 'out_features')
    channels = classifier.out_features if of_roi_head else getattr(head, 'cls_out_channels', head.num_classes)
    if channels == head.num_classes:
        return
    if of_roi_head:
        raise ValueError(
            f'{place} must be a loss with a background channel, got {type(loss).__name__}: {type(head).__name__} has '
            f'{channels} logits for {head.num_classes} classes and does not ask the loss'
        )
    raise ValueError(
        f'{place} must have use_sigmoid=True in its config, got none: {type(head).__name__} reads it there, and has '
        f'made {channels} channels for {head.num_classes} classes'
    )


def _check_values(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if _is_a(head, *CHOOSING_HEADS) and (isinstance(loss, SumLoss) or not loss.pointwise):
        raise ValueError(
            f'{place} must be a pointwise loss, got {type(loss).__name__}: {type(head).__name__} chooses anchors by '
            'the loss of each label'
        )


def _check_reduction(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if _is_a(head, 'FSAFHead'):
        wanted, reason = 'none', 'chooses levels of the pyramid by the loss of each label'
    else:
        wanted, reason = 'mean', 'passes the number that the sum is divided by'
    for part in loss.modules():  # those of a sum, too
        if isinstance(part, MultiLabelLoss) and part.reduction != wanted:
            raise ValueError(
                f"{place} must have reduction='{wanted}', got '{part.reduction}' in {type(part).__name__}: "
                f'{type(head).__name__} {reason}'
            )


def _check_match(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    costs = getattr(getattr(head, 'assigner', None), 'match_costs', [])
    if any(_is_a(cost, 'ClassificationCost') for cost in costs):
        raise ValueError(
            f"{place.removesuffix('.loss_cls')}.train_cfg.assigner.match_costs must have 'FocalLossCost' for a loss of "
            "classes by themselves, got 'ClassificationCost', which takes a softmax"
        )


def _check_roi_head(place: str, roi_head: nn.Module) -> None:
    heads, samplers = roi_head.bbox_head, roi_head.bbox_sampler
    heads = list(heads) if isinstance(heads, nn.ModuleList) else [heads]
    _check_stages(place, heads)
    if samplers:  # there are none without a train_cfg
        _check_samplers(heads, samplers if isinstance(samplers, list) else [samplers])


def _check_stages(place: str, heads: list[nn.Module]) -> None:
    """The stages of a cascade score together: by the mean of their logits, read through the link of the last."""
    losses = [head.loss_cls for head in heads]
    ours = [isinstance(loss, MultiLabelLoss) for loss in losses]
    if any(ours) and (not all(ours) or len({type(loss.link) for loss in losses}) > 1):
        raise ValueError(
            f'{place}.bbox_head must have losses of one link in all stages, whose logits are averaged, '
            f'got {", ".join(type(loss).__name__ for loss in losses)}'
        )


def _check_samplers(heads: list[nn.Module], samplers: list[object]) -> None:
    for head, sampler in zip(heads, samplers, strict=True):
        kinds = [getattr(sampler, name, None) for name in ('pos_sampler', 'neg_sampler')]  # of most, itself
        chosen = next((type(each).__name__ for each in kinds if _is_a(each, *CHOOSING_SAMPLERS)), None)
        if isinstance(head.loss_cls, MultiLabelLoss) and chosen is not None:
            raise ValueError(
                f"train_cfg.rcnn.sampler must be one that does not go by the loss, such as 'RandomSampler', for "
                f"{type(head.loss_cls).__name__}, got '{chosen}', which wants one value of each proposal"
            )


def _check_link(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if isinstance(loss.link, SigmoidLink) or _scores_through_link(head):
        return
    kind, link = type(head).__name__, f'{type(loss).__name__} with the link {type(loss.link).__name__}'
    if kind in DETECTION_HEADS:
        raise ValueError(
            f"{place.removesuffix('.loss_cls')}.type must be '{SCOPE}.{kind}' for {link}, got '{kind}', which takes "
            'the sigmoid of its logits'
        )
    if _is_a(head, 'BaseDenseHead') and not _base_asks(head):
        raise ValueError(f'{place} is {link}, which dense heads ask for from MMDetection 3.3 on: install mmdet>=3.3.0')
    raise ValueError(
        f'{place} must be a loss that is read by the sigmoid, got {link}: {kind} takes the sigmoid of its logits, and '
        f'{SCOPE} has no head for it'
    )


def _scores_through_link(head: nn.Module) -> bool:
    """Whether a head asks its loss for probabilities: one of ours, or one whose code says so."""
    if getattr(head, 'scores_through_link', False):
        return True
    if _is_a(head, 'DIIHead'):  # the RoI head around it takes the sigmoid
        return False
    asks = 'get_activation' in _names_in(head, '_predict_by_feat_single')
    return asks and not _names_in(head, 'predict_by_feat').isdisjoint({'_predict_by_feat_single', 'predict_by_feat'})


def _base_asks(head: nn.Module) -> bool:
    base = next(base for base in type(head).__mro__ if base.__name__ == 'BaseDenseHead')
    return 'get_activation' in base._predict_by_feat_single.__code__.co_names


def _names_in(head: nn.Module, method: str) -> set[str]:
    """The names that the code of a method uses."""
    function: Callable | None = getattr(type(head), method, None)
    return set() if function is None else set(inspect.unwrap(function).__code__.co_names)


def _is_a(thing: object, *names: str) -> bool:
    """Whether the class of a thing, or one of its bases, has one of these names: no import of MMDetection for that."""
    return any(base.__name__ in names for base in type(thing).__mro__)

"""Whether the heads of a detector and the losses in them go together, before it is trained or tested."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from ...hosts.mmdet import DETECTION_HEADS, is_a
from ...losses import ExpectedPositiveRegularizer, LabelPairRegularizer, Link, MultiLabelLoss, SigmoidLink, SumLoss
from ...registry import HOOKS, SCOPE
from .ignored_boxes import check_ignored_boxes

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
# These say nothing of the label of an anchor.
REGULARIZERS = (ExpectedPositiveRegularizer, LabelPairRegularizer)


@HOOKS.register_module()
class DetectorCheckHook(Hook):
    """Stops a detector that would train or score wrongly with a loss of this package, and says what to write instead.

    MMDetection would go on without a word where ``use_sigmoid=True`` is left out, where a head takes the sigmoid of
    logits that read as probabilities in another way, and where boxes to be ignored are background to its assigners.
    """

    def before_run(self, runner: Runner) -> None:
        """Check the model of a training, validation or test."""
        check_detector(runner.model)

    def before_train(self, runner: Runner) -> None:
        """Check the model of a training together with its data."""
        check_ignored_boxes(runner.model, runner.train_dataloader.dataset)


def check_detector(model: nn.Module) -> None:
    """Refuse a detector with a head and a loss of this package that do not go together.

    Args:
        model: Any model. Heads with losses of other projects are not looked at.
    """
    checks = (
        _check_head,
        _check_loss,
        _check_channels,
        _check_values,
        _check_reduction,
        _check_match,
        _check_assigners,
        _check_classes,
        _check_link,
    )
    for name, module in model.named_modules():
        loss = getattr(module, 'loss_cls', None)
        if isinstance(loss, MultiLabelLoss):
            for check in checks:
                check(f'{name}.loss_cls', module, loss)
    for name, module in model.named_modules():  # heads around others, of which each is right by itself
        if _is_roi_head(module):
            _check_roi_head(name, module)
        if is_a(module, 'SoftTeacher'):
            _check_soft_teacher(module)


def _check_head(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    for kind, reason in UNSUITED_HEADS.items():
        if is_a(head, kind) and getattr(head, 'use_vfl', True):  # which only VFNet has
            raise ValueError(f'{place} must be a loss made for {kind}, got {type(loss).__name__}: {reason}')


def _check_loss(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if loss.reason_against_anchors is not None:
        raise ValueError(
            f'{place} must be a loss of anchors, queries or proposals, got {type(loss).__name__}: '
            f'{loss.reason_against_anchors}'
        )
    if _only_regularizes(loss):
        raise ValueError(
            f'{place} must be a loss, or a SumLoss with one, got {type(loss).__name__}: regularisers alone do not '
            'teach what an anchor shows'
        )


def _only_regularizes(loss: MultiLabelLoss) -> bool:
    if isinstance(loss, SumLoss):
        return all(_only_regularizes(part) for part in loss.losses.values())
    return isinstance(loss, REGULARIZERS)


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
    if is_a(head, *CHOOSING_HEADS) and (isinstance(loss, SumLoss) or not loss.pointwise):
        raise ValueError(
            f'{place} must be a pointwise loss, got {type(loss).__name__}: {type(head).__name__} chooses anchors by '
            'the loss of each label'
        )


def _check_reduction(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if is_a(head, 'FSAFHead'):
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
    assigners = [getattr(head, name, None) for name in ('cls_assigner', 'reg_assigner')]  # which only DDOD has
    by_score = any(getattr(assigner, 'alpha', None) is not None for assigner in assigners)
    if by_score and not isinstance(loss.link, SigmoidLink):
        raise ValueError(
            f'{place} must be a loss that is read by the sigmoid, got {_with_link(loss)}: {type(head).__name__} '
            'assigns anchors by the sigmoid of their logits, unless model.train_cfg has alpha=None in assigner and '
            'reg_assigner'
        )


def _is_roi_head(module: nn.Module) -> bool:
    return hasattr(module, 'bbox_sampler') and hasattr(module, 'bbox_head')


def _stages_of(roi_head: nn.Module) -> list[nn.Module]:
    heads = roi_head.bbox_head
    return list(heads) if isinstance(heads, nn.ModuleList) else [heads]


def _our_losses_in(roi_head: nn.Module) -> list[MultiLabelLoss]:
    losses = [head.loss_cls for head in _stages_of(roi_head)]
    return [loss for loss in losses if isinstance(loss, MultiLabelLoss)]


def _check_soft_teacher(detector: nn.Module) -> None:
    for roi_head in filter(_is_roi_head, detector.modules()):
        for loss in _our_losses_in(roi_head):
            raise ValueError(
                'model.detector.roi_head.bbox_head.loss_cls must be a loss with a background channel for SoftTeacher, '
                f'got {type(loss).__name__}: it weighs the background of unlabelled images by the score of that '
                'channel, which would be 0'
            )


def _check_roi_head(place: str, roi_head: nn.Module) -> None:
    heads, losses, samplers = _stages_of(roi_head), _our_losses_in(roi_head), roi_head.bbox_sampler
    if losses and is_a(roi_head, 'PISARoIHead'):
        raise ValueError(
            f"{place}.type must be one that does not choose proposals by the loss, such as 'StandardRoIHead', for "
            f"{type(losses[0]).__name__}, got '{type(roi_head).__name__}', which runs with ScoreHLRSampler only and "
            'takes a softmax in its carl_loss'
        )
    if losses:
        _check_stages(place, heads)
    if samplers:  # there are none without a train_cfg
        _check_samplers(heads, samplers if isinstance(samplers, list) else [samplers])


def _check_stages(place: str, heads: list[nn.Module]) -> None:
    """The stages of a cascade score together: by the mean of their logits, read through the link of the last."""
    losses, num_classes = [head.loss_cls for head in heads], heads[-1].num_classes
    ours = all(isinstance(loss, MultiLabelLoss) for loss in losses)
    if not ours or not all(_read_alike(loss.link, losses[-1].link, num_classes) for loss in losses):
        raise ValueError(
            f'{place}.bbox_head must have losses of one link with the same constants in all stages, whose logits are '
            f'averaged, got {", ".join(type(loss).__name__ for loss in losses)}'
        )


def _read_alike(first: Link, second: Link, num_classes: int) -> bool:
    """Whether two links are of one type and read logits as the same probabilities."""
    readings = [_read(link, num_classes) for link in (first, second)]
    # A fitted link reads as its base before the fit, and not after.
    return type(first) is type(second) and torch.equal(*readings)


def _read(link: Link, num_classes: int) -> Tensor:
    """The probabilities of some logits."""
    logits = torch.linspace(-8, 8, 17)[:, None].expand(-1, num_classes)
    return copy.deepcopy(link).cpu()(logits)  # wherever the model is


def _check_samplers(heads: list[nn.Module], samplers: list[object]) -> None:
    for head, sampler in zip(heads, samplers, strict=True):
        kinds = [getattr(sampler, name, None) for name in ('pos_sampler', 'neg_sampler')]  # of most, itself
        chosen = next((type(each).__name__ for each in kinds if is_a(each, *CHOOSING_SAMPLERS)), None)
        if isinstance(head.loss_cls, MultiLabelLoss) and chosen is not None:
            raise ValueError(
                f"model.train_cfg.rcnn.sampler must be one that does not go by the loss, such as 'RandomSampler', for "
                f"{type(head.loss_cls).__name__}, got '{chosen}', which wants one value of each proposal"
            )


def _check_classes(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    try:
        _read(loss.link, head.num_classes)
    except ValueError as error:
        raise ValueError(f'{place}.link must be one for the classes of {type(head).__name__}: {error}') from None


def _check_link(place: str, head: nn.Module, loss: MultiLabelLoss) -> None:
    if isinstance(loss.link, SigmoidLink) or _scores_through_link(head):
        return
    kind, link = type(head).__name__, _with_link(loss)
    if kind in DETECTION_HEADS:
        raise ValueError(
            f"{place.removesuffix('.loss_cls')}.type must be '{SCOPE}.{kind}' for {link}, got '{kind}', which takes "
            'the sigmoid of its logits'
        )
    if is_a(head, 'BaseDenseHead') and not _base_asks(head):
        raise ValueError(f'{place} is {link}, which dense heads ask for from MMDetection 3.3 on: install mmdet>=3.3.0')
    raise ValueError(
        f'{place} must be a loss that is read by the sigmoid, got {link}: {kind} takes the sigmoid of its logits, and '
        f'{SCOPE} has no head for it'
    )


def _with_link(loss: MultiLabelLoss) -> str:
    return f'{type(loss).__name__} with the link {type(loss.link).__name__}'


def _scores_through_link(head: nn.Module) -> bool:
    """Whether a head asks its loss for probabilities: one of ours, or one whose code says so."""
    # The RoI head around the one and the CARL loss of the other take the sigmoid, whatever the head itself does.
    if is_a(head, 'DIIHead', 'PISARetinaHead'):
        return False
    if getattr(head, 'scores_through_link', False):
        return True
    asks = 'get_activation' in _names_in(head, '_predict_by_feat_single')
    return asks and not _names_in(head, 'predict_by_feat').isdisjoint({'_predict_by_feat_single', 'predict_by_feat'})


def _base_asks(head: nn.Module) -> bool:
    base = next(base for base in type(head).__mro__ if base.__name__ == 'BaseDenseHead')
    return 'get_activation' in base._predict_by_feat_single.__code__.co_names


def _names_in(head: nn.Module, method: str) -> set[str]:
    """The names that the code of a method uses."""
    function: Callable | None = getattr(type(head), method, None)
    return set() if function is None else set(inspect.unwrap(function).__code__.co_names)

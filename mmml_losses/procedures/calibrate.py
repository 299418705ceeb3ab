"""Fit a trained classifier's link, which maps logits to probabilities, to labelled data, for ``tools/calibrate.py``."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.runner.amp import autocast
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ..engine.model_loss import METHODS, LossPlace, describe_link, new_link, replace_loss
from ..evaluation.functional.calibration import calibration_errors, reliability_bins
from ..evaluation.metrics.gathering import RowStore, gather_rows
from ..functional import sigmoid_link
from ..losses import MultiLabelLoss, SumLoss
from ..losses.links import Link, PhiLink, ScaledLink, SigmoidLink, SPALink, VectorLink, negative_log_likelihood
from ..models.heads import stack_targets
from ..registry import SCOPE
from ..utils.errors import UsageError
from ..utils.files import replacing


class Figures(NamedTuple):
    """Errors of probabilities: mean negative log-likelihood; average, expected and maximum calibration error (%)."""

    nll: float
    ace: float
    ece: float
    mce: float

    @classmethod
    def of(cls, log_odds: Tensor, targets: Tensor) -> 'Figures':
        """Compute the errors from log-odds (N, C) and targets (N, C) with 1 positive, 0 negative and -1 unknown."""
        errors = calibration_errors(reliability_bins(sigmoid_link(log_odds), targets))
        return cls(negative_log_likelihood(log_odds, targets), 100 * errors.ace, 100 * errors.ece, 100 * errors.mce)


class Calibration(NamedTuple):
    """Result of :func:`fit_link`: a loss config with the fitted link, and the errors before and after the fit.

    Args:
        loss_config: The config of the loss with the new link.
        before: Errors of the old probabilities, on the data of the fit.
        after: Errors of the probabilities through the new link, on the same data.
        summary: The fitted values as text.
    """

    loss_config: dict
    before: Figures
    after: Figures
    summary: str


@torch.no_grad()
def collect_logits(model: nn.Module, dataloader: DataLoader, amp: bool = False) -> tuple[Tensor, Tensor] | None:
    """Run a classifier, whose ``mode='tensor'`` returns (N, C) logits, over labelled data (``amp``: with autocast).

    Returns:
        (logits, targets) of the whole dataset on the main process, both (N, C) float32 on the CPU; None on the others.
    """
    model.eval()
    logits, targets = RowStore(torch.float32), RowStore(torch.float32)
    for number, batch in enumerate(dataloader, start=1):
        data = model.data_preprocessor(batch, False)
        with autocast(enabled=amp):
            scores = model(**data, mode='tensor')
        if not isinstance(scores, Tensor) or scores.dim() != 2:
            raise UsageError(f'the model must be a classifier with (N, C) logits, {type(model).__name__} gave others')
        samples = data.get('data_samples')
        if not samples or not ('gt_score' in samples[0] or 'gt_label' in samples[0]):
            raise UsageError('the data must have labels, and its samples hold neither gt_score nor gt_label')
        logits.append(scores.float().cpu())
        targets.append(stack_targets(samples, scores.size(1)).cpu())
        if number % max(1, len(dataloader) // 10) == 0:
            print_log(f'batch {number} of {len(dataloader)}', logger='current')
    if not len(logits):
        raise UsageError('the data must have labels, and it is empty')
    size = len(dataloader.dataset)  # type: ignore[arg-type]  # torch's Dataset declares no length
    all_logits, all_targets = gather_rows(logits, size), gather_rows(targets, size)
    return None if all_logits is None or all_targets is None else (all_logits, all_targets)


def fit_link(place: LossPlace, method: str, logits: Tensor, targets: Tensor) -> Calibration:
    """Put a new link on top of a loss's link (logits to probabilities) and fit it. An earlier fitted link is replaced.

    Args:
        place: The loss, with its config. The loss gets the new link and is moved to the CPU.
        method: ``'temperature'``, ``'platt'`` or ``'vector'``: how the new link scales the log-odds.
        logits: Logits (N, C) of the model on labelled data.
        targets: Labels (N, C) with 1 positive, 0 negative and -1 unknown.
    """
    loss = place.module.cpu()
    base, base_config = _base_of_new_link(loss, place.config.get('link'))
    link = new_link(method, logits.size(1), base)
    try:
        before = Figures.of(loss.logit_probabilities(logits), targets)
        link.fit(logits, targets)
    except ValueError as error:
        raise UsageError(f'the labels of the data cannot be fitted: {error}') from None
    loss.link = link
    loss.adopt_link(link)  # the parts of a sum use the link of the sum
    after = Figures.of(loss.logit_probabilities(logits), targets)
    link_config = {**(config_of(link) or {}), 'base': base_config}
    if base_config is None:
        del link_config['base']
    return Calibration({**place.config, 'link': link_config}, before, after, describe_link(link, targets))


def _base_of_new_link(loss: MultiLabelLoss, config: dict | str | Link | None) -> tuple[Link, dict | None]:
    """Return (link of ``loss`` before any fit, its config or None if default); ``config`` is that of the link now."""
    link = loss.link
    if config is None:
        # A sum provides the link of its first part, and MMEngine writes the keys of a config in alphabetical order.
        return link, config_of(link) if isinstance(loss, SumLoss) else None
    if isinstance(link, ScaledLink) and link.base is not None and isinstance(config, dict):
        link, config = link.base, config.get('base')
    # Only the loss knows a name such as 'phi'.
    return link, config if config is None or isinstance(config, dict) else config_of(link)


def config_of(link: Link) -> dict | None:
    """Return the config of a link, without fitted values; None if the class of the link is not of this package."""
    kind = type(link)
    if kind not in (SigmoidLink, SPALink, PhiLink, *METHODS.values()):
        return None
    config = dict(type=f'{SCOPE}.{kind.__name__}', **getattr(link, 'constants', {}))
    if kind is VectorLink:
        config['num_classes'] = len(link.scale)
    if isinstance(link, ScaledLink) and link.base is not None:
        config['base'] = config_of(link.base)
    return config


def write_calibrated(
    file: Path, comment: str, cfg: Config, checkpoint: Mapping, place: LossPlace, loss_config: dict
) -> None:
    """Write a checkpoint with the fitted link, and a config next to it. An error leaves no half-written file.

    Args:
        file: The checkpoint to write. The config has the same name with ``.py``.
        comment: Text of the first line of the config, without ``#``.
        cfg: The config of the model; its loss is replaced in place.
        checkpoint: Content of the trained checkpoint. Only its weights and ``meta`` are copied, so no training can be
            resumed from ``file``.
        place: The loss with the fitted link.
        loss_config: The config of that loss.
    """
    replace_loss(cfg, loss_config)
    weights = checkpoint.get('state_dict', checkpoint)
    weights = {key.removeprefix('module.'): value for key, value in weights.items()}
    weights = {key: value for key, value in weights.items() if not key.startswith(place.prefix)}
    weights.update(place.module.state_dict(prefix=place.prefix))
    meta = {**checkpoint.get('meta', {}), 'cfg': cfg.pretty_text}
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary, replacing(file.with_suffix('.py')) as temporary_config:
        torch.save(dict(meta=meta, state_dict=weights), temporary)
        temporary_config.write_text(f'# {comment}\n{cfg.pretty_text}', encoding='utf-8')

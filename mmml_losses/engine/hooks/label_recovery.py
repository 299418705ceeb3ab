"""Count in each epoch how many hidden positive labels a training finds."""

import inspect
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.dist import all_reduce
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import Tensor, nn

from ...datasets.labels.nesting import outermost_views
from ...datasets.wrappers.label_wrapper import LabelWrapper
from ...evaluation import LabelRecovery, label_recovery
from ...functional.corrections import check_threshold
from ...losses import EMAPLLoss, MultiLabelLoss, SumLoss
from ...losses.core.inputs import one_hot_targets, promote
from ...registry import HOOKS
from .training_set import losses_of

COUNTS = ('num_hidden', 'num_corrected', 'num_recovered', 'num_rejected')
# Returns corrected targets (N, C) for logits, targets and the other arguments of the loss.
Correction = Callable[..., Tensor]


@HOOKS.register_module()
class LabelRecoveryHook(Hook):
    """Compare in each epoch the labels that the loss corrected with the true labels.

    The training set must have a label wrapper, which hides labels and knows the true ones. Only this hook reads the
    true labels: training is the same without it. On a GPU every step waits for the corrected labels. After each epoch
    the hook logs one line and passes values to the visualiser, at step 1 for the first epoch. They are the percentages
    ``label_recovery/precision``, ``recall``, ``PPV`` and ``NPV`` (see :class:`mmml_losses.evaluation.LabelRecovery`; a
    percentage of no labels is left out), and the counts ``num_hidden`` (truly positive labels not given as positive),
    ``num_corrected`` (see the list below), ``num_recovered`` (labels both hidden and corrected) and ``num_rejected``
    (given negatives that the loss leaves undecided: only EM + APL does, where it trains by entropy alone).
    Counts are summed over distributed processes. If several losses correct, such as those of ``ExpertsHead``,
    percentages pool all corrections and counts are means over the losses.

    Of the labels not given as positive, these count as corrected:

    - SPLC, LASD, LL-Ct and LL-Cp: labels that the loss took as positive in the step in which it saw the sample.
    - LL-R: labels that it rejected, which LL-Ct would have made positive.
    - ROLE: labels with an estimate above 0.5.
    - EM + APL: none, since it finds only negatives. ``NPV`` is of its pseudo-negatives, whatever their probability.
    - A loss that corrects nothing: labels that a wrapper (``Relabelled``) made positive, the same in each epoch.

    Args:
        threshold: Count as corrected, with any loss, labels not given as positive whose probability is above this. This
            gives the curves without correction in Figure 7 of the Hill and SPLC paper. A model with several losses,
            such as the experts of ``ExpertsHead``, raises a ValueError. With None, the list above holds.

    Attributes:
        recovery: ``LabelRecovery`` of the last epoch, summed over the losses; None before an epoch has ended.
    """

    def __init__(self, threshold: float | None = None):
        self.threshold = None if threshold is None else check_threshold(threshold)
        self.recovery: LabelRecovery | None = None
        self._data_samples: Sequence | None = None
        self._handles: list = []

    def before_train(self, runner: Runner) -> None:
        """Read the true labels and find the losses that correct labels; raise a ValueError if nothing does."""
        self._labels = HiddenLabels(runner.train_dataloader.dataset)
        self._corrections = find_corrections(runner.model, self.threshold)
        if not self._corrections and not self._labels.has_corrections:
            names = sorted({type(loss).__name__ for loss in losses_of(runner.model)})
            raise ValueError(
                'LabelRecoveryHook needs a loss that corrects labels (SPLC, LASD, LL-R, LL-Ct, LL-Cp, EM + APL, ROLE) '
                f'or a training set with pseudo labels, got {" and ".join(names) or "no loss of this package"} and '
                'labels as they were given: threshold=... judges what the model predicts'
            )
        if not ((self._labels.true == 1) & (self._labels.given != 1)).any():
            message = 'Label recovery: the training set hides no positive label: there is nothing to recover'
            print_log(message, logger='current', level=logging.WARNING)

    def before_train_epoch(self, runner: Runner) -> None:
        """Reset the counts, and register a forward hook on each loss, to count corrected labels during the epoch."""
        self._found = LabelRecovery.empty(self._labels.true.shape[1])
        # Only while an epoch runs, so that copies of the model, which other hooks make, are not watched.
        for loss, correction in self._corrections.items():
            # Plain Python, also in compiled losses.
            watch = torch.compiler.disable(partial(self._watch, correction))
            self._handles.append(loss.register_forward_hook(watch, with_kwargs=True))

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: dict | None = None) -> None:
        """Keep the data samples of the batch, which identify the rows of the losses' targets."""
        self._data_samples = data_batch.get('data_samples') if isinstance(data_batch, dict) else None

    def after_train_epoch(self, runner: Runner) -> None:
        """Set ``recovery`` to the label counts of this epoch, summed over all processes, and log it."""
        while self._handles:
            self._handles.pop().remove()
        self._data_samples = None
        if self._corrections:
            counts = torch.from_numpy(self._found.counts())
            all_reduce(counts)
            self.recovery = LabelRecovery.from_counts(counts.numpy())
        else:
            self.recovery = label_recovery(self._labels.given, self._labels.true, self._labels.observed)
        self._report(self.recovery, max(len(self._corrections), 1), runner)

    def _report(self, recovery: LabelRecovery, num_losses: int, runner: Runner) -> None:
        """Log percentages, and counts divided by ``num_losses``, and pass both to the visualiser."""
        shares = dict(precision=recovery.precision, recall=recovery.recall, PPV=recovery.ppv, NPV=recovery.npv)
        shares = {name: 100 * value for name, value in shares.items() if not math.isnan(value)}
        counts = {name: getattr(recovery, name) / num_losses for name in COUNTS}
        hidden, corrected, recovered, rejected = (f'{count:,.0f}' for count in counts.values())
        message = (
            f'Label recovery: epoch {runner.epoch + 1}: '
            + (f'on average of {num_losses} losses ' if num_losses > 1 else '')
            + f'{recovered} of {hidden} hidden positives are among the {corrected} corrected labels'
            + (f', {rejected} labels are left open' if recovery.num_rejected else '')
            + (f', {recovery.num_unknown / num_losses:,.0f} labels have no known truth' if recovery.num_unknown else '')
            + (f' ({", ".join(f"{name} {value:.2f}" for name, value in shares.items())})' if shares else '')
        )
        print_log(message, logger='current', level=logging.INFO)
        scalars = {f'label_recovery/{name}': value for name, value in (shares | counts).items()}
        runner.visualizer.add_scalars(scalars, step=runner.epoch + 1)

    @torch.no_grad()
    def _watch(self, correction: Correction, loss: MultiLabelLoss, args: tuple, kwargs: dict, output: object) -> None:
        if not loss.training:
            return
        call = inspect.signature(MultiLabelLoss.forward).bind(loss, *args, **kwargs).arguments
        logits = promote(call['cls_score'].detach())
        target = one_hot_targets(call['target'], logits)
        rows = self._labels.rows_of(self._data_samples)
        self._labels.check_targets(rows, target.cpu().numpy())
        corrected = correction(logits, target, **call.get('kwargs', {}))
        self._found += label_recovery(self._labels.given[rows], self._labels.true[rows], corrected)


class HiddenLabels:
    """Labels of a training set in three versions: true, given (after some were hidden), and observed by the loss.

    Args:
        dataset: A label wrapper (which hides or restores labels), or MMEngine's wrappers around label wrappers.

    Attributes:
        true: (M, C) int8, the labels of the M samples inside all wrappers: 1 positive, 0 negative, -1 unknown.
        given: (M, C) int8, the labels after some were hidden.
        observed: (M, C) int8, the labels that the loss gets: ``given`` with the pseudo labels that wrappers added.
    """

    def __init__(self, dataset: BaseDataset):
        wrappers = list({id(part): part for part in outermost_views(dataset)}.values())
        for part in wrappers:
            if not isinstance(part, LabelWrapper):
                raise ValueError(
                    f'LabelRecoveryHook needs a training set that knows its true labels, got {type(part).__name__} '
                    'outside of any label wrapper, such as mmml_losses.Relabelled'
                )
        self.true = np.concatenate([wrapper.true_labels() for wrapper in wrappers])
        self.given = np.concatenate([wrapper.uncorrected_labels() for wrapper in wrappers])
        self.observed = np.concatenate([wrapper.observed_labels() for wrapper in wrappers])
        self.has_corrections = bool((self.observed != self.given).any())
        if not self.has_corrections:
            self.observed = self.given
        # A position identifies a sample of one wrapper. In a ConcatDataset the file is needed as well.
        self._positions = None if len(wrappers) == 1 else self._position_by_file(wrappers)

    def rows_of(self, data_samples: Sequence | None) -> np.ndarray:
        """Return the int64 rows of a batch's samples in the label arrays; raise a ValueError if a sample has none."""
        if data_samples is None:
            raise ValueError("LabelRecoveryHook needs batches with 'data_samples', as PackInputs makes them")
        positions = [sample.get('sample_idx') for sample in data_samples]
        if None in positions:
            raise ValueError(
                "sample_idx must be in the data samples for LabelRecoveryHook, got none: add 'sample_idx' to meta_keys "
                'of PackInputs in the training pipeline'
            )
        if self._positions is None:
            return np.asarray(positions, dtype=np.int64)
        keys = [(sample.get('img_path'), at) for sample, at in zip(data_samples, positions, strict=True)]
        unknown = next((key for key in keys if key not in self._positions), None)
        if unknown is not None:
            raise ValueError(
                'img_path must name the images of the training set for LabelRecoveryHook, because sample_idx repeats '
                f'in a ConcatDataset, got {unknown[0]!r}: pack it, or put the label wrapper around the ConcatDataset'
            )
        return np.asarray([self._positions[key] for key in keys], dtype=np.int64)

    def check_targets(self, rows: np.ndarray, target: np.ndarray) -> None:
        """Raise a ValueError if the targets (N, C) of a loss are not ``observed[rows]``, for example after mixup."""
        if target.shape != self.observed[rows].shape or (target != self.observed[rows]).any():
            raise ValueError(
                'targets of the loss must be the labels of the training set for LabelRecoveryHook, got others: '
                'augmentations that change labels (mixup, CutMix) or the number of samples cannot be used'
            )

    def _position_by_file(self, wrappers: list[LabelWrapper]) -> dict[tuple[str | None, int], int]:
        positions: dict[tuple[str | None, int], int] = {}
        samples = ((wrapper, position) for wrapper in wrappers for position in range(len(wrapper)))
        for row, (wrapper, position) in enumerate(samples):
            key = (wrapper.get_data_info(position).get('img_path'), position)
            first = positions.setdefault(key, row)
            if any((labels[first] != labels[row]).any() for labels in (self.true, self.given, self.observed)):
                raise ValueError(
                    f'sample_idx and img_path must name one sample for LabelRecoveryHook, got {key} for samples '
                    'of different labels: put the label wrapper around the ConcatDataset'
                )
        return positions


def find_corrections(model: nn.Module, threshold: float | None = None) -> dict[MultiLabelLoss, Correction]:
    """Return a dict from each loss that corrects labels to a function that returns its corrected targets (N, C).

    The function takes logits, targets and the loss's keywords. If no loss corrects, the dict is {}. With ``threshold``
    the dict has the model's one loss (several raise a ValueError), and its function makes labels of higher probability
    positive.
    """
    if threshold is not None:
        inside = {part for loss in losses_of(model) for part in losses_of(loss)[1:]}
        outermost = [loss for loss in losses_of(model) if loss not in inside]
        if len(outermost) > 1:
            raise ValueError(
                f'threshold must be None for a model of {len(outermost)} losses, such as the experts of ExpertsHead, '
                f'got {threshold}: none of them is called with what the model predicts'
            )
        # Heads call the parts of a sum and not the sum.
        return {
            next(part for part in losses_of(loss) if not isinstance(part, SumLoss)): partial(_probable, loss, threshold)
            for loss in outermost
        }
    corrections: dict[MultiLabelLoss, Correction] = {}
    for loss in losses_of(model):
        if isinstance(loss, EMAPLLoss):
            corrections[loss] = partial(_with_pseudo_negatives, loss)
        elif hasattr(loss, 'corrected_targets'):
            corrections[loss] = loss.corrected_targets
        elif hasattr(loss, 'rejected'):
            corrections[loss] = partial(_with_rejected, loss)
    return corrections


def _with_pseudo_negatives(loss: EMAPLLoss, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
    # Soft labels of pseudo-negatives are low for their class, and may still be above one half.
    return loss.corrected_targets(logits, target, **kwargs).clamp(max=0).where(target == 0, target)


def _with_rejected(loss: MultiLabelLoss, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
    return target.masked_fill(loss.rejected(logits, target, **kwargs), 1)


def _probable(loss: MultiLabelLoss, threshold: float, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
    return target.masked_fill((target != 1) & (loss.probabilities(logits) > threshold), 1)

"""What the labels of a training set are like, in its log."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from mmengine.dataset import BaseDataset
from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from ...datasets import MissingBoxes, read_label_changes
from ...datasets.labels.nesting import class_names, walk
from ...evaluation import LabelSummary, describe_labels, summarize_labels
from ...registry import HOOKS
from ...utils.frequencies import HEAD_FROM, MEDIUM_FROM
from .training_set import head_classes


@HOOKS.register_module()
class LabelSummaryHook(Hook):
    """Says once, when a training starts, how many labels there are and what label wrappers made of them.

    A few lines in the log of the main process: images, labels and labels per image, the same before labels were hidden
    or images left out, head, medium and tail, and the rarest and the most frequent classes. ``tools/browse_labels.py``
    shows all of it. Each image counts once, also in a ``RepeatDataset`` or ``ClassBalancedDataset``. Labels that cannot
    be read are no reason to stop: then one line says so.

    Args:
        medium_from: Fewest images of a medium class.
        head_from: Fewest images of a head class.
        max_entries: Images times classes from which on nothing is counted: there is a byte or more for each.

    Attributes:
        summary: What was said; None before, and where nothing could be read.
    """

    def __init__(self, medium_from: int = MEDIUM_FROM, head_from: int = HEAD_FROM, max_entries: int = 1 << 31):
        if not 0 <= medium_from <= head_from:
            raise ValueError(f'medium_from must be in [0, head_from = {head_from}], got {medium_from}')
        self.medium_from = medium_from
        self.head_from = head_from
        self.max_entries = max_entries
        self.summary: LabelSummary | None = None

    @master_only
    def before_train(self, runner: Runner) -> None:
        """Read the labels, and describe them."""
        dataset = runner.train_dataloader.dataset
        try:
            num_entries = _num_entries(dataset)
            if num_entries > self.max_entries:
                limit = f'max_entries={self.max_entries:,}'
                _log(f'not counted, since images times classes are {num_entries:,}, above {limit}')
                return
            changes = read_label_changes(dataset, head_classes(runner.model))
            self.summary = summarize_labels(
                changes.classes,
                changes.observed,
                changes.true,
                changes.original,
                medium_from=self.medium_from,
                head_from=self.head_from,
            )
        # Datasets of other projects may fail in ways of their own, and the training does not need what is said here.
        except Exception as error:
            _log(f'they cannot be read ({type(error).__name__}: {error})')
            return
        _log('\n    '.join((*describe_labels(self.summary), *_describe_boxes(dataset))))


def _num_entries(dataset: Sized) -> int:
    return len(dataset) * len(class_names(dataset)) if hasattr(dataset, '__len__') else 0


def _describe_boxes(dataset: BaseDataset) -> Iterator[str]:
    """Yield a line for each wrapper that hides single boxes."""
    for part in walk(dataset):
        if isinstance(part, MissingBoxes):
            hidden, all_boxes = part.count_boxes()
            yield f'{type(part).__name__} hides {hidden:,} of {all_boxes:,} boxes'


def _log(message: str) -> None:
    print_log(f'Labels of the training set: {message}', logger='current')

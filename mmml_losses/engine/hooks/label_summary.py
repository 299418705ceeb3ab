"""Log a summary of the labels of the training set when a training starts."""

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
    """Log a summary of the labels of the training set when a training starts.

    The main process logs the numbers of images, labels and labels per image, also before label wrappers (which hide
    labels or leave images out); the numbers of head, medium and tail classes; the rarest and the most frequent classes.
    ``tools/browse_labels.py`` shows more. An image counts once, also in a ``RepeatDataset`` or
    ``ClassBalancedDataset``. If the labels cannot be read, one line gives the reason, and the training goes on.

    Args:
        medium_from: Smallest number of images of a medium class. Tail classes have fewer.
        head_from: Smallest number of images of a head class.
        max_entries: No summary if images times classes exceed this, since each label takes a byte or more of memory.

    Attributes:
        summary: The logged summary; None before the training, if the labels were not read, and on other processes.
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
        """Read the labels of the training set, store their summary and log it."""
        dataset = runner.train_dataloader.dataset
        try:
            num_entries = len(dataset) * len(class_names(dataset)) if hasattr(dataset, '__len__') else 0
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
        # Datasets of other projects may raise any error, and the training does not need the summary.
        except Exception as error:
            _log(f'they cannot be read ({type(error).__name__}: {error})')
            return
        lines = describe_labels(self.summary)
        for part in walk(dataset):
            if isinstance(part, MissingBoxes):
                hidden, all_boxes = part.count_boxes()
                lines = [*lines, f'{type(part).__name__} hides {hidden:,} of {all_boxes:,} boxes']
        _log('\n    '.join(lines))


def _log(message: str) -> None:
    print_log(f'Labels of the training set: {message}', logger='current')

"""Recovery of hidden labels as an MMEngine metric."""

from collections.abc import Sequence

import numpy as np

from ...registry import METRICS
from ..functional.predictions import Predictions
from ..functional.recovery import LabelRecovery, label_recovery
from .base import PredictionMetric


@METRICS.register_module()
class MissingLabelRecovery(PredictionMetric):
    """Recovery of the labels that a dataset wrapper hid, by a threshold on the scores, in percent.

    A label is *found* if it is scored above the threshold and was not given as positive. ``precision`` is the share of
    found labels that are hidden positives, ``recall`` the share of hidden positives that are found (Figure 7 of the
    Hill and SPLC paper). ``PPV`` and ``NPV`` count all labels, given or not: the share of labels above the threshold
    that are truly positive, and of the others that are truly negative, as means over classes (Figure 2 of the LASD
    paper). A share of no labels is NaN. See :func:`mmml_losses.evaluation.label_recovery`.

    The samples must have their true labels, from a dataset in a label wrapper whose pipeline ends with
    ``PackInputs(algorithm_keys=['true_label'])``. For the corrections of a *loss* during training, see
    :class:`mmml_losses.engine.LabelRecoveryHook`.

    Args:
        threshold: Score above which a label is found; 0.6 by default, as in SPLC.
        fully_labelled: Whether the dataset hides nothing, such as the test sets of the LASD paper. Its labels are then
            the truth, and every positive is to be found.
        prefix: Prefix of the metric names; ``missing-label`` by default.

    Attributes:
        recovery: ``LabelRecovery`` counts of the last evaluation; None before it and on other than the main process.
    """

    default_prefix = 'missing-label'
    columns = ('scores', 'labels', 'true_labels')
    needs_probabilities = True

    def __init__(self, threshold: float = 0.6, fully_labelled: bool = False, prefix: str | None = None):
        super().__init__(prefix=prefix)
        if not 0 <= threshold <= 1:
            raise ValueError(f'threshold must be in [0, 1], got {threshold}')
        self.threshold = threshold
        self.fully_labelled = fully_labelled
        self.recovery: LabelRecovery | None = None

    def check_samples(self, data_samples: Sequence[dict]) -> None:
        """Raise a ValueError for raw scores and, unless ``fully_labelled``, for samples without ``true_label``."""
        super().check_samples(data_samples)
        lacking = next((sample for sample in data_samples if 'true_label' not in sample), None)
        if lacking is not None and not self.fully_labelled:
            raise ValueError(
                f'data samples must hold true_label for {type(self).__name__}, got {sorted(lacking)}: put the dataset '
                "into a label wrapper and add algorithm_keys=['true_label'] to PackInputs, or say fully_labelled=True "
                'for a dataset that hides no labels'
            )

    def compute_metrics(self, predictions: Predictions) -> dict[str, float]:
        observed, true = predictions.labels, predictions.true_labels
        if self.fully_labelled:
            observed, true = np.broadcast_to(np.int8(0), predictions.labels.shape), predictions.labels
        elif true is None:  # the dataset has no samples
            true = observed
        self.recovery = label_recovery(observed, true, predictions.scores > self.threshold)
        self.log(
            f'{self.recovery.num_recovered:,} of {self.recovery.num_hidden:,} hidden positives are among the '
            f'{self.recovery.num_corrected:,} labels scored above {self.threshold:g}'
            + (f'; {self.recovery.num_unknown:,} labels are unknown' if self.recovery.num_unknown else '')
        )
        names = {'precision': 'precision', 'recall': 'recall', 'PPV': 'ppv', 'NPV': 'npv'}
        return {name: 100 * getattr(self.recovery, attribute) for name, attribute in names.items()}

    def details(self) -> dict:
        """Return a dict from attributes of :class:`LabelRecovery` to lists of C counts; {} before an evaluation."""
        return {name: counts.tolist() for name, counts in vars(self.recovery).items()} if self.recovery else {}

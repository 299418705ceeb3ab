"""Regularisers as losses, to be added to another loss in a :class:`SumLoss`."""

from collections.abc import Sequence

from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .core.inputs import promote
from .core.reduction import Values


@LOSSES.register_module()
class LabelPairRegularizer(MultiLabelLoss):
    """LPR, label pair regulariser (Cheng and Vasconcelos, Eq. 20).

    Each pair of a positive and a negative label of a sample costs -log(sigmoid(u - v)), where u and v are their
    log-odds. The sum is divided by T (T - 1) / 2 for T known labels. Probabilities come from the regulariser's own link
    if given, else from the link of its :class:`SumLoss`, else from the sigmoid.

    Args:
        **kwargs: Those of :class:`MultiLabelLoss`; ``loss_weight`` is the paper's lambda, ``'mean'`` is over samples.
    """

    pointwise = False
    soft_targets = False

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.label_pair_regularizer(self.link.logit_probabilities(logits), target)


@LOSSES.register_module()
class ExpectedPositiveRegularizer(MultiLabelLoss):
    """Penalty that keeps the predicted number of positives near the expected one (Cole et al., 2021).

    The penalty is one number for the batch (see :func:`mmml_losses.functional.expected_positive_regularizer`).
    ``'none'`` returns it once per sample, ``'mean'`` the penalty itself, and ``'sum'`` the penalty times the number of
    samples. ``avg_factor`` divides this sum, under ``'mean'``. The predicted number leaves out unknown labels and
    labels of weight 0. All other weights of a sample must be equal. The value of a sample without known labels is 0.

    Probabilities come from its own link if given, else from the link of its :class:`SumLoss`, else from the sigmoid.

    Args:
        expected_positives: The expected number of positive labels of a sample.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    pointwise = False

    def __init__(self, expected_positives: float, **kwargs):
        if expected_positives < 0:
            raise ValueError(f'expected_positives must be at least 0, got {expected_positives}')
        super().__init__(**kwargs)
        self.expected_positives = expected_positives

    def parts_of(self, logits: Tensor, target: Tensor, weight: Tensor | None, **kwargs) -> list[Values]:
        # As (N, C), so that samples of weight 0 leave the count of positives, too.
        return super().parts_of(logits, target, None if weight is None else weight.expand_as(target), **kwargs)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        penalty = F.expected_positive_regularizer(self.link(logits), self.expected_positives, target)
        return penalty * (target >= 0).any(dim=1)


@LOSSES.register_module()
class ConsistencyRegularizer(MultiLabelLoss):
    """Squared distance between the probabilities for two or more views of an image; the paper of LASD has 3 (Eq. 7).

    It is summed over all pairs of views and all labels but unknown ones (-1). A call needs the logits of the first view
    as ``cls_score`` and a list of logits, one tensor per other view, as ``views`` (see ``MultiViewClassifier``).

    Probabilities come from its own link if given, else from the link of its :class:`SumLoss`, else from the sigmoid.

    Args:
        **kwargs: Those of :class:`MultiLabelLoss`; ``loss_weight`` is the paper's alpha, ``'mean'`` is over samples.
    """

    pointwise = False

    def own_reason_against_anchors(self) -> str | None:
        return 'it compares several views of an image, and a detector sees one'

    def values(self, logits: Tensor, target: Tensor, views: Sequence[Tensor] | None = None, **kwargs) -> Tensor:
        """Return one value per sample, (N,): the squared distances of all pairs of views, added up.

        Args:
            logits: Logits of the first view, (N, C).
            target: Labels, (N, C). Unknown labels (-1) are left out; other values do not matter.
            views: Logits of the other views, each (N, C). None, an empty list or another shape raises a ValueError.
            **kwargs: Not used.
        """
        if not views:
            raise ValueError(
                f'views must be the logits of one or two more views of the images, got {views!r}: pass them as views=, '
                'or use a classifier that runs several views'
            )
        for view in views:
            if view.shape != logits.shape:
                raise ValueError(
                    f'views must be of the shape of cls_score, {tuple(logits.shape)}, got {tuple(view.shape)}'
                )
        outputs = [self.link(promote(view)) for view in (logits, *views)]
        return F.consistency_regularizer(outputs, target)

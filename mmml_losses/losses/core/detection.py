"""Methods by which MMDetection's heads use a classification loss. Nothing here imports MMDetection."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad


class DetectionProtocol:
    """Methods and attributes that MMDetection's heads look for on their loss; a base of :class:`MultiLabelLoss`.

    A dense head (RetinaNet) has C logits if the config of its loss has ``use_sigmoid=True``. It takes probabilities of
    the C classes from :meth:`get_activation`. A RoI head (Faster R-CNN) takes its number of logits from
    :meth:`get_cls_channels`. It treats the last column of :meth:`get_activation` as the background.
    """

    custom_cls_channels = True
    """Whether heads call :meth:`get_cls_channels` and :meth:`get_activation` instead of taking a softmax."""
    custom_activation = True
    """Whether RoI heads call :meth:`get_accuracy`, and :meth:`get_activation` between the stages of a cascade."""
    # Of MultiLabelLoss:
    remembers_samples: bool
    looks_across_samples: bool
    probabilities: Callable[[Tensor], Tensor]

    in_roi_head = False
    """Whether the loss belongs to a RoI head. :meth:`get_cls_channels` sets it."""

    def get_cls_channels(self, num_classes: int) -> int:
        """Return ``num_classes``, the number of logits of a RoI head: none for background. Set ``in_roi_head`` to True.

        MMDetection calls this method once when it builds a RoI head, and never for a dense head. Both kinds of heads
        call :meth:`get_activation`, which reads ``in_roi_head`` to know the kind of its head.
        """
        self.in_roi_head = True
        return num_classes

    def get_activation(self, cls_score: Tensor) -> Tensor:
        """Return probabilities of logits (N, C): (N, C), or in a RoI head (N, C + 1) with zeros in the last column.

        The last column is the background, which RoI heads drop. Without it they would drop the last class instead.
        """
        probabilities = self.probabilities(cls_score)
        return pad(probabilities, (0, 1)) if self.in_roi_head else probabilities

    @torch.no_grad()
    def get_accuracy(self, cls_score: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return ``dict(acc=...)`` for the log: the percentage of correctly classified proposals, a scalar; 0 if none.

        Args:
            cls_score: Logits, (N, C).
            labels: Class indices, (N,), where C is the background. A proposal is predicted as background unless the
                probability of some class reaches 0.5.
        """
        if not len(labels):
            return dict(acc=cls_score.new_zeros(()))
        highest, predicted = self.probabilities(cls_score).max(dim=1)
        predicted = predicted.masked_fill(highest < 0.5, cls_score.size(1))
        return dict(acc=100 * (predicted == labels).float().mean())

    @property
    def reason_against_anchors(self) -> str | None:
        """Reason why the loss cannot train on a detector's anchors, queries and proposals, as text; None if it can."""
        if self.remembers_samples:
            return 'it remembers every sample of the training set, and anchors are not samples that come again'
        return self.own_reason_against_anchors()

    def own_reason_against_anchors(self) -> str | None:
        """Return the reason why this kind of loss cannot train on anchors. None here: it can.

        A subclass that cannot do so overrides this method. A loss that remembers samples never can.
        """
        # A method, because torch.compile reads the wrong property through super() (seen in 2.13).
        return None

    def reject_anchors(self, cls_score: Tensor, target: Tensor) -> None:
        """Raise a ValueError if ``target`` (N,) has the background index and the loss cannot train on anchors."""
        if self.reason_against_anchors is not None and has_background(cls_score, target):
            raise ValueError(f'{type(self).__name__} cannot be the loss of a detector: {self.reason_against_anchors}')

    def leave_out_ignored(self, target: Tensor, weight: Tensor) -> Tensor:
        """Return a copy of ``target`` with -1 at labels of weight 0; ``target`` itself unless ``looks_across_samples``.

        MMDetection passes an anchor that it ignores as background of weight 0. A loss that looks across samples must
        not count such an anchor, or compare it with others.

        Args:
            target: Labels, (N, C).
            weight: Weights of anchors, (N, 1), or of labels, (N, C).
        """
        return target.masked_fill(weight == 0, -1) if self.looks_across_samples else target


def has_background(cls_score: Tensor, target: Tensor) -> bool:
    """Return whether ``target`` holds class indices (N,), one of them C, the background. Only detectors pass those."""
    are_indices = target.dim() == 1 and cls_score.dim() == 2 and not target.is_floating_point()
    return are_indices and _has_index(target, cls_score.size(1))


@torch.compiler.disable  # a branch depends on the result; targets (N, C) never come here and stay one graph
def _has_index(target: Tensor, index: int) -> bool:
    return bool((target == index).any())

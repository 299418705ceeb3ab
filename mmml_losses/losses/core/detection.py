"""Protocol between a classification loss and the heads of MMDetection. Nothing here imports MMDetection."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad


class DetectionProtocol:
    """Methods and attributes that MMDetection's heads look for on their loss; a base of :class:`MultiLabelLoss`.

    A dense head reads the width of its classifier from the config of the loss, which therefore needs
    ``use_sigmoid=True``, and requests activations of C classes. A RoI head calls :meth:`get_cls_channels` when it is
    built, and treats the last activation as the background.
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
        """Return the number of logits of a RoI head, one for each class, and mark the loss as one of a RoI head.

        The name is MMDetection's. Only RoI heads call this method, once, when they are built; it is the only sign by
        which :meth:`get_activation`, which dense heads call as well, can tell the two apart.
        """
        self.in_roi_head = True
        return num_classes

    def get_activation(self, cls_score: Tensor) -> Tensor:
        """Return the probabilities of logits (N, C), for a RoI head with a column of zeros for the background.

        RoI heads drop the last column of (N, C + 1) unread. Without the extra column they would never detect the last
        class.
        """
        probabilities = self.probabilities(cls_score)
        return pad(probabilities, (0, 1)) if self.in_roi_head else probabilities

    @torch.no_grad()
    def get_accuracy(self, cls_score: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the percentage of proposals whose label is predicted, for the log of a RoI head.

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
        """Reason why the loss is unsupported on anchors, queries and proposals; None if it is supported."""
        if self.remembers_samples:
            return 'it remembers every sample of the training set, and anchors are not samples that come again'
        return self.own_reason_against_anchors()

    def own_reason_against_anchors(self) -> str | None:
        """Return a reason of the subclass for :attr:`reason_against_anchors`, or None."""
        # A method, because torch.compile reads the wrong property through super() (seen in 2.13).
        return None

    def reject_anchors(self, cls_score: Tensor, target: Tensor) -> None:
        """Raise a ValueError for targets of a detector if the loss is unsupported there.

        Args:
            cls_score: Logits, (N, C).
            target: Class indices, (N,).
        """
        if self.reason_against_anchors is not None and has_background(cls_score, target):
            raise ValueError(f'{type(self).__name__} cannot be the loss of a detector: {self.reason_against_anchors}')

    def leave_out_ignored(self, target: Tensor, weight: Tensor) -> Tensor:
        """Mark labels of weight 0 as unknown if the loss compares the anchors of a call.

        MMDetection passes an anchor that it ignores as background of weight 0. Such an anchor must neither compete with
        others for rejection or correction, nor be counted.

        Args:
            target: (N, C).
            weight: (N, 1) or (N, C).
        """
        return target.masked_fill(weight == 0, -1) if self.looks_across_samples else target


def has_background(cls_score: Tensor, target: Tensor) -> bool:
    """Return whether targets are class indices that contain the background, C. Only detectors pass such targets."""
    are_indices = target.dim() == 1 and cls_score.dim() == 2 and not target.is_floating_point()
    return are_indices and _has_index(target, cls_score.size(1))


@torch.compiler.disable  # a branch depends on the result; targets (N, C) never come here and stay one graph
def _has_index(target: Tensor, index: int) -> bool:
    return bool((target == index).any())

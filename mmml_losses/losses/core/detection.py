"""What the heads of MMDetection ask of their classification loss. Nothing here needs MMDetection itself."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


class DetectionProtocol:
    """The answers of a loss to a head of MMDetection, for :class:`MultiLabelLoss`.

    Dense heads read the width of their classifier from the config, where ``use_sigmoid=True`` must stand, and ask for
    activations of C classes. RoI heads ask :meth:`get_cls_channels` for that width when they are built, and take the
    last of the activations for that of the background.
    """

    custom_cls_channels = True
    """Whether a head asks :meth:`get_cls_channels` and :meth:`get_activation` instead of taking a softmax itself."""
    custom_activation = True
    """Whether a RoI head asks :meth:`get_accuracy`, and :meth:`get_activation` also between the stages of a cascade."""
    in_roi_head = False
    """Whether it was a RoI head that asked."""

    def get_cls_channels(self, num_classes: int) -> int:
        """How many logits a RoI head computes: one for each class, none for the background."""
        self.in_roi_head = True
        return num_classes

    def get_activation(self, cls_score: Tensor) -> Tensor:
        """The probabilities of logits (N, C): (N, C) for a dense head, for a RoI head (N, C + 1), the last column 0.

        RoI heads drop the last column, whatever it is, and would otherwise never detect the last class.
        """
        probabilities = self.probabilities(cls_score)
        return pad(probabilities, (0, 1)) if self.in_roi_head else probabilities

    @torch.no_grad()
    def get_accuracy(self, cls_score: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """How many per cent of the proposals get their label, for the log of a RoI head.

        Args:
            cls_score: Logits, (N, C).
            labels: Class indices, (N,), where C is the background. A proposal counts as background unless the
                probability of some class reaches 0.5.
        """
        if not len(labels):
            return dict(acc=cls_score.new_zeros(()))
        highest, predicted = self.probabilities(cls_score).max(dim=1)
        predicted = predicted.masked_fill(highest < 0.5, cls_score.size(1))
        return dict(acc=100 * (predicted == labels).float().mean())

    @property
    def anchor_objection(self) -> str | None:
        """Why the loss cannot be computed on anchors, queries or proposals; None where it can."""
        if self.remembers_samples:
            return 'it remembers every sample of the training set, and anchors are not samples that come again'
        return self.own_anchor_objection()

    def own_anchor_objection(self) -> str | None:
        """What subclasses write for :attr:`anchor_objection`; None is no objection."""
        # A method, because torch.compile takes a property that asks super() for something else (seen in 2.13).
        return None

    def refuse_anchors(self, cls_score: Tensor, target: Tensor) -> None:
        """Refuse anchors where the loss has an objection.

        Args:
            cls_score: Logits, (N, C).
            target: Class indices, (N,).
        """
        if self.anchor_objection is not None and has_background(cls_score, target):
            raise ValueError(f'{type(self).__name__} cannot be the loss of a detector: {self.anchor_objection}')

    def leave_out_ignored(self, target: Tensor, weight: Tensor) -> Tensor:
        """Make labels of weight 0 unknown where the loss looks at the other anchors of the call.

        An anchor that is to be ignored comes as background of weight 0. It must not compete with others for what is
        rejected or corrected, nor be counted.

        Args:
            target: (N, C).
            weight: (N, 1) or (N, C).
        """
        return target.masked_fill(weight == 0, -1) if self.looks_across_samples else target


def has_background(cls_score: Tensor, target: Tensor) -> bool:
    """Whether targets are class indices of which one is the background, C, as only detectors send them."""
    are_indices = target.dim() == 1 and cls_score.dim() == 2 and not target.is_floating_point()
    return are_indices and _has_index(target, cls_score.size(1))


@torch.compiler.disable  # what is computed depends on the answer; targets (N, C) do not come here, and stay one graph
def _has_index(target: Tensor, index: int) -> bool:
    return bool((target == index).any())

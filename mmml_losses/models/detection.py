"""Heads of MMDetection that score through the link of their loss. Imported on demand: see ``registry.py``."""

from torch import Tensor, nn

from ..hosts.mmdet import require_mmdet
from ..losses import MultiLabelLoss
from ..registry import MODELS

require_mmdet('mmml_losses.models.detection')

from mmdet.models import dense_heads as mmdet  # noqa: E402 (there may be no such module)


class LinkedScores:
    """Mixin with which a head that takes the sigmoid of its logits scores through the link of its loss.

    The head gets the log-odds of the link's probabilities, whose sigmoid is the probability. With a loss of another
    project it gets its logits. The mixin comes before the head among the bases::

        class PAAHead(LinkedScores, mmdet.models.PAAHead): ...
    """

    scores_through_link = True
    loss_cls: nn.Module
    cls_out_channels: int

    def predict_by_feat(self, cls_scores: list[Tensor] | Tensor, *args, **kwargs) -> list:
        """Return the detections of the head, which gets log-odds in place of its first argument, the logits."""
        return super().predict_by_feat(self.log_odds(cls_scores), *args, **kwargs)  # type: ignore[misc]

    def log_odds(self, cls_scores: list[Tensor] | Tensor) -> list[Tensor] | Tensor:
        """Return the log-odds of the probabilities of logits, in the same layout.

        Args:
            cls_scores: A tensor (..., C), or a map (B, A * C, H, W) for each level.
        """
        if not isinstance(self.loss_cls, MultiLabelLoss):
            return cls_scores
        if isinstance(cls_scores, Tensor):
            return self.loss_cls.logit_probabilities(cls_scores)
        return [self._log_odds_of_map(level) for level in cls_scores]

    def _log_odds_of_map(self, level: Tensor) -> Tensor:
        # A link may treat classes differently, and needs them as the last dimension.
        classes_last = level.unflatten(1, (-1, self.cls_out_channels)).movedim(2, -1)
        return self.loss_cls.logit_probabilities(classes_last).movedim(-1, 2).flatten(1, 2)


class LinkedQueries(LinkedScores):
    """:class:`LinkedScores` for the DETR family, which also matches queries to objects by the link's log-odds."""

    matches_through_link = True

    def _get_targets_single(self, cls_score: Tensor, *args, **kwargs) -> tuple:
        return super()._get_targets_single(self.log_odds(cls_score), *args, **kwargs)  # type: ignore[misc]


@MODELS.register_module()
class DETRHead(LinkedQueries, mmdet.DETRHead):
    """MMDetection's head of DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class ConditionalDETRHead(LinkedQueries, mmdet.ConditionalDETRHead):
    """MMDetection's head of Conditional DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class DABDETRHead(LinkedQueries, mmdet.DABDETRHead):
    """MMDetection's head of DAB-DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class DeformableDETRHead(LinkedQueries, mmdet.DeformableDETRHead):
    """MMDetection's head of Deformable DETR, matched and scored through the link of the loss."""


@MODELS.register_module()
class DINOHead(LinkedQueries, mmdet.DINOHead):
    """MMDetection's head of DINO, matched and scored through the link of the loss."""


@MODELS.register_module()
class PAAHead(LinkedScores, mmdet.PAAHead):
    """MMDetection's head of PAA, scored through the link of the loss."""


@MODELS.register_module()
class FoveaHead(LinkedScores, mmdet.FoveaHead):
    """MMDetection's head of FoveaBox, scored through the link of the loss."""


@MODELS.register_module()
class RepPointsHead(LinkedScores, mmdet.RepPointsHead):
    """MMDetection's head of RepPoints, scored through the link of the loss."""

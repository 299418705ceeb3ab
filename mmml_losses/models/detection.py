"""MMDetection's heads, changed to take probabilities from their loss. ``registry.py`` imports this file on demand."""

from torch import Tensor, nn

from ..hosts.mmdet import require_mmdet
from ..losses import MultiLabelLoss
from ..registry import MODELS

require_mmdet('mmml_losses.models.detection')

from mmdet.models import dense_heads as mmdet  # noqa: E402 (there may be no such module)


class LinkedScores:
    """Mixin that makes a head of MMDetection score by its loss's link, the map from logits to probabilities.

    The head takes the sigmoid of its logits as scores. The mixin replaces the logits by the log-odds of the link's
    probabilities, so that the scores are these probabilities. With a loss of another project the logits are kept. The
    mixin comes before the head among the bases::

        class PAAHead(LinkedScores, mmdet.models.PAAHead): ...
    """

    scores_through_link = True
    loss_cls: nn.Module
    cls_out_channels: int

    def predict_by_feat(self, cls_scores: list[Tensor] | Tensor, *args, **kwargs) -> list:
        """Return a list of detections per image (``InstanceData``), from the log-odds of the logits ``cls_scores``."""
        return super().predict_by_feat(self.log_odds(cls_scores), *args, **kwargs)  # type: ignore[misc]

    def log_odds(self, cls_scores: list[Tensor] | Tensor) -> list[Tensor] | Tensor:
        """Return log-odds of the link's probabilities, shaped as ``cls_scores``; the logits for another project's loss.

        Args:
            cls_scores: Logits: a tensor (..., C), or a list with a map (B, A * C, H, W) per level, for A anchors.
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
    """Mixin that makes a DETR head score and match queries by its loss's link (map from logits to probabilities)."""

    matches_through_link = True

    def _get_targets_single(self, cls_score: Tensor, *args, **kwargs) -> tuple:
        return super()._get_targets_single(self.log_odds(cls_score), *args, **kwargs)  # type: ignore[misc]


@MODELS.register_module()
class DETRHead(LinkedQueries, mmdet.DETRHead):
    """MMDetection's DETR head, whose matching and scores use the probabilities that its loss defines (its link)."""


@MODELS.register_module()
class ConditionalDETRHead(LinkedQueries, mmdet.ConditionalDETRHead):
    """MMDetection's Conditional DETR head, whose matching and scores use the probabilities of its loss (its link)."""


@MODELS.register_module()
class DABDETRHead(LinkedQueries, mmdet.DABDETRHead):
    """MMDetection's DAB-DETR head, whose matching and scores use the probabilities that its loss defines (its link)."""


@MODELS.register_module()
class DeformableDETRHead(LinkedQueries, mmdet.DeformableDETRHead):
    """MMDetection's Deformable DETR head, whose matching and scores use the probabilities of its loss (its link)."""


@MODELS.register_module()
class DINOHead(LinkedQueries, mmdet.DINOHead):
    """MMDetection's DINO head, whose matching and scores use the probabilities that its loss defines (its link)."""


@MODELS.register_module()
class PAAHead(LinkedScores, mmdet.PAAHead):
    """MMDetection's PAA head, whose scores are the probabilities that its loss defines (its link)."""


@MODELS.register_module()
class FoveaHead(LinkedScores, mmdet.FoveaHead):
    """MMDetection's FoveaBox head, whose scores are the probabilities that its loss defines (its link)."""


@MODELS.register_module()
class RepPointsHead(LinkedScores, mmdet.RepPointsHead):
    """MMDetection's RepPoints head, whose scores are the probabilities that its loss defines (its link)."""

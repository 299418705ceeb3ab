"""Losses that weigh labels by the frequencies of their classes in the training set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import functional as F
from ..registry import LOSSES
from .core.base import FunctionLoss
from .core.frequencies import ClassFrequencies

Frequencies = Sequence[float] | str | Path | None


class FrequencyLoss(FunctionLoss):
    """A loss that needs its class frequencies.

    Args:
        class_frequencies: In how many training images each class appears: a list; a json file, such as
            ``{"class_frequencies": [...], "num_samples": ...}``; or None, with which ``TrainingSetHook`` counts them,
            or a checkpoint has them.
        num_samples: Training images, beside a list. CB and LDAM do without.
        **kwargs: The settings of the function, and the arguments of :class:`MultiLabelLoss`.
    """

    needs_num_samples = True

    def __init__(self, class_frequencies: Frequencies = None, num_samples: float | None = None, *values, **kwargs):
        super().__init__(*values, **kwargs)
        self.frequencies = ClassFrequencies(class_frequencies, num_samples, self.needs_num_samples)

    def check_settings(self, **inputs: Any) -> None:
        super().check_settings(**self._by_name(torch.ones(2), torch.tensor(2.0)))

    def _by_name(self, counts: Tensor, num_samples: Tensor) -> dict[str, Tensor]:
        """Return the arguments of the function that the class frequencies provide."""
        numbers = dict(num_samples=num_samples) if self.needs_num_samples else {}
        return dict(class_frequencies=counts, **numbers)

    @property
    def wants_training_labels(self) -> bool:
        return self.frequencies.wants_training_labels

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        if self.wants_training_labels:
            self.frequencies.count(labels)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return self.function(logits, target, **self._by_name(*self.frequencies(logits)), **self.settings)


@LOSSES.register_module()
class WeightedBCELoss(FrequencyLoss):
    """BCE weighted by class frequencies, a baseline of the two-way paper after Pham et al. (2021).

    Args:
        class_frequencies, num_samples: See :class:`FrequencyLoss`.
        smoothing: A class weighs n to the power of -smoothing, 1 on average; within it, positives weigh as much as
            negatives (see :func:`mmml_losses.functional.frequency_balanced_weights`).
        positive, negative: Terms of positive and negative labels, as in :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.weighted_bce_loss)


@LOSSES.register_module()
class ReweightedBCELoss(FrequencyLoss):
    """RW: BCE, or any other pair of terms, weighted by the inverse (square root) of the class frequency.

    Args:
        class_frequencies, num_samples: See :class:`FrequencyLoss`.
        mode: ``'inverse_sqrt'``, as the paper of DR reports it, or ``'inverse'``.
        positive, negative: Terms of positive and negative labels, as in :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    Example:
        >>> ReweightedBCELoss('counts.json', positive='focal', negative=dict(type='hill', lamb=1.5))
    """

    function = staticmethod(F.reweighted_bce_loss)


@LOSSES.register_module()
class CBFocalLoss(FrequencyLoss):
    """CB-Focal: the focal loss weighted by the effective number of samples (Cui et al., 2019).

    Args:
        class_frequencies: See :class:`FrequencyLoss`; ``num_samples`` is not needed.
        beta: In [0, 1): 0 weighs all alike, towards 1 it becomes the inverse frequency. The default is DB's code's.
        mode: ``'by_class'``, or one weight per image: ``'average_n'``, ``'average_w'`` or ``'min_n'`` (see
            :func:`mmml_losses.functional.class_balanced_weights`).
        gamma: Focusing power; 0 is CB over BCE.
        balance: Factor of the whole loss in DB's code.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.cb_focal_loss)
    needs_num_samples = False


@LOSSES.register_module()
class DBLoss(FrequencyLoss):
    """Distribution-balanced loss over BCE, or over any other pair of terms (Wu et al., 2020).

    Args:
        class_frequencies, num_samples: See :class:`FrequencyLoss`.
        alpha: Lifts the weights away from 0.
        beta: Slope of the step from low weights to high ones.
        mu: Where that step is. The authors take 0.3 for VOC-LT and 0.2 for COCO-LT.
        negative_scale: How much steeper a negative's logit is. They take 5 for VOC-LT and 2 for COCO-LT.
        kappa: How much of a class's prior the logits start from.
        positive, negative: Terms of positive and negative labels, as in :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The weights undo what class-aware sampling does to images of several labels; the authors train with that sampling.
    Predictions read the logits by a plain sigmoid, as theirs do: the bias is the loss's alone.
    """

    function = staticmethod(F.db_loss)


@LOSSES.register_module()
class DBFocalLoss(FrequencyLoss):
    """DB-Focal: the distribution-balanced loss over the focal loss (Wu et al., 2020).

    Args:
        class_frequencies, num_samples: See :class:`FrequencyLoss`.
        alpha: As in :class:`DBLoss`, like the next four.
        beta: Slope of the step from low weights to high ones.
        mu: Where that step is; 0.2 for COCO-LT.
        negative_scale: How much steeper a negative's logit is; 2 for COCO-LT.
        kappa: How much of a class's prior the logits start from.
        gamma: Focusing power.
        balance: Factor of the whole loss in the authors' code.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.db_focal_loss)


@LOSSES.register_module()
class LDAMLoss(FrequencyLoss):
    """LDAM in its multi-label form: BCE with a margin for positives that grows with the rarity of their class.

    Args:
        class_frequencies: See :class:`FrequencyLoss`; ``num_samples`` is not needed.
        max_margin: Margin of the rarest class; those of the others fall with the fourth root of their frequency.
        scale: Factor of the logits. LDAM takes 30 for the cosines of a normalised classifier; logits need none.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    LDAM (Cao et al., 2019) is a single-label loss; this form is what the paper of DR compares with.
    """

    soft_targets = False
    function = staticmethod(F.ldam_loss)
    needs_num_samples = False

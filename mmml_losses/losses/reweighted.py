"""Losses that weigh labels by how frequent their classes are in the training set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from .. import functional as F
from ..functional import weights
from ..functional.pair import Term
from ..registry import LOSSES
from .core.base import MultiLabelLoss
from .core.frequencies import ClassFrequencies
from .terms import build_negative, build_positive

Frequencies = Sequence[float] | str | Path | None


class FrequencyLoss(MultiLabelLoss):
    """A loss that knows its class frequencies.

    Args:
        class_frequencies: In how many training images each class appears: a list; a json file, such as
            ``{"class_frequencies": [...], "num_samples": ...}``; or None, with which ``TrainingSetHook`` counts them,
            or a checkpoint brings them.
        num_samples: Training images, beside a list. CB and LDAM do without.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    leaves_out_unknown = True

    needs_num_samples = True

    def __init__(self, class_frequencies: Frequencies = None, num_samples: float | None = None, **kwargs):
        super().__init__(**kwargs)
        self.frequencies = ClassFrequencies(class_frequencies, num_samples, self.needs_num_samples)

    @property
    def wants_training_labels(self) -> bool:
        return self.frequencies.wants_training_labels

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        if self.wants_training_labels:
            self.frequencies.count(labels)


@LOSSES.register_module()
class WeightedBCELoss(FrequencyLoss):
    """BCE weighted by class frequencies, a baseline of the two-way paper after Pham et al. (2021).

    Args:
        class_frequencies: As in :class:`FrequencyLoss`.
        num_samples: As in :class:`FrequencyLoss`.
        smoothing: A class weighs n to the power of -smoothing, 1 on average; within it, positives weigh as much as
            negatives (see :func:`mmml_losses.functional.frequency_balanced_weights`).
        positive: What a positive label costs, as in :class:`PairLoss`.
        negative: What a negative label costs, as in :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    def __init__(
        self,
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        smoothing: float = 0.1,
        positive: Term | str | dict = 'bce',
        negative: Term | str | dict = 'bce',
        **kwargs,
    ):
        super().__init__(class_frequencies, num_samples, **kwargs)
        if smoothing < 0:
            raise ValueError(f'smoothing must be at least 0, got {smoothing}')
        self.settings = dict(smoothing=smoothing, positive=build_positive(positive), negative=build_negative(negative))

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.weighted_bce_loss(logits, target, *self.frequencies(logits), **self.settings)


@LOSSES.register_module()
class ReweightedBCELoss(FrequencyLoss):
    """RW: BCE, or any other pair of terms, weighted by the inverse (square root) of the class frequency.

    Args:
        class_frequencies: As in :class:`FrequencyLoss`.
        num_samples: As in :class:`FrequencyLoss`.
        mode: ``'inverse_sqrt'``, as the paper of DR reports it, or ``'inverse'``.
        positive: What a positive label costs, as in :class:`PairLoss`.
        negative: What a negative label costs, as in :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    Example:
        >>> ReweightedBCELoss('counts.json', positive='focal', negative=dict(type='hill', lamb=1.5))
    """

    def __init__(
        self,
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        mode: str = 'inverse_sqrt',
        positive: Term | str | dict = 'bce',
        negative: Term | str | dict = 'bce',
        **kwargs,
    ):
        super().__init__(class_frequencies, num_samples, **kwargs)
        weights.check_mode(mode, weights.REWEIGHTING_MODES)
        self.settings = dict(mode=mode, positive=build_positive(positive), negative=build_negative(negative))

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.reweighted_bce_loss(logits, target, *self.frequencies(logits), **self.settings)


@LOSSES.register_module()
class CBFocalLoss(FrequencyLoss):
    """CB-Focal: the focal loss weighted by the effective number of samples (Cui et al., 2019).

    Args:
        class_frequencies: As in :class:`FrequencyLoss`.
        num_samples: Not needed.
        beta: In [0, 1): 0 weighs all alike, towards 1 it becomes the inverse frequency. The default is DB's code's.
        mode: ``'by_class'``, or one weight per image: ``'average_n'``, ``'average_w'`` or ``'min_n'`` (see
            :func:`mmml_losses.functional.class_balanced_weights`).
        gamma: Focusing power; 0 is CB over BCE.
        balance: Factor of the whole loss in DB's code.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    needs_num_samples = False

    def __init__(
        self,
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        beta: float = 0.9,
        mode: str = 'by_class',
        gamma: float = 2.0,
        balance: float = 2.0,
        **kwargs,
    ):
        super().__init__(class_frequencies, num_samples, **kwargs)
        weights.check_mode(mode, weights.CLASS_BALANCED_MODES)
        if not 0 <= beta < 1:
            raise ValueError(f'beta must be in [0, 1), got {beta}')
        if gamma < 0:
            raise ValueError(f'gamma must be at least 0, got {gamma}')
        self.settings = dict(beta=beta, mode=mode, gamma=gamma, balance=balance)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.cb_focal_loss(logits, target, self.frequencies(logits)[0], **self.settings)


@LOSSES.register_module()
class DBLoss(FrequencyLoss):
    """Distribution-balanced loss over BCE, or over any other pair of terms (Wu et al., 2020).

    Args:
        class_frequencies: As in :class:`FrequencyLoss`.
        num_samples: As in :class:`FrequencyLoss`.
        alpha: Lifts the weights away from 0.
        beta: Slope of the step from low weights to high ones.
        mu: Where that step is. The authors take 0.3 for VOC-LT and 0.2 for COCO-LT.
        negative_scale: How much steeper a negative's logit is. They take 5 for VOC-LT and 2 for COCO-LT.
        kappa: How much of a class's prior the logits start from.
        positive: What a positive label costs, as in :class:`PairLoss`.
        negative: What a negative label costs, as in :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The weights undo what class-aware sampling does to images of several labels; the authors train with that sampling.
    Predictions read the logits by a plain sigmoid, as theirs do: the bias is the loss's alone.
    """

    def __init__(
        self,
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.3,
        negative_scale: float = 5.0,
        kappa: float = 0.05,
        positive: Term | str | dict = 'bce',
        negative: Term | str | dict = 'bce',
        **kwargs,
    ):
        super().__init__(class_frequencies, num_samples, **kwargs)
        if negative_scale <= 0:
            raise ValueError(f'negative_scale must be above 0, got {negative_scale}')
        self.settings = dict(
            alpha=alpha,
            beta=beta,
            mu=mu,
            negative_scale=negative_scale,
            kappa=kappa,
            positive=build_positive(positive),
            negative=build_negative(negative),
        )

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.db_loss(logits, target, *self.frequencies(logits), **self.settings)


@LOSSES.register_module()
class DBFocalLoss(FrequencyLoss):
    """DB-Focal: the distribution-balanced loss over the focal loss (Wu et al., 2020).

    Args:
        class_frequencies: As in :class:`FrequencyLoss`.
        num_samples: As in :class:`FrequencyLoss`.
        alpha: As in :class:`DBLoss`, like the next four.
        beta: Slope of the step from low weights to high ones.
        mu: Where that step is; 0.2 for COCO-LT.
        negative_scale: How much steeper a negative's logit is; 2 for COCO-LT.
        kappa: How much of a class's prior the logits start from.
        gamma: Focusing power.
        balance: Factor of the whole loss in the authors' code.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    def __init__(
        self,
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.3,
        negative_scale: float = 5.0,
        kappa: float = 0.05,
        gamma: float = 2.0,
        balance: float = 2.0,
        **kwargs,
    ):
        super().__init__(class_frequencies, num_samples, **kwargs)
        if negative_scale <= 0:
            raise ValueError(f'negative_scale must be above 0, got {negative_scale}')
        if gamma < 0:
            raise ValueError(f'gamma must be at least 0, got {gamma}')
        self.settings = dict(
            alpha=alpha, beta=beta, mu=mu, negative_scale=negative_scale, kappa=kappa, gamma=gamma, balance=balance
        )

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.db_focal_loss(logits, target, *self.frequencies(logits), **self.settings)


@LOSSES.register_module()
class LDAMLoss(FrequencyLoss):
    """LDAM in its multi-label form: BCE with a margin for positives that grows with the rarity of their class.

    Args:
        class_frequencies: As in :class:`FrequencyLoss`.
        num_samples: Not needed.
        max_margin: Margin of the rarest class; those of the others fall with the fourth root of their frequency.
        scale: Factor of the logits. LDAM takes 30 for the cosines of a normalised classifier; logits need none.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    LDAM (Cao et al., 2019) is a single-label loss; this form is what the paper of DR compares with.
    """

    needs_num_samples = False
    soft_targets = False

    def __init__(
        self,
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        max_margin: float = 0.5,
        scale: float = 1.0,
        **kwargs,
    ):
        super().__init__(class_frequencies, num_samples, **kwargs)
        if max_margin < 0:
            raise ValueError(f'max_margin must be at least 0, got {max_margin}')
        if scale <= 0:
            raise ValueError(f'scale must be above 0, got {scale}')
        self.settings = dict(max_margin=max_margin, scale=scale)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        return F.ldam_loss(logits, target, self.frequencies(logits)[0], **self.settings)

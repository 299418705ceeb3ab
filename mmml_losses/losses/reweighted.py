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
    """Base of the losses that need the class frequencies of the training set.

    Args:
        class_frequencies: Number of training images with each class: a list; or the path of a json file, such as
            ``{"class_frequencies": [...], "num_samples": ...}``. None if ``TrainingSetHook`` counts them or a
            checkpoint has them.
        num_samples: Number of training images. Needed with a list or a file without it, except by CB and LDAM.
        **kwargs: The settings of the function, and the arguments of :class:`MultiLabelLoss`.
    """

    needs_num_samples = True
    compares_with_negatives = False
    """Whether the function compares positives with negatives, of which unknown labels are none: ``num_samples`` of the
    function is then the number of images whose label is known, for each class."""

    def __init__(self, class_frequencies: Frequencies = None, num_samples: float | None = None, *values, **kwargs):
        super().__init__(*values, **kwargs)
        self.frequencies = ClassFrequencies(class_frequencies, num_samples, self.needs_num_samples)

    def check_settings(self, **inputs: Any) -> None:
        super().check_settings(**self._by_name(torch.ones(2), torch.tensor(2.0)))

    def _by_name(self, counts: Tensor, num_samples: Tensor) -> dict[str, Tensor]:
        """Return ``dict(class_frequencies=counts)`` for ``function``, plus ``num_samples`` if ``needs_num_samples``."""
        numbers = dict(num_samples=num_samples) if self.needs_num_samples else {}
        return dict(class_frequencies=counts, **numbers)

    @property
    def wants_training_labels(self) -> bool:
        return self.frequencies.wants_training_labels

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        if self.wants_training_labels:
            self.frequencies.count(labels)

    def values(self, logits: Tensor, target: Tensor, **kwargs) -> Tensor:
        counts, num_samples = self.frequencies(logits)
        if self.compares_with_negatives:
            num_samples = self.frequencies.known_samples(logits)
        return self.function(logits, target, **self._by_name(counts, num_samples), **self.settings)


@LOSSES.register_module()
class WeightedBCELoss(FrequencyLoss):
    """BCE weighted by class frequencies, a baseline of the two-way paper after Pham et al. (2021).

    Args:
        class_frequencies, num_samples: Training images per class and in total, see :class:`FrequencyLoss`.
        smoothing: Power s: negatives of a class of n images weigh n^-s each, scaled to a mean of 1 over classes; its
            positives have the same total weight (see :func:`mmml_losses.functional.frequency_balanced_weights`).
            An unknown label is no negative.
        positive, negative: Terms (costs) of positive and negative labels, see :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    compares_with_negatives = True
    function = staticmethod(F.weighted_bce_loss)


@LOSSES.register_module()
class ReweightedBCELoss(FrequencyLoss):
    """RW: BCE, or any other pair of terms, weighted by the inverse (square root) of the class frequency.

    Args:
        class_frequencies, num_samples: Training images per class and in total, see :class:`FrequencyLoss`.
        mode: Weight for n of M images: ``'inverse_sqrt'``, sqrt(M / n), as in the paper of DR; ``'inverse'``, M / n.
        positive, negative: Terms (costs) of positive and negative labels, see :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    Example:
        >>> ReweightedBCELoss('counts.json', positive='focal', negative=dict(type='hill', lamb=1.5))
    """

    function = staticmethod(F.reweighted_bce_loss)


@LOSSES.register_module()
class CBFocalLoss(FrequencyLoss):
    """CB-Focal: the focal loss weighted by the inverse effective number of samples (Cui et al., 2019).

    Args:
        class_frequencies: Training images per class, see :class:`FrequencyLoss`. ``num_samples`` is not needed.
        beta: In [0, 1), for the weight w(n) = (1 - beta) / (1 - beta^n) of n training images: 0 weighs all alike,
            towards 1 w becomes the inverse frequency. The default is from the code of DB (:class:`DBLoss`).
        mode: ``'by_class'`` weighs each class by w(n). The others weigh each image by its positive classes:
            ``'average_n'`` by w of their mean n, ``'average_w'`` by their mean w, ``'min_n'`` by w of their smallest n.
            An image without positives weighs 1 - beta (see :func:`mmml_losses.functional.class_balanced_weights`).
        gamma: Focusing power; 0 is CB over BCE.
        balance: Factor of the whole loss in DB's code.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    function = staticmethod(F.cb_focal_loss)
    needs_num_samples = False


@LOSSES.register_module()
class DBLoss(FrequencyLoss):
    """DB, distribution-balanced loss over BCE, or over any other pair of terms (Wu et al., 2020).

    A label of class c has the weight alpha + sigmoid(beta (r - mu)). The ratio r is 1 / n_c divided by the sum of 1 / n
    over the positive classes of the image, for classes of n training images.

    Args:
        class_frequencies, num_samples: Training images per class and in total, see :class:`FrequencyLoss`.
        alpha: Lower bound of the weights.
        beta: Slope of the sigmoid.
        mu: Ratio r at the middle of the sigmoid. The authors use 0.3 for VOC-LT and 0.2 for COCO-LT.
        negative_scale: Factor of the logits of negatives, divisor of their cost. The authors: 5 (VOC-LT), 2 (COCO-LT).
        kappa: The loss adds kappa / negative_scale times the log-odds of the class frequency among known labels to the
            logits.
        positive, negative: Terms (costs) of positive and negative labels, see :class:`PairLoss`.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    The weights correct class-aware sampling for images of several labels; the authors train with that sampling.
    Predictions are the plain sigmoid of the logits, as theirs are: only the loss adds the bias.
    """

    compares_with_negatives = True
    function = staticmethod(F.db_loss)


@LOSSES.register_module()
class DBFocalLoss(FrequencyLoss):
    """DB-Focal: the distribution-balanced loss over the focal loss (Wu et al., 2020).

    Args:
        class_frequencies, num_samples: Training images per class and in total, see :class:`FrequencyLoss`.
        alpha: Lower bound of the weights, see :class:`DBLoss` for the formula.
        beta: Slope of the sigmoid in the weights.
        mu: Ratio r at the middle of that sigmoid; 0.2 for COCO-LT.
        negative_scale: Factor of the logits of negatives, and divisor of their cost; 2 for COCO-LT.
        kappa: The loss adds kappa / negative_scale times the log-odds of the class frequency among known labels to the
            logits.
        gamma: Focusing power.
        balance: Factor of the whole loss in the authors' code.
        **kwargs: The arguments of :class:`MultiLabelLoss`.
    """

    compares_with_negatives = True
    function = staticmethod(F.db_focal_loss)


@LOSSES.register_module()
class LDAMLoss(FrequencyLoss):
    """LDAM for multi-label data: BCE with a margin subtracted from positive logits, larger for rarer classes.

    Args:
        class_frequencies: Training images per class, see :class:`FrequencyLoss`. ``num_samples`` is not needed.
        max_margin: Margin of the rarest class. Margins are proportional to n^(-1/4) for a class of n images.
        scale: Factor of the logits. LDAM takes 30 for the cosines of a normalised classifier; logits need none.
        **kwargs: The arguments of :class:`MultiLabelLoss`.

    LDAM (Cao et al., 2019) is a single-label loss; this form is what the paper of DR compares with.
    """

    soft_targets = False
    function = staticmethod(F.ldam_loss)
    needs_num_samples = False

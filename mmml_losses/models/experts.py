"""A head with several experts for long-tailed labels."""

import copy
from collections.abc import Sequence
from functools import reduce

import torch
from mmpretrain.structures import DataSample
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ..losses import Link, MultiLabelLoss
from ..losses.core.frequencies import ClassFrequencies
from ..losses.core.inputs import promote
from ..losses.links import ScaledLink, SigmoidLink
from ..losses.reweighted import Frequencies
from ..registry import MODELS
from .heads import MultiLabelHead, compute_loss


@MODELS.register_module()
class ExpertsHead(MultiLabelHead):
    r"""Several classifiers, each trained for another balance of the classes, whose probabilities are averaged.

    BalPoE (Aimar et al., 2023) with a loss for multi-label data, as in the comparison of the DR paper. The loss of
    expert :math:`e` is computed on its logits plus :math:`s_e \log \pi_c`, where :math:`\pi_c` is the share of the
    training images that have the class. The larger :math:`s_e`, the more the expert favours rare classes. Predictions
    are made without that term, as the mean of the experts' probabilities through the link of the loss.

    The loss of the head is the mean over the experts; the log has each of them as ``expert_0`` and so on. Every expert
    has its own copy of the loss, since a loss may remember samples or estimate quantities.

    Args:
        num_classes: Number of labels.
        in_channels: Width of the features of the last stage.
        log_prior_scales: :math:`s_e` of each expert; their number is the number of experts.
        class_frequencies: Number of training images with each class: a list, a json file, or None, with which
            ``TrainingSetHook`` counts them or a checkpoint has them. 0 counts as 1.
        num_samples: Number of training images; needed with a list.
        **kwargs: ``loss``, ``thr``, ``topk`` and ``init_cfg`` of :class:`MultiLabelHead`.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        log_prior_scales: Sequence[float] = (0.0, 1.0, 2.0),
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        **kwargs,
    ):
        if isinstance(log_prior_scales, (int, float)) or not len(log_prior_scales):
            raise ValueError(f'log_prior_scales must be a number for each expert, got {log_prior_scales!r}')
        experts = nn.ModuleList(nn.Linear(in_channels, num_classes) for _ in log_prior_scales)
        super().__init__(num_classes, classifier=experts, **kwargs)
        self.log_prior_scales = tuple(log_prior_scales)
        self.frequencies = ClassFrequencies(class_frequencies, num_samples)
        # The first expert has loss_module, the attribute of all heads that tools look for.
        self.other_losses = nn.ModuleList(copy.deepcopy(self.loss_module) for _ in self.log_prior_scales[1:])
        try:
            self._link().inverse_logit_probabilities(torch.zeros(1))
        except ValueError as error:
            raise ValueError(
                f'loss must have a link with an inverse, to give a mean of probabilities: {error}'
            ) from None

    @property
    def wants_training_labels(self) -> bool:
        """Return whether the class frequencies are still to be counted in the training set."""
        return self.frequencies.wants_training_labels

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        """Count the class frequencies, unless the config has them.

        Args:
            labels: (M, C), with 1 positive, 0 negative, -1 unknown, or soft.
            sample_idx: (M,); not used.
        """
        if self.wants_training_labels:
            self.frequencies.count(labels)

    def expert_logits(self, feats: tuple[Tensor, ...]) -> list[Tensor]:
        r"""Return the logits (N, C) of every expert, without :math:`s_e \log \pi_c`."""
        features = self.pre_logits(feats)
        return [expert(features) for expert in self.fc]

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Return the logits (N, C) whose probabilities are the mean of the experts' probabilities.

        A temperature that is fitted after the training is fitted to these logits and scales them.
        """
        link = self._link()
        log_odds = torch.stack([link.logit_probabilities(promote(logits)) for logits in self.expert_logits(feats)])
        # Means of p and of 1 - p, each as a logarithm, so that neither rounds to 0 or 1.
        mean_log_odds = logsigmoid(log_odds).logsumexp(dim=0) - logsigmoid(-log_odds).logsumexp(dim=0)
        return link.inverse_logit_probabilities(mean_log_odds)

    def loss(self, feats: tuple[Tensor, ...], data_samples: list[DataSample], **kwargs) -> dict[str, Tensor]:
        """Return the mean of the experts' losses, and for the log each loss and the means of the parts of a sum.

        Args:
            feats: Features by stage.
            data_samples: The N samples, with their labels.
            **kwargs: More arguments of the loss; ``views`` raises an error.
        """
        if 'views' in kwargs:
            raise ValueError('head must be of one classifier to compare views, got ExpertsHead, whose experts differ')
        losses = [
            compute_loss(loss, logits + self._adjustment(scale, logits), data_samples, **kwargs)
            for loss, logits, scale in zip(
                (self.loss_module, *self.other_losses), self.expert_logits(feats), self.log_prior_scales, strict=True
            )
        ]
        means = {name: reduce(torch.add, [each[name] for each in losses]) / len(losses) for name in losses[0]}
        return {**means, **{f'expert_{number}': each['loss'].detach() for number, each in enumerate(losses)}}

    def _adjustment(self, scale: float, logits: Tensor) -> Tensor | float:
        if scale == 0:
            return 0.0
        counts, num_samples = self.frequencies(promote(logits))
        return scale * (counts.clamp(min=1) / num_samples).log()

    def _link(self) -> Link:
        """Return the link of the loss, without the scaling that was fitted after the training."""
        link = self.loss_module.link if isinstance(self.loss_module, MultiLabelLoss) else SigmoidLink()
        while isinstance(link, ScaledLink):
            assert link.base is not None  # that of the loss
            link = link.base
        return link

"""A head with several classifiers ("experts") for long-tailed labels: few frequent and many rare classes."""

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
    r"""Head that averages the logits of several classifiers ("experts"), each trained for another class balance.

    It is BalPoE (Aimar et al., 2023) with a multi-label loss, as in the comparison of the DR paper (see ``DRLoss``).
    Expert :math:`e` is trained by the loss of its logits plus :math:`s_e \log \pi_c` (the class prior), where
    :math:`\pi_c` is the fraction of training images with class :math:`c`. The larger :math:`s_e`, the more it favours
    rare classes. Predictions omit the prior. With the sigmoid, a mean of logits is a product of experts: the geometric
    mean of their odds.

    The loss of the head is the mean of the experts' losses, which are logged as ``expert_0`` and so on. Every expert
    has its own copy of the loss module, since a loss may remember samples or estimate quantities.

    Args:
        num_classes: Number of classes C.
        in_channels: Number of features from the last stage.
        log_prior_scales: :math:`s_e`, one number for each expert.
        class_frequencies: Number of training images with each class: a list, or the path of a json file with it, or
            with ``{"class_frequencies": [...]}``. None: from ``TrainingSetHook`` or a checkpoint. 0 counts as 1.
        num_samples: Number of training images; needed with a list, or with a json file that lacks it.
        average: ``'logits'``, as the authors of BalPoE predict, or ``'probabilities'``, a mixture of experts. The
            latter needs a loss whose link (map from logits to probabilities) has an inverse.
        **kwargs: ``loss``, ``thr``, ``topk`` and ``init_cfg`` of :class:`MultiLabelHead`.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        log_prior_scales: Sequence[float] = (0.0, 1.0, 2.0),
        class_frequencies: Frequencies = None,
        num_samples: float | None = None,
        average: str = 'logits',
        **kwargs,
    ):
        if isinstance(log_prior_scales, (int, float)) or not len(log_prior_scales):
            raise ValueError(f'log_prior_scales must be a number for each expert, got {log_prior_scales!r}')
        if average not in ('logits', 'probabilities'):
            raise ValueError(f"average must be 'logits' or 'probabilities', got {average!r}")
        experts = nn.ModuleList(nn.Linear(in_channels, num_classes) for _ in log_prior_scales)
        super().__init__(num_classes, classifier=experts, **kwargs)
        self.log_prior_scales = tuple(log_prior_scales)
        self.frequencies = ClassFrequencies(class_frequencies, num_samples)
        # The first expert has loss_module, the attribute of all heads that tools look for.
        self.other_losses = nn.ModuleList(copy.deepcopy(self.loss_module) for _ in self.log_prior_scales[1:])
        self.average = average
        if average == 'probabilities':
            self._require_inverse_link()

    @property
    def wants_training_labels(self) -> bool:
        """Return True until the class frequencies come from config or training set; a checkpoint's do not suffice."""
        return self.frequencies.wants_training_labels

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        """Count the training images of each class, unless the config or an earlier call gave the counts.

        Args:
            labels: Labels of M images, (M, C): 1 positive, 0 negative, -1 unknown (not counted); soft 0.3 adds 0.3.
            sample_idx: Indices of the images in the dataset, (M,); not used.
        """
        if self.wants_training_labels:
            self.frequencies.count(labels)

    def expert_logits(self, feats: tuple[Tensor, ...]) -> list[Tensor]:
        """Return a list of each expert's logits (N, C), from the last stage of ``feats``, without the class prior."""
        features = self.pre_logits(feats)
        return [expert(features) for expert in self.fc]

    def forward(self, feats: tuple[Tensor, ...]) -> Tensor:
        """Return logits (N, C): the mean of the experts' logits, or logits of the mean of their probabilities.

        A temperature fitted after training is not applied here: it is fitted to these logits and scales them later.
        """
        experts = torch.stack([promote(logits) for logits in self.expert_logits(feats)])
        if self.average == 'logits':
            return experts.mean(dim=0)
        link = self._link()
        log_odds = link.logit_probabilities(experts)
        # Means of p and of 1 - p, each as a logarithm, so that neither rounds to 0 or 1.
        mean_log_odds = logsigmoid(log_odds).logsumexp(dim=0) - logsigmoid(-log_odds).logsumexp(dim=0)
        return link.inverse_logit_probabilities(mean_log_odds)

    def loss(self, feats: tuple[Tensor, ...], data_samples: list[DataSample], **kwargs) -> dict[str, Tensor]:
        """Return a dict of losses: ``loss``, the mean over the experts, to train by, and the others for the log.

        ``expert_0``, ... are the experts' losses. Parts of a :class:`SumLoss`, by name, are means over the experts.

        Args:
            feats: Tuple of the features of each stage, of which the last is used.
            data_samples: The N samples, with their labels.
            **kwargs: More arguments of the loss. ``views`` raises a ValueError, since the experts differ.
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

    def _require_inverse_link(self) -> None:
        try:
            self._link().inverse_logit_probabilities(torch.zeros(1))
        except ValueError as error:
            raise ValueError(f"loss must have a link with an inverse for average='probabilities': {error}") from None

    def _link(self) -> Link:
        """Return the loss's link without a scale fitted after training; the sigmoid for other projects' losses."""
        link = self.loss_module.link if isinstance(self.loss_module, MultiLabelLoss) else SigmoidLink()
        while isinstance(link, ScaledLink):
            assert link.base is not None  # a loss gives its ScaledLink a base
            link = link.base
        return link

"""Regularisers to add to a loss. They depend on several labels at once, or on several views of an image."""

from collections.abc import Sequence
from functools import reduce
from itertools import combinations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from .pair import BLOCK

__all__ = ['consistency_regularizer', 'expected_positive_regularizer', 'label_pair_regularizer']

# On a GPU a block must be large enough to fill the device.
ACCELERATOR_BLOCK = 1 << 24


def label_pair_regularizer(logit_probabilities: Tensor, targets: Tensor) -> Tensor:
    r"""Compute the label pair regulariser, LPR: rank positives above negatives (Cheng and Vasconcelos, Eq. 20).

    .. math::
        \frac{2}{T(T - 1)} \sum_{t:\,y_t = 1}\ \sum_{t':\,y_{t'} = 0} -\log\sigma(u_t - u_{t'})

    :math:`u = \log\frac{\eta}{1 - \eta}` is the log-odds of the estimated probability :math:`\eta`. Given that exactly
    one of the labels :math:`t` and :math:`t'` is present, label :math:`t` has probability :math:`\sigma(u_t - u_{t'})`.

    Pairs are computed in blocks: time grows with positives times classes, memory only with the number of labels.

    Args:
        logit_probabilities: (N, T), the log-odds :math:`u` by the link of the loss in use.
        targets: (N, T) labels; 1 positive, 0 negative, -1 unknown. Unknown labels form no pairs, and :math:`T` in the
            formula counts the known labels of the sample.

    Returns:
        (N,), one value per sample; 0 for a sample without a pair.
    """
    known = (targets >= 0).sum(dim=1)
    pairs = (known * (known - 1) / 2).clamp(min=1).to(logit_probabilities.dtype)
    return _LabelPairs.apply(logit_probabilities, targets) / pairs


class _LabelPairs(torch.autograd.Function):
    """Compute the sums (N,) over pairs in :func:`label_pair_regularizer`. ``forward`` also stores their gradient."""

    @staticmethod
    def forward(ctx, log_odds: Tensor, targets: Tensor) -> Tensor:
        # A label that is not negative is so far below that no pair with it costs anything, and differences are finite.
        negatives = log_odds.masked_fill(targets != 0, torch.finfo(log_odds.dtype).min / 4)
        totals, slopes = log_odds.new_zeros(len(targets)), torch.zeros_like(log_odds)
        for sample, label in _positive_blocks(targets):
            excess = negatives[sample] - log_odds[sample, label].unsqueeze(1)
            totals.index_add_(0, sample, softplus(excess).sum(dim=1))
            share = excess.sigmoid_()
            slopes.index_add_(0, sample, share)
            slopes.index_put_((sample, label), -share.sum(dim=1), accumulate=True)
        ctx.save_for_backward(slopes, log_odds, targets)
        return totals

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        slopes, log_odds, targets = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return gradient.unsqueeze(1) * slopes, None
        # The gradient itself is to be differentiated: the stored slopes are constants, so go through the pairs.
        totals = _label_pairs(log_odds, targets)
        return torch.autograd.grad(totals, log_odds, gradient, create_graph=True)[0], None


def _label_pairs(log_odds: Tensor, targets: Tensor) -> Tensor:
    """Compute the (N,) sums of :class:`_LabelPairs` by operations that autograd differentiates, all pairs at once."""
    sample, label = (targets == 1).nonzero(as_tuple=True)
    margins = log_odds[sample, label].unsqueeze(1) - log_odds[sample]
    costs = -logsigmoid(margins) * (targets[sample] == 0)
    return log_odds.new_zeros(len(targets)).index_add(0, sample, costs.sum(dim=1))


def _positive_blocks(targets: Tensor) -> zip:
    """Yield (row indices, column indices) of the positives in (N, C) targets, 65536 / C of them at once (GPU: more)."""
    block = BLOCK if targets.device.type == 'cpu' else ACCELERATOR_BLOCK
    rows = max(block // max(targets.size(1), 1), 1)
    sample, label = (targets == 1).nonzero(as_tuple=True)
    return zip(sample.split(rows), label.split(rows), strict=True)


def expected_positive_regularizer(
    probabilities: Tensor, expected_positives: float, targets: Tensor | None = None
) -> Tensor:
    r"""Compute the expected positive regulariser, a penalty on the number of predicted positives (Cole et al., 2021).

    It is 0 if the :math:`B` samples of a batch with :math:`L` labels have :math:`k` predicted positives on average:

    .. math::
        R_k = \left(\frac{\hat k - k}{L}\right)^2,\qquad \hat k = \frac{1}{B}\sum_{n, i} p_{ni}

    Args:
        probabilities: (N, L), the predicted probabilities :math:`p`.
        expected_positives: :math:`k`, the expected number of positive labels of a sample.
        targets: (N, L), labels of which only -1 (unknown) matters; None if all are known. With unknown labels, the sum
            is over known labels, :math:`B` counts the samples with a known label, and :math:`L` is the mean number of
            known labels of these samples.

    Returns:
        One value for the batch, a tensor without dimensions; 0 for a batch without known labels.
    """
    if targets is None:
        targets = torch.zeros_like(probabilities)
    known = targets >= 0
    # Numerator and denominator of the formula times B: a batch without labels divides by 1.
    samples = known.any(dim=1).sum().to(probabilities.dtype)
    excess = probabilities.masked_fill(~known, 0).sum() - expected_positives * samples
    return (excess / known.sum().clamp(min=1)).square()


def consistency_regularizer(probabilities: Sequence[Tensor], targets: Tensor) -> Tensor:
    r"""Compute the squared distance of the outputs for two views of an image, summed over all pairs (LASD, Eq. 7).

    .. math::
        \|f(x) - f(x')\|_2^2 + \|f(x) - f(x'')\|_2^2 + \|f(x') - f(x'')\|_2^2

    Args:
        probabilities: Sequence of the outputs (N, C) for each view; at least two, else a ValueError is raised.
        targets: (N, C) labels, of which only -1 matters: unknown labels are left out.

    Returns:
        (N,), one value per sample, not reduced.
    """
    if len(probabilities) < 2:
        raise ValueError(f'probabilities must be of at least 2 views, got {len(probabilities)}')
    known = (targets >= 0).to(probabilities[0].dtype)
    distances = [((one - other).square() * known).sum(dim=1) for one, other in combinations(probabilities, 2)]
    return reduce(torch.add, distances)

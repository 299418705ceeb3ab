"""Terms that supervise several labels of a sample together, and add to any loss."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid


def label_pair_regularizer(logit_probabilities: Tensor, targets: Tensor) -> Tensor:
    r"""Label pair regulariser, LPR (Cheng and Vasconcelos, Eq. 20).

    Of a positive label :math:`t` and a negative label :math:`t'` of one sample, exactly one is present. Given that,
    the estimated probability that it is :math:`t` is :math:`\hat\beta^{tt'} = \sigma(u_t - u_{t'})`, with the log-odds
    :math:`u = \log\frac{\eta}{1 - \eta}`; the regulariser is its cross-entropy,

    .. math::
        \frac{2}{T(T - 1)} \sum_{t:\,y_t = 1}\ \sum_{t':\,y_{t'} = 0} -\log\sigma(u_t - u_{t'})

    Args:
        logit_probabilities: Log-odds of the estimated probabilities, (N, T), from the link of the loss in use.
        targets: (N, T) with 1 positive, 0 negative, -1 unknown. Unknown labels form no pairs, and :math:`T` counts
            the known labels of the sample.

    Returns:
        One value per sample, (N,), not reduced. 0 for a sample without a pair.
    """
    # One row per positive label against all labels of its sample: positives x classes, not classes x classes.
    sample, label = (targets == 1).nonzero(as_tuple=True)
    margins = logit_probabilities[sample, label].unsqueeze(1) - logit_probabilities[sample]
    costs = -logsigmoid(margins) * (targets[sample] == 0)
    known = (targets >= 0).sum(dim=1)
    pairs = known * (known - 1) / 2
    totals = logit_probabilities.new_zeros(len(targets)).index_add(0, sample, costs.sum(dim=1))
    return totals / pairs.clamp(min=1)

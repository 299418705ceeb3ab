"""Plain torch functions on (logits, targets): terms, links and regularisers. Nothing here needs OpenMMLab."""

from .links import sigmoid_link, spa_inverse_link, spa_link, spa_logit_probabilities
from .pointwise import (
    asymmetric_negative,
    asymmetric_positive,
    bce_negative,
    bce_positive,
    pair_loss,
    spa_negative,
    spa_positive,
)
from .regularizers import label_pair_regularizer

__all__ = [
    'asymmetric_negative',
    'asymmetric_positive',
    'bce_negative',
    'bce_positive',
    'label_pair_regularizer',
    'pair_loss',
    'sigmoid_link',
    'spa_inverse_link',
    'spa_link',
    'spa_logit_probabilities',
    'spa_negative',
    'spa_positive',
]

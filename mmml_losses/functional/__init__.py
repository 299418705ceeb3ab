"""Plain torch functions: terms, losses, regularisers, weights, links (logit to probability). They need no OpenMMLab.

Unknown labels (-1) cost nothing. ``pair.py`` leaves them out of the pointwise losses (``estimation.py`` out of ROLE),
``sets.py`` out of the set-wise losses, and ``regularizers.py`` out of the regularisers.
"""

import warnings
from collections.abc import Callable

from torch import Tensor

from . import (
    corrections,
    estimation,
    large_loss,
    links,
    pair,
    pointwise,
    regularizers,
    reweighted,
    setwise,
    terms,
    weights,
)
from .corrections import *
from .estimation import *
from .large_loss import *
from .links import *
from .pair import *
from .pointwise import *
from .regularizers import *
from .reweighted import *
from .setwise import *
from .terms import *
from .weights import *

PARTS = (corrections, estimation, large_loss, links, pair, pointwise, regularizers, reweighted, setwise, terms, weights)
__all__ = [name for part in PARTS for name in part.__all__]

# Former names. The functions of a term still work; the pairs of terms are now made from their classes.
FORMER: dict[str, tuple[str, Callable[..., Tensor]]] = {
    'scaled': ('Scaled', lambda logits, term, factor: terms.Scaled(term, factor)(logits)),
    'stretched': ('Stretched', lambda logits, term, slope: terms.Stretched(term, slope)(logits)),
    'smoothed_bce': ('SmoothedBCE', lambda logits, label: terms.SmoothedBCE(label)(logits)),
}
FORMER_PAIRS = {
    'asymmetric_terms': 'AsymmetricPositive and AsymmetricNegative',
    'focal_terms': 'FocalPositive and FocalNegative (Scaled for alpha)',
    'focal_margin_terms': 'FocalMarginPositive and FocalNegative',
    'hill_terms': 'FocalMarginPositive and HillNegative',
    'label_smoothing_terms': 'SmoothedBCE of the label of a positive and of a negative',
    'spa_terms': 'SPAPositive and SPANegative',
}


def __getattr__(name: str) -> Callable[..., Tensor]:
    if name in FORMER:
        now, function = FORMER[name]
        warnings.warn(f'{__name__}.{name} is superseded by the term {now}', stacklevel=2)
        return globals().setdefault(name, function)
    advice = f'; use the terms {FORMER_PAIRS[name]}' if name in FORMER_PAIRS else ''
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}{advice}')

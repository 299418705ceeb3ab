"""Plain torch functions: terms, losses, regularisers, weights, links (logit to probability). They need no OpenMMLab.

Unknown labels (-1) cost nothing. ``pair.py`` leaves them out of the pointwise losses (``estimation.py`` out of ROLE),
``sets.py`` out of the set-wise losses, and ``regularizers.py`` out of the regularisers.
"""

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

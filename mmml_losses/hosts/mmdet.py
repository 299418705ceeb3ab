"""List the heads of MMDetection that score by the sigmoid or cannot use our losses, and how to install MMDetection.

``DetectorCheckHook`` rejects a head that cannot use our losses; and a head that takes the sigmoid, if its loss has
another map from logits to probabilities (link). A test compares the lists with all heads that are installed.
"""

from importlib.util import find_spec

from mmengine.utils import digit_version

from .versions import is_installed

# Heads that take the sigmoid of their logits; mmml_losses.models.detection replaces them by heads that use the link.
DETECTION_HEADS = (
    'ConditionalDETRHead',
    'DABDETRHead',
    'DETRHead',
    'DINOHead',
    'DeformableDETRHead',
    'FoveaHead',
    'PAAHead',
    'RepPointsHead',
)
# Base classes that score by loss_cls.get_activation. A head scores through the link of its loss if it has the methods
# of SCORING_METHODS from one of these; a head with its own takes the sigmoid.
SCORING_BASES = ('BaseDenseHead', 'BBoxHead')
SCORING_METHODS = ('predict_by_feat', '_predict_by_feat_single')
# Heads with a sigmoid elsewhere: in the RoI head around it, and in the CARL loss.
SIGMOID_ELSEWHERE = ('DIIHead', 'PISARetinaHead')
# Heads whose classification loss is not one of logits and labels, and the reason.
_QUALITY = 'it trains on labels together with the quality of their boxes'
_OWN_LOSS = 'it computes its classification loss itself and never calls loss_cls'
_SOFTMAX = 'it takes a softmax with a channel for the background'
_WORDS = 'it scores the words of a text'
UNSUITED_HEADS = {
    'GFLHead': _QUALITY,
    'RTMDetHead': _QUALITY,
    'TOODHead': _QUALITY,
    'VFNetHead': f'{_QUALITY}, unless it has use_vfl=False and the loss as loss_cls_fl',
    'YOLOXHead': _QUALITY,
    'AutoAssignHead': _OWN_LOSS,
    'FreeAnchorRetinaHead': _OWN_LOSS,
    'CenterNetUpdateHead': 'it hands loss_cls the probabilities of a heat map, not logits',
    'YOLOV3Head': 'it hands loss_cls the anchors of each image by themselves, in three dimensions',
    'MaskFormerHead': _SOFTMAX,
    'MultiInstanceBBoxHead': _SOFTMAX,
    'YOLACTHead': _SOFTMAX,
    'ATSSVLFusionHead': _WORDS,
    'GroundingDINOHead': _WORDS,
}
# Heads that choose anchors by the loss of each label.
CHOOSING_HEADS = ('FSAFHead', 'PAAHead', 'PISARetinaHead')
# Samplers that choose proposals by a loss of each proposal. Losses of this package have values of each label only.
CHOOSING_SAMPLERS = ('OHEMSampler', 'ScoreHLRSampler')


def is_a(thing: object, *names: str) -> bool:
    """Return True if the class of ``thing``, or one of its base classes, has a name in ``names``."""
    return any(base.__name__ in names for base in type(thing).__mro__)


def scores_through_loss(head: object) -> bool:
    """Return True if a head gets its probabilities from its loss, False if it takes the sigmoid of its logits.

    True for a head that declares it by ``scores_through_link = True``, as in ``mmml_losses.models.detection``, and for
    a head that inherits its prediction methods (``SCORING_METHODS``) from the bases that call the loss,
    ``SCORING_BASES``. False for ``SIGMOID_ELSEWHERE``, heads that take a sigmoid outside of these methods.
    """
    if is_a(head, *SIGMOID_ELSEWHERE):
        return False
    bases = type(head).__mro__
    owners = [next((base.__name__ for base in bases if name in vars(base)), None) for name in SCORING_METHODS]
    return getattr(head, 'scores_through_link', False) or all(owner in SCORING_BASES for owner in owners)


def dense_heads_score_through_loss() -> bool:
    """Return True if MMDetection is 3.3 or newer, whose dense heads get their probabilities from the loss."""
    from mmdet import __version__

    return digit_version(__version__) >= digit_version('3.3.0')


def require_mmdet(asked_for: str) -> None:
    """Raise an ImportError that names ``asked_for``, with pip commands, if MMDetection or compiled mmcv is missing."""
    has_operators = find_spec('mmcv') is not None and find_spec('mmcv._ext') is not None
    if find_spec('mmdet') is None:
        missing = 'MMDetection, which is not installed'
    elif not has_operators:
        missing = 'mmcv with its compiled operators, which the installed one has not'
    else:
        return
    raise ImportError(f'{asked_for} needs {missing}: {how_to_install_mmdet(has_operators)}')


def how_to_install_mmdet(has_operators: bool) -> str:
    """Return the pip commands, as text, for MMDetection, or for its onedl fork if ``onedl-mmengine`` is installed.

    ``has_operators`` is whether the installed mmcv has compiled operators; without them the fork's mmcv is built, too.
    """
    if not is_installed('onedl-mmengine'):
        return (
            "pip uninstall mmcv-lite, then pip install --no-build-isolation 'mmcv>=2.1.0,<2.2.0' 'mmdet>=3.3.0,<4.0.0'"
        )
    if has_operators:
        return 'pip install onedl-mmdetection'
    # Without operators their mmcv has the same name, and pip would keep it.
    return (
        'pip install --no-build-isolation --no-cache-dir --no-deps --force-reinstall --no-binary onedl-mmcv '
        'onedl-mmcv, then pip install onedl-mmdetection'
    )

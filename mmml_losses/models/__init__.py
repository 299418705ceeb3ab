"""Heads, necks, preprocessors and an inferencer for MMPretrain, and heads for MMDetection.

The MMPretrain classes are here only if MMPretrain is installed. The registry imports MMDetection heads on demand.
"""

from importlib.util import find_spec

__all__ = []

if find_spec('mmpretrain') is not None:
    from .batch_augments import UnionMixup, UnionMosaic
    from .experts import ExpertsHead
    from .features import FeatureBackbone, FeatureFusion, FeaturePreprocessor, GlobalMaxPooling
    from .heads import MultiLabelHead
    from .inferencer import MultiLabelInferencer
    from .ml_gcn import GCNHead
    from .preprocessing import MultiLabelPreprocessor, MultiViewClassifier

    __all__ += [
        'ExpertsHead',
        'FeatureBackbone',
        'FeatureFusion',
        'FeaturePreprocessor',
        'GCNHead',
        'GlobalMaxPooling',
        'MultiLabelHead',
        'MultiLabelInferencer',
        'MultiLabelPreprocessor',
        'MultiViewClassifier',
        'UnionMixup',
        'UnionMosaic',
    ]

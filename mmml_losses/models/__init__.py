"""What joins the losses to MMPretrain and MMDetection. Each part is there only where its host is installed."""

from importlib.util import find_spec

__all__ = []

if find_spec('mmpretrain') is not None:
    from .heads import MultiLabelHead
    from .inferencer import MultiLabelInferencer

    __all__ += ['MultiLabelHead', 'MultiLabelInferencer']

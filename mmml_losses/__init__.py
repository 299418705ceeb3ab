"""Multi-label losses, metrics and datasets for OpenMMLab."""

from importlib.util import find_spec

from .version import __version__

# ``functional`` and the array half of ``evaluation`` need torch and numpy alone; everything else needs MMEngine.
if find_spec('mmengine') is not None:
    from . import registry as registry
    from .hosts import checkpoints, mmpretrain, versions

    versions.apply()
    checkpoints.allow_mmengine_checkpoints()
    mmpretrain.apply()

__all__ = ['__version__']

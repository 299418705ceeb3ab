"""MMDetection: how to install it, and its classes by name. Nothing here imports it."""

from __future__ import annotations

from importlib.util import find_spec

from .versions import is_installed

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


def is_a(thing: object, *names: str) -> bool:
    """Whether the class of a thing, or one of its bases, has one of these names."""
    return any(base.__name__ in names for base in type(thing).__mro__)


def require_mmdet(asked_for: str) -> None:
    """Stop with what to install where MMDetection, or the compiled mmcv that it needs, is absent.

    Args:
        asked_for: What needs it.
    """
    has_operators = find_spec('mmcv') is not None and find_spec('mmcv._ext') is not None
    if find_spec('mmdet') is None:
        missing = 'MMDetection, which is not installed'
    elif not has_operators:
        missing = 'mmcv with its compiled operators, which the installed one has not'
    else:
        return
    raise ImportError(f'{asked_for} needs {missing}: {how_to_install_mmdet(has_operators)}')


def how_to_install_mmdet(has_operators: bool) -> str:
    """The commands that add MMDetection to what is installed, that of the forks to the forks.

    Args:
        has_operators: Whether the installed mmcv has its compiled operators.
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

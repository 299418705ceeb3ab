"""Work around defects of certain versions of other packages, each only if the installed versions have the defect."""

import inspect
import re
import warnings
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

_kept_alive: list[object] = []  # an operator schema lives as long as the library object that defined it


def apply() -> None:
    """Declare torchvision's operators if needed; warn of mmcv next to mmcv-lite. A second call changes nothing."""
    define_torchvision_schemas()
    warn_of_two_mmcvs()


def define_torchvision_schemas() -> None:
    """Make a CUDA build of torchvision importable with a CPU build of torch (seen: torch 2.13.0, torchvision 0.28.0).

    The compiled part of such a torchvision cannot load, and the import fails because the operators ``nms`` and ``qnms``
    are not declared. This declares them. OpenMMLab never calls them, and a call still fails with torch's own message.
    """
    if torch.version.cuda is not None or hasattr(torch.ops.torchvision, 'nms') or not _torchvision_wants_cuda():
        return
    library = torch.library.Library('torchvision', 'DEF')
    for name in ('nms', 'qnms'):
        library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
    _kept_alive.append(library)


def _torchvision_wants_cuda() -> bool:
    """Return True if torchvision's version file names a CUDA build; read as text, since the import would fail."""
    spec = find_spec('torchvision')
    version_file = Path(spec.origin).with_name('version.py') if spec and spec.origin else None
    if version_file is None or not version_file.is_file():
        return False
    return re.search(r'^__version__ = .*\+cu\d', version_file.read_text(), flags=re.MULTILINE) is not None


def compile_settings() -> dict[str, bool]:
    """Return arguments for :func:`torch.compile`: ``dict(isolate_recompiles=True)``, or {} if torch has no such option.

    All losses share one method, and torch keeps at most eight compiled versions of a method. With the option (seen in
    torch 2.13) torch keeps eight per module, so that compiling one loss does not displace the others.
    """
    setting = 'isolate_recompiles'
    return {setting: True} if setting in inspect.signature(torch.compile).parameters else {}


def warn_of_two_mmcvs() -> None:
    """Warn if mmcv and mmcv-lite are both installed: the later install overwrites half of the earlier one's files."""
    installed = {name for name in ('mmcv', 'mmcv-lite') if is_installed(name)}
    if len(installed) == 2:
        warnings.warn(
            'mmcv and mmcv-lite are both installed and overwrite each other: '
            'uninstall both, then install the one you want',
            stacklevel=2,
        )


def is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True

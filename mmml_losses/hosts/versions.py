"""Repair what certain versions of other packages break. Each repair first checks that its cause is installed."""

import inspect
import re
import warnings
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

_kept_alive: list[object] = []  # an operator schema lives as long as the library object that defined it


def apply() -> None:
    """Repair the installed packages. Calling it again changes nothing."""
    define_torchvision_schemas()
    warn_of_two_mmcvs()


def define_torchvision_schemas() -> None:
    """Let a CUDA build of torchvision import with a CPU build of torch (seen with torch 2.13.0, torchvision 0.28.0).

    The binary part of such a torchvision cannot load, and the import fails because the operators ``nms`` and ``qnms``
    are not declared. Declaring them is enough: nothing in OpenMMLab calls them, and a call still fails with torch's
    own message.
    """
    if torch.version.cuda is not None or hasattr(torch.ops.torchvision, 'nms') or not _torchvision_wants_cuda():
        return
    library = torch.library.Library('torchvision', 'DEF')
    for name in ('nms', 'qnms'):
        library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
    _kept_alive.append(library)


def _torchvision_wants_cuda() -> bool:
    """Read from the text of its version file whether torchvision is built for CUDA, since it cannot be imported yet."""
    spec = find_spec('torchvision')
    version_file = Path(spec.origin).with_name('version.py') if spec and spec.origin else None
    if version_file is None or not version_file.is_file():
        return False
    return re.search(r'^__version__ = .*\+cu\d', version_file.read_text(), flags=re.MULTILINE) is not None


def compile_settings() -> dict[str, bool]:
    """Return arguments of :func:`torch.compile` with which compiling one loss leaves the others compiled.

    All losses share one method, of which torch keeps at most eight compiled versions. Newer versions of torch (seen in
    2.13) have an option to keep eight for each module.
    """
    setting = 'isolate_recompiles'
    return {setting: True} if setting in inspect.signature(torch.compile).parameters else {}


def warn_of_two_mmcvs() -> None:
    """Warn if mmcv and mmcv-lite are both installed: the later one overwrites half of the files of the earlier."""
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

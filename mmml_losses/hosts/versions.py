"""Everything that exists only because of the versions of other packages, each with its reason.

Nothing here acts where nothing is broken: each repair first looks whether its cause is installed.
"""

from __future__ import annotations

import inspect
import re
import warnings
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

_kept_alive: list[object] = []  # an operator schema lives as long as the library object that defined it


def apply() -> None:
    """Repair what is broken in the installed stack. Calling it again changes nothing."""
    define_torchvision_schemas()
    warn_of_two_mmcvs()


def define_torchvision_schemas() -> None:
    """Let a CUDA build of torchvision import beside a CPU build of torch (seen with torch 2.13.0, torchvision 0.28.0).

    The binary half of such a torchvision cannot load, which it tolerates, but its Python half then describes the
    operators ``nms`` and ``qnms`` that nobody declared, and the import fails. Declaring the two is enough: nothing in
    OpenMMLab calls them, and calling them still fails with torch's own message.
    """
    if torch.version.cuda is not None or hasattr(torch.ops.torchvision, 'nms') or not _torchvision_wants_cuda():
        return
    library = torch.library.Library('torchvision', 'DEF')
    for name in ('nms', 'qnms'):
        library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
    _kept_alive.append(library)


def _torchvision_wants_cuda() -> bool:
    """Read it from the text of torchvision's version file: importing torchvision is what must not happen yet."""
    spec = find_spec('torchvision')
    version_file = Path(spec.origin).with_name('version.py') if spec and spec.origin else None
    if version_file is None or not version_file.is_file():
        return False
    return re.search(r'^__version__ = .*\+cu\d', version_file.read_text(), flags=re.MULTILINE) is not None


def compile_settings() -> dict[str, bool]:
    """How a loss asks :func:`torch.compile` for code of its own.

    All losses share one method, and torch keeps the compiled versions of a method in one list, which is full after
    eight. Newer versions (seen in 2.13) keep a list for each module when asked to.
    """
    setting = 'isolate_recompiles'
    return {setting: True} if setting in inspect.signature(torch.compile).parameters else {}


def warn_of_two_mmcvs() -> None:
    """mmcv and mmcv-lite install the same import package, and the later one overwrites half of the earlier."""
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

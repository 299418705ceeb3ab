"""Everything that exists only because of the versions of other packages, each with its reason.

Nothing here acts where nothing is broken: each repair first looks whether its cause is installed.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from mmengine.utils import digit_version

_kept_alive: list[object] = []  # an operator schema lives as long as the library object that defined it


def apply() -> None:
    """Repair what is broken in the installed stack. Calling it again changes nothing."""
    define_torchvision_schemas()
    allow_mmengine_checkpoints()
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


def allow_mmengine_checkpoints() -> None:
    """Let torch >= 2.6 read MMEngine's checkpoints without loosening its protection.

    Since 2.6 ``torch.load`` unpickles only what is on a list, and MMEngine stores its log as ``HistoryBuffer`` objects
    full of numpy arrays. Exactly those classes go on the list. A buffer also names ``getattr``, to find its own
    statistics; the real one would reach any attribute of any listed class, so the name stands for
    :func:`_history_buffer_method` instead.
    """
    if digit_version(torch.__version__) < digit_version('2.6.0'):
        return
    multiarray = (np._core if hasattr(np, '_core') else np.core).multiarray
    torch.serialization.add_safe_globals(
        [
            HistoryBuffer,
            (_history_buffer_method, 'builtins.getattr'),
            np.ndarray,
            np.dtype,
            *(type(np.dtype(name)) for name in ('float16', 'float32', 'float64', 'int32', 'int64', 'bool')),
            # numpy 2 moved its internals: a checkpoint carries the name of the numpy that wrote it.
            *(
                (getattr(multiarray, name), f'numpy.{core}.multiarray.{name}')
                for name in ('_reconstruct', 'scalar')
                for core in ('core', '_core')
            ),
        ]
    )


def _history_buffer_method(owner: object, name: str) -> Callable:
    if owner is not HistoryBuffer or name not in ('min', 'max', 'mean', 'current'):
        raise pickle.UnpicklingError(f'a checkpoint may not read the attribute {name!r} of {owner!r}')
    return getattr(HistoryBuffer, name)


def check_checkpoint(path: str | Path) -> None:
    """Refuse a checkpoint that holds anything but weights and MMEngine's own log.

    For the tools: MMEngine's loader takes the protection of the installed version, and some fall back to unpickling
    everything. A file that passes here is harmless to all of them.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f'checkpoint {path} does not exist')
    try:
        torch.load(path, map_location='cpu', weights_only=True)
    except pickle.UnpicklingError as error:
        # Only the cause: torch's own text goes on to recommend switching the protection off.
        reason = str(error.__context__ or error).partition('. ')[0]
        raise pickle.UnpicklingError(f'checkpoint {path} is refused, loading it could run code: {reason}') from None


def warn_of_two_mmcvs() -> None:
    """mmcv and mmcv-lite install the same import package, and the later one overwrites half of the earlier."""
    installed = {name for name in ('mmcv', 'mmcv-lite') if _is_installed(name)}
    if len(installed) == 2:
        warnings.warn(
            'mmcv and mmcv-lite are both installed and overwrite each other: '
            'uninstall both, then install the one you want',
            stacklevel=2,
        )


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True

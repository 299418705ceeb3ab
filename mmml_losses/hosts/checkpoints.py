"""Load the checkpoints of MMEngine without running code that a file may contain."""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from mmengine.utils import digit_version

PLAIN_DTYPES = ('f2', 'f4', 'f8', 'i4', 'i8', 'b1')
ANNEALING_FUNCTIONS = ('_annealing_cos', '_annealing_linear')


def allow_mmengine_checkpoints() -> None:
    """Let ``torch.load`` read MMEngine's checkpoints with its protection on; do nothing for torch < 2.6.

    Since 2.6 ``torch.load`` unpickles only classes on an allow-list. MMEngine's checkpoints also contain its log, as
    ``HistoryBuffer`` objects with numpy arrays, and the annealing function of a one-cycle schedule. This function adds
    only those classes to the allow-list. Three names in the pickle are mapped to restricted replacements:

    - ``getattr``, which finds statistics of a buffer and the function of a schedule, to :func:`_known_method`. The real
      one would reach any attribute of any allowed class.
    - ``OneCycleParamScheduler``, the class of the schedule, to :class:`_OneCycleFunctions`.
    - ``numpy.dtype`` to :func:`_plain_dtype`.
    """
    if not torch_protects():
        return
    multiarray = (np._core if hasattr(np, '_core') else np.core).multiarray
    torch.serialization.add_safe_globals(
        [
            HistoryBuffer,
            (_known_method, 'builtins.getattr'),
            (_OneCycleFunctions, 'mmengine.optim.scheduler.param_scheduler.OneCycleParamScheduler'),
            np.ndarray,
            (_plain_dtype, 'numpy.dtype'),
            *(type(np.dtype(code)) for code in PLAIN_DTYPES),
            # numpy 2 moved its internals: a checkpoint carries the name of the numpy that wrote it.
            *(
                (getattr(multiarray, name), f'numpy.{core}.multiarray.{name}')
                for name in ('_reconstruct', 'scalar')
                for core in ('core', '_core')
            ),
        ]
    )


def torch_protects() -> bool:
    """Return True for torch >= 2.6, whose ``torch.load`` by default unpickles only classes on an allow-list."""
    return digit_version(torch.__version__) >= digit_version('2.6.0')


def _plain_dtype(code: str, align: bool = False, copy: bool = False) -> np.dtype:
    """Return numpy's shared dtype object for a code such as ``'f4'``; used for ``numpy.dtype`` in checkpoints.

    This object ignores the state that a pickle sets. In a copy, as made by the real ``numpy.dtype``, the state could
    set a dtype of objects, whose arrays use bytes of the file as addresses. Codes not in ``PLAIN_DTYPES`` raise an
    UnpicklingError; ``align`` and ``copy`` are ignored.
    """
    if code not in PLAIN_DTYPES:
        raise pickle.UnpicklingError(f'a checkpoint may not hold numpy data of type {code!r}')
    return np.dtype(code)


class _LazyFunctions(type):
    def __getattr__(cls, name: str) -> Callable:
        if name not in ANNEALING_FUNCTIONS:
            raise AttributeError(name)
        # Here, because a plain import of this package should not load all optimisers.
        from mmengine.optim.scheduler.param_scheduler import OneCycleParamScheduler

        return getattr(OneCycleParamScheduler, name)


class _OneCycleFunctions(metaclass=_LazyFunctions):
    """Replacement of MMEngine's ``OneCycleParamScheduler`` in checkpoints, with the annealing functions alone.

    The functions are attributes, so that the real ``getattr`` finds them, too. onedl-mmengine allows ``getattr`` while
    it loads a checkpoint, and torch may then use it instead of :func:`_known_method`.
    """


def _known_method(owner: object, name: str) -> Callable:
    if owner is HistoryBuffer and name in ('min', 'max', 'mean', 'current'):
        return getattr(HistoryBuffer, name)
    if owner is _OneCycleFunctions and name in ANNEALING_FUNCTIONS:
        return getattr(_OneCycleFunctions, name)
    raise pickle.UnpicklingError(f'a checkpoint may not read the attribute {name!r} of {owner!r}')


class CheckpointError(Exception):
    """Error for a checkpoint that cannot be read, or that would not be safe to read."""


def check_checkpoint(path: str | Path, *, resume: bool = False) -> dict:
    """Return the content of a checkpoint; raise a CheckpointError unless it has only weights and MMEngine's log.

    Some versions of MMEngine's loader unpickle everything. A local file that passes is harmless with every version.

    Args:
        path: A local file.
        resume: Whether a training is to be resumed from the file. MMEngine then runs the text of ``meta['config']`` as
            Python, so this key is rejected. MMEngine's own checkpoints have ``meta['cfg']``, which is not run.

    Returns:
        The dict in the file; an empty dict, with a warning, if torch is older than 2.6 and cannot check it.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f'checkpoint {path} does not exist')
    if not torch_protects():
        warnings.warn(f'torch {torch.__version__} runs any code in {path}: open only files you trust', stacklevel=2)
        return {}
    # Again, because onedl-mmengine clears the list after each load.
    allow_mmengine_checkpoints()
    try:
        checkpoint = torch.load(path, map_location='cpu', weights_only=True)
    except pickle.UnpicklingError as error:
        # Only the cause: torch's own text goes on to recommend switching the protection off.
        reason = str(error.__context__ or error).partition('. ')[0]
        raise CheckpointError(f'checkpoint {path} is rejected, loading it could run code: {reason}') from None
    except Exception as error:
        raise CheckpointError(f'checkpoint {path} cannot be read, it may be cut off: {error}') from error
    if not isinstance(checkpoint, dict):
        raise CheckpointError(f'checkpoint {path} must hold a dict, got {type(checkpoint).__name__}')
    if resume and 'config' in checkpoint.get('meta', {}):
        raise CheckpointError(f"checkpoint {path} is rejected, resuming it would run the text of its meta['config']")
    return checkpoint

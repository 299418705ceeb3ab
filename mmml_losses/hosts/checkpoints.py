"""Load the checkpoints that MMEngine writes safely."""

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
    """Let torch >= 2.6 read MMEngine's checkpoints without loosening its protection.

    Since 2.6 ``torch.load`` unpickles only classes on a list. MMEngine stores its log as ``HistoryBuffer`` objects with
    numpy arrays, and the annealing function of a one-cycle schedule. Only those classes are added to the list. Three
    names in the pickle are replaced by something narrower:

    - ``getattr``, which finds statistics of a buffer and the function of a schedule, by :func:`_known_method`: the
      real one would reach any attribute of any listed class.
    - The class of the schedule by :class:`_OneCycleFunctions`.
    - ``numpy.dtype`` by :func:`_plain_dtype`.
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
    """Check whether torch is 2.6 or newer, whose ``torch.load`` by default unpickles only classes on a list."""
    return digit_version(torch.__version__) >= digit_version('2.6.0')


def _plain_dtype(code: str, align: bool = False, copy: bool = False) -> np.dtype:
    """Return a numeric dtype as numpy's own singleton, which ignores the state that a pickle would set.

    The real ``numpy.dtype`` would make a copy, and a pickled state could turn the copy into a dtype of objects. Its
    arrays would use bytes of the file as addresses.
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
    """Replacement of MMEngine's one-cycle schedule in a checkpoint, with its annealing functions alone.

    They are attributes because onedl-mmengine lists the real ``getattr`` while it loads, and then torch may take
    either ``getattr``.
    """


def _known_method(owner: object, name: str) -> Callable:
    if owner is HistoryBuffer and name in ('min', 'max', 'mean', 'current'):
        return getattr(HistoryBuffer, name)
    if owner is _OneCycleFunctions and name in ANNEALING_FUNCTIONS:
        return getattr(_OneCycleFunctions, name)
    raise pickle.UnpicklingError(f'a checkpoint may not read the attribute {name!r} of {owner!r}')


class CheckpointError(Exception):
    """A checkpoint cannot be read, or reading it would not be safe."""


def check_checkpoint(path: str | Path, *, resume: bool = False) -> dict:
    """Reject a checkpoint with anything but weights and MMEngine's own log.

    The protection of MMEngine's loader depends on the installed versions, and some fall back to unpickling everything.
    A local file that passes this check is harmless to all of them.

    Args:
        path: A local file.
        resume: Whether a training is resumed from it. MMEngine then runs the text of ``meta['config']`` as Python. Its
            own checkpoints keep their config under another name, which is not run.

    Returns:
        The content; empty if torch is too old to check it.
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
        raise CheckpointError(f'checkpoint {path} is refused, loading it could run code: {reason}') from None
    except Exception as error:
        raise CheckpointError(f'checkpoint {path} cannot be read, it may be cut off: {error}') from error
    if not isinstance(checkpoint, dict):
        raise CheckpointError(f'checkpoint {path} must hold a dict, got {type(checkpoint).__name__}')
    if resume and 'config' in checkpoint.get('meta', {}):
        raise CheckpointError(f"checkpoint {path} is refused, resuming it would run the text of its meta['config']")
    return checkpoint

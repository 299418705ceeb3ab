"""Resume a training so that it ends like an uninterrupted one, and open checkpoints safely.

``tools/train.py --resume`` calls :func:`train`, which finds the last checkpoint and checks it. The Runner loads model,
optimiser, schedules and epoch from it. An interrupted epoch is repeated from its beginning. What restores the rest:

- Random numbers: :class:`EpochSeedHook` and :class:`mmml_losses.datasets.ClassAwareSampler` derive them from seed and
  epoch. Persistent workers keep their first seed: ``--no-persistent-workers`` turns them off, as self-training does.
- Values that losses keep per sample: ``SampleMemory`` (:mod:`mmml_losses.losses.core.memory`) writes them to the
  checkpoint, after :class:`mmml_losses.engine.TrainingSetHook` has shared them between processes.
- Class frequencies: ``ClassFrequencies`` (:mod:`mmml_losses.losses.core.frequencies`) writes them to the checkpoint,
  and warns if the training set has others.
- Fitted links: :class:`mmml_losses.engine.PostHocCalibrationHook` writes them to the last checkpoint.
- A training killed while it saves: ``configs/_base_/default_runtime.py`` keeps two checkpoints. MMEngine deletes the
  older one before it writes, and the training resumes from the other.
- Procedures of several stages, such as self-training: :class:`WorkRecord` keeps settings, seed and finished stages.
"""

import json
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset, worker_init_fn
from mmengine.dist import barrier, get_rank, is_main_process
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner, find_latest_checkpoint

from ..hosts.checkpoints import check_checkpoint
from ..hosts.loss_places import loss_in_text, network_in_text, warn_of_other_loss
from ..registry import HOOKS, SCOPE
from ..utils.errors import UsageError
from ..utils.files import replacing
from . import running
from .config_data import hold_out_of, trained_hold_out

# Settings that results do not depend on.
PLACES = ('work_dir', 'resume', 'launcher', 'local_rank', 'experiment_name')
MOST_DIFFERENCES = 8
# The settings of a loss, terms included, that make another method of it, such as C-LSEP of LSEP.
VARIANTS = ('positive', 'negative', 'way', 'permanent', 'reading', 'constraint')

Plain = str | float | bool | None


def train(cfg: Config, datasets: Sequence[tuple[dict, BaseDataset]] = ()) -> Runner:
    """Train the model of a config and return the Runner. Without ``resume``, load the weights of ``load_from``, if any.

    With ``resume``, go on from the checkpoint ``load_from``; if it is None, from the latest checkpoint in ``work_dir``.
    ``datasets``, pairs (dict in ``cfg``, dataset built from it), are used and not built again. They come from
    :func:`mmml_losses.engine.config_data.require_data`.
    """
    resume, checkpoint = cfg.get('resume', False), cfg.get('load_from')
    if resume and checkpoint is None:
        checkpoint = latest_checkpoint(cfg.work_dir)
    if checkpoint is not None:
        cfg.load_from = safe_checkpoint(str(checkpoint), cfg, resume=resume)
    runner = running.build_runner(cfg, datasets)
    runner.train()
    return runner


@HOOKS.register_module()
class EpochSeedHook(Hook):
    """Make the random numbers of an epoch depend on the seed, the epoch and the rank alone.

    A Runner seeds its random number generators once, so a training resumed at epoch 5 would repeat the augmentations of
    epoch 0. With this hook it has the augmentations of epoch 5, and ends with the weights of an uninterrupted training.
    The hook also seeds the dataloader's workers in each epoch. Persistent workers keep their first seed: a resumed
    training is then as good as an uninterrupted one, but not equal to it.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        """Log a line if the dataloader has persistent workers, which keep their first seed."""
        if runner.train_dataloader.persistent_workers:
            print_log(
                'persistent_workers is on: a resumed training will not repeat an unbroken one exactly', logger='current'
            )

    def before_train_epoch(self, runner: Runner) -> None:
        """Seed this process, and the workers that this epoch will start."""
        # SeedSequence keeps neighbouring seeds, epochs and ranks apart. MMEngine adds the number of the worker to the
        # seed, which must stay below 2**32.
        state = np.random.SeedSequence((runner.seed, runner.epoch, get_rank())).generate_state(1)
        seed = int(state[0]) // 2
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        loader = runner.train_dataloader
        start = loader.worker_init_fn
        # MMEngine's own function; that of a user stays.
        if isinstance(start, partial) and start.func is worker_init_fn:
            loader.worker_init_fn = partial(worker_init_fn, **{**start.keywords, 'seed': seed})


def latest_checkpoint(folder: str) -> Path | None:
    """Return the path of the last checkpoint of a work folder, even if the folder was moved; None if there is none."""
    found = find_latest_checkpoint(folder) if Path(folder, 'last_checkpoint').is_file() else None
    if not found:
        return None
    moved = Path(folder, Path(found).name)
    return moved if moved.is_file() else Path(found)


def safe_checkpoint(path: str, cfg: Config, *, resume: bool = False) -> str:
    """Check a checkpoint before MMEngine opens it, and return the path of the local file to open.

    Download it from an http(s) address first: MMEngine would unpickle it without protection. Raise a CheckpointError if
    loading could run code, because the file has objects that MMEngine does not save (torch below 2.6 only warns). Log
    a warning if the checkpoint was trained with another loss or network than that of ``cfg``.

    Args:
        path: A file or an http(s) address.
        cfg: The config that the checkpoint is used with.
        resume: Whether a training goes on from the checkpoint. Then also raise an error if the checkpoint contains text
            that MMEngine would run, was trained without the held-out part of ``cfg``, or lies in ``cfg.work_dir`` and
            was trained with another loss, network or held-out part.
    """
    address = urlparse(path)
    if address.scheme in ('http', 'https'):
        url, path = path, str(Path(torch.hub.get_dir(), 'checkpoints', Path(address.path).name))
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            if not Path(path).is_file():
                torch.hub.download_url_to_file(url, path)  # the file appears when it is complete
        except OSError as error:
            raise UsageError(f'checkpoint {url} could not be downloaded: {error}') from None
    elif '://' in path:
        raise UsageError(f'checkpoint {path} must be a local file or an http(s) address: no other kind can be checked')
    checkpoint = check_checkpoint(path, resume=resume)
    same_folder = resume and Path(path).resolve().parent == Path(cfg.work_dir).resolve()
    _check_network(checkpoint, cfg, must_fit=same_folder)
    if same_folder:
        trained, used = loss_in_text(checkpoint.get('meta', {}).get('cfg')), loss_in_text(cfg.pretty_text)
        # Other hyper-parameters of the same method are only warned of: changing them may be intended.
        if trained is not None and used is not None and describe_loss(trained) != describe_loss(used):
            raise UsageError(
                f'{cfg.work_dir} holds a training with the loss {describe_loss(trained)}, which cannot be resumed with '
                f'the loss {describe_loss(used)}. Resume with the config and --loss of that training, or choose '
                'another --work-dir'
            )
    if resume and checkpoint.get('meta', {}).get('cfg'):
        held_out, wanted = trained_hold_out(checkpoint), hold_out_of(cfg.get('train_dataloader'))
        # Elsewhere, other images may be intended, but no held-out part that the checkpoint has seen.
        if held_out != wanted and (same_folder or wanted is not None):
            raise UsageError(
                f'{path} holds a training with other images, which cannot be resumed: share and seed of the '
                f'held-out part were {held_out}, and are {wanted} now. Resume with the --hold-out of that training'
            )
    warn_of_other_loss(checkpoint, cfg)
    return path


def _check_network(checkpoint: Mapping, cfg: Config, must_fit: bool) -> None:
    """Raise a UsageError if ``must_fit``, else log a warning, if a checkpoint has another network than ``cfg``."""
    trained, used = network_in_text(checkpoint.get('meta', {}).get('cfg')), network_in_text(cfg.pretty_text)
    if trained is None or used is None or trained == used:
        return
    if must_fit:
        raise UsageError(
            f'{cfg.work_dir} holds a training of the network {trained}, which cannot be resumed with {used}. Resume '
            'with the config and --model of that training, or choose another --work-dir'
        )
    print_log(
        f'The checkpoint has the network {trained}, and is loaded into {used}: weights that do not fit are left out. '
        'Take the config of the training, or name its network (--model of the tools).',
        logger='current',
        level=logging.WARNING,
    )


def describe_loss(loss: Mapping | list | str) -> str:
    """Return the names of a loss, its parts and variants, such as ``SumLoss(a=LSEPLoss(way=class))``, from a config.

    A list of configs, one per stage of a cascade, gives the names of all.
    """
    if isinstance(loss, list):
        return ', '.join(map(describe_loss, loss))
    if not isinstance(loss, Mapping):
        return str(loss)
    parts = loss.get('losses') or {key: loss[key] for key in VARIANTS if key in loss}
    name = str(loss.get('type')).removeprefix(f'{SCOPE}.')
    inside = ', '.join(f'{key}={describe_loss(parts[key])}' for key in sorted(parts))
    return f'{name}({inside})' if inside else name


def flat_settings(settings: Mapping) -> dict[str, Plain]:
    """Return settings, except ``PLACES`` (``work_dir``, …), as a flat dict with keys such as ``'model.head.type'``."""
    return dict(pair for key, value in settings.items() if key not in PLACES for pair in _flatten(key, value))


def _flatten(name: str, value: object) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, (Mapping, list, tuple)) and value:
        for key, child in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _flatten(f'{name}.{key}', child)
    elif value is None or isinstance(value, (str, bool, int, float)):
        yield name, value
    else:
        # Classes and functions, which new-style configs hold, by their names.
        yield name, getattr(value, '__qualname__', None) or str(value)


class WorkRecord:
    """Keep the progress of a long procedure in a json file, so that the procedure can go on after an interruption.

    Settings other than those in the file raise a UsageError. All distributed processes read the file, and the main
    process writes it.

    Args:
        file: The json file, which is written if there is none.
        settings: Settings that results depend on, see :func:`flat_settings`.
        draws: Random numbers of a new procedure, such as a seed. If the file exists, its random numbers replace them.
        option: The command-line option for choosing another folder, for error messages.

    Attributes:
        draws: The random numbers.
        finished: Dict from the name of a finished stage to its results, a dict with what later stages need.
    """

    def __init__(
        self,
        file: Path,
        settings: Mapping[str, Plain],
        draws: Mapping[str, Plain] | None = None,
        option: str = '--work-dir',
    ):
        self.file = file
        self._advice = f'Choose another {option}, or delete the folder to start anew'
        barrier()  # no process may write before all have looked, nor look before the file is complete
        exists = file.is_file()
        barrier()
        begun: dict[str, dict] = dict(settings=dict(settings), draws=dict(draws or {}), finished={})
        self._content = self._read() if exists else begun
        self.draws: dict[str, Plain] = self._content['draws']
        self.finished: dict[str, dict] = self._content['finished']
        if exists:
            self._reject_other_settings(settings)
        else:
            self._write()

    def finish(self, stage: str, **result) -> None:
        """Record ``stage`` as finished, with its results as keyword arguments of json's types, and write the file."""
        self.finished[stage] = result
        self._write()

    def _write(self) -> None:
        if is_main_process():
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with replacing(self.file) as temporary:
                    temporary.write_text(json.dumps(self._content, indent=1), encoding='utf-8')
            except OSError as error:
                raise UsageError(f'{self.file} cannot be written: {error.strerror}') from None
        barrier()

    def _read(self) -> dict[str, dict]:
        try:
            content = json.loads(self.file.read_text(encoding='utf-8'))
            if not all(isinstance(content[key], dict) for key in ('settings', 'draws', 'finished')):
                raise ValueError('its parts are not those of such a record')
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f'{self.file} cannot be read, so nothing is known of the work in its folder: {error}. {self._advice}'
            ) from None
        return content

    def _reject_other_settings(self, settings: Mapping[str, Plain]) -> None:
        pairs = {
            name: tuple(found.get(name, 'not set') for found in (self._content['settings'], settings))
            for name in sorted({*self._content['settings'], *settings})
        }
        lines = [f'  {name}: {there!r} there, {now!r} now' for name, (there, now) in pairs.items() if there != now]
        if len(lines) > MOST_DIFFERENCES:
            lines[MOST_DIFFERENCES:] = [f'  and {len(lines) - MOST_DIFFERENCES} more']
        if lines:
            listing = '\n'.join(lines)
            raise UsageError(
                f'{self.file.parent} holds work that was begun with other settings:\n{listing}\n{self._advice}.'
            )

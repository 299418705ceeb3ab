"""Resume a training so that it ends like an uninterrupted one, and open checkpoints safely.

``tools/train.py --resume`` calls :func:`train`. It takes these steps:

1. :func:`latest_checkpoint` finds the last checkpoint of the work folder, also if the folder was moved.
2. :func:`safe_checkpoint` downloads a checkpoint behind an address, and lets :mod:`mmml_losses.hosts.checkpoints` check
   that it holds weights and MMEngine's log, and nothing that could run code.
3. :func:`safe_checkpoint` raises an error if the work folder holds a training with another loss, and warns if
   hyper-parameters differ.
4. The Runner loads model, optimiser, schedules and the number of the epoch, and goes on with the next epoch.

Every other state has its owner:

- Random numbers: :class:`EpochSeedHook` derives them from seed, epoch and rank, so that epoch 5 of a resumed training
  has the augmentations and batches of epoch 5. :class:`mmml_losses.datasets.ClassAwareSampler` derives its order in the
  same way. Persistent workers would keep their random numbers, and the hook logs if they are on;
  ``--no-persistent-workers`` and :mod:`mmml_losses.procedures.self_train` switch them off.
- Memory of samples: ``SampleMemory`` (:mod:`mmml_losses.losses.core.memory`) keeps it in the checkpoint, and
  :class:`mmml_losses.engine.TrainingSetHook` shares it between processes before each checkpoint.
- Class frequencies: ``ClassFrequencies`` (:mod:`mmml_losses.losses.core.frequencies`) keeps them in the checkpoint, and
  warns if the training set has others.
- Fitted links: :class:`mmml_losses.engine.PostHocCalibrationHook` keeps them in the last checkpoint.
- A training killed while it saves: ``configs/_base_/default_runtime.py`` keeps two checkpoints. MMEngine deletes the
  older one before it writes, and the training resumes from the other.
- Procedures of several stages: :class:`WorkRecord` keeps their settings, seed and finished stages for
  :mod:`mmml_losses.procedures.self_train` and :mod:`mmml_losses.procedures.extract_features`.

An interrupted epoch is repeated from its beginning. ``docs/procedures.md`` describes resuming for users, and
``tests/test_engine/test_resuming.py`` compares resumed trainings with uninterrupted ones.
"""

import json
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
from ..hosts.loss_places import loss_in_text, warn_of_other_loss
from ..registry import HOOKS, SCOPE
from ..utils.errors import UsageError
from ..utils.files import replacing
from . import running

# Settings that results do not depend on.
PLACES = ('work_dir', 'resume', 'launcher', 'local_rank', 'experiment_name')
MOST_DIFFERENCES = 8

Plain = str | float | bool | None


def train(cfg: Config, datasets: Sequence[tuple[dict, BaseDataset]] = ()) -> Runner:
    """Train the model of a config, from its ``load_from`` or, if it resumes without one, from the latest checkpoint.

    ``datasets``, which :func:`mmml_losses.engine.config_data.require_data` has built, are not built again.
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
    The hook also seeds the workers of the dataloader in each epoch. Persistent workers keep their seed, and with them a
    resumed training is as good as an uninterrupted one, but not equal to it.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        """Log a line if persistent workers, which keep their seed, are on."""
        if runner.train_dataloader.persistent_workers:
            print_log(
                'persistent_workers is on: a resumed training will not repeat an unbroken one exactly',
                logger='current',
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
    """Return the last checkpoint of a work folder, which may have been moved; None if the folder has no checkpoint."""
    found = find_latest_checkpoint(folder) if Path(folder, 'last_checkpoint').is_file() else None
    if not found:
        return None
    moved = Path(folder, Path(found).name)
    return moved if moved.is_file() else Path(found)


def safe_checkpoint(path: str, cfg: Config, *, resume: bool = False) -> str:
    """Check a checkpoint before MMEngine opens it, and return the local file to open.

    A checkpoint behind an address is downloaded first: MMEngine would unpickle it without protection. A warning is
    logged if the checkpoint was trained with another loss.

    Args:
        path: A file or an http(s) address.
        cfg: The config that the checkpoint is used with.
        resume: Whether a training goes on from the checkpoint. Then it must not lie in the work folder of a training
            with another loss, and must hold no text that MMEngine would run.
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
    if resume and Path(path).resolve().parent == Path(cfg.work_dir).resolve():
        trained, used = loss_in_text(checkpoint.get('meta', {}).get('cfg')), loss_in_text(cfg.pretty_text)
        # Other hyper-parameters of the same loss are only warned of: changing them may be intended.
        if trained is not None and used is not None and describe_loss(trained) != describe_loss(used):
            raise UsageError(
                f'{cfg.work_dir} holds a training with the loss {describe_loss(trained)}, which cannot be resumed with '
                f'the loss {describe_loss(used)}. Resume with the config and --loss of that training, or choose '
                'another --work-dir'
            )
    warn_of_other_loss(checkpoint, cfg)
    return path


def describe_loss(loss: Mapping | list | str) -> str:
    """Name a loss and its parts, such as ``SumLoss(spa=SPALoss)``, from its config or a list of configs."""
    if isinstance(loss, list):
        return ', '.join(map(describe_loss, loss))
    if not isinstance(loss, Mapping):
        return str(loss)
    parts = loss.get('losses') or {key: loss[key] for key in ('positive', 'negative') if key in loss}
    name = str(loss.get('type')).removeprefix(f'{SCOPE}.')
    inside = ', '.join(f'{key}={describe_loss(parts[key])}' for key in sorted(parts))
    return f'{name}({inside})' if inside else name


def flat_settings(settings: Mapping) -> dict[str, Plain]:
    """Return the settings of a config that results depend on, by their dotted names and in json's types."""
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
    """A json file that keeps the settings and finished stages of long work in a folder, so that it can go on later.

    The work can go on only with the same settings. All processes of a distributed run read the file; the main process
    writes it.

    Args:
        file: The json file, which is written if there is none.
        settings: Settings that the work depends on, see :func:`flat_settings`.
        draws: Random numbers of the work, such as a seed. An existing file keeps its own.
        option: The command-line option for choosing another folder, for error messages.

    Attributes:
        draws: The random numbers.
        finished: Results of each finished stage that later stages need, by the name of the stage.
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
        """Record a finished stage, with the results that later stages need, in json's types."""
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

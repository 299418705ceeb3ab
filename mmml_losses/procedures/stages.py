"""Train and test in several stages, such as rounds or seeds, that an interruption does not lose."""

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import barrier, get_world_size, init_dist, is_distributed, is_main_process

from ..engine import running
from ..engine.resuming import Plain, WorkRecord, flat_settings, latest_checkpoint, safe_checkpoint, train
from ..evaluation.metrics.base import finite_or_none
from ..utils.errors import UsageError

METRIC_FILE = 'metrics.json'


class Stages:
    """Run stages, each in a folder of its own below the work folder, and skip those that are finished.

    An interrupted training goes on from its last checkpoint and ends with the weights of an uninterrupted one.

    Args:
        cfg: The config that all stages start from, with its ``work_dir``.
        purpose: What needs the checkpoints and test metrics, for error messages.
        log: Function that is called with a text about each stage.
    """

    def __init__(self, cfg: Config, purpose: str, log: Callable[[str], None]):
        _check_config(cfg, purpose)
        self.folder, self.cfg, self._purpose, self._log = Path(cfg.work_dir), repeatable(cfg), purpose, log
        if cfg.launcher != 'none' and not is_distributed():  # now, and not when a Runner is built
            init_dist(cfg.launcher, **(cfg.get('env_cfg') or {}).get('dist_cfg', dict(backend='nccl')))

    def start(
        self, file: str, settings: Mapping[str, Plain] | None = None, draws: Mapping[str, Plain] | None = None
    ) -> None:
        """Open the record ``file`` in the folder, with the settings of the config and other ``settings``."""
        known = flat_settings(self.cfg) | dict(processes=get_world_size()) | dict(settings or {})
        self.record = WorkRecord(self.folder / file, known, draws)

    def config(self, stage: str, seed: Plain) -> Config:
        """Return a copy of the config with the folder of ``stage`` and ``seed``."""
        cfg = deepcopy(self.cfg)
        cfg.work_dir = str(self.folder / stage)
        # MMEngine keeps loggers and message hubs by this name, so each stage, and each attempt at it, needs its own.
        cfg.experiment_name = f'{stage}_{time.time_ns()}'
        cfg.randomness = ConfigDict({**(cfg.get('randomness') or {}), 'seed': seed})
        return cfg

    def is_finished(self, stage: str) -> bool:
        """Return True if ``stage`` is finished, and log its name."""
        finished = stage in self.record.finished
        self._log(f'{stage}: finished before' if finished else stage)
        return finished

    def train(self, stage: str, cfg: Config) -> None:
        """Train with ``cfg``, a changed copy of :meth:`config`, unless ``stage`` is finished."""
        if self.is_finished(stage):
            return
        latest = latest_checkpoint(cfg.work_dir)
        if latest is not None and latest.is_file():
            self._log(f'{stage}: goes on from {latest.name}')
            cfg.resume, cfg.load_from = True, str(latest)
        train(cfg)
        barrier()  # the main process writes the last checkpoint, and may still be at it
        latest = latest_checkpoint(cfg.work_dir)
        if latest is None:
            raise UsageError(f'the training left no checkpoint in {cfg.work_dir}, which {self._purpose} needs')
        self.record.finish(stage, checkpoint=latest.name)

    def checkpoint(self, stage: str) -> Path:
        """Return the path of the last checkpoint of a finished training."""
        return self.folder / stage / self.record.finished[stage]['checkpoint']

    def test(self, stage: str, cfg: Config, checkpoint: Path) -> dict[str, float | None]:
        """Test ``checkpoint`` unless ``stage`` is finished, and return the metrics, with NaN as None."""
        if not self.is_finished(stage):
            cfg.load_from = safe_checkpoint(str(checkpoint), cfg)
            runner = running.build_runner(cfg)
            metrics = runner.test()
            if is_main_process():
                running.save_metrics(self.folder / stage / METRIC_FILE, metrics, runner.test_evaluator)
            self.record.finish(stage, metrics=finite_or_none(metrics))
        return self.record.finished[stage]['metrics']


def repeatable(cfg: Config) -> Config:
    """Return a copy of a config with ``EpochSeedHook`` and no persistent workers, so that resuming is exact."""
    cfg = deepcopy(cfg)
    cfg.resume = False
    cfg.train_dataloader.persistent_workers = False
    running.add_hook(cfg, 'EpochSeedHook')
    return cfg


def _check_config(cfg: Config, purpose: str) -> None:
    hook = (cfg.get('default_hooks') or {}).get('checkpoint', {})
    if hook is None or not hook.get('save_last', True):
        raise UsageError(
            f'the config must save the last checkpoint, which {purpose} needs: it switches default_hooks.checkpoint or '
            'its save_last off'
        )
    if hook.get('out_dir') is not None:
        raise UsageError(f'default_hooks.checkpoint.out_dir must not be set, got {hook.out_dir}: use --work-dir')
    for part in ('train_dataloader', 'test_dataloader'):
        if cfg.get(part) is None:
            raise UsageError(f'the config has no {part}, which {purpose} needs')

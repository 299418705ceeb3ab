"""Train, correct the labels with the trained model, and train again, as ``tools/self_train.py`` does.

This is "BCE + pseudo label" of the Hill and SPLC paper (Zhang et al., Tables III and VII) with any loss.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import get_world_size, init_dist, is_distributed, is_main_process, sync_random_seed

from ..engine import running
from ..engine.config_data import label_with_the_test_run
from ..engine.resuming import WorkRecord, flat_settings, latest_checkpoint, safe_checkpoint, train
from ..evaluation.metrics.base import finite_or_none
from ..registry import SCOPE
from ..utils.errors import UsageError
from .pseudo_label import write_pseudo_labels

RECORD_FILE = 'self_training.json'
LABEL_FILE = 'pseudo_labels.json'
METRIC_FILE = 'metrics.json'


class SelfTraining:
    """Train in rounds in one folder. From the second round on, the model of the previous round corrects the labels.

    Every stage has a folder: ``round_0_training``, ``round_0_test``, ``round_1_labels``, ``round_1_training``,
    ``round_1_test`` and so on. A finished stage is not repeated. An interrupted training goes on from its last
    checkpoint and ends with the weights of an uninterrupted one.

    Args:
        cfg: The config of the training, with its ``work_dir``.
        threshold: Labels with a probability above this become positive.
        rounds: How often to correct the labels and train again. A folder with fewer rounds is continued.
        config_name: Name of the config, to be stored in the label files.
        log: Function that is called with a text about each stage.
    """

    def __init__(
        self, cfg: Config, threshold: float, rounds: int, config_name: str, log: Callable[[str], None] = print
    ):
        if not 0 < threshold < 1:
            raise UsageError(f'--threshold must be in (0, 1), got {threshold}')
        if rounds < 1:
            raise UsageError(f'--rounds must be at least 1, got {rounds}')
        _check_config(cfg)
        self.threshold, self.rounds, self.config_name, self._log = threshold, rounds, config_name, log
        self.folder = Path(cfg.work_dir)
        self.cfg = repeatable(cfg)
        if cfg.launcher != 'none' and not is_distributed():  # now, and not when a Runner is built
            init_dist(cfg.launcher, **(cfg.get('env_cfg') or {}).get('dist_cfg', dict(backend='nccl')))
        settings = flat_settings(self.cfg) | dict(threshold=threshold, processes=get_world_size())
        seed = (self.cfg.get('randomness') or {}).get('seed')
        draws = dict(seed=sync_random_seed() if seed is None else seed)
        self.record = WorkRecord(self.folder / RECORD_FILE, settings, draws)
        self.cfg.randomness = ConfigDict({**(self.cfg.get('randomness') or {}), 'seed': self.record.draws['seed']})

    def run(self) -> list[dict[str, float | None]]:
        """Run all unfinished stages; return a list with a dict of test metrics for each round from 0, NaN as None."""
        figures = []
        for number in range(self.rounds + 1):
            if number:
                self._correct_labels(number)
            self._train(number)
            figures.append(self._test(number))
        return figures

    def checkpoint_of(self, number: int) -> Path:
        """Return the path of the last checkpoint of round ``number``, whose training is finished."""
        stage = f'round_{number}_training'
        return self.folder / stage / self.record.finished[stage]['checkpoint']

    def labels_of(self, number: int) -> Path:
        """Return the path of the label file that round ``number``, 1 or later, trains on."""
        return self.folder / f'round_{number}_labels' / LABEL_FILE

    def config_of(self, number: int, stage: str) -> Config:
        """Return the config of the stage in folder ``stage``, on the labels of round ``number`` (0: not corrected)."""
        cfg = deepcopy(self.cfg)
        for earlier in range(1, number + 1):
            cfg.train_dataloader.dataset = ConfigDict(
                type=f'{SCOPE}.Relabelled', dataset=cfg.train_dataloader.dataset, labels=str(self.labels_of(earlier))
            )
        cfg.work_dir = str(self.folder / stage)
        # MMEngine keeps loggers and message hubs by this name, so each stage, and each attempt at it, needs its own.
        cfg.experiment_name = f'{stage}_{time.time_ns()}'
        return cfg

    def _train(self, number: int) -> None:
        stage = f'round_{number}_training'
        if self._is_finished(stage):
            return
        cfg = self.config_of(number, stage)
        latest = latest_checkpoint(cfg.work_dir)
        if latest is not None and latest.is_file():
            self._log(f'{stage}: goes on from {latest.name}')
            cfg.resume, cfg.load_from = True, str(latest)
        train(cfg)
        latest = latest_checkpoint(cfg.work_dir)
        if latest is None:
            raise UsageError(f'the training left no checkpoint in {cfg.work_dir}, which the next round needs')
        self.record.finish(stage, checkpoint=latest.name)

    def _correct_labels(self, number: int) -> None:
        stage = f'round_{number}_labels'
        if self._is_finished(stage):
            return
        checkpoint = self.checkpoint_of(number - 1)
        cfg = self.config_of(number - 1, stage)
        label_with_the_test_run(cfg, 'train')
        cfg.load_from = safe_checkpoint(str(checkpoint), cfg)
        made_by = dict(
            tool='self_train.py',
            config=self.config_name,
            checkpoint=f'{checkpoint.parent.name}/{checkpoint.name}',
            threshold=self.threshold,
        )
        described = write_pseudo_labels(cfg, self.labels_of(number), self.threshold, made_by)
        if described is not None:
            self._log(described)
        self.record.finish(stage)

    def _test(self, number: int) -> dict[str, float | None]:
        stage = f'round_{number}_test'
        if not self._is_finished(stage):
            cfg = self.config_of(number, stage)
            cfg.load_from = safe_checkpoint(str(self.checkpoint_of(number)), cfg)
            runner = running.build_runner(cfg)
            metrics = runner.test()
            if is_main_process():
                running.save_metrics(self.folder / stage / METRIC_FILE, metrics, runner.test_evaluator)
            self.record.finish(stage, metrics=finite_or_none(metrics))
        return self.record.finished[stage]['metrics']

    def _is_finished(self, stage: str) -> bool:
        finished = stage in self.record.finished
        self._log(f'{stage}: finished before' if finished else stage)
        return finished


def repeatable(cfg: Config) -> Config:
    """Return a copy of a config with ``EpochSeedHook`` and no persistent workers, so that resuming is exact."""
    cfg = deepcopy(cfg)
    cfg.resume = False
    cfg.train_dataloader.persistent_workers = False
    running.add_hook(cfg, 'EpochSeedHook')
    return cfg


def _check_config(cfg: Config) -> None:
    hook = (cfg.get('default_hooks') or {}).get('checkpoint', {})
    if hook is None or not hook.get('save_last', True):
        raise UsageError(
            'the config must save the last checkpoint, from which labels are corrected: it switches default_hooks.'
            'checkpoint or its save_last off'
        )
    if hook.get('out_dir') is not None:
        raise UsageError(f'default_hooks.checkpoint.out_dir must not be set, got {hook.out_dir}: use --work-dir')
    for part in ('train_dataloader', 'test_dataloader'):
        if cfg.get(part) is None:
            raise UsageError(f'the config has no {part}, which self-training needs')

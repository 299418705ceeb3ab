"""Train, correct the labels with the trained model, and train again, as ``tools/self_train.py`` does.

This is "BCE + pseudo label" of the Hill and SPLC paper (Zhang et al., Tables III and VII) with any loss.
"""

from collections.abc import Callable
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.dist import sync_random_seed

from ..engine.config_data import label_with_the_test_run
from ..engine.resuming import safe_checkpoint
from ..registry import SCOPE
from ..utils.errors import UsageError
from .pseudo_label import write_pseudo_labels
from .stages import Stages

RECORD_FILE = 'self_training.json'
LABEL_FILE = 'pseudo_labels.json'


class SelfTraining:
    """Train in rounds in one folder. From the second round on, the model of the previous round corrects the labels.

    Every stage has a folder: ``round_0_training``, ``round_0_test``, ``round_1_labels``, ``round_1_training``,
    ``round_1_test`` and so on. :class:`mmml_losses.procedures.stages.Stages` runs them and makes them resumable.

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
        self.stages = Stages(cfg, 'self-training', log)
        self.threshold, self.rounds, self.config_name, self._log = threshold, rounds, config_name, log
        self.folder = self.stages.folder
        seed = (cfg.get('randomness') or {}).get('seed')
        draws = dict(seed=sync_random_seed() if seed is None else seed)
        self.stages.start(RECORD_FILE, dict(threshold=threshold), draws)
        self.record = self.stages.record

    def run(self) -> list[dict[str, float | None]]:
        """Run all unfinished stages; return a list with a dict of test metrics for each round from 0, NaN as None."""
        figures = []
        for number in range(self.rounds + 1):
            if number:
                self._correct_labels(number)
            training, test = f'round_{number}_training', f'round_{number}_test'
            self.stages.train(training, self.config_of(number, training))
            figures.append(self.stages.test(test, self.config_of(number, test), self.checkpoint_of(number)))
        return figures

    def checkpoint_of(self, number: int) -> Path:
        """Return the path of the last checkpoint of round ``number``, whose training is finished."""
        return self.stages.checkpoint(f'round_{number}_training')

    def labels_of(self, number: int) -> Path:
        """Return the path of the label file that round ``number``, 1 or later, trains on."""
        return self.folder / f'round_{number}_labels' / LABEL_FILE

    def config_of(self, number: int, stage: str) -> Config:
        """Return the config of the stage in folder ``stage``, on the labels of round ``number`` (0: not corrected)."""
        cfg = self.stages.config(stage, self.record.draws['seed'])
        for earlier in range(1, number + 1):
            cfg.train_dataloader.dataset = ConfigDict(
                type=f'{SCOPE}.Relabelled', dataset=cfg.train_dataloader.dataset, labels=str(self.labels_of(earlier))
            )
        return cfg

    def _correct_labels(self, number: int) -> None:
        stage = f'round_{number}_labels'
        if self.stages.is_finished(stage):
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

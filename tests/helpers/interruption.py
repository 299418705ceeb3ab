"""Stop a training before its end."""

from mmengine.hooks import Hook


class StopAfter(Hook):
    """Hook that stops a training after the checkpoint of an epoch is written, like a killed process."""

    priority = 'LOWEST'

    def __init__(self, epochs: int):
        self.epochs = epochs

    def after_train_epoch(self, runner):
        if runner.epoch + 1 == self.epochs:
            raise KeyboardInterrupt

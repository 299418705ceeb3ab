"""A training that ends before its time."""

from mmengine.hooks import Hook


class StopAfter(Hook):
    """Ends a training as a killed process would: after the checkpoint of an epoch is written."""

    priority = 'LOWEST'

    def __init__(self, epochs: int):
        self.epochs = epochs

    def after_train_epoch(self, runner):
        if runner.epoch + 1 == self.epochs:
            raise KeyboardInterrupt

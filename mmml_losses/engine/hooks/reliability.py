"""Draw the reliability diagram of each validation into the visualiser of the training."""

import numpy as np
from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner

from ...evaluation.metrics import CalibrationError, DetectionCalibrationError
from ...registry import HOOKS, SCOPE


@HOOKS.register_module()
class ReliabilityDiagramHook(Hook):
    """Draw the reliability diagram into MMEngine's visualiser after a validation.

    The diagram shows the bins that the :class:`~mmml_losses.evaluation.CalibrationError` (or
    ``DetectionCalibrationError``) of ``val_evaluator`` has computed. ``LocalVisBackend`` writes
    ``vis_data/vis_image/<name>_<epoch or iteration>.png``; ``TensorboardVisBackend`` shows a slider over them. If the
    evaluator has several such metrics, each gets a diagram, named ``<name>_<prefix>_<class of the metric>``.

    Args:
        interval: Draw after every ``interval``-th validation.
        name: Name of the image in the visualiser.
        dpi: Pixels per inch; the diagram is 6 by 7.2 inches.
    """

    # After the hook that logs the metrics.
    priority = 'VERY_LOW'

    def __init__(self, interval: int = 1, name: str = 'reliability', dpi: int = 100):
        for argument, value in (('interval', interval), ('dpi', dpi)):
            if value < 1:
                raise ValueError(f'{argument} must be at least 1, got {value}')
        self.interval, self.name, self.dpi = interval, name, dpi
        self._num_validations = 0

    def before_train(self, runner: Runner) -> None:
        """Raise a ValueError if validations have no ``CalibrationError`` to draw; log a line if none will run."""
        if isinstance(runner._val_loop, BaseLoop):
            calibration_metrics_of(runner)
        else:
            print_log(f'{type(self).__name__}: there is no validation, and nothing to draw', logger='current')

    def before_val(self, runner: Runner) -> None:
        """Raise a ValueError if the validation has no ``CalibrationError`` to draw."""
        calibration_metrics_of(runner)

    @master_only
    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        """Draw the bins of the validation that has just ended, unless ``interval`` skips it."""
        self._num_validations += 1
        if self._num_validations % self.interval:
            return
        # The property runner.epoch would build the training loop, which a validation alone does not need.
        loop, step = runner._train_loop, 0
        if isinstance(loop, BaseLoop):
            step = loop.epoch if isinstance(loop, EpochBasedTrainLoop) else loop.iter
        found = calibration_metrics_of(runner)
        for metric in found:
            name = self.name if len(found) == 1 else f'{self.name}_{metric.prefix}_{type(metric).__name__}'
            runner.visualizer.add_image(name, reliability_image(metric, self.dpi), step=step)


def calibration_metrics_of(runner: Runner) -> list[CalibrationError]:
    """Return a list of the ``CalibrationError`` metrics in ``val_evaluator``; raise a ValueError if there are none."""
    metrics = runner.val_evaluator.metrics
    found = [metric for metric in metrics if isinstance(metric, CalibrationError)]
    if not found:
        names = ', '.join(type(metric).__name__ for metric in metrics) or 'none'
        raise ValueError(
            f'ReliabilityDiagramHook needs a CalibrationError among the metrics of val_evaluator, got {names}: add '
            f"dict(type='{SCOPE}.CalibrationError'), or dict(type='{SCOPE}.DetectionCalibrationError') for a detector"
        )
    return found


def reliability_image(metric: CalibrationError, dpi: int = 100) -> np.ndarray:
    """Draw the bins of an evaluated metric; return the reliability diagram as an (H, W, 3) uint8 RGB array."""
    # Matplotlib is slow to import, and a training that draws nothing should not wait for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from ...visualization import plot_reliability

    assert metric.bins is not None  # after an evaluation, on the main process
    predicted = 'detections' if isinstance(metric, DetectionCalibrationError) else 'labels'
    figure = plot_reliability({'validation': metric.bins}, predicted=predicted)
    figure.set_dpi(dpi)
    figure.set_facecolor('white')
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3].copy()

"""Read how well a training found hidden labels, epoch by epoch, and draw the precision and recall."""

import os
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from ..evaluation import LabelRecovery
from .metric_curves import Curves, plot_metric_curves, read_metrics
from .style import GREEN, MUTED, ORANGE, add_title

PREFIX = 'label_recovery/'
# Colours of the bands in Figure 7 of the Hill and SPLC paper.
_BANDS = {'precision': ORANGE, 'recall': GREEN}


def read_label_recovery(work_dir: str | os.PathLike) -> dict[str, dict[int, float]]:
    """Read the values that ``LabelRecoveryHook`` wrote into the logs of a training; see :func:`read_metrics`.

    Args:
        work_dir: Folder of the training, with ``<timestamp>/vis_data/scalars.json`` below it.

    Returns:
        A dict from quantity to a dict from epoch to value: percentages such as ``precision`` and ``recall``, and counts
        such as ``num_recovered``. Empty if none was logged.
    """
    metrics = read_metrics(work_dir)
    return {name.removeprefix(PREFIX): curve for name, curve in metrics.items() if name.startswith(PREFIX)}


def plot_label_recovery(
    runs: Mapping[str, Curves],
    quantities: Sequence[str] = ('precision', 'recall'),
    title: str | None = None,
    pseudo_labels: Sequence[LabelRecovery] = (),
) -> Figure:
    """Draw, by epoch, how well trainings found hidden positives: precision and recall of their corrected labels.

    Args:
        runs: Dict from name to curves of a training, as :func:`read_label_recovery` returns them.
        quantities: Percentages to draw, a panel for each. A ValueError is raised for one that no run has.
        title: Heading of the picture.
        pseudo_labels: What a trained model finds at several thresholds, as in Figure 7 of the Hill and SPLC paper. Its
            precisions and recalls are the edges of a band in their panel.
    """
    known = sorted({name for curves in runs.values() for name in curves if not name.startswith('num_')})
    if runs and (isinstance(quantities, str) or not quantities or not set(quantities) <= set(known)):
        raise ValueError(f'quantities must be some of {known}, got {quantities!r}')
    figure = plot_metric_curves(runs, quantities, ylabel='share [%]', limits=(-2, 102))
    for axes, quantity in zip(figure.axes, quantities, strict=False):
        values = [100 * getattr(found, quantity) for found in pseudo_labels if quantity in _BANDS]
        if values:
            axes.axhspan(min(values), max(values), color=_BANDS[quantity], alpha=0.3, zorder=0)
            axes.set_title('band: pseudo labels', loc='right', color=MUTED, fontsize=9)
    add_title(figure, title)
    return figure

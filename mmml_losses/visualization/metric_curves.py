"""Read the metrics that a training logged, epoch by epoch, and draw them."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from .style import add_title, legend_below, line_style, plain, tidy, wrapped

Curves = Mapping[str, Mapping[int, float]]
COLUMNS = 3


def read_metrics(work_dir: str | os.PathLike) -> dict[str, dict[int, float]]:
    """Read the metrics of all evaluations, and the values of ``LabelRecoveryHook``, from the logs of a training.

    A resumed training has several logs; for an epoch that is in more than one, the last counts.

    Args:
        work_dir: Folder of the training, with ``<timestamp>/vis_data/scalars.json`` below it.

    Returns:
        A dict from full name, such as ``multi-label/mAP@class``, to a dict from epoch (from iteration, in a training by
        iterations) to value. NaN is left out. Empty if none was logged.
    """
    curves: dict[str, dict[int, float]] = {}
    for file in sorted(Path(work_dir).glob('*/vis_data/scalars.json')):
        for line in file.read_text(encoding='utf-8').splitlines():
            record = json.loads(line)
            for name, value in record.items():
                # The names of losses and times have no prefix.
                if '/' in name and value is not None and value == value:
                    curves.setdefault(name, {})[int(record['step'])] = float(value)
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def plot_metric_curves(
    runs: Mapping[str, Curves],
    names: Sequence[str],
    title: str | None = None,
    ylabel: str = '',
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw metrics by epoch, a panel for each metric and a line for each run.

    Args:
        runs: Dict from name of a run to its curves, as :func:`read_metrics` returns them.
        names: Names of curves, which become the headings. A ValueError is raised for one that no run has.
        title: Heading of the picture.
        ylabel: Label of the vertical axes.
        limits: Limits of the vertical axes; by default each panel has its own.
    """
    if not runs:
        raise ValueError('runs must hold at least one run, got none')
    known = sorted({name for curves in runs.values() for name in curves})
    if isinstance(names, str) or not names or not set(names) <= set(known):
        raise ValueError(f'names must be some of {known}, got {names!r}')
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(max(5.4, 4.2 * columns), 3.2 * rows + 0.7), layout='constrained')
    panels = figure.subplots(rows, columns, sharex=True, sharey=limits is not None, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        for index, (run, curves) in enumerate(runs.items()):
            curve = curves.get(name, {})
            style = line_style(index, markersize=6, label=plain(wrapped(run, 36)))
            axes.plot(list(curve), list(curve.values()), **style)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(limits)
        tidy(axes, 'epoch', heading=plain(name))
    for axes in panels[::columns]:
        axes.set_ylabel(ylabel)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    legend_below(figure, *panels[0].get_legend_handles_labels(), ncols=min(len(runs), 3), handlelength=3.2)
    add_title(figure, title)
    return figure

"""Read how well a training found hidden labels, epoch by epoch, and draw the precision and recall."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from .style import INK, add_title, legend_below, line_style, plain, tidy, wrapped

PREFIX = 'label_recovery/'


def read_label_recovery(work_dir: str | os.PathLike) -> dict[str, dict[int, float]]:
    """Read the values that ``LabelRecoveryHook`` wrote into the logs of a training.

    A resumed training has several logs; for an epoch that is in more than one, the last counts.

    Args:
        work_dir: Folder of the training, with ``<timestamp>/vis_data/scalars.json`` below it.

    Returns:
        A dict from quantity to a dict from epoch to value: percentages such as ``precision`` and ``recall``, and counts
        such as ``num_recovered``. Empty if none was logged.
    """
    curves: dict[str, dict[int, float]] = {}
    for file in sorted(Path(work_dir).glob('*/vis_data/scalars.json')):
        for line in file.read_text(encoding='utf-8').splitlines():
            record = json.loads(line)
            for name, value in record.items():
                if name.startswith(PREFIX) and value is not None:
                    curves.setdefault(name.removeprefix(PREFIX), {})[int(record['step'])] = float(value)
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def plot_label_recovery(
    runs: Mapping[str, Mapping[str, Mapping[int, float]]],
    quantities: Sequence[str] = ('precision', 'recall'),
    title: str | None = None,
) -> Figure:
    """Draw, by epoch, how well trainings found hidden positives: precision and recall of their corrected labels.

    Args:
        runs: Dict from name to curves of a training, as :func:`read_label_recovery` returns them.
        quantities: Percentages to draw, a panel for each. A ValueError is raised for one that no run has.
        title: Heading of the picture.
    """
    if not runs:
        raise ValueError('runs must hold at least one run, got none')
    known = sorted({name for curves in runs.values() for name in curves if not name.startswith('num_')})
    if isinstance(quantities, str) or not quantities or not set(quantities) <= set(known):
        raise ValueError(f'quantities must be some of {known}, got {quantities!r}')
    figure = Figure(figsize=(max(5.4, 4.2 * len(quantities)), 3.9), layout='constrained')
    panels = figure.subplots(1, len(quantities), sharex=True, sharey=True, squeeze=False)[0]
    for axes, quantity in zip(panels, quantities, strict=True):
        for index, (name, curves) in enumerate(runs.items()):
            curve = curves.get(quantity, {})
            style = line_style(index, markersize=6, label=plain(wrapped(name, 36)))
            axes.plot(list(curve), list(curve.values()), **style)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(-2, 102)
        tidy(axes, 'epoch', heading=plain(quantity))
    panels[0].set_ylabel('share [%]', color=INK)
    legend_below(figure, *panels[0].get_legend_handles_labels(), ncols=min(len(runs), 3), handlelength=3.2)
    add_title(figure, title)
    return figure

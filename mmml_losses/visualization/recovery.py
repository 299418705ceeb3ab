"""Label recovery over the epochs of a training: how many hidden positives come back, and how many are right."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import GRID, INK, add_title, line_style, plain, tidy, wrapped

PREFIX = 'label_recovery/'


def read_label_recovery(work_dir: str | os.PathLike) -> dict[str, dict[int, float]]:
    """Read what the label-recovery hook wrote into the logs of a training.

    A training that was resumed has several logs; for an epoch that stands in more than one, the last counts.

    Args:
        work_dir: Folder of the training, with ``<timestamp>/vis_data/scalars.json`` below it.

    Returns:
        For each quantity its value by epoch: percentages such as ``precision`` and ``recall``, and counts such as
        ``num_recovered``. Empty where none was logged.
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
    """Draw the precision and recall of the hidden positives among the corrected labels, epoch by epoch.

    Args:
        runs: Name of each run and its curves, as :func:`read_label_recovery` reads them.
        quantities: Percentages to draw, a panel for each; a run without one of them has no curve in that panel.
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
            _draw_curve(axes, index, name, curves.get(quantity, {}))
        axes.set_title(plain(quantity), loc='left', color=INK, fontsize=10, weight='bold')
        axes.set_xlabel('epoch', color=INK)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(-2, 102)
        tidy(axes)
    panels[0].set_ylabel('share [%]', color=INK)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc='outside lower center',
        ncols=min(len(runs), 3),
        fontsize=9,
        edgecolor=GRID,
        labelcolor=INK,
        handlelength=3.2,
    )
    add_title(figure, title)
    return figure


def _draw_curve(axes: Axes, index: int, name: str, curve: Mapping[int, float]) -> None:
    axes.plot(
        list(curve),
        np.array(list(curve.values())),
        **line_style(index)._asdict(),
        linewidth=2,
        markersize=6,
        markeredgecolor='white',
        markeredgewidth=0.8,
        label=plain(wrapped(name, 36)),
    )

"""Average precision of each class, from the most frequent class to the rarest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evaluation import (
    MeanAveragePrecision,
    Predictions,
    average_precision,
    group_classes,
    mean_average_precision_of_groups,
)
from ..utils.frequencies import checked_frequencies, checked_groups
from .runs import check_same_data
from .style import BACKGROUND, GRID, INK, MUTED, add_title, line_style, plain, tidy, wrapped

# More classes than this have no room for their names.
MOST_NAMES = 50


def plot_class_precision(
    runs: Mapping[str, Predictions],
    class_frequencies: Sequence[float] | np.ndarray | None = None,
    groups: Mapping[str, Sequence[int]] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the average precision of every class, the classes ordered by frequency, which the lower panel shows.

    Args:
        runs: Name and predictions of each run, all on the same data. A class without a positive has no point.
        class_frequencies: (C,) number of images with each class, usually of the training set; by default they are
            counted in the labels of the predictions.
        groups: Names of groups of classes and the indices in each. By default, beside given frequencies, they are
            the head, medium and tail of :func:`~mmml_losses.evaluation.group_classes`. The picture separates groups
            whose classes follow each other in frequency, and the legend has the mean over each.
        title: Heading of the picture.
    """
    check_same_data(runs)
    data = next(iter(runs.values()))
    counted = class_frequencies is None
    if counted:
        frequencies = (data.labels == 1).sum(axis=0)
    else:
        frequencies = checked_frequencies(class_frequencies, data.num_classes)
    if groups is None:
        groups = {} if counted else group_classes(frequencies)
    groups = {name: members for name, members in checked_groups(groups, data.num_classes).items() if members}
    order = np.argsort(-frequencies, kind='stable')
    width = float(np.clip(0.16 * data.num_classes, 6.4, 13))
    figure = Figure(figsize=(width, 5.6 + 0.16 * len(runs)), layout='constrained')
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_groups(upper, lower, groups, order)
    for index, (name, run) in enumerate(runs.items()):
        # A little apart, so that runs do not hide each other.
        places = np.arange(order.size) + 0.5 * ((index + 0.5) / len(runs) - 0.5)
        _draw_precisions(upper, index, name, places, average_precision(run.scores, run.labels), order, groups)
    _draw_frequencies(lower, frequencies[order])
    _label_classes(lower, [data.class_names[index] for index in order])
    source = 'in these labels' if counted else 'in training'
    lower.set_xlabel(f'class, from the most to the least frequent {source}', color=INK)
    figure.legend(
        *upper.get_legend_handles_labels(),
        loc='outside lower center',
        fontsize=9,
        edgecolor=GRID,
        labelcolor=INK,
        handlelength=3.2,
    )
    add_title(figure, title)
    return figure


def _draw_precisions(
    axes: Axes,
    index: int,
    name: str,
    places: np.ndarray,
    precisions: np.ndarray,
    order: np.ndarray,
    groups: Mapping[str, Sequence[int]],
) -> None:
    means = [f'all {100 * MeanAveragePrecision.of(precisions).value:.1f}']
    for group, mean in mean_average_precision_of_groups(precisions, groups).items():
        means.append(f'{group} {100 * mean.value:.1f}')
    style = line_style(index)
    axes.plot(
        places,
        100 * precisions[order],
        **style._asdict(),
        linewidth=1 if order.size <= MOST_NAMES else 0,
        markersize=7 if order.size <= MOST_NAMES else 5.5,
        markeredgecolor='white',
        markeredgewidth=0.7,
        label=plain(f'{wrapped(name, 40)} (mAP: {", ".join(means)})'),
    )
    axes.set_ylim(-2, 102)
    axes.set_ylabel('average precision [%]', color=INK)
    tidy(axes)


def _draw_frequencies(axes: Axes, frequencies: np.ndarray) -> None:
    axes.bar(np.arange(frequencies.size), frequencies, color=MUTED, width=0.75)
    if (frequencies > 0).any() and frequencies.max() > 10 * max(1, frequencies[frequencies > 0].min()):
        axes.set_yscale('log')
    axes.set_ylabel('images', color=INK)
    tidy(axes)


def _draw_groups(upper: Axes, lower: Axes, groups: Mapping[str, Sequence[int]], order: np.ndarray) -> None:
    """Shade every second group and name each one, where its classes follow each other."""
    place_of = np.argsort(order)
    for number, (name, members) in enumerate(groups.items()):
        places = np.sort(place_of[list(members)])
        if places[-1] - places[0] + 1 != places.size:
            continue
        left, right = places[0] - 0.5, places[-1] + 0.5
        for axes in (upper, lower):
            if number % 2 == 1:
                axes.axvspan(left, right, color=BACKGROUND, zorder=0)
            if number > 0:
                axes.axvline(left, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        label = plain(f'{wrapped(name, 12)} ({places.size})')
        upper.annotate(
            label,
            ((left + right) / 2, 1),
            xycoords=('data', 'axes fraction'),
            xytext=(0, 3),
            textcoords='offset points',
            ha='center',
            color=MUTED,
            fontsize=9,
        )


def _label_classes(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xlim(-0.6, len(names) - 0.4)
    if len(names) > MOST_NAMES:
        return
    axes.set_xticks(np.arange(len(names)), [plain(wrapped(name, 18)) for name in names])
    if max(map(len, names)) > 2:
        axes.tick_params(axis='x', labelrotation=90, labelsize=8)

"""Average precision of each class, the classes ordered from the most to the least frequent."""

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
from .style import (
    MUTED,
    add_title,
    legend_below,
    line_style,
    mark_group,
    plain,
    tidy,
    wrapped,
    write_above,
    write_class_names,
)

# Largest number of classes whose names are written.
MOST_NAMES = 50


def plot_class_precision(
    runs: Mapping[str, Predictions],
    class_frequencies: Sequence[float] | np.ndarray | None = None,
    groups: Mapping[str, Sequence[int]] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the average precision of every class, and the class frequencies below. Frequent classes are on the left.

    Args:
        runs: Dict from name to predictions, all on the same data. A class without a positive has no point.
        class_frequencies: (C,) number of images with each class, usually of the training set; by default they are
            counted in the labels of the predictions.
        groups: Dict from group name to class indices. By default, if ``class_frequencies`` are given, the head, medium
            and tail of :func:`~mmml_losses.evaluation.group_classes`. The legend has the mean over each group, and
            the picture marks each group whose classes are neighbours.
        title: Heading of the picture.
    """
    check_same_data(runs)
    data = next(iter(runs.values()))
    if class_frequencies is None:
        frequencies, source = (data.labels == 1).sum(axis=0), 'in these labels'
    else:
        frequencies, source = checked_frequencies(class_frequencies, data.num_classes), 'in training'
        groups = group_classes(frequencies) if groups is None else groups
    groups = {name: members for name, members in checked_groups(groups or {}, data.num_classes).items() if members}
    order = np.argsort(-frequencies, kind='stable')
    width = float(np.clip(0.16 * data.num_classes, 6.4, 13))
    figure = Figure(figsize=(width, 5.6 + 0.16 * len(runs)), layout='constrained')
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_groups(upper, lower, groups, order)
    for index, (name, run) in enumerate(runs.items()):
        # A little apart, so that runs do not hide each other.
        places = np.arange(order.size) + 0.5 * ((index + 0.5) / len(runs) - 0.5)
        precisions = average_precision(run.scores, run.labels)
        style = line_style(index, markeredgewidth=0.7, label=_legend_text(name, precisions, groups))
        style |= dict(linewidth=1, markersize=7) if order.size <= MOST_NAMES else dict(linewidth=0, markersize=5.5)
        upper.plot(places, 100 * precisions[order], **style)
    upper.set_ylim(-2, 102)
    tidy(upper, ylabel='average precision [%]')
    _draw_frequencies(lower, frequencies[order])
    tidy(lower, f'class, from the most to the least frequent {source}', 'images')
    lower.set_xlim(-0.6, order.size - 0.4)
    if order.size <= MOST_NAMES:
        write_class_names(lower, np.arange(order.size), [data.class_names[index] for index in order], width=18)
    legend_below(figure, *upper.get_legend_handles_labels(), handlelength=3.2)
    add_title(figure, title)
    return figure


def _legend_text(name: str, precisions: np.ndarray, groups: Mapping[str, Sequence[int]]) -> str:
    """Return a run's name with its mean average precision over all classes and over each group, in percent."""
    of_groups = mean_average_precision_of_groups(precisions, groups)
    means = [('all', MeanAveragePrecision.of(precisions)), *of_groups.items()]
    texts = [f'{group} {100 * mean.value:.1f}' for group, mean in means]
    return plain(f'{wrapped(name, 40)} (mAP: {", ".join(texts)})')


def _draw_frequencies(axes: Axes, frequencies: np.ndarray) -> None:
    axes.bar(np.arange(frequencies.size), frequencies, color=MUTED, width=0.75)
    if (frequencies > 0).any() and frequencies.max() > 10 * max(1, frequencies[frequencies > 0].min()):
        axes.set_yscale('log')


def _draw_groups(upper: Axes, lower: Axes, groups: Mapping[str, Sequence[int]], order: np.ndarray) -> None:
    """Mark in both axes, and name above ``upper``, groups contiguous in ``order`` (class indices, left to right)."""
    place_of = np.argsort(order)
    for number, (name, members) in enumerate(groups.items()):
        places = np.sort(place_of[list(members)])
        if places[-1] - places[0] + 1 != places.size:
            continue
        left, right = places[0] - 0.5, places[-1] + 0.5
        for axes in (upper, lower):
            mark_group(axes, number, left, right, divided=number > 0)
        write_above(upper, (left + right) / 2, plain(f'{wrapped(name, 12)} ({places.size})'), 'data')

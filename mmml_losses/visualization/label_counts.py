"""How often each class occurs in a dataset, before and after labels were hidden or images left out."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evaluation import LabelStatistics, LabelSummary
from .style import BACKGROUND, BLUE, GRID, INK, MUTED, VERMILLION, add_title, plain, tidy, wrapped

# More classes than this have no room for their names, and for bars.
MOST_NAMES = 100
MOST_BARS = 160
# More than this stand by the logarithm of their rank; and an SVG would be large with a shape for each.
MOST_SHAPES = 2000


def plot_label_counts(summary: LabelSummary, title: str | None = None) -> Figure:
    """Draw the number of images of each class, from the most frequent to the rarest, and how many labels images have.

    Head, medium and tail are those of the labels that are served. A logarithmic axis has no place for classes without
    an image, whose number stands beside the name of their group. Thousands of classes stand by the logarithm of their
    rank, which leaves room for the head.

    Args:
        summary: The labels, see :func:`~mmml_losses.evaluation.summarize_labels`. Where they are as they were there is
            only one number for each class.
        title: Heading of the picture.
    """
    num_classes = len(summary.classes)
    if not num_classes:
        raise ValueError('summary must have classes, got none')
    figure = Figure(figsize=(float(np.clip(0.16 * num_classes, 6.8, 13)), 6.4), layout='constrained')
    upper, lower = figure.subplots(2, 1, height_ratios=(3, 1.1))
    _scale(upper, summary)
    _draw_counts(upper, summary)
    _draw_groups(upper, summary)
    _label_classes(upper, summary)
    _draw_labels_per_image(lower, summary)
    handles = dict(sorted(zip(*reversed(upper.get_legend_handles_labels()), strict=True), reverse=True))
    figure.legend(
        handles.values(),
        handles,
        loc='outside lower center',
        ncols=1 if num_classes <= 60 else 2,
        fontsize=9,
        edgecolor=GRID,
        labelcolor=INK,
        markerscale=1.4 if num_classes > MOST_BARS else 1,
    )
    add_title(figure, title)
    return figure


def _scale(axes: Axes, summary: LabelSummary) -> None:
    num_classes = len(summary.classes)
    if num_classes > MOST_SHAPES:
        axes.set_xscale('log')
        axes.xaxis.set_major_formatter('{x:,.0f}')
    axes.set_xlim(0.4 if num_classes <= MOST_NAMES else 0.5, num_classes + (0.6 if num_classes <= MOST_NAMES else 0.5))
    counts = np.concatenate([summary.after.counts, summary.before.counts])
    rarest = counts[counts > 0].min(initial=counts.max())
    if counts.max() > 10 * rarest:
        axes.set_yscale('log')
        axes.set_ylim(0.4 * rarest, 1.5 * counts.max())
    else:
        axes.set_ylim(0, 1.05 * max(1, counts.max()))
        axes.yaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter('{x:,.0f}')
    axes.set_ylabel('images', color=INK)
    tidy(axes)
    axes.grid(visible=False, axis='x')


def _draw_counts(axes: Axes, summary: LabelSummary) -> None:
    ranks = 1 + np.arange(len(summary.order))
    counts = summary.after.counts[summary.order]
    label = plain(f'{"after" if summary.is_changed else "all"}: {_totals(summary.after)}')
    if len(ranks) <= MOST_BARS:
        axes.bar(ranks, counts, width=0.72, color=BLUE, label=label)
    else:
        # A filled area ends at the edge of the picture: on a logarithmic axis there is no zero to end at.
        bottom = axes.get_ylim()[0]
        edges = np.append(ranks, len(ranks) + 1) - 0.5
        axes.stairs(np.maximum(counts, bottom), edges, fill=True, baseline=bottom, color=BLUE, label=label)
    if summary.is_changed:
        _draw_before(axes, ranks, summary.before.counts[summary.order], f'before: {_totals(summary.before)}')


def _draw_before(axes: Axes, ranks: np.ndarray, counts: np.ndarray, label: str) -> None:
    few = len(ranks) <= MOST_BARS
    axes.plot(
        ranks,
        np.where(counts > 0, counts, np.nan),
        linestyle='none',
        marker='_' if few else 'o',
        markersize=float(np.clip(500 / len(ranks), 5, 18)) if few else (3 if len(ranks) <= MOST_SHAPES else 2),
        markeredgewidth=2 if few else 0,
        color=VERMILLION,
        rasterized=len(ranks) > MOST_SHAPES,
        label=plain(label),
    )


def _draw_groups(axes: Axes, summary: LabelSummary) -> None:
    """Shade every second group, and write over each what it is."""
    limits = dict(head=f'≥ {summary.head_from:,}', medium='', tail=f'< {summary.medium_from:,}')
    texts, centres = [], []
    left = 0.5
    for number, (name, members) in enumerate(summary.groups.items()):
        if not members:
            continue
        right = left + len(members)
        if number % 2 == 1:
            axes.axvspan(left, right, color=BACKGROUND, zorder=0)
        if left > 0.5:
            axes.axvline(left, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        empty = int((summary.after.counts[list(members)] == 0).sum())
        notes = [f'{len(members):,}', limits[name], f'{empty:,} without an image' if empty else '']
        texts.append(f'{name} ({", ".join(note for note in notes if note)})')
        centres.append(_places_across(axes, left, right).mean())
        left = right
    # A letter of this size is about 5 points wide.
    widths = [5 * len(text) / (0.9 * 72 * axes.figure.get_figwidth()) for text in texts]
    for text, place in zip(texts, _side_by_side(centres, widths), strict=True):
        axes.annotate(
            text,
            (place, 1),
            xycoords='axes fraction',
            xytext=(0, 3),
            textcoords='offset points',
            ha='center',
            color=MUTED,
            fontsize=9,
        )


def _places_across(axes: Axes, *ranks: float) -> np.ndarray:
    """Ranks as fractions of the width of the axes."""
    points = axes.transData.transform([(rank, 1) for rank in ranks])
    return axes.transAxes.inverted().transform(points)[:, 0]


def _side_by_side(centres: list[float], widths: list[float], gap: float = 0.015) -> list[float]:
    """Move texts of some widths as far as they would cover each other, or leave the space from 0 to 1."""
    lefts, end = [], 0.0
    for centre, width in zip(centres, widths, strict=True):
        lefts.append(max(end, centre - width / 2))
        end = lefts[-1] + width + gap
    end = 1.0
    for index in reversed(range(len(lefts))):
        lefts[index] = min(lefts[index], end - widths[index])
        end = lefts[index] - gap
    return [left + width / 2 for left, width in zip(lefts, widths, strict=True)]


def _label_classes(axes: Axes, summary: LabelSummary) -> None:
    num_classes = len(summary.order)
    if num_classes > MOST_NAMES:
        after = ' after the changes' if summary.is_changed else ''
        axes.set_xlabel(f'rank of the class, from the most to the least frequent{after}', color=INK)
        return
    names = [plain(wrapped(summary.classes[index], 22)) for index in summary.order]
    axes.set_xticks(1 + np.arange(num_classes), names)
    axes.tick_params(axis='x', length=0)
    if max(map(len, names)) > 2:
        axes.tick_params(axis='x', labelrotation=90, labelsize=8 if num_classes <= 50 else 7)


def _draw_labels_per_image(axes: Axes, summary: LabelSummary) -> None:
    shown = {'before': summary.before, 'after': summary.after} if summary.is_changed else {'all': summary.after}
    longest = max(statistics.images_by_labels.size for statistics in shown.values())
    for name, statistics in shown.items():
        shares = np.zeros(longest)
        if statistics.num_images:
            shares[: statistics.images_by_labels.size] = statistics.images_by_labels / statistics.num_images
        axes.stairs(
            100 * shares,
            np.arange(longest + 1) - 0.5,
            fill=name != 'before',
            color=VERMILLION if name == 'before' else BLUE,
            linewidth=2,
            # The outline over the filled one.
            zorder=3 if name == 'before' else 2,
        )
    axes.set_xlim(-0.6, longest - 0.4)
    axes.set_xlabel('labels of an image', color=INK)
    axes.set_ylabel('images [%]', color=INK)
    axes.xaxis.get_major_locator().set_params(integer=True)
    tidy(axes)
    axes.grid(visible=False, axis='x')


def _totals(statistics: LabelStatistics) -> str:
    mean = f', {statistics.labels_per_image:.2f} an image' if statistics.num_images else ''
    return f'{statistics.num_images:,} images, {statistics.num_labels:,} labels{mean}'

"""Picture of the number of images of each class, before and after labels were hidden or images left out."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evaluation import LabelStatistics, LabelSummary
from .style import BLUE, INK, VERMILLION, add_title, legend_below, mark_group, tidy, write_above, write_class_names

# Largest number of classes whose names are written, and that are drawn as bars.
MOST_NAMES = 100
MOST_BARS = 160
# Above this number the axis of the classes is logarithmic, and markers are pixels even in an SVG, which would be large.
MOST_SHAPES = 2000


def plot_label_counts(summary: LabelSummary, title: str | None = None) -> Figure:
    """Draw the number of images with each class, most frequent first, and below it the number of labels per image.

    Classes are grouped into head, medium and tail by their number of images after the changes. A logarithmic axis
    cannot show 0 images, so the number of such classes is written next to the name of their group. With more than
    2000 classes, the axis of class ranks is logarithmic as well, which leaves room for the head.

    Args:
        summary: Label counts before and after the changes, from :func:`~mmml_losses.evaluation.summarize_labels`. If
            nothing was changed, they are drawn once.
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
    columns, scale = 1 if num_classes <= 60 else 2, 1.4 if num_classes > MOST_BARS else 1
    legend_below(figure, *upper.get_legend_handles_labels(), ncols=columns, markerscale=scale)
    add_title(figure, title)
    return figure


def _scale(axes: Axes, summary: LabelSummary) -> None:
    num_classes = len(summary.classes)
    if num_classes > MOST_SHAPES:
        axes.set_xscale('log')
        axes.xaxis.set_major_formatter('{x:,.0f}')
    margin = 0.6 if num_classes <= MOST_NAMES else 0.5
    axes.set_xlim(1 - margin, num_classes + margin)
    counts = np.concatenate([summary.after.counts, summary.before.counts])
    rarest = counts[counts > 0].min(initial=counts.max())
    if counts.max() > 10 * rarest:
        axes.set_yscale('log')
        axes.set_ylim(0.4 * rarest, 1.5 * counts.max())
    else:
        axes.set_ylim(0, 1.05 * max(1, counts.max()))
        axes.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axes.yaxis.set_major_formatter('{x:,.0f}')
    tidy(axes, ylabel='images')
    axes.grid(visible=False, axis='x')


def _draw_counts(axes: Axes, summary: LabelSummary) -> None:
    """Draw each class's images: before the changes as a marker; after them as a bar, beyond 160 classes as an area."""
    ranks = 1 + np.arange(len(summary.order))
    few, many = len(ranks) <= MOST_BARS, len(ranks) > MOST_SHAPES
    if summary.is_changed:
        counts = summary.before.counts[summary.order]
        axes.plot(
            ranks,
            np.where(counts > 0, counts, np.nan),
            linestyle='none',
            marker='_' if few else 'o',
            markersize=float(np.clip(500 / len(ranks), 5, 18)) if few else 2 if many else 3,
            markeredgewidth=2 if few else 0,
            color=VERMILLION,
            rasterized=many,
            label=f'before: {_totals(summary.before)}',
        )
    counts = summary.after.counts[summary.order]
    label = f'{"after" if summary.is_changed else "all"}: {_totals(summary.after)}'
    if few:
        axes.bar(ranks, counts, width=0.72, color=BLUE, label=label)
    else:
        # The area ends at the edge of the picture, since a logarithmic axis has no zero.
        bottom = axes.get_ylim()[0]
        edges = np.append(ranks, len(ranks) + 1) - 0.5
        axes.stairs(np.maximum(counts, bottom), edges, fill=True, baseline=bottom, color=BLUE, label=label)


def _draw_groups(axes: Axes, summary: LabelSummary) -> None:
    """Mark head, medium and tail; write above each its number of classes and its bound on images, like ``≥ 100``."""
    limits = dict(head=f'≥ {summary.head_from:,}', medium='', tail=f'< {summary.medium_from:,}')
    texts, centres = [], []
    left = 0.5
    for number, (name, members) in enumerate(summary.groups.items()):
        if not members:
            continue
        right = left + len(members)
        mark_group(axes, number, left, right, divided=left > 0.5)
        empty = int((summary.after.counts[list(members)] == 0).sum())
        notes = [f'{len(members):,}', limits[name], f'{empty:,} without an image' if empty else '']
        texts.append(f'{name} ({", ".join(note for note in notes if note)})')
        centres.append(_places_across(axes, left, right).mean())
        left = right
    # A letter of this size is about 5 points wide.
    widths = [5 * len(text) / (0.9 * 72 * axes.figure.get_figwidth()) for text in texts]  # type: ignore[union-attr]
    for text, place in zip(texts, _side_by_side(centres, widths), strict=True):
        write_above(axes, place, text, 'axes fraction')


def _places_across(axes: Axes, *ranks: float) -> np.ndarray:
    """Return the (R,) horizontal positions of R class ranks (x values) as fractions of the width of the axes."""
    points = axes.transData.transform([(rank, 1) for rank in ranks])
    return axes.transAxes.inverted().transform(points)[:, 0]


def _side_by_side(centres: list[float], widths: list[float], gap: float = 0.015) -> list[float]:
    """Return centres of texts, moved to keep the texts in [0, 1] and ``gap`` apart; all in fractions of the axes."""
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
    write_class_names(axes, 1 + np.arange(num_classes), [summary.classes[i] for i in summary.order], width=22)
    axes.tick_params(axis='x', length=0)


def _draw_labels_per_image(axes: Axes, summary: LabelSummary) -> None:
    """Draw the percentage of images with 0, 1, 2, … labels: an area after the changes, an outline before them."""
    drawn = [summary.before, summary.after] if summary.is_changed else [summary.after]
    longest = max(statistics.images_by_labels.size for statistics in drawn)
    for statistics in drawn:
        shares = np.zeros(longest)
        if statistics.num_images:
            shares[: statistics.images_by_labels.size] = statistics.images_by_labels / statistics.num_images
        filled = statistics is summary.after
        color, zorder = (BLUE, 2) if filled else (VERMILLION, 3)  # the outline lies over the area
        edges = np.arange(longest + 1) - 0.5
        axes.stairs(100 * shares, edges, fill=filled, color=color, linewidth=2, zorder=zorder)
    axes.set_xlim(-0.6, longest - 0.4)
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    tidy(axes, 'labels of an image', 'images [%]')
    axes.grid(visible=False, axis='x')


def _totals(statistics: LabelStatistics) -> str:
    mean = f', {statistics.labels_per_image:.2f} an image' if statistics.num_images else ''
    return f'{statistics.num_images:,} images, {statistics.num_labels:,} labels{mean}'

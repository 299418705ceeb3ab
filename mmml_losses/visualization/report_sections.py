"""The parts of a report: tables and pictures, each with a caption that says how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluation import Predictions, Query, RetrievalResult, rank_images, relevant_images
from . import page
from .class_precision import plot_class_precision
from .histogram import plot_probability_histogram
from .measures import THRESHOLD, RunMeasures
from .recovery import plot_label_recovery
from .reliability import plot_reliability
from .retrieval import ImageLoader, plot_retrieval_curve, plot_retrieval_sheet
from .style import percent, png_bytes

Measures = Mapping[str, RunMeasures]


def ranking_section(measures: Measures) -> str:
    """How well the runs rank: mAP over classes, over samples, pooled and over groups of classes."""
    first = next(iter(measures.values()))
    columns = [
        page.Column('mAP@class', [100 * run.by_class.value for run in measures.values()], best=max),
        page.Column('mAP@sample', [100 * run.by_sample.value for run in measures.values()], best=max),
        page.Column('micro AP', [100 * run.micro for run in measures.values()], best=max),
    ]
    for group in first.groups:
        columns.append(page.Column(group, [100 * run.groups[group].value for run in measures.values()], best=max))
    caption = (
        'All numbers in percent, the best of each column in bold. Higher means a better ranking: of the images within '
        'a class (mAP@class), of the classes within an image (mAP@sample), of all pairs at once (micro AP).'
    )
    if first.groups:
        sizes = ', '.join(f'{name} {mean.num_averaged + mean.num_skipped}' for name, mean in first.groups.items())
        caption += f' mAP@class also over groups of classes by frequency in training (number of classes: {sizes}).'
    if first.by_class.num_skipped or first.by_sample.num_skipped:
        caption += (
            f' Without a positive label and therefore left out: {first.by_class.num_skipped} of the classes, '
            f'{first.by_sample.num_skipped} of the images.'
        )
    return page.section('Ranking', page.table('run', list(measures), columns, caption))


def decisions_section(measures: Measures) -> str:
    """Precision, recall and F1 at a threshold."""
    attributes = dict(CP='cp', CR='cr', CF1='cf1', OP='op', OR='or_', OF1='of1')
    columns = [
        page.Column(name, [100 * getattr(run.decisions, attribute) for run in measures.values()], best=max)
        for name, attribute in attributes.items()
    ]
    decisions = [run.decisions for run in measures.values()]
    caption = (
        f'Labels with a probability of at least {THRESHOLD:g} count as predicted; in percent. Precision, recall and F1 '
        'as means over the classes (CP, CR, and CF1, their harmonic mean) and over all pairs at once (OP, OR, OF1).'
    )
    if decisions[0].num_empty:
        caption += f' {decisions[0].num_empty} classes without a positive label count as 0.'
    if any(run.num_unpredicted for run in decisions):
        numbers = ', '.join(f'{name} {run.decisions.num_unpredicted}' for name, run in measures.items())
        caption += f' Classes that are never predicted have precision 0: {numbers}.'
    return page.section('Decisions', page.table('run', list(measures), columns, caption))


def calibration_section(measures: Measures) -> str:
    """Calibration errors, proper scores and the reliability diagram."""
    first = next(iter(measures.values()))
    columns = [
        page.Column('ACE', [100 * run.errors.ace for run in measures.values()], best=min),
        page.Column('MCE', [100 * run.errors.mce for run in measures.values()], best=min),
        page.Column('ECE', [100 * run.errors.ece for run in measures.values()], best=min),
        page.Column('Brier', [100 * run.brier for run in measures.values()], best=min),
        page.Column('NLL', [run.nll for run in measures.values()], best=min, digits=4),
    ]
    caption = (
        'Lower means more honest probabilities. ACE, MCE and ECE, in percent: the mean, the largest and the weighted '
        f'mean gap between predicted and observed frequency over the non-empty of {first.bins.num_bins} bins of equal '
        'width, all (image, class) pairs pooled. Brier (times 100) and NLL (in nats) also reward being sure.'
    )
    table = page.table('run', list(measures), columns, caption)
    return page.section('Do the probabilities mean what they say?', f'{table}\n{_reliability_figure(measures)}')


def _reliability_figure(measures: Measures) -> str:
    caption = (
        'A point on the dashed diagonal keeps its promise: of the labels predicted with 30 %, 30 % are there. '
        'The lower panel counts the (image, class) pairs behind each point.'
    )
    by_error = sorted(measures, key=lambda name: measures[name].errors.ace)
    if len(by_error) > 1:
        best, worst = by_error[0], by_error[-1]
        caption += (
            f' Closest to the diagonal is {best} (ACE {percent(measures[best].errors.ace)}), '
            f'farthest from it {worst} (ACE {percent(measures[worst].errors.ace)}).'
        )
    alt = 'Reliability diagram. ' + '; '.join(
        f'{name}: ACE {percent(run.errors.ace)}, MCE {percent(run.errors.mce)}' for name, run in measures.items()
    )
    png = png_bytes(plot_reliability({name: run.bins for name, run in measures.items()}))
    return page.figure(png, alt, caption, narrow=True)


def histogram_section(runs: Mapping[str, Predictions]) -> str:
    """Where each run puts positives, negatives and missing labels."""
    kinds = 'positive and negative'
    caption = 'How the predicted probabilities of each kind of label spread; each kind adds up to 100 %.'
    if any(run.true_labels is not None for run in runs.values()):
        kinds = 'positive, negative and missing'
        caption += ' Missing labels are positive in truth, but hidden in the labels.'
    png = png_bytes(plot_probability_histogram(runs))
    alt = f'Histograms of the probabilities of {kinds} labels, a panel for each of {", ".join(runs)}.'
    return page.section('Where the labels lie', page.figure(png, alt, caption))


def classes_section(
    runs: Mapping[str, Predictions],
    class_frequencies: Sequence[float] | None,
    groups: Mapping[str, Sequence[int]] | None,
) -> str:
    """Average precision class by class."""
    png = png_bytes(plot_class_precision(runs, class_frequencies, groups))
    source = 'in these labels' if class_frequencies is None else 'in the training set'
    caption = f'Average precision of each class, from the most to the least frequent {source}; below, how many images.'
    alt = f'Average precision of each class by frequency, for {", ".join(runs)}.'
    return page.section('Class by class', page.figure(png, alt, caption))


def retrieval_section(results: Mapping[str, RetrievalResult]) -> str:
    """Retrieval mAP by the number of conditions, as a table and a curve."""
    first = next(iter(results.values()))
    columns = [page.Column('overall', [100 * result.overall.value for result in results.values()], best=max)]
    for number in sorted(first.by_conditions):
        name = f'{number} condition{"s" if number > 1 else ""}'
        values = [100 * result.by_conditions[number].value for result in results.values()]
        columns.append(page.Column(name, values, best=max))
    caption = _retrieval_caption(results)
    table = page.table('run', list(results), columns, caption)
    curve = page.figure(
        png_bytes(plot_retrieval_curve(results)),
        'Retrieval mAP against the number of conditions. '
        + '; '.join(f'{name}: overall {percent(result.overall.value)}' for name, result in results.items()),
        'The same numbers against the number of conditions of a query.',
        narrow=True,
    )
    return page.section('Finding images by what they show and what they do not', f'{table}\n{curve}')


def _retrieval_caption(results: Mapping[str, RetrievalResult]) -> str:
    first = next(iter(results.values()))
    caption = (
        'Mean average precision in percent of queries that ask for some classes and rule others out; the images are '
        'ranked by the product of the probabilities. Queries without a matching image are left out. '
    )
    if all(result.exhaustive for result in results.values()):
        return caption + f'Exhaustive: all {first.overall.num_evaluated:,} queries that have an answer.'
    half_widths = [mean.half_width for result in results.values() for mean in result.by_conditions.values()]
    return caption + (
        f'Sampled: {first.overall.num_evaluated:,} of about {first.overall.num_queries:,} queries that have an answer; '
        f'the 95 % intervals are at most ± {100 * np.nanmax(half_widths):.2f}.'
    )


def query_section(runs: Mapping[str, Predictions], query: Query, top: int, image_loader: ImageLoader) -> str:
    """The images that the runs rank first for one query."""
    png = png_bytes(plot_retrieval_sheet(runs, [query], top, image_loader))
    found = {
        name: int(relevant_images(run.labels, *query)[rank_images(run.scores, *query, top=top)].sum())
        for name, run in runs.items()
    }
    first = next(iter(runs.values()))
    top = min(top, first.num_samples)
    text = query.describe(first.class_names)
    counts = ', '.join(f'{name} {count}' for name, count in found.items())
    caption = (
        f'The {top} images that each run holds most likely to answer the query, best first. Solid frame and ✓: right; '
        f'dashed frame and ✗: wrong; below each image what it shows. Right answers among {top}: {counts}.'
    )
    return page.section(f'Query: {text}', page.figure(png, f'Images retrieved for {text}. {counts} right.', caption))


def recovery_section(recoveries: Mapping[str, Mapping[str, Mapping[int, float]]]) -> str:
    """Label recovery at the end of the trainings, and epoch by epoch."""
    quantities = [
        quantity
        for quantity in ('precision', 'recall', 'PPV', 'NPV')
        if any(quantity in curves for curves in recoveries.values())
    ]
    columns = []
    for quantity in quantities:
        curves = [curves.get(quantity, {}) for curves in recoveries.values()]
        columns.append(page.Column(quantity, [curve[max(curve)] if curve else float('nan') for curve in curves], max))
    caption = (
        'Labels of the training set that were hidden, and what the training made of them in its last epoch, in '
        'percent: how many of the corrected labels are right (precision), how many of the hidden ones were corrected '
        '(recall), and how many of all positives (PPV) and negatives (NPV) after correction are right, as means over '
        'classes.'
    )
    table = page.table('run', list(recoveries), columns, caption)
    drawn = [quantity for quantity in quantities if quantity in ('precision', 'recall')] or quantities
    curve = page.figure(
        png_bytes(plot_label_recovery(recoveries, drawn)),
        f'Curves of {" and ".join(drawn)} of recovered labels by epoch, for {", ".join(recoveries)}.',
        'The same by epoch.',
    )
    return page.section('Hidden labels found again', f'{table}\n{curve}')

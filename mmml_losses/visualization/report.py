"""Report page about any number of runs: tables and pictures of their ranking, calibration and retrieval."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..evaluation import (
    CalibrationErrors,
    MeanAveragePrecision,
    Predictions,
    Query,
    ReliabilityBins,
    RetrievalResult,
    average_precision,
    brier_score,
    calibration_errors,
    f1_scores,
    group_classes,
    mean_average_precision,
    mean_average_precision_of_groups,
    micro_average_precision,
    negative_log_likelihood,
    parse_query,
    query_retrieval,
    rank_images,
    relevant_images,
    reliability_bins,
)
from ..utils.files import replacing
from ..utils.frequencies import checked_frequencies
from . import page
from .class_precision import plot_class_precision
from .histogram import plot_probability_histogram
from .recovery import plot_label_recovery
from .reliability import plot_reliability
from .retrieval import ImageLoader, load_image, plot_retrieval_curve, plot_retrieval_sheet
from .runs import check_same_data
from .style import percent, png_bytes

Runs = Mapping[str, Predictions]
Groups = Mapping[str, Sequence[int]]
# Curves by the name of the run and of the quantity.
Recoveries = Mapping[str, Mapping[str, Mapping[int, float]]]

# Smallest probability of a label that counts as predicted.
THRESHOLD = 0.5
# Queries times images that the retrieval of one run evaluates, so that it takes seconds, and the limits of the number
# of queries.
RETRIEVAL_COST = 200_000_000
FEWEST_QUERIES, MOST_QUERIES = 2_000, 50_000


def write_report(
    path: str | os.PathLike,
    runs: Runs,
    queries: Sequence[str | Query] = (),
    *,
    title: str = 'Multi-label report',
    facts: Mapping[str, object] | None = None,
    class_frequencies: Sequence[float] | np.ndarray | None = None,
    groups: Groups | None = None,
    label_recovery: Recoveries | None = None,
    max_conditions: int = 5,
    top: int = 8,
    num_bins: int = 10,
    image_loader: ImageLoader = load_image,
) -> Path:
    """Write one self-contained HTML page that compares runs in tables and pictures, and return its path.

    Args:
        path: File to write, such as ``work_dirs/quickstart/report.html``.
        runs: Dict from name to predictions, in the order of the tables. All must be on the same data.
        queries: Texts (``'3 and 7, not 5'``) or :class:`~mmml_losses.evaluation.Query` to show retrieved images for.
        title: Heading of the page.
        facts: Dict from name to value of further facts to list at the end, such as the schedule or the versions.
        class_frequencies: (C,) number of training images with each class, to order classes and for the default groups.
        groups: Dict from group name to class indices; by default head, medium and tail, if frequencies are passed.
        label_recovery: Dict from name to curves of a training that corrected labels, as
            :func:`~mmml_losses.visualization.read_label_recovery` returns them.
        max_conditions: Retrieval queries have up to so many conditions (classes required or excluded); 0: no retrieval.
        top: Number of images shown for each query and run.
        num_bins: Number of bins of the calibration errors and the reliability diagram.
        image_loader: Function from an image path in the predictions to an image array (H, W, 3).
    """
    path = Path(path)
    check_same_data(runs)
    data = next(iter(runs.values()))
    parsed = [parse_query(query, data.class_names) if isinstance(query, str) else query for query in queries]
    if class_frequencies is not None:
        class_frequencies = checked_frequencies(class_frequencies, data.num_classes)
        groups = group_classes(class_frequencies) if groups is None else groups
    if groups is not None:
        groups = {name: members for name, members in groups.items() if len(members)}
    parts = [
        _ranking_section(runs, groups or {}),
        _decisions_section(runs),
        _calibration_section(runs, num_bins),
        _histogram_section(runs),
        _classes_section(runs, class_frequencies, groups),
    ]
    if max_conditions:
        parts.append(_retrieval_section(runs, max_conditions))
    parts += [_query_section(runs, query, top, image_loader) for query in parsed]
    if label_recovery:
        parts.append(_recovery_section(label_recovery))
    parts.append(page.section('Data and runs', page.facts_list({**_data_facts(data), **(facts or {})})))

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(page.document(title, parts), encoding='utf-8')
    return path


def _percentages(columns: Mapping[str, Sequence[float]], best: Callable = max) -> list[page.Column]:
    """Return ``columns`` (name to one fraction for each run) as table columns in percent; ``best``: max or min."""
    return [page.Column(name, [100 * value for value in values], best) for name, values in columns.items()]


def _ranking_section(runs: Runs, groups: Groups) -> str:
    """Return the HTML section with mAP over classes, over samples, of all pairs at once, and over groups of classes."""
    precisions = [average_precision(run.scores, run.labels) for run in runs.values()]
    by_class = [MeanAveragePrecision.of(of_run) for of_run in precisions]
    by_sample = [mean_average_precision(run.scores, run.labels, by='sample') for run in runs.values()]
    by_group = [mean_average_precision_of_groups(of_run, groups) for of_run in precisions]
    columns = {
        'mAP@class': [mean.value for mean in by_class],
        'mAP@sample': [mean.value for mean in by_sample],
        'micro AP': [micro_average_precision(run.scores, run.labels) for run in runs.values()],
    }
    group_columns = {group: [means[group].value for means in by_group] for group in groups}
    caption = (
        'All numbers in percent, the best of each column in bold. Higher means a better ranking: of the images within '
        'a class (mAP@class), of the classes within an image (mAP@sample), of all pairs at once (micro AP).'
    )
    if groups:
        sizes = ', '.join(f'{name} {mean.num_averaged + mean.num_skipped}' for name, mean in by_group[0].items())
        caption += f' mAP@class also over groups of classes by frequency in training (number of classes: {sizes}).'
    if by_class[0].num_skipped or by_sample[0].num_skipped:
        caption += (
            f' Without a positive label and therefore left out: {by_class[0].num_skipped} of the classes, '
            f'{by_sample[0].num_skipped} of the images.'
        )
    table = page.table(list(runs), _percentages(columns) + _percentages(group_columns), caption)
    return page.section('Ranking', table)


def _decisions_section(runs: Runs) -> str:
    """Return the HTML section with precision, recall and F1 of the labels with a probability of at least 0.5."""
    decisions = {name: f1_scores(run.scores, run.labels, threshold=THRESHOLD) for name, run in runs.items()}
    attributes = dict(CP='cp', CR='cr', CF1='cf1', MF1='macro_f1', OP='op', OR='or_', OF1='of1')
    columns = {name: [getattr(run, attribute) for run in decisions.values()] for name, attribute in attributes.items()}
    caption = (
        f'Labels with a probability of at least {THRESHOLD:g} count as predicted; in percent. Precision, recall and F1 '
        'as means over the classes (CP, CR, MF1), the harmonic mean of CP and CR (CF1), and over all pairs (OP, OR, '
        'OF1).'
    )
    num_empty = next(iter(decisions.values())).num_empty
    if num_empty:
        caption += f' {num_empty} classes without a positive label count as 0.'
    if any(run.num_unpredicted for run in decisions.values()):
        numbers = ', '.join(f'{name} {run.num_unpredicted}' for name, run in decisions.items())
        caption += f' Classes that are never predicted have precision 0: {numbers}.'
    return page.section('Decisions', page.table(list(runs), _percentages(columns), caption))


def _calibration_section(runs: Runs, num_bins: int) -> str:
    """Return the HTML section with calibration errors, Brier score, NLL and the reliability diagram."""
    bins = {name: reliability_bins(run.scores, run.labels, num_bins) for name, run in runs.items()}
    errors = {name: calibration_errors(of_run) for name, of_run in bins.items()}
    columns = {
        'ACE': [run.ace for run in errors.values()],
        'MCE': [run.mce for run in errors.values()],
        'ECE': [run.ece for run in errors.values()],
        'Brier': [brier_score(run.scores, run.labels) for run in runs.values()],
    }
    nll = [negative_log_likelihood(run.scores, run.labels) for run in runs.values()]
    caption = (
        'Lower means more honest probabilities. ACE, MCE and ECE, in percent: the mean, the largest and the weighted '
        f'mean gap between predicted and observed frequency over the non-empty of {num_bins} bins of equal '
        'width, all (image, class) pairs pooled. Brier (times 100) and NLL (in nats) also reward being sure.'
    )
    table = page.table(list(runs), [*_percentages(columns, min), page.Column('NLL', nll, min, digits=4)], caption)
    return page.section('Do the probabilities mean what they say?', f'{table}\n{_reliability_figure(bins, errors)}')


def _reliability_figure(bins: Mapping[str, ReliabilityBins], errors: Mapping[str, CalibrationErrors]) -> str:
    caption = (
        'A point on the dashed diagonal keeps its promise: of the labels predicted with 30 %, 30 % are there. '
        'The lower panel counts the (image, class) pairs behind each point.'
    )
    if len(errors) > 1:
        best, *_, worst = sorted(errors, key=lambda name: errors[name].ace)
        caption += (
            f' Closest to the diagonal is {best} (ACE {percent(errors[best].ace)}), '
            f'farthest from it {worst} (ACE {percent(errors[worst].ace)}).'
        )
    alt = 'Reliability diagram. ' + '; '.join(
        f'{name}: ACE {percent(run.ace)}, MCE {percent(run.mce)}' for name, run in errors.items()
    )
    return page.figure(png_bytes(plot_reliability(bins)), alt, caption, narrow=True)


def _histogram_section(runs: Runs) -> str:
    """Return the HTML section with histograms of the probabilities of positive, negative and missing labels."""
    kinds = 'positive and negative'
    caption = 'How the predicted probabilities of each kind of label spread; each kind adds up to 100 %.'
    if any(run.true_labels is not None for run in runs.values()):
        kinds = 'positive, negative and missing'
        caption += ' Missing labels are positive in truth, but hidden in the labels.'
    png = png_bytes(plot_probability_histogram(runs))
    alt = f'Histograms of the probabilities of {kinds} labels, a panel for each of {", ".join(runs)}.'
    return page.section('Where the labels lie', page.figure(png, alt, caption))


def _classes_section(runs: Runs, class_frequencies: Sequence[float] | np.ndarray | None, groups: Groups | None) -> str:
    """Return the HTML section with the average precision of each class."""
    png = png_bytes(plot_class_precision(runs, class_frequencies, groups))
    source = 'in these labels' if class_frequencies is None else 'in the training set'
    caption = f'Average precision of each class, from the most to the least frequent {source}; below, how many images.'
    alt = f'Average precision of each class by frequency, for {", ".join(runs)}.'
    return page.section('Class by class', page.figure(png, alt, caption))


def _retrieval_section(runs: Runs, max_conditions: int) -> str:
    """Return the HTML section with retrieval mAP by the number of classes in a query, as a table and a curve."""
    num_images = next(iter(runs.values())).num_samples
    number = min(max(RETRIEVAL_COST // max(1, num_images), FEWEST_QUERIES), MOST_QUERIES)
    results = {
        name: query_retrieval(run.scores, run.labels, max_conditions, budget=number, sample_size=number)
        for name, run in runs.items()
    }
    columns = {'overall': [result.overall.value for result in results.values()]}
    for length in sorted(next(iter(results.values())).by_conditions):
        name = f'{length} condition{"s" if length > 1 else ""}'
        columns[name] = [result.by_conditions[length].value for result in results.values()]
    table = page.table(list(results), _percentages(columns), _retrieval_caption(results))
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


def _query_section(runs: Runs, query: Query, top: int, image_loader: ImageLoader) -> str:
    """Return the HTML section with the ``top`` images that each run ranks first for one query."""
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


def _recovery_section(recoveries: Recoveries) -> str:
    """Return the HTML section with the hidden labels that trainings found: in the last epoch, and by epoch."""
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
    table = page.table(list(recoveries), columns, caption)
    drawn = [quantity for quantity in quantities if quantity in ('precision', 'recall')] or quantities
    curve = page.figure(
        png_bytes(plot_label_recovery(recoveries, drawn)),
        f'Curves of {" and ".join(drawn)} of recovered labels by epoch, for {", ".join(recoveries)}.',
        'The same by epoch.',
    )
    return page.section('Hidden labels found again', f'{table}\n{curve}')


def _data_facts(data: Predictions) -> dict[str, object]:
    known = data.labels >= 0
    positives = int((data.labels == 1).sum())
    facts: dict[str, object] = {
        'Images': f'{data.num_samples:,}',
        'Classes': f'{data.num_classes:,} ({", ".join(data.class_names[:20])}{", …" if data.num_classes > 20 else ""})',
        'Positive labels': f'{positives:,} ({positives / max(1, data.num_samples):.2f} per image)',
    }
    if not known.all():
        facts['Unknown labels'] = f'{int((~known).sum()):,} (left out of every number)'
    if data.true_labels is not None:
        hidden = int(((data.true_labels == 1) & (data.labels != 1)).sum())
        facts['Missing labels'] = f'{hidden:,} positive in truth and not in the labels, by which all runs are judged'
    return facts

"""One page about any number of runs: how well they rank, how well they are calibrated, what they retrieve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmml_losses.evaluation import (
    CalibrationErrors,
    MeanAveragePrecision,
    Predictions,
    Query,
    ReliabilityBins,
    calibration_errors,
    mean_average_precision,
    parse_query,
    rank_images,
    relevant_images,
    reliability_bins,
)
from mmml_losses.evaluation.files import replacing

from . import page
from .reliability import plot_reliability
from .retrieval import ImageLoader, load_image, plot_retrieval_sheet
from .style import png_bytes


@dataclass(frozen=True)
class RunMeasures:
    """The numbers of one run."""

    by_class: MeanAveragePrecision
    by_sample: MeanAveragePrecision
    bins: ReliabilityBins
    errors: CalibrationErrors


def measure(predictions: Predictions, num_bins: int = 10) -> RunMeasures:
    """Compute what the report shows of one run."""
    bins = reliability_bins(predictions.scores, predictions.labels, num_bins)
    return RunMeasures(
        by_class=mean_average_precision(predictions.scores, predictions.labels, by='class'),
        by_sample=mean_average_precision(predictions.scores, predictions.labels, by='sample'),
        bins=bins,
        errors=calibration_errors(bins),
    )


def write_report(
    path: str | os.PathLike,
    runs: Mapping[str, Predictions],
    queries: Sequence[str | Query] = (),
    *,
    title: str = 'Multi-label report',
    facts: Mapping[str, object] | None = None,
    top: int = 8,
    num_bins: int = 10,
    image_loader: ImageLoader = load_image,
) -> Path:
    """Write a self-contained HTML page that compares runs, and its pictures as PNG files beside it.

    Args:
        path: The page, such as ``work_dirs/quickstart/report.html``. Pictures go to the same folder as
            ``reliability.png`` and ``retrieval_1.png``, ``retrieval_2.png``, …
        runs: Name and predictions of each run, in the order of the table. All must be on the same data.
        queries: Queries to show retrieved images for, as text or as :class:`~mmml_losses.evaluation.Query`.
        title: Heading of the page.
        facts: More lines for the list of facts, such as the schedule or the versions.
        top: Number of images shown for each query and run.
        num_bins: Number of bins of the calibration errors and the diagram.
        image_loader: Turns an image path of the predictions into an image array.

    Returns:
        The path of the page.
    """
    path = Path(path)
    _check_same_data(runs)
    data = next(iter(runs.values()))
    queries = [parse_query(query, data.class_names) if isinstance(query, str) else query for query in queries]
    measures = {name: measure(predictions, num_bins) for name, predictions in runs.items()}

    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = {'reliability.png': png_bytes(plot_reliability({name: run.bins for name, run in measures.items()}))}
    sections = [_results_section(measures), _reliability_section(measures, pictures['reliability.png'])]
    for number, query in enumerate(queries, start=1):
        png = png_bytes(plot_retrieval_sheet(runs, [query], top, image_loader))
        pictures[f'retrieval_{number}.png'] = png
        sections.append(_retrieval_section(runs, query, top, png))
    sections.append(page.section('Data and runs', page.facts_list({**_data_facts(data), **(facts or {})})))

    for name, png in pictures.items():
        with replacing(path.with_name(name)) as temporary:
            temporary.write_bytes(png)
    with replacing(path) as temporary:
        temporary.write_text(page.document(title, sections), encoding='utf-8')
    return path


def _check_same_data(runs: Mapping[str, Predictions]) -> None:
    if not runs:
        raise ValueError('runs must hold at least one run, got none')
    first_name, first = next(iter(runs.items()))
    for name, run in runs.items():
        if run.class_names != first.class_names or not np.array_equal(run.labels, first.labels):
            raise ValueError(f"runs must be on the same data, but the labels of '{name}' and '{first_name}' differ")


def _results_section(measures: Mapping[str, RunMeasures]) -> str:
    columns = [
        page.Column('mAP@class', [100 * run.by_class.value for run in measures.values()], best=max),
        page.Column('mAP@sample', [100 * run.by_sample.value for run in measures.values()], best=max),
        page.Column('ACE', [100 * run.errors.ace for run in measures.values()], best=min),
        page.Column('MCE', [100 * run.errors.mce for run in measures.values()], best=min),
    ]
    first = next(iter(measures.values()))
    caption = (
        'All numbers in percent, the best of each column in bold. Higher mAP means a better ranking: of the images '
        'within a class (mAP@class), of the classes within an image (mAP@sample). Lower ACE and MCE mean more honest '
        'probabilities: the mean and the largest gap between predicted and observed frequency over '
        f'{first.bins.num_bins} bins of equal width.'
    )
    skipped = {'mAP@class': first.by_class.num_skipped, 'mAP@sample': first.by_sample.num_skipped}
    if any(skipped.values()):
        caption += f' Without a positive label and therefore left out: {skipped["mAP@class"]} of the classes, ' + (
            f'{skipped["mAP@sample"]} of the images.'
        )
    return page.section('Results', page.table('run', list(measures), columns, caption))


def _reliability_section(measures: Mapping[str, RunMeasures], png: bytes) -> str:
    caption = (
        'A point on the dashed diagonal keeps its promise: of the labels predicted with 30 %, 30 % are there. '
        'The lower panel counts the (image, class) pairs behind each point.'
    )
    by_error = sorted(measures, key=lambda name: measures[name].errors.ace)
    if len(by_error) > 1:
        best, worst = by_error[0], by_error[-1]
        caption += (
            f' Closest to the diagonal is {best} (ACE {100 * measures[best].errors.ace:.1f} %), '
            f'farthest from it {worst} (ACE {100 * measures[worst].errors.ace:.1f} %).'
        )
    alt = 'Reliability diagram. ' + '; '.join(
        f'{name}: ACE {100 * run.errors.ace:.1f} %, MCE {100 * run.errors.mce:.1f} %' for name, run in measures.items()
    )
    return page.section('Do the probabilities mean what they say?', page.figure(png, alt, caption, narrow=True))


def _retrieval_section(runs: Mapping[str, Predictions], query: Query, top: int, png: bytes) -> str:
    found = {
        name: int(relevant_images(run.labels, *query)[rank_images(run.scores, *query, top=top)].sum())
        for name, run in runs.items()
    }
    top = min(top, next(iter(runs.values())).num_samples)
    text = query.describe(next(iter(runs.values())).class_names)
    counts = ', '.join(f'{name} {count}' for name, count in found.items())
    caption = (
        f'The {top} images that each run holds most likely to answer the query, best first. Solid frame and ✓: right; '
        f'dashed frame and ✗: wrong; below each image what it shows. Right answers among {top}: {counts}.'
    )
    return page.section(f'Query: {text}', page.figure(png, f'Images retrieved for {text}. {counts} right.', caption))


def _data_facts(data: Predictions) -> dict[str, object]:
    known = data.labels >= 0
    positives = int((data.labels == 1).sum())
    facts = {
        'Images': f'{data.num_samples:,}',
        'Classes': f'{data.num_classes:,} ({", ".join(data.class_names[:20])}{", …" if data.num_classes > 20 else ""})',
        'Positive labels': f'{positives:,} ({positives / max(1, data.num_samples):.2f} per image)',
    }
    if not known.all():
        facts['Unknown labels'] = f'{int((~known).sum()):,} (left out of every number)'
    return facts

"""One page about any number of runs: how well they rank, how well they are calibrated, what they retrieve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..evaluation import Predictions, Query, RetrievalResult, group_classes, parse_query, query_retrieval
from ..utils.files import replacing
from ..utils.frequencies import checked_frequencies
from . import page
from . import report_sections as sections
from .measures import measure
from .retrieval import ImageLoader, load_image
from .runs import check_same_data

# What retrieval may cost a report for each run, as a product of queries and images, so that it takes seconds; and how
# many queries that is at least and at most.
RETRIEVAL_COST = 200_000_000
FEWEST_QUERIES, MOST_QUERIES = 2_000, 50_000


def write_report(
    path: str | os.PathLike,
    runs: Mapping[str, Predictions],
    queries: Sequence[str | Query] = (),
    *,
    title: str = 'Multi-label report',
    facts: Mapping[str, object] | None = None,
    class_frequencies: Sequence[float] | None = None,
    groups: Mapping[str, Sequence[int]] | None = None,
    label_recovery: Mapping[str, Mapping[str, Mapping[int, float]]] | None = None,
    max_conditions: int = 5,
    top: int = 8,
    num_bins: int = 10,
    image_loader: ImageLoader = load_image,
) -> Path:
    """Write one self-contained HTML page that compares runs in tables and pictures.

    Args:
        path: The page, such as ``work_dirs/quickstart/report.html``.
        runs: Name and predictions of each run, in the order of the tables. All must be on the same data.
        queries: Queries to show retrieved images for, as text or as :class:`~mmml_losses.evaluation.Query`.
        title: Heading of the page.
        facts: More lines for the list of facts, such as the schedule or the versions.
        class_frequencies: (C,) number of training images with each class, for head, medium and tail.
        groups: Class indices by the name of the group; by default head, medium and tail by ``class_frequencies``.
        label_recovery: Name and curves of trainings that corrected labels, as
            :func:`~mmml_losses.visualization.read_label_recovery` reads them.
        max_conditions: Largest number of conditions of the queries that retrieval is measured with; 0 leaves it out.
        top: Number of images shown for each query and run.
        num_bins: Number of bins of the calibration errors and the diagram.
        image_loader: Turns an image path of the predictions into an image array.

    Returns:
        The path of the page.
    """
    path = Path(path)
    check_same_data(runs)
    data = next(iter(runs.values()))
    queries = [parse_query(query, data.class_names) if isinstance(query, str) else query for query in queries]
    if class_frequencies is not None:
        class_frequencies = checked_frequencies(class_frequencies, data.num_classes)
        groups = group_classes(class_frequencies) if groups is None else groups
    if groups is not None:
        groups = {name: members for name, members in groups.items() if len(members)}
    measures = {name: measure(predictions, num_bins, groups) for name, predictions in runs.items()}
    parts = [
        sections.ranking_section(measures),
        sections.decisions_section(measures),
        sections.calibration_section(measures),
        sections.histogram_section(runs),
        sections.classes_section(runs, class_frequencies, groups),
    ]
    if max_conditions:
        parts.append(sections.retrieval_section(_retrieval(runs, max_conditions)))
    parts += [sections.query_section(runs, query, top, image_loader) for query in queries]
    if label_recovery:
        parts.append(sections.recovery_section(label_recovery))
    parts.append(page.section('Data and runs', page.facts_list({**_data_facts(data), **(facts or {})})))

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(page.document(title, parts), encoding='utf-8')
    return path


def _retrieval(runs: Mapping[str, Predictions], max_conditions: int) -> dict[str, RetrievalResult]:
    num_images = next(iter(runs.values())).num_samples
    number = min(max(RETRIEVAL_COST // max(1, num_images), FEWEST_QUERIES), MOST_QUERIES)
    return {
        name: query_retrieval(run.scores, run.labels, max_conditions, budget=number, sample_size=number)
        for name, run in runs.items()
    }


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
    if data.true_labels is not None:
        hidden = int(((data.true_labels == 1) & (data.labels != 1)).sum())
        facts['Missing labels'] = f'{hidden:,} positive in truth and not in the labels, by which all runs are judged'
    return facts

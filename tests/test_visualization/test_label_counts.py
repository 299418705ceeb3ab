"""The picture of label counts."""

import numpy as np
import pytest

from mmml_losses.evaluation import summarize_labels
from mmml_losses.visualization import plot_label_counts, png_bytes, save_figure
from mmml_losses.visualization.label_counts import _side_by_side


def summary_of(num_classes, num_images=200, hide=True, most=0.9, least=0.01, **limits):
    rng = np.random.default_rng(0)
    true = (rng.random((num_images, num_classes)) < np.geomspace(most, least, num_classes)).astype(np.int8)
    hidden = (rng.random(true.shape) < 0.5) & (true == 1) & hide
    return summarize_labels(
        [f'name {index}' for index in range(num_classes)], np.where(hidden, 0, true), true, **limits
    )


def legend_texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_bars_are_the_counts_after_and_marks_those_before():
    summary = summary_of(10, medium_from=5, head_from=50)
    figure = plot_label_counts(summary, title='Some labels')
    png_bytes(figure, dpi=40)
    upper, lower = figure.axes
    bars = [bar.get_height() for bar in upper.containers[0]]
    np.testing.assert_array_equal(bars, np.sort(summary.after.counts)[::-1])
    (marks,) = [line for line in upper.lines if line.get_label().startswith('before')]
    np.testing.assert_array_equal(marks.get_ydata(), summary.before.counts[summary.order])
    assert [tick.get_text() for tick in upper.get_xticklabels()] == [summary.classes[index] for index in summary.order]
    assert upper.get_yscale() == 'log'
    assert legend_texts(figure) == [
        f'before: 200 images, {summary.before.num_labels:,} labels, {summary.before.labels_per_image:.2f} an image',
        f'after: 200 images, {summary.after.num_labels:,} labels, {summary.after.labels_per_image:.2f} an image',
    ]
    outlined, filled = (patch.get_data().values for patch in lower.patches)
    np.testing.assert_allclose(outlined, summary.before.images_by_labels / 2)
    np.testing.assert_allclose(filled[: summary.after.images_by_labels.size], summary.after.images_by_labels / 2)
    assert figure.get_suptitle() == 'Some labels'


def test_groups_are_named_and_divided_where_they_meet():
    summary = summary_of(20, medium_from=5, head_from=50)
    sizes = {name: len(members) for name, members in summary.groups.items()}
    assert min(sizes.values()) > 0
    upper = plot_label_counts(summary).axes[0]
    texts = [text.get_text() for text in upper.texts]
    assert texts[:2] == [f'head ({sizes["head"]}, ≥ 50)', f'medium ({sizes["medium"]})']
    assert texts[2].startswith(f'tail ({sizes["tail"]}, < 5')
    borders = [line.get_xdata()[0] for line in upper.lines if len(line.get_xdata()) == 2]
    assert borders == [sizes['head'] + 0.5, sizes['head'] + sizes['medium'] + 0.5]


def test_unchanged_labels_have_one_number_for_each_class():
    figure = plot_label_counts(summary_of(10, hide=False))
    png_bytes(figure, dpi=40)
    assert len(figure.axes[1].patches) == 1
    (text,) = legend_texts(figure)
    assert text.startswith('all: 200 images')


def test_similar_counts_have_a_plain_axis():
    assert plot_label_counts(summary_of(10, most=0.9, least=0.5)).axes[0].get_yscale() == 'linear'


def test_classes_without_images_are_counted_next_to_their_group():
    labels = np.zeros((30, 4), dtype=np.int8)
    labels[:, 0] = 1
    labels[:2, 1] = 1
    figure = plot_label_counts(summarize_labels('abcd', labels))
    png_bytes(figure, dpi=40)
    assert [text.get_text() for text in figure.axes[0].texts][-1] == 'tail (3, < 20, 2 without an image)'


@pytest.mark.parametrize(('num_classes', 'has_names'), [(80, True), (312, False), (2500, False)])
@pytest.mark.parametrize('suffix', ['.png', '.svg'])
def test_any_number_of_classes_can_be_drawn(tmp_path, num_classes, has_names, suffix):
    summary = summary_of(num_classes, num_images=100)
    figure = plot_label_counts(summary)
    path = save_figure(tmp_path / f'counts{suffix}', figure, dpi=50)
    assert path.stat().st_size < 1_000_000
    upper = figure.axes[0]
    assert ('name 0' in [tick.get_text() for tick in upper.get_xticklabels()]) is has_names
    assert upper.get_xscale() == ('log' if num_classes > 2000 else 'linear')
    if not has_names:
        (area,) = [patch for patch in upper.patches if patch.get_label().startswith('after')]
        lowest = upper.get_ylim()[0]
        np.testing.assert_array_equal(area.get_data().values, np.maximum(np.sort(summary.after.counts)[::-1], lowest))


@pytest.mark.parametrize('labels', [np.zeros((0, 3)), np.zeros((5, 3)), -np.ones((5, 3)), np.full((5, 3), 0.5)])
def test_unusual_labels_can_be_drawn(labels):
    png_bytes(plot_label_counts(summarize_labels(('$a$', '_b', '<c>'), labels)), dpi=40)


def test_without_classes_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match='summary must have classes, got none'):
        plot_label_counts(summarize_labels((), np.zeros((3, 0))))


@pytest.mark.parametrize('centres', [[0.5], [0.01, 0.02, 0.5], [0.4, 0.98, 0.99], [0.3, 0.5, 0.7]])
def test_texts_do_not_cover_each_other(centres):
    widths = [0.15, 0.1, 0.3][: len(centres)]
    places = np.array(_side_by_side(centres, widths))
    lefts, rights = places - np.array(widths) / 2, places + np.array(widths) / 2
    assert lefts[0] >= -1e-9
    assert rights[-1] <= 1 + 1e-9
    assert (lefts[1:] > rights[:-1]).all()

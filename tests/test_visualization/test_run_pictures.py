"""Pictures of what runs predict: probability histograms, classes by frequency, retrieval and label-recovery curves."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from mmml_losses.evaluation import Predictions, average_precision, label_recovery, reliability_bins
from mmml_losses.visualization import (
    plot_class_precision,
    plot_label_recovery,
    plot_metric_curves,
    plot_probability_histogram,
    plot_reliability,
    plot_retrieval_curve,
    png_bytes,
    probability_shares,
    read_label_recovery,
    read_metrics,
    save_figure,
)
from mmml_losses.visualization.style import wrapped


def hidden_run(seed=0):
    """Return a run over labels of which about half the positives are hidden and some are unknown."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((60, 5)) < 0.4).astype(np.int8)
    truth[0] = -1
    labels = np.where((rng.random(truth.shape) < 0.5) & (truth == 1), 0, truth)
    return Predictions(rng.random(truth.shape), labels, true_labels=truth)


def legend_texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_histogram_bins_are_the_reliability_bins():
    run = hidden_run()
    shares = probability_shares(Predictions(run.scores, run.labels), num_bins=10)
    assert list(shares) == ['positive', 'negative']
    bins = reliability_bins(run.scores, run.labels, 10)
    (num_positive, positive), (num_negative, negative) = shares.values()
    assert num_positive == (run.labels == 1).sum()
    np.testing.assert_allclose(num_positive * positive + num_negative * negative, bins.counts)
    np.testing.assert_allclose(num_positive * positive / bins.counts, bins.positive_rate)


def test_missing_labels_are_those_that_only_the_truth_has():
    run = hidden_run()
    shares = probability_shares(run, num_bins=4)
    hidden = (run.true_labels == 1) & (run.labels == 0)
    assert {kind: count for kind, (count, _) in shares.items()} == {
        'positive': (run.labels == 1).sum(),
        'negative': (run.true_labels == 0).sum(),
        'missing': hidden.sum(),
    }
    counts, _ = np.histogram(run.scores[hidden], bins=4, range=(0, 1))
    np.testing.assert_allclose(shares['missing'][1] * hidden.sum(), counts)


def test_histogram_has_a_panel_for_each_run():
    run = hidden_run()
    figure = plot_probability_histogram({'all of it': run, 'seen': Predictions(run.scores, run.labels)}, num_bins=5)
    png_bytes(figure, dpi=40)
    titles = [axes.get_title(loc='left') for axes in figure.axes]
    assert titles == ['all of it', 'seen']
    missing = (run.true_labels == 1) & (run.labels == 0)
    assert legend_texts(figure.axes[0].get_legend())[2] == f'missing ({missing.sum()})'
    assert len(legend_texts(figure.axes[1].get_legend())) == 2
    outlines = [patch for patch in figure.axes[0].patches if patch.get_label().startswith('missing')]
    np.testing.assert_allclose(outlines[0].get_data().values, 100 * probability_shares(run, 5)['missing'][1])
    kinds = {patch.get_linestyle() for patch in figure.axes[0].patches if '(' in patch.get_label()}
    assert len(kinds) == 3  # they differ without colour


def test_four_runs_leave_the_rest_of_the_grid_empty():
    figure = plot_probability_histogram({str(number): hidden_run(number) for number in range(4)})
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2


def test_scores_that_are_no_probabilities_are_rejected():
    with pytest.raises(ValueError, match=r'scores must lie in \[0, 1\], got 3'):
        plot_probability_histogram({'logits': Predictions([[3.0]], [[1]])})
    with pytest.raises(ValueError, match='num_bins must be at least 1, got 0'):
        plot_probability_histogram({'run': hidden_run()}, num_bins=0)
    with pytest.raises(ValueError, match='runs must hold at least one run, got none'):
        plot_probability_histogram({})


def test_histogram_of_unknown_labels_renders():
    png_bytes(plot_probability_histogram({'nothing': Predictions([[0.5]], [[-1]])}), dpi=40)


def test_class_precision_is_ordered_by_frequency():
    rng = np.random.default_rng(1)
    labels = (rng.random((80, 4)) < [0.1, 0.6, 0.3, 0.0]).astype(np.int8)
    run = Predictions(rng.random(labels.shape), labels, ('rare', 'frequent', 'medium', 'never'))
    figure = plot_class_precision({'run': run}, groups={'head': [1, 2], 'tail': [0, 3]})
    png_bytes(figure, dpi=40)
    upper, lower = figure.axes
    assert [tick.get_text() for tick in lower.get_xticklabels()] == ['frequent', 'medium', 'rare', 'never']
    precisions = average_precision(run.scores, run.labels)
    np.testing.assert_array_equal(upper.lines[-1].get_ydata(), 100 * precisions[[1, 2, 0, 3]])
    heights = [bar.get_height() for bar in lower.patches if bar.get_width() < 1]
    np.testing.assert_array_equal(heights, labels.sum(axis=0)[[1, 2, 0, 3]])
    label = legend_texts(figure.legends[0])[0]
    assert f'all {100 * np.nanmean(precisions):.1f}' in label
    assert f'head {100 * precisions[1:3].mean():.1f}, tail {100 * precisions[0]:.1f}' in label
    assert [text.get_text() for text in upper.texts] == ['head (2)', 'tail (2)']


def test_class_precision_by_frequencies_of_the_training_set():
    run = hidden_run()
    figure = plot_class_precision({'run': run}, class_frequencies=[10, 50, 30, 40, 20])
    assert [tick.get_text() for tick in figure.axes[1].get_xticklabels()] == ['1', '3', '2', '4', '0']
    assert 'in training' in figure.axes[1].get_xlabel()
    with pytest.raises(ValueError, match='entry for each of 5 classes, got 2'):
        plot_class_precision({'run': run}, class_frequencies=[1, 2])


def test_class_precision_rejects_runs_of_other_data():
    with pytest.raises(ValueError, match="same data, but the labels of 'b' and 'a' differ"):
        plot_class_precision({'a': hidden_run(0), 'b': hidden_run(1)})


def retrieval_result(values, half_width=0.0):
    means = {
        number: SimpleNamespace(value=value, half_width=half_width) for number, value in enumerate(values, start=1)
    }
    overall = SimpleNamespace(value=float(np.mean(values)))
    return SimpleNamespace(overall=overall, by_conditions=means, exhaustive=half_width == 0)


def test_retrieval_curve_holds_the_means_and_intervals():
    figure = plot_retrieval_curve(
        {'one': retrieval_result([0.9, 0.5, 0.25]), 'two': retrieval_result([0.8, 0.4], 0.02)}
    )
    png_bytes(figure, dpi=40)
    axes = figure.axes[0]
    exhaustive, sampled = axes.containers
    np.testing.assert_allclose(exhaustive.lines[0].get_xydata(), [[1, 90], [2, 50], [3, 25]])
    assert exhaustive.lines[2] == ()
    np.testing.assert_allclose([bar[:, 1] for bar in sampled.lines[2][0].get_segments()], [[78, 82], [38, 42]])
    assert '95 % intervals' in axes.get_title(loc='left')
    assert legend_texts(axes.get_legend()) == ['one (overall 55.0 %)', 'two (overall 60.0 %)']
    assert (
        plot_retrieval_curve({'one': retrieval_result([0.9])}).axes[0].get_title(loc='left').startswith('all queries')
    )
    with pytest.raises(ValueError, match='results must hold at least one run, got none'):
        plot_retrieval_curve({})


def write_scalars(folder, timestamp, records):
    file = folder / timestamp / 'vis_data' / 'scalars.json'
    file.parent.mkdir(parents=True)
    file.write_text(''.join(json.dumps(record) + '\n' for record in records))


def recovery_record(epoch, precision, recall):
    values = {'label_recovery/precision': precision, 'label_recovery/recall': recall, 'label_recovery/num_hidden': 70}
    return {**values, 'step': epoch}


def test_label_recovery_joins_the_logs_of_a_resumed_training(tmp_path):
    write_scalars(tmp_path, '20260101_100000', [recovery_record(1, 50.0, 5.0), {'loss': 0.5, 'step': 94}])
    write_scalars(tmp_path, '20260101_110000', [recovery_record(3, 70.0, 15.0), recovery_record(1, 60.0, 6.0)])
    curves = read_label_recovery(tmp_path)
    assert curves['precision'] == {1: 60.0, 3: 70.0}
    assert list(curves['recall']) == [1, 3]
    assert curves['num_hidden'] == {1: 70.0, 3: 70.0}
    assert read_label_recovery(tmp_path / 'nowhere') == {}


def test_label_recovery_curves_hold_the_log(tmp_path):
    write_scalars(tmp_path, '1', [recovery_record(1, 50.0, 5.0), recovery_record(2, 60.0, 8.0)])
    figure = plot_label_recovery({'SPLC': read_label_recovery(tmp_path), 'later': {'recall': {2: 30.0}}})
    png_bytes(figure, dpi=40)
    precision, recall = figure.axes
    assert precision.get_title(loc='left') == 'precision'
    np.testing.assert_array_equal(precision.lines[0].get_xydata(), [[1, 50], [2, 60]])
    np.testing.assert_array_equal(recall.lines[1].get_xydata(), [[2, 30]])
    assert legend_texts(figure.legends[0]) == ['SPLC', 'later']


def test_bands_of_pseudo_labels_span_their_precisions_and_recalls():
    true = np.array([[1, 1, 0, 0, 1]])
    found = [label_recovery(np.zeros_like(true), true, [[0.9, 0.5, 0.5, 0.1, 0.3]], limit) for limit in (0.4, 0.6)]
    figure = plot_label_recovery({'run': {'precision': {1: 5.0}, 'recall': {1: 3.0}}}, pseudo_labels=found)
    bands = [(patch.get_y(), patch.get_y() + patch.get_height()) for axes in figure.axes for patch in axes.patches]
    np.testing.assert_allclose(bands, [(200 / 3, 100), (100 / 3, 200 / 3)])


def test_metric_curves_have_a_panel_for_each_metric(tmp_path):
    records = [
        {'multi-label/mAP@class': 30.0, 'missing-label/PPV': float('nan'), 'time': 0.1, 'step': 1},
        {'loss': 0.5, 'lr': 0.1, 'step': 94},
        {'multi-label/mAP@class': 40.0, 'missing-label/PPV': 70.0, 'time': 0.1, 'step': 2},
    ]
    write_scalars(tmp_path, '1', records)
    metrics = read_metrics(tmp_path)
    assert metrics == {'multi-label/mAP@class': {1: 30.0, 2: 40.0}, 'missing-label/PPV': {2: 70.0}}
    figure = plot_metric_curves({'one': metrics, 'two': {}}, ['missing-label/PPV', 'multi-label/mAP@class'])
    png_bytes(figure, dpi=40)
    assert [axes.get_title(loc='left') for axes in figure.axes] == ['missing-label/PPV', 'multi-label/mAP@class']
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_xydata(), [[1, 30], [2, 40]])
    with pytest.raises(
        ValueError, match=r"names must be some of \['missing-label/PPV', 'multi-label/mAP@class'\], got"
    ):
        plot_metric_curves({'one': metrics}, ['mAP'])


def test_label_recovery_of_nothing_is_rejected():
    with pytest.raises(ValueError, match=r"quantities must be some of \['recall'\], got \('precision', 'recall'\)"):
        plot_label_recovery({'run': {'recall': {1: 2.0}, 'num_hidden': {1: 3.0}}})
    with pytest.raises(ValueError, match='runs must hold at least one run, got none'):
        plot_label_recovery({})


@pytest.mark.parametrize(('suffix', 'start'), [('.png', b'\x89PNG'), ('.svg', b'<?xml'), ('.SVG', b'<?xml')])
def test_pictures_are_saved_by_their_suffix(tmp_path, suffix, start):
    figure = plot_reliability({'run': reliability_bins([[0.2, 0.8]], [[0, 1]])}, title='A heading')
    path = save_figure(tmp_path / 'new' / f'picture{suffix}', figure, dpi=40)
    assert path.read_bytes().startswith(start)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_other_suffixes_are_rejected(tmp_path):
    figure = plot_reliability({'run': reliability_bins([[0.2, 0.8]], [[0, 1]])})
    with pytest.raises(ValueError, match=r"path must end with one of .png, .svg, got '.*picture.pdf'"):
        save_figure(tmp_path / 'picture.pdf', figure)
    assert list(tmp_path.iterdir()) == []


def test_long_names_are_cut_but_never_lost():
    assert wrapped('short', 10) == 'short'
    assert wrapped('one two three', 10) == 'one two …'
    assert wrapped('x' * 30, 10) == 'x' * 8 + ' …'
    assert wrapped('one two three four', 9, 2) == 'one two\nthree …'

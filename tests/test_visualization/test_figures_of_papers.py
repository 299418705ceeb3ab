"""Pictures that repeat figures of the papers: margins, sweeps, label pairs and example images."""

import numpy as np
import pytest
import torch

from mmml_losses.evaluation import Predictions, classification_margins
from mmml_losses.losses import BCELoss, TwoWayLoss
from mmml_losses.visualization import (
    choose_images,
    margin_curve,
    plot_co_occurrence,
    plot_examples,
    plot_margins,
    plot_sweep,
    png_bytes,
)

LABELS = np.array([[1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1]])
TRUTH = np.array([[1, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 1]])
SCORES = np.array([[0.9, 0.1, 0.2, 0.3], [0.8, 0.4, 0.7, 0.6], [0.35, 0.5, 0.2, 0.95]])


def run(scores=SCORES, true_labels=TRUTH):
    return Predictions(scores, LABELS, ('cat', 'dog', '$cow$', 'horse'), ('a.png', 'b.png', 'c.png'), None, true_labels)


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def gray(path):
    return np.zeros((4, 6), dtype=np.uint8)


def test_margin_curve_is_the_loss_of_a_sample_with_that_margin():
    loss, margins = TwoWayLoss(way='sample', positive_temperature=2.0), np.array([-1.0, 0.5, 3.0])
    values, pulls = margin_curve(loss, margins, num_positives=2, num_negatives=3, spread=1.0)
    for margin, value, pull in zip(margins, values, pulls, strict=True):
        logits = torch.tensor([[margin, margin + 1, -1, -0.5, 0]], dtype=torch.float64)
        labels = torch.tensor([[1, 1, 0, 0, 0]])
        assert classification_margins(logits, labels)[0] == margin
        assert value == pytest.approx(float(loss(logits, labels)))
        moved = logits + 1e-5 * labels
        assert pull == pytest.approx(float(loss(logits, labels) - loss(moved, labels)) / 1e-5, rel=1e-3)


def test_a_higher_temperature_pulls_on_larger_margins():
    temperatures = (1.0, 2.0, 4.0)
    losses = {f'T {T:g}': TwoWayLoss(way='sample', positive_temperature=T) for T in temperatures}
    figure = plot_margins(losses, limit=12)
    png_bytes(figure, dpi=40)
    half_way = []
    for line in figure.axes[1].lines:
        margins, pulls = line.get_data()
        half_way.append(margins[np.flatnonzero(pulls > 0.5)[-1]])
    assert half_way == sorted(half_way)
    assert len(set(half_way)) == 3


def test_margins_of_other_losses_are_rejected():
    for loss in (BCELoss(), TwoWayLoss(way='class')):
        with pytest.raises(ValueError, match='loss must compare the labels of a sample'):
            margin_curve(loss, np.zeros(1))
    with pytest.raises(ValueError, match='spread at least 0, got 3, 77 and -1'):
        margin_curve(TwoWayLoss(way='sample'), np.zeros(1), spread=-1)
    with pytest.raises(ValueError, match='at least one loss and limit be above 0, got 0 and 15'):
        plot_margins({})


def test_a_sweep_of_numbers_is_a_curve_over_their_values():
    figure = plot_sweep({'model.head.loss.threshold': ['0.9', '0.5', '0.7']}, [3.0, 1.0, 2.0], 'mAP', 'Sweep')
    png_bytes(figure, dpi=40)
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0.5, 1], [0.7, 2], [0.9, 3]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ('model.head.loss.threshold', 'mAP')
    by_name = plot_sweep({'constraint': ['none', 'both']}, [3.0, 1.0])
    np.testing.assert_array_equal(by_name.axes[0].lines[0].get_xydata(), [[0, 3], [1, 1]])


def test_a_sweep_of_two_arguments_is_a_heat_map():
    grid = {'gamma_1': ['1', '5'], 'gamma_2': ['1', '5', '10']}
    figure = plot_sweep(grid, [[1, 2, 3], [4, np.nan, 6]], 'mAP')
    png_bytes(figure, dpi=40)
    axes = figure.axes[0]
    assert texts(figure) == ['1.0', '2.0', '3.0', '4.0', '6.0']
    assert [label.get_text() for label in axes.get_xticklabels()] == ['1', '5', '10']
    assert (axes.get_ylabel(), axes.get_xlabel()) == ('gamma_1', 'gamma_2')
    with pytest.raises(ValueError, match=r'results must have an axis .* got the shape \(2,\) for'):
        plot_sweep(grid, [1, 2])


def test_co_occurrence_shows_the_shares_of_few_classes():
    figure = plot_co_occurrence([[1, 0.75], [0.25, 1]], ('bird', 'person'))
    png_bytes(figure, dpi=40)
    assert texts(figure) == ['1.00', '0.75', '0.25', '1.00']
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ['bird', 'person']
    png_bytes(plot_co_occurrence(np.eye(80), [f'class {index}' for index in range(80)]), dpi=40)
    with pytest.raises(ValueError, match=r'a column for each of 3 classes, got the shape \(2, 2\)'):
        plot_co_occurrence(np.eye(2), 'abc')


def test_examples_mark_positive_missing_and_probable_negative_labels():
    figure = plot_examples({'BCE': run(), 'Hill': run(SCORES / 2)}, [1, 2], num_labels=3, image_loader=gray)
    png_bytes(figure, dpi=40)
    found = [(text.get_text(), text.get_color()) for text in figure.axes[0].texts]
    names = [each for each in found if each[0].strip('● ○') in ('cat', 'dog', r'\$cow\$', 'horse')]
    green, red = found[-3][1], found[-2][1]
    assert names == [
        ('● cat', green),
        ('● horse', green),
        ('○ dog', red),
        ('● horse', green),
        ('○ dog', red),
        (r'○ \$cow\$', red),
    ]
    assert [text for text, _ in found[-3:]] == ['● positive', '○ missing', 'negative']
    shown = [text for text, _ in found if text.startswith('0.')]
    assert shown[:6] == ['0.80', '0.40', '0.60', '0.30', '0.40', '0.20']


def test_examples_fill_up_with_the_negatives_that_any_run_finds_probable():
    figure = plot_examples({'a': run(true_labels=None)}, [1], num_labels=3, image_loader=gray)
    assert r'\$cow\$' in texts(figure)
    assert 'dog' not in texts(figure)


def test_images_with_missing_labels_come_first():
    assert choose_images(run(), 2) == [2, 1]
    assert choose_images(run(true_labels=None), 3) == [1, 0, 2]


def test_examples_of_nothing_are_rejected():
    with pytest.raises(ValueError, match='images and num_labels must be at least one, got 0 and 6'):
        plot_examples({'a': run()}, [])
    with pytest.raises(ValueError, match=r"the image 'a\.png' cannot be opened"):
        plot_examples({'a': run()}, [0])

import io
import sys

import numpy as np
import pytest
from PIL import Image

from mmml_losses.evaluation import Predictions, reliability_bins
from mmml_losses.visualization import plot_reliability, plot_retrieval_sheet, png_bytes
from mmml_losses.visualization.style import line_style


def as_image(figure):
    return Image.open(io.BytesIO(png_bytes(figure, dpi=50)))


def drawn_texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_reliability_diagram_renders_one_curve_a_run(runs):
    bins = {name: reliability_bins(run.scores, run.labels) for name, run in runs.items()}
    figure = plot_reliability(bins)
    assert as_image(figure).format == 'PNG'
    diagram = figure.axes[0]
    labels = [text.get_text() for text in diagram.get_legend().get_texts()]
    assert labels[0] == 'perfectly calibrated'
    assert len(labels) == 3
    assert 'ACE' in labels[1]
    points = diagram.lines[1].get_xydata()
    filled = bins['first & best'].counts > 0
    np.testing.assert_array_equal(points[:, 1], bins['first & best'].positive_rate[filled])


def test_names_with_matplotlib_markup_are_plain_text():
    bins = reliability_bins([[0.2, 0.8]], [[0, 1]])
    figure = plot_reliability({'_hidden': bins, '$\\broken$': bins, 'many words ' * 20: bins})
    as_image(figure)
    assert len(figure.axes[0].get_legend().get_texts()) == 4


def test_runs_differ_without_colour():
    styles = [line_style(index) for index in range(35)]
    assert len({(style['marker'], style['linestyle']) for style in styles}) == 35


def test_diagram_without_known_labels_renders():
    as_image(plot_reliability({'nothing': reliability_bins([[0.5]], [[-1]])}))


def test_retrieval_sheet_marks_right_and_wrong(runs):
    figure = plot_retrieval_sheet(runs, ['cat, -dog', 'dog'], top=5)
    assert as_image(figure).format == 'PNG'
    marks = [text for text in drawn_texts(figure) if text in '✓✗']
    assert len(marks) == 2 * 2 * 5
    assert set(marks) == {'✓', '✗'}


def test_sheet_follows_the_ranking():
    scores = np.array([[0.1], [0.9], [0.5]])
    run = Predictions(scores, [[0], [1], [0]], ('cat',), ('low', 'high', 'middle'))
    order = []

    def loader(path):
        order.append(path)
        return np.zeros((4, 4, 3), dtype=np.uint8)

    figure = plot_retrieval_sheet({'run': run}, ['cat'], top=8, image_loader=loader)
    assert order == ['high', 'middle', 'low']
    texts = drawn_texts(figure)
    assert '1 of 3 right' in texts
    assert '1 of 3 images match' in texts


def test_missing_images_leave_a_cell_with_their_name(runs):
    there = next(iter(runs.values())).image_paths[0]
    run = Predictions([[0.5], [0.4], [0.3]], [[1], [0], [1]], image_paths=('nowhere/a.jpg', '', there))
    with pytest.warns(UserWarning, match="2 of 3 images of the sheet cannot be opened, the first is 'nowhere/a.jpg'"):
        texts = drawn_texts(plot_retrieval_sheet({'run': run}, ['0']))
    assert 'not found\na.jpg' in texts
    assert 'not found\nno file' in texts


def test_a_sheet_without_a_single_image_is_rejected():
    run = Predictions([[0.5], [0.4]], [[1], [0]], image_paths=('nowhere/a.jpg', ''))
    with pytest.raises(ValueError, match='2 of 2 images of the sheet cannot be opened'):
        plot_retrieval_sheet({'run': run}, ['0'])


def test_pictures_leave_pyplot_alone(runs):
    was_loaded = 'matplotlib.pyplot' in sys.modules
    as_image(plot_retrieval_sheet(runs, ['cat'], top=2))
    assert ('matplotlib.pyplot' in sys.modules) == was_loaded


def test_nothing_to_draw_is_rejected(runs):
    with pytest.raises(ValueError, match='curves must hold at least one run, got none'):
        plot_reliability({})
    with pytest.raises(ValueError, match='at least one run and one query, got 2 and 0'):
        plot_retrieval_sheet(runs, [])
    with pytest.raises(ValueError, match='top must be at least 1, got 0'):
        plot_retrieval_sheet(runs, ['cat'], top=0)


def test_axes_of_reliability_name_the_predictions():
    bins = dict(run=reliability_bins([[0.5, 0.7]], [[0, 1]]))
    texts = [axes.get_ylabel() for axes in plot_reliability(bins, predicted='detections').axes]
    assert texts == ['share of right detections', 'detections per bin']
    assert plot_reliability(bins).axes[0].get_ylabel() == 'share of positive labels'
    with pytest.raises(ValueError, match=r"predicted must be one of 'labels', 'detections', got 'boxes'"):
        plot_reliability(bins, predicted='boxes')

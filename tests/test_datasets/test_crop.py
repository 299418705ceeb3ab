import math

import numpy as np
import pytest

from mmml_losses.datasets import AnnotationError, CropToBox
from mmml_losses.datasets.readers.annotation_files import read_box
from mmml_losses.registry import TRANSFORMS

HEIGHT, WIDTH = 6, 8
IMAGE = np.arange(HEIGHT * WIDTH * 3, dtype=np.uint8).reshape(HEIGHT, WIDTH, 3)


def crop(box, **kwargs) -> dict:
    results = dict(img=IMAGE, img_path='a.jpg', img_shape=(HEIGHT, WIDTH), ori_shape=(HEIGHT, WIDTH), bbox=box)
    return CropToBox(**kwargs)(results)


@pytest.mark.parametrize(
    ('box', 'margin', 'rows', 'columns'),
    [
        ([2, 1, 3, 4], 0, (1, 5), (2, 5)),
        ([2.6, 1.2, 1.6, 0.1], 0, (1, 2), (2, 5)),  # rounded outwards: a sliver is a pixel
        ([-3, -1, 5, 3.5], 0, (0, 3), (0, 2)),  # clipped at the upper left
        ([6, 4, 10, 10], 0, (4, 6), (6, 8)),  # clipped at the lower right
        ([2, 2, 2, 2], 0.5, (1, 5), (1, 5)),
        ([2, 2, 2, 1], 1, (1, 4), (0, 6)),  # the margin goes by width and height
        ([0, 0, WIDTH, HEIGHT], 3, (0, HEIGHT), (0, WIDTH)),
    ],
)
def test_the_box_is_cut_out_with_its_margin(box, margin, rows, columns):
    results = crop(box, margin=margin)
    expected = IMAGE[slice(*rows), slice(*columns)]
    assert np.array_equal(results['img'], expected)
    assert results['img_shape'] == expected.shape[:2]
    assert results['ori_shape'] == (HEIGHT, WIDTH)
    assert results['bbox'] == box


def test_the_crop_does_not_hold_the_whole_image():
    assert crop([2, 1, 3, 4])['img'].base is None


def test_grey_images_and_arrays_of_numbers_work():
    results = CropToBox()(dict(img=IMAGE[..., 0], bbox=np.array([1.0, 1, 2, 3], dtype=np.float32)))
    assert np.array_equal(results['img'], IMAGE[1:4, 1:3, 0])


@pytest.mark.parametrize(
    ('box', 'problem'),
    [
        ([2, 1, 0, 4], r'must have an area, got \[2, 1, 0, 4\]'),
        ([2, 1, 3, -4], 'must have an area'),
        ([2, 1, math.nan, 4], 'must be four numbers'),
        ([2, 1, math.inf, 4], 'must be four numbers'),
        ([2, 1, 3], 'must be four numbers'),
        ('2134', 'must be four numbers'),
        (None, 'must be four numbers'),
    ],
)
def test_what_is_no_box_is_rejected(box, problem):
    with pytest.raises(ValueError, match=rf'bbox of a\.jpg {problem}'):
        crop(box)
    with pytest.raises(AnnotationError, match=rf'a\.json, entry 3: the box {problem}'):
        read_box(box, 'a.json, entry 3')


def test_only_boxes_without_area_can_be_dropped():
    assert read_box([2, 1, 0, 4], 'a.json', drop_degenerate=True) is None
    assert read_box([2, 1, 1, 4], 'a.json', drop_degenerate=True) == [2.0, 1.0, 1.0, 4.0]
    with pytest.raises(AnnotationError, match='must be four numbers'):
        read_box([2, 1, 0], 'a.json', drop_degenerate=True)


@pytest.mark.parametrize('box', [[8, 0, 2, 2], [0, 6, 2, 2], [-3, 0, 3, 2], [0, -9, 2, 2]])
def test_a_box_outside_of_the_image_is_rejected(box):
    with pytest.raises(ValueError, match=r'bbox of a\.jpg must lie in the image of 8 x 6 pixels'):
        crop(box)


def test_a_sample_without_a_box_is_rejected():
    with pytest.raises(ValueError, match=r"needs 'bbox' in the data info of each sample, got none for a\.jpg"):
        CropToBox()(dict(img=IMAGE, img_path='a.jpg'))


@pytest.mark.parametrize('margin', [-0.1, math.nan, math.inf])
def test_a_margin_must_be_a_fraction(margin):
    with pytest.raises(ValueError, match='margin must be a fraction of at least 0'):
        CropToBox(margin)


def test_it_builds_from_the_registry():
    assert repr(TRANSFORMS.build(dict(type='mmml_losses.CropToBox', margin=0.25))) == 'CropToBox(margin=0.25)'

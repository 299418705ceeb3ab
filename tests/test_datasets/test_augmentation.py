"""Test the augmentation of VOC-LT and COCO-LT: colours and crops."""

import colorsys

import numpy as np
import pytest

from mmml_losses.datasets import PhotometricDistortion, RandomSideCrop
from mmml_losses.registry import TRANSFORMS

IMAGE = np.random.RandomState(0).randint(0, 256, (6, 8, 3)).astype(np.uint8)
STILL = dict(brightness=0, contrast=(1, 1), saturation=(1, 1), hue=0)


@pytest.fixture
def coins(monkeypatch):
    """Return a function that decides the next coins; the order is brightness, contrast, its place, colours, swap."""

    def arrange(*faces):
        left = list(faces)
        monkeypatch.setattr(np.random, 'randint', lambda high: left.pop(0))

    return arrange


def distort(image=IMAGE, **changes):
    return PhotometricDistortion(**{**STILL, **changes})(dict(img=image))['img']


def test_nothing_happens_on_tails(coins):
    coins(0, 0, 0, 0, 0, 0)
    assert np.allclose(PhotometricDistortion()(dict(img=IMAGE))['img'], IMAGE, atol=1e-3)


def test_brightness_is_added_and_not_clipped(coins):
    for _ in range(20):
        coins(1, 0, 0, 0, 0, 0)
        grey = np.full((4, 4, 3), 250, np.uint8)
        found = distort(grey, brightness=32)
        assert found.dtype == np.float32
        assert np.ptp(found) < 1e-3
        assert 218 <= found.mean() <= 282


@pytest.mark.parametrize('place', [0, 1])
def test_contrast_is_a_factor_before_or_after_the_colours(coins, place):
    coins(0, 1, place, 0, 0, 0)
    assert np.allclose(distort(contrast=(1.5, 1.5)), IMAGE * 1.5, atol=1e-2)


def test_saturation_and_hue_are_those_of_another_implementation(coins):
    coins(0, 0, 0, 1, 1, 0)
    found = distort(saturation=(0.5, 0.5), hue=0)
    for (blue, green, red), pixel in zip(IMAGE.reshape(-1, 3) / 255, found.reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
        expected = colorsys.hsv_to_rgb(hue, saturation * 0.5, value)
        assert np.allclose(pixel[::-1] / 255, expected, atol=1e-4)
    for _ in range(50):
        coins(0, 0, 0, 0, 1, 0)
        found = distort(hue=18)
        for before, after in zip(IMAGE.reshape(-1, 3), found.reshape(-1, 3), strict=True):
            turned = colorsys.rgb_to_hsv(*after[::-1])[0] - colorsys.rgb_to_hsv(*map(float, before[::-1]))[0]
            assert abs((turned + 0.5) % 1 - 0.5) <= 18 / 360 + 1e-4


def test_channels_are_swapped(coins, monkeypatch):
    coins(0, 0, 0, 0, 0, 1)
    monkeypatch.setattr(np.random, 'permutation', lambda number: np.array([2, 0, 1]))
    assert np.allclose(distort(), IMAGE[..., [2, 0, 1]], atol=1e-3)


def test_each_change_comes_half_of_the_time_and_the_loaded_image_stays():
    np.random.seed(0)
    image = np.full((2, 2, 3), 100, np.uint8)  # grey: neither hue nor saturation nor swaps show
    changed = [not np.allclose(PhotometricDistortion()(dict(img=image))['img'], 100) for _ in range(400)]
    assert np.mean(changed) == pytest.approx(0.75, abs=0.08)  # brightness or contrast
    assert (image == 100).all()


def test_a_crop_keeps_at_least_the_fraction_of_each_side():
    np.random.seed(0)
    image = np.arange(100 * 150).reshape(100, 150)
    shapes, corners = [], []
    for _ in range(300):
        results = RandomSideCrop(0.8)(dict(img=image, img_shape=image.shape))
        crop = results['img']
        assert results['img_shape'] == crop.shape
        top, left = divmod(crop[0, 0], 150)
        assert np.array_equal(crop, image[top : top + crop.shape[0], left : left + crop.shape[1]])
        shapes.append(crop.shape)
        corners.append((top, left))
    heights, widths = np.array(shapes).T
    assert 79 <= heights.min() < 82
    assert 119 <= widths.min() < 123
    assert heights.max() > 97
    assert np.mean(heights) == pytest.approx(89.5, abs=1.5)
    assert np.mean(corners) > 1
    assert np.max(corners) > 15


def test_long_crops_are_drawn_again_and_a_long_image_stays():
    np.random.seed(0)
    crops = [RandomSideCrop(0.5)(dict(img=np.zeros((100, 150))))['img'].shape for _ in range(200)]
    assert all(max(rows / columns, columns / rows) <= 2.05 for rows, columns in crops)
    assert RandomSideCrop(0.8)(dict(img=np.zeros((10, 100))))['img'].shape == (10, 100)
    assert RandomSideCrop(0.1, max_ratio=100)(dict(img=np.zeros((1, 2))))['img'].size >= 1


@pytest.mark.parametrize(
    ('transform', 'message'),
    [
        (lambda: PhotometricDistortion(brightness=-1), 'brightness must be at least 0, got -1'),
        (
            lambda: PhotometricDistortion(contrast=(1.5, 0.5)),
            'contrast must be a smallest and a largest factor',
        ),
        (
            lambda: PhotometricDistortion()(dict(img=IMAGE[..., 0])),
            'img must have three channels',
        ),
        (lambda: RandomSideCrop(0), r'smallest must be in \(0, 1\], got 0'),
        (lambda: RandomSideCrop(max_ratio=0.5), 'max_ratio must be at least 1, got 0.5'),
    ],
)
def test_bad_settings_are_rejected(transform, message):
    with pytest.raises(ValueError, match=message):
        transform()


def test_both_are_registered_and_name_their_settings():
    for name in ('PhotometricDistortion', 'RandomSideCrop'):
        assert repr(TRANSFORMS.build(dict(type=name))).startswith(f'{name}(')

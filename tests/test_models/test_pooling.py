"""The neck that takes maxima."""

import pytest
import torch
from mmpretrain.registry import MODELS


def build():
    return MODELS.build(dict(type='mmml_losses.GlobalMaxPooling'))


def test_every_stage_is_its_maximum_over_the_image():
    maps = torch.arange(24.0).reshape(2, 3, 2, 2), -torch.arange(30.0).reshape(2, 1, 3, 5)
    first, second = build()(maps)
    assert first.tolist() == [[3, 7, 11], [15, 19, 23]]
    assert second.tolist() == [[0], [-15]]


def test_tokens_are_rejected():
    with pytest.raises(ValueError, match=r'feats must be maps of shape \(N, D, H, W\), got \(2, 5, 8\)'):
        build()((torch.zeros(2, 5, 8),))

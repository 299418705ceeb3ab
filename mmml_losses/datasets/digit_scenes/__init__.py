"""Scenes of handwritten digits: a multi-label dataset that needs no download."""

from .dataset import DigitScenes, make_digit_scenes
from .settings import SceneSettings

__all__ = ['DigitScenes', 'SceneSettings', 'make_digit_scenes']

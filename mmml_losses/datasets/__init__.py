"""Dataset readers."""

from .coco import CocoMultiLabel
from .digit_scenes import DigitScenes, make_digit_scenes
from .errors import AnnotationError, MissingDataError

__all__ = ['AnnotationError', 'CocoMultiLabel', 'DigitScenes', 'MissingDataError', 'make_digit_scenes']

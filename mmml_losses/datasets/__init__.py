"""Dataset readers."""

from .coco import CocoMultiLabel
from .digit_scenes import DigitScenes, make_digit_scenes
from .errors import AnnotationError, MissingDataError
from .relabelled import Relabelled

__all__ = ['AnnotationError', 'CocoMultiLabel', 'DigitScenes', 'MissingDataError', 'Relabelled', 'make_digit_scenes']

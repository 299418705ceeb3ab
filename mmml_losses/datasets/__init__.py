"""Dataset readers, label wrappers, transforms and the class-aware sampler."""

from .digit_scenes import DigitScenes, make_digit_scenes
from .errors import AnnotationError, MissingDataError
from .labels.reading import LabelChanges, read_label_changes, read_labels
from .readers.coco import CocoMultiLabel
from .readers.cub_attributes import CUBAttributes
from .readers.feature_dataset import FeatureDataset
from .readers.imagenet import ImageNetMultiLabel
from .readers.nus_wide import NUSWIDE
from .readers.open_images import OpenImages
from .readers.vaw import VAW
from .readers.vispr import VISPR
from .readers.voc import VOC
from .readers.vqa import VQASoftAnswers
from .readers.vqa_answers import make_answer_file, normalize_answer
from .readers.wider_attribute import WIDERAttribute
from .samplers import ClassAwareSampler
from .transforms.crop import CropToBox
from .transforms.views import PackViews
from .wrappers.label_wrapper import LabelWrapper
from .wrappers.long_tailed import LongTailed
from .wrappers.missing_boxes import MissingBoxes
from .wrappers.missing_labels import MissingLabels
from .wrappers.partial_labels import PartialLabels
from .wrappers.relabelled import Relabelled
from .wrappers.single_positive import SinglePositive
from .wrappers.stored_labels import StoredLabels

__all__ = [
    'NUSWIDE',
    'VAW',
    'VISPR',
    'VOC',
    'AnnotationError',
    'CUBAttributes',
    'ClassAwareSampler',
    'CocoMultiLabel',
    'CropToBox',
    'DigitScenes',
    'FeatureDataset',
    'ImageNetMultiLabel',
    'LabelChanges',
    'LabelWrapper',
    'LongTailed',
    'MissingBoxes',
    'MissingDataError',
    'MissingLabels',
    'OpenImages',
    'PackViews',
    'PartialLabels',
    'Relabelled',
    'SinglePositive',
    'StoredLabels',
    'VQASoftAnswers',
    'WIDERAttribute',
    'make_answer_file',
    'make_digit_scenes',
    'normalize_answer',
    'read_label_changes',
    'read_labels',
]

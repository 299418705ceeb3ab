"""Dataset readers, label wrappers, transforms and the class-aware sampler."""

from ..utils.errors import AnnotationError, MissingDataError
from .digit_scenes import DigitScenes, make_digit_scenes
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
from .readers.vqa import VQASoftAnswers, make_answer_file, normalize_answer
from .readers.wider_attribute import WIDERAttribute
from .samplers import ClassAwareSampler
from .transforms import CropToBox, PackViews, PhotometricDistortion, RandomSideCrop
from .wrappers.held_out import HeldOut
from .wrappers.label_wrapper import LabelWrapper
from .wrappers.long_tailed import LongTailed
from .wrappers.missing_boxes import MissingBoxes
from .wrappers.missing_labels import MissingLabels, PartialLabels, SinglePositive
from .wrappers.relabelled import Relabelled, StoredLabels

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
    'HeldOut',
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
    'PhotometricDistortion',
    'RandomSideCrop',
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

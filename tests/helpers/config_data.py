"""Folders of a few images, laid out as the configs expect the datasets below ``data``."""

from pathlib import Path

import cv2
import numpy as np

from mmml_losses.datasets.wrappers.long_tailed import load_split
from tests.helpers.published.imagenet import TRAIN as IMAGENET_IMAGES
from tests.helpers.published.imagenet import write_images
from tests.helpers.published.long_tailed import rows_with_frequencies, write_coco_images, write_voc_images

# Readers whose tests have the folder as a fixture of this name.
FIXTURES = {
    'data/VOCdevkit/VOC2007': 'voc_root',
    'data/VOCdevkit/VOC2012': 'voc_root',
    'data/CUB_200_2011': 'cub_root',
    'data/wider_attribute': 'wider_root',
    'data/vispr': 'vispr_root',
    'data/vaw': 'vaw_root',
}


def write_coco_folder(root: Path) -> None:
    """COCO 2014 with four images, and 2017 with those of COCO-LT, of which few are there."""
    rows = [[0, 1, 2], [7], [14, 21], [79]]
    for split in ('train2014', 'val2014'):
        write_coco_images(root, ['1', '2', '3', '4'], rows, split)
        for number in (2, 3):
            image = cv2.imread(str(root / split / f'{1:012}.jpg'))
            cv2.imwrite(str(root / split / f'{number:012}.jpg'), image)
    tail = load_split('coco-lt')
    write_coco_images(root, tail.ids, rows_with_frequencies(tail.class_frequencies, len(tail.ids)), 'train2017')
    write_coco_images(root, ['139', '285'], [[0], []], 'val2017')


def write_voc_lt(root: Path) -> None:
    """The published images of VOC-LT, and two of VOC 2007."""
    tail = load_split('voc-lt')
    write_voc_images(root / 'VOC2012', tail.ids, rows_with_frequencies(tail.class_frequencies, len(tail.ids)))
    write_voc_images(root / 'VOC2007', ['000001', '000002'], [[0], [1, 2]])


def write_open_images(root: Path, num_classes: int = 567) -> None:
    """One image for training and one for testing."""
    (root / 'classes_567.txt').parent.mkdir(parents=True)
    ids = [f'/m/0{number:04d}' for number in range(num_classes)]
    (root / 'classes_567.txt').write_text('\n'.join(ids) + '\n')
    names = ''.join(f'{identifier},class {identifier}\n' for identifier in ids)
    (root / 'oidv6-class-descriptions.csv').write_text('LabelName,DisplayName\n' + names)
    table = f'ImageID,Source,LabelName,Confidence\n000026e7ee790996,verification,{ids[-1]},1\n'
    for split, prefix in dict(train='oidv6-train', test='test').items():
        (root / f'{prefix}-annotations-human-imagelabels.csv').write_text(table)
        write_images(root / split, ['000026e7ee790996.jpg'])


def write_folders(root: Path) -> None:
    """A folder for each class, as ImageNet has them."""
    for split in ('train', 'val'):
        write_images(root / split, IMAGENET_IMAGES)


def write_features(file: Path, width: int, num_classes: int, soft: bool = False) -> None:
    """Features of eight samples, as ``tools/extract_features.py`` writes them; soft training labels where asked."""
    rng = np.random.RandomState(0)
    arrays = dict(classes=np.array([f'class {number}' for number in range(num_classes)]))
    for split in ('train', 'test'):
        labels = (rng.rand(8, num_classes) < 0.3).astype(np.float32)
        if soft and split == 'train':
            labels *= 0.3
        arrays |= {f'{split}_features': rng.randn(8, width).astype(np.float16), f'{split}_labels': labels}
    np.savez(file, **arrays)

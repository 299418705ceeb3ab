"""Folders of a few images in the layout that the configs expect below ``data``."""

import json
from pathlib import Path

import cv2
import numpy as np

from mmml_losses.datasets.readers.voc import VOC_CLASSES
from mmml_losses.datasets.wrappers.long_tailed import load_split
from mmml_losses.models.word_vectors import IN_WORDS
from tests.helpers.published.cub_attributes import write_cub
from tests.helpers.published.imagenet import TRAIN as IMAGENET_IMAGES
from tests.helpers.published.imagenet import write_images
from tests.helpers.published.long_tailed import rows_with_frequencies, write_coco_images, write_voc_images
from tests.helpers.published.nus_wide import write_nus, write_nus_table
from tests.helpers.published.transfer import write_transfer
from tests.helpers.published.vaw import write_vaw
from tests.helpers.published.vispr import write_vispr
from tests.helpers.published.voc import write_voc
from tests.helpers.published.wider_attribute import write_wider


def write_data(root: Path) -> None:
    """Write what the configs read below ``data``, in the same layout.

    VOC has two folders, with the images of VOC-LT in ``VOCdevkit`` and a few others in ``voc/VOCdevkit``; so has
    NUS-WIDE, with its csv file in ``nus_wide_table``. ``transfer`` has the datasets that MMPretrain reads.
    """
    write_coco_folder(root / 'coco')
    write_voc_lt(root / 'VOCdevkit')
    for year in (2007, 2012):
        folder = write_voc(root / 'voc' / 'VOCdevkit' / f'VOC{year}')
        lists = folder / 'ImageSets' / 'Main'
        (lists / 'test.txt').write_text((lists / 'val.txt').read_text())
    write_cub(root)
    write_nus(root / 'nus_wide')
    write_nus_table(root / 'nus_wide_table')
    write_open_images(root / 'open_images')
    write_vaw(root / 'vaw')
    write_vispr(root / 'vispr')
    write_wider(root / 'wider_attribute')
    for name in ('imagenet', 'aircraft'):
        for split in ('train', 'val'):
            write_images(root / name / split, IMAGENET_IMAGES)
    write_transfer(root / 'transfer')
    write_glove(root / 'glove.6B.300d.txt')
    write_features(root / 'features.npz', width=1280, num_classes=80)
    write_features(root / 'vqa_features.npz', width=768 + 2048, num_classes=3129, soft=True)
    write_vqa_answers(root / 'vqa' / 'v2_mscoco_val2014_annotations.json')


def write_coco_folder(root: Path) -> None:
    """Write COCO 2014 with four images, and the annotations of COCO-LT with a few images."""
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
    """Write the annotations of VOC-LT, and two images of VOC 2007."""
    tail = load_split('voc-lt')
    write_voc_images(root / 'VOC2012', tail.ids, rows_with_frequencies(tail.class_frequencies, len(tail.ids)))
    write_voc_images(root / 'VOC2007', ['000001', '000002'], [[0], [1, 2]])


def write_vqa_answers(file: Path) -> None:
    """Write the ten answers to eight questions of VQA v2."""
    answers = [dict(answer='class 0'), *[dict(answer='class 1')] * 9]
    file.parent.mkdir()
    file.write_text(json.dumps(dict(annotations=[dict(question_id=id, answers=answers) for id in range(8)])))


def write_glove(file: Path) -> None:
    """Write vectors of the words in the class names of VOC and of the generated COCO, in the format of GloVe."""
    names = [IN_WORDS.get(name, name) for name in VOC_CLASSES]
    words = ['class', *map(str, range(80)), *' '.join(names).split()]
    numbers = np.random.RandomState(0).randn(len(words), 300)
    file.write_text('\n'.join(f'{word} {" ".join(map(str, row))}' for word, row in zip(words, numbers, strict=True)))


def write_open_images(root: Path, num_classes: int = 567) -> None:
    """Write Open Images with one image for training and one for testing."""
    (root / 'classes_567.txt').parent.mkdir(parents=True)
    ids = [f'/m/0{number:04d}' for number in range(num_classes)]
    (root / 'classes_567.txt').write_text('\n'.join(ids) + '\n')
    names = ''.join(f'{identifier},class {identifier}\n' for identifier in ids)
    (root / 'oidv6-class-descriptions.csv').write_text('LabelName,DisplayName\n' + names)
    table = f'ImageID,Source,LabelName,Confidence\n000026e7ee790996,verification,{ids[-1]},1\n'
    for split, prefix in dict(train='oidv6-train', test='test').items():
        (root / f'{prefix}-annotations-human-imagelabels.csv').write_text(table)
        write_images(root / split, ['000026e7ee790996.jpg'])


def write_features(file: Path, width: int, num_classes: int, soft: bool = False) -> None:
    """Write features of eight samples as ``tools/extract_features.py`` does, with soft training labels if ``soft``."""
    rng = np.random.RandomState(0)
    arrays = dict(classes=np.array([f'class {number}' for number in range(num_classes)]))
    for split in ('train', 'test'):
        labels = (rng.rand(8, num_classes) < 0.3).astype(np.float32)
        if soft and split == 'train':
            labels *= 0.3
        arrays |= {f'{split}_features': rng.randn(8, width).astype(np.float16), f'{split}_labels': labels}
        arrays[f'{split}_ids'] = np.arange(8)
    np.savez(file, **arrays)

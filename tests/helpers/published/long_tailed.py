"""Folders of VOC and COCO with images of any number and labels."""

import json
from collections import Counter
from itertools import chain

import numpy as np
from PIL import Image

from mmml_losses.datasets.readers.voc import VOC_CLASSES


def rows_with_frequencies(frequencies, num_images):
    """Return rows of class indices with these class frequencies, at least one class in each row."""
    rows = [[] for _ in range(num_images)]
    position = 0
    for number, frequency in enumerate(frequencies):
        for _ in range(frequency):
            rows[position % num_images].append(number)
            position += 1
    assert all(rows)
    assert Counter(chain.from_iterable(rows)) == dict(enumerate(frequencies))
    return rows


def write_voc_images(folder, ids, rows):
    for name in ('ImageSets/Main', 'Annotations', 'JPEGImages'):
        (folder / name).mkdir(parents=True)
    for split in ('trainval', 'test'):
        (folder / 'ImageSets' / 'Main' / f'{split}.txt').write_text('\n'.join(ids))
    box = '<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>'
    for image_id, row in zip(ids, rows, strict=True):
        objects = ''.join(
            f'<object><name>{VOC_CLASSES[c]}</name><difficult>{c % 2}</difficult>{box}</object>' for c in row
        )
        (folder / 'Annotations' / f'{image_id}.xml').write_text(f'<annotation>{objects}</annotation>')
    # The only images that the tests open.
    for image_id in {ids[0], ids[-1]}:
        Image.fromarray(np.full((30, 40, 3), 100, dtype=np.uint8)).save(folder / 'JPEGImages' / f'{image_id}.jpg')


def write_coco_images(folder, ids, rows, split):
    (folder / 'annotations').mkdir(parents=True, exist_ok=True)
    (folder / split).mkdir()
    content = dict(
        images=[dict(id=int(each), file_name=f'{each:0>12}.jpg', height=30, width=40) for each in ids],
        annotations=[
            dict(id=number, image_id=int(each), category_id=c + 1, bbox=[0, 0, 9, 9], area=81, iscrowd=c % 2)
            for number, (each, c) in enumerate(
                ((each, c) for each, row in zip(ids, rows, strict=True) for c in row), start=1
            )
        ],
        categories=[dict(id=c + 1, name=f'class {c}') for c in range(80)],
    )
    (folder / 'annotations' / f'instances_{split}.json').write_text(json.dumps(content))
    for each in {ids[0], ids[-1]}:
        Image.fromarray(np.full((30, 40, 3), 100, dtype=np.uint8)).save(folder / split / f'{each:0>12}.jpg')

"""VISPR with four images, in its published format."""

import json
from pathlib import Path

import cv2
import numpy as np

# 68 attributes, whose ids have gaps.
IDS = ['a0_safe', 'a1_age_approx', 'a4_gender', *(f'a{number}_kind' for number in range(9, 74))]
LABELS = {
    'train2017': {'2017_10011466': ['a0_safe'], '2017_10038160': ['a4_gender', 'a9_kind', 'a1_age_approx']},
    'val2017': {'2017_22222222': ['a73_kind']},
    'test2017': {'2017_33333333': ['a0_safe']},
}


def write_vispr(root: Path) -> Path:
    for split, images in LABELS.items():
        for folder in ('annotations', 'images'):
            (root / folder / split).mkdir(parents=True)
        names = []
        for name, labels in images.items():
            entry = dict(id=name, image_path=f'images/{split}/{name}.jpg', labels=labels, safe=labels == ['a0_safe'])
            names.append(f'annotations/{split}/{name}.json')
            (root / names[-1]).write_text(json.dumps(entry, indent=2))
            cv2.imwrite(str(root / entry['image_path']), np.zeros((6, 8, 3), dtype=np.uint8))
        (root / f'{split}.txt').write_text('\n'.join(names) + '\n')
    rows = [f'{index}\t{name}\tgroup\tWhat "{name}" is, in words' for index, name in enumerate(IDS)]
    rows.reverse()  # the order is that of idx
    write_attributes(root / 'attributes.tsv', ['idx\tattribute_id\tgroup\tdescription', *rows])
    return root


def write_attributes(path: Path, lines: list[str]) -> None:
    """Write a table of attributes with the line ends of the release."""
    path.write_bytes('\r\n'.join([*lines, '']).encode())

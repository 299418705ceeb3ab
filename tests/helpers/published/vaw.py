"""VAW with four images, in its published format."""

import json
from pathlib import Path

import cv2
import numpy as np

NAMES = ['tiled', 'gray', 'light colored', *(f'attribute {number}' for number in range(3, 620))]


def instance(image_id: str, instance_id: str, positive=(), negative=(), **changes) -> dict:
    return {
        'image_id': image_id,
        'instance_id': instance_id,
        'instance_bbox': [1.0, 2.5, 4.166666666666664, 2.5],
        'instance_polygon': [[[1.5, 2.5], [4.0, 2.5], [4.0, 5.0]]],
        'object_name': 'floor',
        'positive_attributes': list(positive),
        'negative_attributes': list(negative),
    } | changes


FILES = {
    'train_part1.json': [
        instance('2373241', '2373241004', ['light colored', 'tiled'], ['gray', 'attribute 619']),
        instance('2373241', '2373241005', [], ['gray'], instance_polygon=None),
    ],
    'train_part2.json': [instance('1592', '1592001', ['attribute 7'])],
    'val.json': [instance('107', '107009', ['gray'])],
    'test.json': [instance('498335', '3798579', ['gray'], ['tiled'])],
}
FOLDERS = {'2373241': 'VG_100K', '1592': 'VG_100K_2', '107': 'VG_100K_2', '498335': 'VG_100K'}


def write_vaw(root: Path) -> Path:
    for image_id, folder in FOLDERS.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(root / folder / f'{image_id}.jpg'), np.zeros((6, 8, 3), dtype=np.uint8))
    for name, content in FILES.items():
        (root / name).write_text(json.dumps(content))
    # The file is sorted by the names, the classes by the indices.
    (root / 'attribute_index.json').write_text(json.dumps({name: NAMES.index(name) for name in sorted(NAMES)}))
    return root

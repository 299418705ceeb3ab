"""WIDER Attribute with two images, in its published format."""

import json
from pathlib import Path

import cv2
import numpy as np

ATTRIBUTES = (
    *('Male', 'longHair', 'sunglass', 'Hat', 'Tshirt', 'longSleeve', 'formal', 'shorts', 'jeans', 'longPants', 'skirt'),
    *('faceMask', 'logo', 'stripe'),
)
MALE, HAT = 0, 3
TRAINVAL = 'wider_attribute_annotation/wider_attribute_trainval.json'
TEST = 'wider_attribute_annotation/wider_attribute_test.json'
PARADE, FOOTBALL = 'train/0--Parade/0_Parade_marchingband_1_799.jpg', 'val/61--Football/61_Football_american_9_6.jpg'


def attributes(present=(), unspecified=()) -> list[int]:
    return [1 if i in present else 0 if i in unspecified else -1 for i in range(len(ATTRIBUTES))]


def content() -> dict:
    images = [
        dict(
            file_name=PARADE,
            scene_id=0,
            targets=[
                dict(bbox=[2.0, 1.0, 3.5, 4.0], attribute=attributes([MALE, HAT], [1, 13])),
                dict(bbox=[-1, 0, 5, 20.25], attribute=attributes([], [MALE])),  # leaves the image
            ],
        ),
        dict(file_name=FOOTBALL, scene_id=61, targets=[dict(bbox=[0, 0, 8, 6], attribute=attributes([MALE]))]),
    ]
    # The ids are text in json, so that 10 comes before 2 where they are sorted as such.
    names = {str(i): ATTRIBUTES[i] for i in sorted(range(len(ATTRIBUTES)), key=str)}
    return dict(images=images, attribute_id_map=names, scene_id_map={'0': 'Parade', '61': 'Football'})


def write_wider(root: Path) -> Path:
    (root / 'wider_attribute_annotation').mkdir(parents=True)
    person = dict(bbox=[0, 0, 8, 6], attribute=attributes([MALE], [HAT]))
    test = content() | dict(images=[dict(file_name='test/61--Football/1.jpg', scene_id=61, targets=[person])])
    for file, entries in ((TRAINVAL, content()), (TEST, test)):
        (root / file).write_text(json.dumps(entries))
        for image in entries['images']:
            path = root / 'Image' / image['file_name']
            path.parent.mkdir(parents=True)
            cv2.imwrite(str(path), np.full((6, 8, 3), 50, dtype=np.uint8))
    return root

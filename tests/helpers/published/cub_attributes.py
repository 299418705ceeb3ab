"""CUB-200-2011 with three images, in its published format."""

from pathlib import Path

import cv2
import numpy as np

NUM_ATTRIBUTES = 312
IMAGES = {
    1: '001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg',
    2: '001.Black_footed_Albatross/Black_Footed_Albatross_0009_34.jpg',
    3: '002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg',
}
TRAINING = (2, 3)
# The attributes of each image, and the certainties other than 4.
PRESENT = {1: [1, 312], 2: [2, 10, 150], 3: [5]}
CERTAINTY = {(2, 10): 2, (2, 150): 3, (2, 7): 1, (3, 5): 1}
LABELS = 'attributes/image_attribute_labels.txt'


def attribute_name(attribute: int) -> str:
    return 'has_bill_shape::curved_(up_or_down)' if attribute == 1 else f'has_part_{attribute}::colour_{attribute % 15}'


def label_line(image: int, attribute: int) -> str:
    # A few lines of the official file have two more columns.
    extra = '0 0 ' if (image, attribute) == (2, 150) else ''
    certainty = CERTAINTY.get((image, attribute), 4)
    return f'{image} {attribute} {int(attribute in PRESENT[image])} {certainty} {extra}27.7080\n'


def write_cub(folder: Path) -> Path:
    root = folder / 'CUB_200_2011'
    (root / 'attributes').mkdir(parents=True)
    for name in IMAGES.values():
        path = root / 'images' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.zeros((6, 8, 3), dtype=np.uint8))
    (root / 'images.txt').write_text(''.join(f'{key} {name}\n' for key, name in IMAGES.items()))
    (root / 'train_test_split.txt').write_text(''.join(f'{key} {int(key in TRAINING)}\n' for key in IMAGES))
    numbers = range(1, NUM_ATTRIBUTES + 1)
    # In the archive this file is next to the folder.
    (folder / 'attributes.txt').write_text(''.join(f'{number} {attribute_name(number)}\n' for number in numbers))
    (root / 'attributes' / 'certainties.txt').write_text('1 not visible\n2 guessing\n3 probably\n4 definitely\n')
    (root / LABELS).write_text(''.join(label_line(image, number) for image in IMAGES for number in numbers))
    return root

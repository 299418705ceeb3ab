"""NUS-WIDE with five images, in its official format and as the table of other authors."""

from pathlib import Path

import cv2
import numpy as np

from mmml_losses.datasets.readers.nus_wide import NUS_WIDE_CONCEPTS

TRAIN = {
    'actor\\0001_2124494179.jpg': ['sky', 'clouds'],
    'actor\\0002_174174086.jpg': [],
    'zoos\\0847_27671995.jpg': ['ocean'],
}
TEST = {'actor\\0003_215199422.jpg': ['sky'], 'zoos\\0848_1.jpg': ['clouds', 'ocean', 'sky']}
TABLE = """,filepath,label,split_name
0,images/0001_2124494179.jpg,"['sky', 'clouds']",train
1,images/0847_27671995.jpg,['ocean'],train
2,images/0003_215199422.jpg,"sky,clouds",val
"""


def write_official(root: Path, part: str, images: dict[str, list[str]]) -> None:
    """Write the official lists: image names with Windows line ends, and a file of zeros and ones for each concept."""
    (root / 'ImageList').mkdir(parents=True, exist_ok=True)
    (root / 'ImageList' / f'{part}Imagelist.txt').write_bytes(''.join(f'{name}\r\n' for name in images).encode())
    folder = root / 'Groundtruth' / 'TrainTestLabels'
    folder.mkdir(parents=True, exist_ok=True)
    for concept in NUS_WIDE_CONCEPTS:
        lines = [str(int(concept in concepts)) for concepts in images.values()]
        (folder / f'Labels_{concept}_{part}.txt').write_text('\n'.join(lines) + '\n')


def write_nus(root: Path) -> Path:
    write_official(root, 'Train', TRAIN)
    write_official(root, 'Test', TEST)
    for name in TRAIN | TEST:
        path = root / 'Flickr' / name.replace('\\', '/')
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.zeros((6, 8, 3), dtype=np.uint8))
    return root


def write_nus_table(root: Path) -> Path:
    (root / 'images').mkdir(parents=True)
    (root / 'nus_wid_data.csv').write_text(TABLE)
    for name in ('0001_2124494179', '0847_27671995', '0003_215199422'):
        cv2.imwrite(str(root / 'images' / f'{name}.jpg'), np.zeros((6, 8, 3), dtype=np.uint8))
    return root

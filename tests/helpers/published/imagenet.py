"""The training images of an ImageNet of three classes."""

from pathlib import Path

import cv2
import numpy as np

TENCH, BIRD, MACHINE = 'n01440764', 'n02012849', 'n03126707'
TRAIN = [
    f'{TENCH}/{TENCH}_10026.JPEG',
    f'{TENCH}/{TENCH}_9.JPEG',
    f'{BIRD}/{BIRD}_1.JPEG',
    f'{MACHINE}/{MACHINE}_2.JPEG',
]


def write_images(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), np.zeros((300, 260, 3), dtype=np.uint8))

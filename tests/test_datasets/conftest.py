"""Fixtures of the tests of datasets."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.helpers.published.coco import IMAGES, coco_content


@pytest.fixture
def coco_root(tmp_path: Path) -> Path:
    root = tmp_path / 'coco'
    (root / 'train').mkdir(parents=True)
    for image in IMAGES:
        cv2.imwrite(str(root / 'train' / image['file_name']), np.full((10, 12, 3), image['id'], dtype=np.uint8))
    (root / 'instances.json').write_text(json.dumps(coco_content()))
    return root

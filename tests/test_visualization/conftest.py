import numpy as np
import pytest
from PIL import Image

from mmml_losses.evaluation import Predictions


@pytest.fixture(scope='session')
def runs(tmp_path_factory):
    """Return two runs over the same twelve small images."""
    folder = tmp_path_factory.mktemp('images')
    rng = np.random.default_rng(0)
    labels = (rng.random((12, 4)) < 0.5).astype(np.int8)
    paths = []
    for index in range(12):
        path = folder / f'{index}.png'
        Image.fromarray(rng.integers(0, 255, (10, 8 + index, 3), dtype=np.uint8)).save(path)
        paths.append(str(path))
    names = ('cat', 'dog', '<i>bird</i>', '$fish$')
    return {
        name: Predictions(np.clip(0.5 * labels + 0.5 * rng.random((12, 4)), 0, 1), labels, names, paths)
        for name in ('first & best', '<script>alert(1)</script>')
    }

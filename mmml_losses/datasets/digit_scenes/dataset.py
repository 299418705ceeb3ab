"""The registered dataset of digit scenes."""

from __future__ import annotations

import os
from dataclasses import fields

from mmengine.dist import barrier

from ...registry import DATASETS
from ..readers.coco import CocoMultiLabel
from .files import ann_file, make_digit_scenes
from .settings import CLASSES, SPLITS, SceneSettings


@DATASETS.register_module()
class DigitScenes(CocoMultiLabel):
    """Scenes composed of scikit-learn's handwritten digits; the labels are the digits in the scene.

    With ``with_boxes=True`` detectors read the same files, and an item has a box for every digit.

    The files (images and COCO annotations) are made under ``data_root`` when the dataset is first loaded, within
    seconds and without any download. Train and test scenes never share a digit image. Both splits are made together,
    so datasets of the two splits take the same settings.

    Args:
        split: ``'train'`` or ``'test'``.
        data_root: Folder of the files. A folder made with other settings is refused.
        **kwargs: Settings of the scenes, see :class:`SceneSettings`, and arguments of :class:`CocoMultiLabel`.

    Example:
        >>> dataset = DigitScenes('train', data_root='data/few_scenes', num_train=100, num_test=50, seed=1)
        >>> len(dataset), dataset.CLASSES[3]
        (100, '3')
    """

    METAINFO = dict(classes=CLASSES)

    def __init__(self, split: str = 'train', data_root: str = 'data/digit_scenes', **kwargs):
        if split not in SPLITS:
            raise ValueError(f'split must be one of {SPLITS}, got {split!r}')
        names = [field.name for field in fields(SceneSettings)]
        self.settings = SceneSettings(**{name: kwargs.pop(name) for name in names if name in kwargs})
        super().__init__(ann_file=ann_file(split), data_root=data_root, data_prefix=split, **kwargs)

    def missing_files(self) -> list[str]:
        """Nothing: what is not there is made."""
        return []

    def load_data_list(self) -> list[dict]:
        """Make the files unless they are there, and read the annotations."""
        # One process of each machine writes while the others wait. If the launcher does not set the variable, all of
        # them write, and the first one wins.
        writes = os.environ.get('LOCAL_RANK', '0') == '0'
        if not writes:
            barrier()
        try:
            make_digit_scenes(self.data_root, **self.settings.as_dict())
        finally:
            # Also after an error, so that the others meet it themselves instead of waiting.
            if writes:
                barrier()
        return super().load_data_list()

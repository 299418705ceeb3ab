"""The dataset of digit scenes, and the images and COCO annotations that it writes."""

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

import cv2
from mmengine.dist import barrier
from mmengine.logging import print_log

from ...registry import DATASETS
from ...utils.arguments import check_choice
from ..readers.coco import CocoMultiLabel
from ..readers.reader import has_entries
from .generator import SceneGenerator
from .settings import CLASSES, SPLITS, SceneSettings

# Increases whenever the same settings give other files.
FORMAT = 1
ANN_FILE = 'annotations/instances_{}.json'
# A folder without any change for that long is of a process that ended.
ABANDONED_AFTER_SECONDS = 3600


@DATASETS.register_module()
class DigitScenes(CocoMultiLabel):
    """Images composed of scikit-learn's handwritten digits; the labels are the digits in the image.

    With ``with_boxes=True`` detectors can use it: an item then has a box for every digit. The files (images and COCO
    annotations) are made under ``data_root`` at the first loading, without a download. Train and test scenes share no
    digit image. Both splits are made together, so datasets of the two splits must have the same settings.

    Args:
        split: ``'train'`` or ``'test'``.
        data_root: Folder of the files. A folder made with other settings is rejected.
        **kwargs: Settings of the scenes, see :class:`SceneSettings`, and arguments of :class:`CocoMultiLabel`.

    Example:
        >>> dataset = DigitScenes('train', data_root='data/few_scenes', num_train=100, num_test=50, seed=1)
        >>> len(dataset), dataset.CLASSES[3]
        (100, '3')
    """

    METAINFO = dict(classes=CLASSES)

    def __init__(self, split: str = 'train', data_root: str = 'data/digit_scenes', **kwargs):
        check_choice('split', split, SPLITS)
        names = [field.name for field in fields(SceneSettings)]
        self.settings = SceneSettings(**{name: kwargs.pop(name) for name in names if name in kwargs})
        super().__init__(ann_file=ANN_FILE.format(split), data_root=data_root, data_prefix=split, **kwargs)

    def missing_files(self) -> list[str]:
        """Return an empty list, because the dataset makes missing files itself."""
        return []

    def load_data_list(self) -> list[dict]:
        """Make the files unless they exist; return the data infos, a list of dicts, from the annotations."""
        # One process of each machine writes while the others wait. If the launcher does not set the variable, all
        # processes write, and the first one wins.
        writes = os.environ.get('LOCAL_RANK', '0') == '0'
        if not writes:
            barrier()
        try:
            make_digit_scenes(self.data_root, **self.settings.as_dict())
        finally:
            # Also after an error: the others then raise it themselves instead of waiting.
            if writes:
                barrier()
        return super().load_data_list()


def make_digit_scenes(root: str | os.PathLike, **settings) -> Path:
    """Make the files of the digit scenes under ``root``, unless they exist already.

    The result is ``train/*.png``, ``test/*.png`` and ``annotations/instances_{train,test}.json`` with a box for every
    digit. They appear all at once: several processes may call this together, and an interrupted call leaves nothing.

    Args:
        root: Folder of the files.
        **settings: Arguments of :class:`SceneSettings`.

    Returns:
        ``root`` as a Path, with ``~`` expanded.

    Raises:
        FileExistsError: ``root`` holds something else, or scenes with other settings.
    """
    root = Path(root).expanduser()
    wanted = SceneSettings(**settings)
    _remove_abandoned(root)
    if not has_entries(root):
        count = wanted.num_train + wanted.num_test
        print_log(f'Writing {count} digit scenes to {root} ...', logger='current')
        start = time.perf_counter()
        with _appearing_at_once(root) as folder:
            for split in SPLITS:
                _write_split(folder, split, wanted)
        print_log(f'Wrote {count} digit scenes in {time.perf_counter() - start:.0f} s', logger='current')
    _reject_other_content(root, wanted)
    return root


def _write_split(folder: Path, split: str, settings: SceneSettings) -> None:
    generator = SceneGenerator(settings, split)
    images: list[dict] = []
    annotations: list[dict] = []
    (folder / split).mkdir()
    for number in range(1, getattr(settings, f'num_{split}') + 1):
        pixels, placed = generator.scene(number)
        name = f'{number:06d}.png'
        # Encoded and written separately: cv2.imwrite reports no full disk.
        (folder / split / name).write_bytes(cv2.imencode('.png', pixels)[1].tobytes())
        images.append(dict(id=number, file_name=name, height=settings.image_size, width=settings.image_size))
        for digit in placed:
            box = dict(bbox=[digit.x, digit.y, digit.width, digit.height], area=digit.width * digit.height, iscrowd=0)
            ids = dict(id=len(annotations) + 1, image_id=number, category_id=digit.digit + 1)
            annotations.append(dict(**ids, **box, source=digit.source))
    path = folder / ANN_FILE.format(split)
    path.parent.mkdir(exist_ok=True)
    description = "Scenes of scikit-learn's handwritten digits; 'source' is the number of the digit image there"
    content = dict(
        info=dict(description=description, format=FORMAT, split=split, settings=settings.as_dict()),
        images=images,
        annotations=annotations,
        categories=[dict(id=i, name=name, supercategory='digit') for i, name in enumerate(CLASSES, start=1)],
    )
    path.write_text(json.dumps(content))


@contextmanager
def _appearing_at_once(root: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill, then rename it to ``root``; delete it on an error or if ``root`` has files."""
    root.parent.mkdir(parents=True, exist_ok=True)
    folder = root.with_name(f'.{root.name}.{uuid.uuid4().hex}')
    folder.mkdir()
    try:
        yield folder
        if root.is_dir() and not has_entries(root):
            root.rmdir()
        folder.rename(root)
    except OSError:
        if not has_entries(root):
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    """Remove temporary folders next to ``root`` that ended processes left: those unchanged for an hour."""
    for folder in root.parent.glob(f'.{root.name}.{"[0-9a-f]" * 32}'):
        # The folder of a running process may be renamed at any time.
        with suppress(OSError):
            touched = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
            if time.time() - touched > ABANDONED_AFTER_SECONDS:
                shutil.rmtree(folder)


def _reject_other_content(root: Path, wanted: SceneSettings) -> None:
    advice = 'choose another data_root or delete the folder'
    for split in SPLITS:
        try:
            found = json.loads((root / ANN_FILE.format(split)).read_text())['info']
            settings, version = found['settings'], found['format']
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileExistsError(
                f'{root} does not hold digit scenes ({ANN_FILE.format(split)} is unfit): {advice}'
            ) from error
        if version != FORMAT:
            raise FileExistsError(f'{root} holds digit scenes of format {version}, not {FORMAT}: {advice}')
        asked = wanted.as_dict()
        others = [
            f'{name} is {settings.get(name)}, not {asked[name]}' for name in asked if settings.get(name) != asked[name]
        ]
        if others:
            raise FileExistsError(f'{root} holds digit scenes with other settings ({"; ".join(others)}): {advice}')

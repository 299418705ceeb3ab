"""Features on their way to a file: saved in parts, so that an interrupted extraction loses little."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from ..utils.errors import UsageError
from ..utils.files import replacing

PART_SIZE = 1024
FINGERPRINT_FILE = 'extraction.json'


class FeatureParts:
    """A folder beside the file to write, with the features so far.

    It can only go on with what it began with: another model, checkpoint, type or dataset is refused.

    Args:
        out: The ``.npz`` file to write in the end.
        fingerprint: What the features are made of, see :func:`mmml_losses.procedures.extract_features.fingerprint_of`.
        dtype: ``'float16'`` or ``'float32'``.
    """

    def __init__(self, out: Path, fingerprint: Mapping[str, str], dtype: str):
        self.out = out
        self.folder = out.with_name(f'{out.name}.parts')
        self.dtype = np.dtype(dtype)
        self._waiting: list[np.ndarray] = []
        self._counts: dict[str, int] = {}
        self._begin(dict(fingerprint))

    def count(self, split: str) -> int:
        """How many images of a split have features here."""
        if split not in self._counts:
            self._counts[split] = sum(_shape_of(file)[0] for file in self._files(split))
        return self._counts[split]

    def add(self, split: str, features: np.ndarray, last: bool) -> bool:
        """Take the features of the next images; save what has come together if it is enough, or the last.

        Args:
            split: Which images.
            features: (n, D).
            last: Whether no more follow.

        Returns:
            Whether it was saved.
        """
        with np.errstate(over='ignore'):  # told below
            features = features.astype(self.dtype)
        if not np.isfinite(features).all():
            hint = ': they may be too large for float16, try --dtype float32' if self.dtype == np.float16 else ''
            raise UsageError(f'the model gives features that are not finite{hint}')
        self._waiting.append(features)
        if not last and sum(map(len, self._waiting)) < PART_SIZE:
            return False
        part = np.concatenate(self._waiting)
        with (
            replacing(self.folder / f'{split}-{self.count(split):010d}.npy') as temporary,
            open(temporary, 'wb') as file,
        ):
            np.save(file, part, allow_pickle=False)
        self._counts[split] += len(part)
        self._waiting.clear()
        return True

    def join(self, splits: Mapping[str, Mapping[str, np.ndarray]], **others: np.ndarray) -> None:
        """Write the file, whole or not at all, and remove the parts. Only one part at a time is in memory.

        Args:
            splits: By name, the arrays that stand beside the features: ``labels`` becomes ``train_labels``.
            **others: Arrays of the whole file.
        """
        with replacing(self.out) as temporary, zipfile.ZipFile(temporary, 'w') as archive:
            for split, arrays in splits.items():
                with _member(archive, f'{split}_features') as member:
                    self._write_features(member, split)
                for name, array in arrays.items():
                    _write_array(archive, f'{split}_{name}', array)
            for name, array in others.items():
                _write_array(archive, name, array)
        shutil.rmtree(self.folder)

    def _begin(self, fingerprint: dict[str, str]) -> None:
        file = self.folder / FINGERPRINT_FILE
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(file) as temporary:
                temporary.write_text(json.dumps(fingerprint, indent=1), encoding='utf-8')
            return
        try:
            found = json.loads(file.read_text(encoding='utf-8'))
            different = [key for key in {**found, **fingerprint} if found.get(key) != fingerprint.get(key)]
        except (ValueError, TypeError, AttributeError):
            different = ['a file that cannot be read']
        if different:
            raise UsageError(
                f'{self.folder} holds the beginning of another extraction; it differs in: {", ".join(different)}. '
                'Delete the folder to start anew, or choose another --out'
            )

    def _files(self, split: str) -> list[Path]:
        """The parts of a split, up to the first that does not follow the one before."""
        files, count = [], 0
        while (file := self.folder / f'{split}-{count:010d}.npy').is_file():
            files.append(file)
            count += _shape_of(file)[0]
        return files

    def _write_features(self, member: IO[bytes], split: str) -> None:
        files = self._files(split)
        shapes = [_shape_of(file) for file in files]
        shape = (sum(count for count, _ in shapes), shapes[0][1])
        header = dict(descr=np.lib.format.dtype_to_descr(self.dtype), fortran_order=False, shape=shape)
        np.lib.format.write_array_header_1_0(member, header)
        for file in files:
            member.write(np.load(file, allow_pickle=False).tobytes())


def _shape_of(file: Path) -> tuple[int, int]:
    try:
        return np.load(file, mmap_mode='r', allow_pickle=False).shape
    except (ValueError, EOFError) as error:
        raise UsageError(
            f'{file} is damaged: {error}. Delete it, and the same command makes its features again'
        ) from None


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # Without the time of day: the same features make the same file.
    return archive.open(zipfile.ZipInfo(f'{name}.npy'), 'w', force_zip64=True)


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with _member(archive, name) as member:
        np.lib.format.write_array(member, np.ascontiguousarray(array) if array.ndim else array, allow_pickle=False)

"""Write files completely or not at all, and open arrays of an ``.npz`` file without reading all of it."""

import math
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from .errors import AnnotationError, MissingDataError

# Kinds of arrays: truth values, whole numbers, floats and text. Objects would need pickle.
KINDS = 'biufU'
# A compressed array above this size that shrank by more than this factor is treated as a zip bomb.
SUSPICIOUS_BYTES = 2**28
SUSPICIOUS_FACTOR = 100
LOCAL_HEADER = struct.Struct('<4s22xHH')


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; after the ``with`` block it replaces ``path``, or is deleted on failure.

    Other processes never see an incomplete ``path``, even if this process is killed.
    """
    temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class FeatureFile:
    """An ``.npz`` file whose arrays are opened one at a time, on request.

    Attributes:
        path: Absolute path of the file, a string.
        names: Names of the arrays as a list, in the order of the file.

    Raises:
        MissingDataError: The file does not exist.
        AnnotationError: The file is no ``.npz`` file, holds anything but arrays, or two arrays of one name.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = str(Path(path).absolute())
        if not Path(self.path).is_file():
            raise MissingDataError(f'feature file {self.path} does not exist', [self.path])
        with _clear_errors(self.path), zipfile.ZipFile(self.path) as archive:
            files = archive.namelist()
        self.names = [name.removesuffix('.npy') for name in files]
        odd = [name for name in files if not name.endswith('.npy')]
        if odd:
            raise AnnotationError(f'{self.path} must hold arrays alone, got {odd[0]!r}')
        if len(set(files)) < len(files):
            raise AnnotationError(f'{self.path} has several arrays of one name')

    def array(self, name: str) -> 'StoredArray':
        """Return the array ``name``; AnnotationError if absent, damaged, a zip bomb, or not of numbers or text."""
        if name not in self.names:
            raise AnnotationError(f'{self.path} has no array {name!r}, it has {", ".join(self.names) or "none"}')
        return StoredArray(self.path, name)


class StoredArray:
    """The array ``name`` of the ``.npz`` file ``path``, in the attribute ``values``: read-only, uses little memory.

    An uncompressed array (``numpy.savez``) is memory-mapped: its pages are read from the file on use, and processes
    share them. A compressed array (``numpy.savez_compressed``), or one in Fortran or foreign byte order, is read whole.
    A deep copy is the same object. A pickle holds no values: unpickling opens the file again, and raises an
    AnnotationError if the array has another shape or type by then.
    """

    def __init__(self, path: str, name: str):
        self.path = path
        self.name = name
        with _clear_errors(f'{path}, array {name!r}'), zipfile.ZipFile(path) as archive:
            self.values = _open(path, archive, archive.getinfo(f'{name}.npy'))
        self.values.flags.writeable = False

    def __deepcopy__(self, memo: dict) -> 'StoredArray':
        return self

    def __reduce__(self) -> tuple:
        return _open_again, (self.path, self.name, self.values.shape, self.values.dtype.str)


def _open_again(path: str, name: str, shape: tuple[int, ...], dtype: str) -> StoredArray:
    array = StoredArray(path, name)
    if (array.values.shape, array.values.dtype.str) != (shape, dtype):
        raise AnnotationError(f'{path}, array {name!r}: the file was replaced by another one while it was in use')
    return array


def _open(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    if info.flag_bits & 1:
        raise ValueError('it is encrypted')
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f'its compression {info.compress_type} is none that numpy uses')
    if info.file_size > max(SUSPICIOUS_BYTES, SUSPICIOUS_FACTOR * info.compress_size):
        raise ValueError(
            f'{info.compress_size} bytes claim to be {info.file_size}, which looks like a zip bomb: if it is none, '
            'store the array with numpy.savez, uncompressed'
        )
    with archive.open(info) as stream:
        shape, fortran_order, dtype = _read_header(stream)
        header_bytes = stream.tell()
        if math.prod(shape) * dtype.itemsize != info.file_size - header_bytes:
            raise ValueError(f'its shape {shape} and type {dtype} do not fit its {info.file_size} bytes')
        stored_plainly = info.compress_type == zipfile.ZIP_STORED and not fortran_order and dtype.isnative
        if stored_plainly and math.prod(shape) > 0:  # an empty array cannot be mapped
            start = _start_of(path, info) + header_bytes
            values = np.memmap(path, dtype=dtype, mode='r', offset=start, shape=shape).view(np.ndarray)
        else:
            values = _read(stream, shape, fortran_order, dtype)
    if dtype.kind == 'U' and (values.reshape(-1).view(np.uint32) > sys.maxunicode).any():
        raise ValueError('it holds text with characters that do not exist')
    return values


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f'its format version is {version}, expected 1.0 or 2.0')
    shape, fortran_order, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError('it holds Python objects, which only pickle could read: save numbers or text')
    if dtype.kind not in KINDS:
        raise ValueError(f'it must hold numbers or text, got the type {dtype}')
    if not dtype.itemsize:  # any number of them would fit a file
        raise ValueError(f'its type {dtype} has no size')
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f'its shape is {shape}')
    return shape, fortran_order, dtype


def _start_of(path: str, info: zipfile.ZipInfo) -> int:
    """Return the byte position in the zip file ``path`` where the content of ``info`` starts; ValueError if cut off."""
    with Path(path).open('rb') as file:
        file.seek(info.header_offset)
        _, name_bytes, extra_bytes = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    start = info.header_offset + LOCAL_HEADER.size + name_bytes + extra_bytes
    if start + info.file_size > Path(path).stat().st_size:
        raise ValueError('the file ends before it does')
    return start


def _read(stream: IO[bytes], shape: tuple[int, ...], fortran_order: bool, dtype: np.dtype) -> np.ndarray:
    values = np.empty(shape[::-1] if fortran_order else shape, dtype)
    buffer, filled = values.reshape(-1).view(np.uint8).data, 0
    while filled < len(buffer):
        # A ZipExtFile, which the stubs of zipfile declare as IO[bytes].
        count = stream.readinto(buffer[filled:])  # type: ignore[attr-defined]
        if not count:
            raise ValueError('the file ends before it does')
        filled += count
    stream.read(1)  # compares the checksum at the end of the content
    values = values.T if fortran_order else values
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder('=')).reshape(shape)


@contextmanager
def _clear_errors(subject: str) -> Iterator[None]:
    try:
        yield
    # RuntimeError and NotImplementedError: the file has a feature that zipfile does not support.
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, RuntimeError) as error:
        raise AnnotationError(f'{subject} cannot be read: {error}') from error

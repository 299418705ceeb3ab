"""Word vectors for the names of classes, from a file with a vector for each class or each word."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..utils.files import FeatureFile

# Separators of the words of a name: "traffic light", "hot-dog", "person/rider", "dining_table".
BETWEEN_WORDS = re.compile(r'[\W_]+')
# Class names of PASCAL VOC that run two words together.
IN_WORDS = dict(diningtable='dining table', pottedplant='potted plant', tvmonitor='tv monitor')


def load_word_vectors(
    path: str | Path, num_classes: int, class_names: Sequence[str] | str | Path | None = None
) -> Tensor:
    """Return a vector for each class, (C, D) float32, read from a file.

    If the file has a vector per word, a name is looked up as it is, then in lower case. If it has neither, the vector
    is the mean over the words of the name, parted at spaces and punctuation, and for "diningtable" and the like of VOC
    by a list. A missing word raises a ValueError.

    Args:
        path: ``.npy``: an array (C, D), a row per class. ``.npz``: an array ``vectors`` with a row per class or, if the
            file also has an array ``words``, a row per word. Other suffixes: GloVe's text format, in each line a word
            and its numbers, separated by spaces.
        num_classes: Number of classes C.
        class_names: Class names, or a text file with one per line; needed for a file with a vector per word.
    """
    file = _existing(path)
    if file.suffix == '.npy':
        return _check_vectors(_read_npy(file), num_classes, file)
    if file.suffix == '.npz':
        arrays = FeatureFile(file)
        vectors = np.array(arrays.array('vectors').values)
        if 'words' not in arrays.names:
            return _check_vectors(vectors, num_classes, file)
        names = _check_names(class_names, num_classes, file)
        by_word = _pair(arrays.array('words').values, vectors, file)
    else:
        names = _check_names(class_names, num_classes, file)
        by_word = _read_text(file, names)
    return _check_vectors(_vectors_of(names, by_word, file), num_classes, file)


def width_of_words(path: str | Path) -> int | None:
    """Return the length of the vectors in a file with a vector per word; None for a file with a vector per class."""
    file = _existing(path)
    if file.suffix == '.npy':
        return None
    if file.suffix == '.npz':
        arrays = FeatureFile(file)
        return arrays.array('vectors').values.shape[-1] if 'words' in arrays.names else None
    with file.open(encoding='utf-8', errors='replace') as lines:
        numbers = next(lines, '').split()[1:]
    return int(numbers[0]) if len(numbers) == 1 and numbers[0].isdigit() else len(numbers)


def _existing(path: str | Path) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(
            f'word_vectors must be a file, got {str(path)!r}, which does not exist: GloVe is at '
            'https://nlp.stanford.edu/projects/glove (glove.6B.zip), and None takes one-hot vectors'
        )
    return file


def _read_npy(file: Path) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f'word_vectors must be an array that reads without pickle, got {str(file)!r}: {error}'
        ) from None


def _pair(words: np.ndarray, vectors: np.ndarray, file: Path) -> dict[str, np.ndarray]:
    if words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise ValueError(
            f'word_vectors must have a row of vectors for each of words, got the shapes {vectors.shape} and '
            f'{words.shape} in {str(file)!r}'
        )
    return dict(zip(words.tolist(), vectors, strict=True))


def _read_text(file: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return a dict from word to vector, only for ``names`` and the words in them, as written and in lower case."""
    names = [*names, *(IN_WORDS[name.lower()] for name in names if name.lower() in IN_WORDS)]
    words = {word for name in names for word in (name, *BETWEEN_WORDS.split(name))}
    wanted = words | {word.lower() for word in words}
    found: dict[str, np.ndarray] = {}
    with file.open(encoding='utf-8', errors='replace') as lines:
        for number, line in enumerate(lines, start=1):
            word, _, numbers = line.rstrip().partition(' ')
            if word not in wanted or word in found:
                continue
            if number == 1 and word.isdigit() and numbers.isdigit():
                continue  # the header of word2vec and fastText: words and width
            try:
                found[word] = np.array(numbers.split(), dtype=np.float32)
            except ValueError:
                raise ValueError(
                    f'word_vectors must have a word and its numbers in each line, got {line[:50].rstrip()!r} in line '
                    f'{number} of {str(file)!r}'
                ) from None
    widths = {word: len(vector) for word, vector in found.items()}
    if len(set(widths.values())) > 1 or 0 in widths.values():
        raise ValueError(f'word_vectors must have equally many numbers for each word, got {widths} in {str(file)!r}')
    return found


def _vectors_of(names: Sequence[str], by_word: dict[str, np.ndarray], file: Path) -> np.ndarray:
    """Return an array (C, D) with a vector per name, looked up in ``by_word`` as in :func:`load_word_vectors`."""
    rows, missing = [], {}
    for name in names:
        text = IN_WORDS.get(name.lower(), name)
        words = [name] if {name, name.lower()} & by_word.keys() else list(filter(None, BETWEEN_WORDS.split(text)))
        found = [by_word.get(word, by_word.get(word.lower())) for word in words]
        vectors = [vector for vector in found if vector is not None]
        if vectors and len(vectors) == len(words):
            rows.append(np.mean(vectors, axis=0, dtype=np.float64))
        else:
            missing[name] = next((word for word, vector in zip(words, found, strict=True) if vector is None), name)
    if missing:
        listed = ', '.join(f'{word!r} of class {name!r}' for name, word in missing.items())
        raise ValueError(
            f'word_vectors must have every word of the class names, got none for {listed} in {str(file)!r}: give '
            'class_names in other words'
        )
    return np.stack(rows)


def _check_names(class_names: Sequence[str] | str | Path | None, num_classes: int, file: Path) -> Sequence[str]:
    if class_names is None:
        raise ValueError(f'class_names must be given to find words in {str(file)!r}, got None')
    if isinstance(class_names, (str, Path)):
        try:
            lines = Path(class_names).expanduser().read_text(encoding='utf-8').splitlines()
        except OSError as error:
            raise ValueError(f'class_names must be names or a readable file, got {class_names!r}: {error}') from None
        class_names = [line.strip() for line in lines if line.strip()]
    if len(class_names) != num_classes:
        raise ValueError(f'class_names must be one for each of the {num_classes} classes, got {len(class_names)}')
    return class_names


def _check_vectors(vectors: np.ndarray, num_classes: int, file: Path) -> Tensor:
    if vectors.ndim != 2 or len(vectors) != num_classes or not vectors.shape[1] or vectors.dtype.kind not in 'fiu':
        raise ValueError(
            f'word_vectors must be numbers of shape ({num_classes}, D), a row for each class, got {vectors.dtype} of '
            f'shape {vectors.shape} in {str(file)!r}'
        )
    if not np.isfinite(vectors).all():
        raise ValueError(f'word_vectors must be finite, got others in {str(file)!r}')
    return torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))

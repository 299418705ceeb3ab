"""Find the images that show some classes and do not show others, and compute the average precision of such queries."""

import operator
import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch

from ....utils import arrays
from ....utils.arguments import check_whole_number
from ....utils.arrays import ArrayLike, as_labels, as_labels_of
from ....utils.errors import did_you_mean
from ..predictions import Predictions

Scale = Literal['probability', 'logit']

QUERIES_AT_A_TIME = 64  # queries for which a relevant image is searched at a time


class Query(NamedTuple):
    """Query for images: indices of the classes to show (``positives``) and of the classes not to show (``negatives``).

    A query unpacks into arguments of functions: ``rank_images(probabilities, *query)``.
    """

    positives: tuple[int, ...]
    negatives: tuple[int, ...] = ()

    def describe(self, class_names: Sequence[str]) -> str:
        """Return the query as text, with the names of the classes, such as ``3 and 7, not 5``.

        :func:`parse_query` reads the text back, unless names are equal or one contains others (``black and white``).
        """
        wanted = ' and '.join(class_names[index] for index in self.positives)
        unwanted = ', '.join(f'not {class_names[index]}' for index in self.negatives)
        return ', '.join(part for part in (wanted, unwanted) if part)


def parse_query(text: str, class_names: Sequence[str]) -> Query:
    """Read a query such as ``'3, 7, -5'`` or ``'3 and 7, not 5'``; raise a ValueError if a class is unknown.

    Classes are separated by commas or ``and``. Each excluded class has its own ``-`` or ``not``. A class name may have
    all of these (``black and white``, ``salt, pepper``, ``-1``): the longest piece of text that is a class name is read
    as this class. Upper and lower case matter only where they distinguish two classes.

    Args:
        text: The query.
        class_names: Names of the classes in the order of the model's outputs.
    """
    parts = re.split(r'(,|(?<!\S)and(?=\s))', text, flags=re.IGNORECASE)  # pieces, with separators between them
    positives, negatives, first = list[int](), list[int](), 0
    while first < len(parts):
        # From the longest piece of text to the shortest: a name may contain separators.
        for end in range(len(parts), first, -2):
            piece = ''.join(parts[first:end]).strip()
            negated = re.fullmatch(r'(?:-|not\s)\s*(.+)', piece, flags=re.IGNORECASE | re.DOTALL)
            # First the whole piece, then what follows a 'not': a class may itself be called '-1' or 'not safe'.
            index, found = _index_of(piece, class_names, text), positives
            if index is None and negated:
                index, found = _index_of(negated[1], class_names, text), negatives
            if index is not None:
                found.append(index)
                break
        else:
            if piece:
                name = negated[1] if negated else piece
                more = f', … ({len(class_names)} in all)' if len(class_names) > 10 else ''
                hint = did_you_mean(name, class_names) or f'the classes are {", ".join(class_names[:10])}{more}'
                raise ValueError(f"query '{text}' names the unknown class '{name}': {hint}")
        first = end + 1
    if not positives and not negatives:
        raise ValueError(f"query must name at least one class, got '{text}'")
    for index in set(positives) & set(negatives):
        raise ValueError(f"query '{text}' both asks for the class '{class_names[index]}' and rules it out")
    return Query(tuple(dict.fromkeys(positives)), tuple(dict.fromkeys(negatives)))


class RetrievedImages(NamedTuple):
    """Images that answer a query, best first.

    Attributes:
        query: The query as class indices.
        indices: (n,) row indices of the images in the predictions, best first.
        scores: (n,) log-probability that each image answers the query; ``-inf`` where the probability is 0.
        image_paths: Files of the n images; empty when only a matrix was given.
    """

    query: Query
    indices: np.ndarray
    scores: np.ndarray
    image_paths: tuple[str, ...]


def query(
    text: str,
    predictions: Predictions | ArrayLike,
    class_names: Sequence[str] = (),
    top: int | None = None,
    *,
    scale: Scale = 'probability',
) -> RetrievedImages:
    """Rank images by how well they answer a query in words, best first; ties stay in the order of the images.

    Args:
        text: Query such as ``'cat, dog, -person'``; see :func:`parse_query`.
        predictions: Predictions with class names and image paths, or an (N, C) matrix of probabilities.
        class_names: Names of the classes; by default the names in the predictions, or the class indices.
        top: Number of images to return; None returns all.
        scale: ``'logit'`` if ``predictions`` hold log-odds instead of probabilities.

    Examples:
        >>> found = query('cat, -dog', [[0.9, 0.8], [0.7, 0.1]], ['cat', 'dog'])
        >>> found.indices.tolist(), found.scores.round(2).tolist()
        ([1, 0], [-0.46, -1.71])
    """
    names, paths = tuple(class_names), tuple[str, ...]()
    if isinstance(predictions, Predictions):
        names, paths = names or predictions.class_names, predictions.image_paths
        predictions = predictions.scores
    values = as_scores_on(scale, predictions)
    names = names or tuple(map(str, range(values.shape[1])))
    if len(names) != values.shape[1]:
        raise ValueError(f'class_names must have {values.shape[1]} entries, got {len(names)}')
    conditions = parse_query(text, names)
    indices = rank_images(values, *conditions, top=top, scale=scale)
    scores = retrieval_scores(values[indices], *conditions, scale=scale)
    return RetrievedImages(conditions, indices, scores, tuple(paths[index] for index in indices) if paths else ())


def retrieval_scores(
    probabilities: ArrayLike,
    positives: Collection[int],
    negatives: Collection[int] = (),
    *,
    scale: Scale = 'probability',
) -> np.ndarray:
    r"""Compute the (N,) log-probabilities that images answer a query, treating labels as independent.

    .. math::
        \log \prod_{i \in P} \eta_i \prod_{j \in N} (1 - \eta_j)
        = \sum_{i \in P} \log \eta_i + \sum_{j \in N} \log(1 - \eta_j)

    A product of small probabilities would be rounded to zero; a sum of logarithms is not.

    Args:
        probabilities: (N, C) predicted probabilities :math:`\eta` in [0, 1].
        positives: Indices of the classes :math:`P` that the image must show.
        negatives: Indices of the classes :math:`N` that the image must not show.
        scale: ``'logit'`` if ``probabilities`` holds log-odds.
    """
    values = as_scores_on(scale, probabilities)
    total = np.zeros(len(values))
    for is_asked, indices in zip((True, False), _checked(positives, negatives, values.shape[1]), strict=True):
        for index in indices:
            total += log_probability(values[:, index], is_asked, scale)
    return total


def rank_images(
    probabilities: ArrayLike,
    positives: Collection[int],
    negatives: Collection[int] = (),
    top: int | None = None,
    *,
    scale: Scale = 'probability',
) -> np.ndarray:
    """Rank the images by how well they answer a query, best first; ties stay in the order of the images.

    Return the row indices of the ``top`` images (None: all). :func:`retrieval_scores` explains the other arguments.
    """
    check_whole_number('top', 1 if top is None else top, 1)
    return np.argsort(-retrieval_scores(probabilities, positives, negatives, scale=scale), kind='stable')[:top]


def relevant_images(labels: ArrayLike, positives: Collection[int], negatives: Collection[int] = ()) -> np.ndarray:
    """Return an (N,) bool mask of the images labelled 1 for all ``positives`` and 0 for all ``negatives`` (indices)."""
    labels = as_labels(labels)
    if labels.ndim != 2:
        raise ValueError(f'labels must have the shape (samples, classes), got {labels.shape}')
    positives, negatives = _checked(positives, negatives, labels.shape[1])
    return (labels[:, positives] == 1).all(axis=1) & (labels[:, negatives] == 0).all(axis=1)


def _index_of(name: str, class_names: Sequence[str], text: str) -> int | None:
    """Return the index of class ``name``, or None; ignore case if none is equal. Several raise, quoting ``text``."""
    same = [index for index, known in enumerate(class_names) if known == name]
    found = same or [index for index, known in enumerate(class_names) if known.lower() == name.lower()]
    if len(found) > 1:
        classes = ' or '.join(f"{index} ('{class_names[index]}')" for index in found)
        raise ValueError(f"query '{text}' must name one class by '{name}', got several: {classes}")
    return found[0] if found else None


def _checked(positives: Collection[int], negatives: Collection[int], num_classes: int) -> list[list[int]]:
    checked = []
    for name, indices in (('positives', positives), ('negatives', negatives)):
        values = indices.tolist() if isinstance(indices, np.ndarray | torch.Tensor) else indices
        try:
            if any(isinstance(index, bool) for index in values):  # a mask, most likely
                raise TypeError
            checked.append(sorted({operator.index(index) for index in values}))
        except TypeError:
            raise ValueError(f'{name} must be a list of class indices, got {indices!r}') from None
        for index in checked[-1]:
            if not 0 <= index < num_classes:
                raise ValueError(f'{name} must be class indices from 0 to {num_classes - 1}, got {index}')
    if not any(checked):
        raise ValueError('positives and negatives must name at least one class, got none')
    if both := sorted(set(checked[0]) & set(checked[1])):
        raise ValueError(f'positives and negatives must not share classes, got {both} in both')
    return checked


class ConditionTable(NamedTuple):
    """Log-probability and truth of each condition of a query, for N images.

    A condition requires or excludes one of C classes: index ``c`` below C requires class ``c``, index ``C + c``
    excludes it. A query is an ascending array of conditions, so required classes come before excluded classes.

    An unknown label makes the log-probability NaN. No comparison ranks a sum with NaN, so a query leaves the image out.
    """

    log_scores: np.ndarray  # (2C, N) float64 log-probability of each condition
    satisfied: np.ndarray  # (2C, N) bool, true where the label is known to satisfy the condition
    starts: np.ndarray  # (C + 1,) index in ``images`` where the images of each class begin; the last one is the end
    images: np.ndarray  # indices of the images that show class 0, ascending, then of those that show class 1, ...

    @property
    def num_classes(self) -> int:
        return self.log_scores.shape[0] // 2


def condition_table(scores: ArrayLike, labels: ArrayLike, scale: Scale = 'probability') -> ConditionTable:
    """Compute the table of all conditions from (N, C) scores and labels; it takes 18 bytes for each (N, C) entry."""
    scores = as_scores_on(scale, scores)
    labels = as_labels_of(scores, labels, 'probabilities' if scale == 'probability' else 'logits')
    num_images, num_classes = scores.shape
    log_scores = np.empty((2 * num_classes, num_images))
    satisfied = np.empty(log_scores.shape, dtype=bool)
    for index in range(num_classes):
        for condition, is_required in ((index, True), (num_classes + index, False)):
            log_scores[condition] = log_probability(scores[:, index], is_required, scale)
            log_scores[condition, labels[:, index] < 0] = np.nan
            satisfied[condition] = labels[:, index] == is_required
    starts = np.cumsum([0, *satisfied[:num_classes].sum(axis=1)], dtype=np.int64)
    return ConditionTable(log_scores, satisfied, starts, np.nonzero(satisfied[:num_classes])[1].astype(np.int32))


def as_scores_on(scale: Scale, scores: ArrayLike) -> np.ndarray:
    """Return scores as a checked (N, C) array: in [0, 1] for ``'probability'``, not NaN for ``'logit'``; else raise."""
    if scale not in get_args(Scale):
        raise ValueError(f"scale must be 'probability' or 'logit', got {scale!r}")
    return arrays.as_probabilities(scores) if scale == 'probability' else arrays.as_scores(scores, 'logits')


def log_probability(scores: np.ndarray, is_required: bool, scale: Scale) -> np.ndarray:
    r"""Compute :math:`\log \eta` of a required class or :math:`\log(1 - \eta)` of an excluded class, in float64.

    From log-odds, they are exact in both tails, where the probability would have been rounded to 0 or 1.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if scale == 'logit':
        return -np.logaddexp(0, -scores if is_required else scores)
    with np.errstate(divide='ignore'):
        return np.log(scores) if is_required else np.log1p(-scores)


def evaluate(queries: np.ndarray, depth: int, table: ConditionTable) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate R queries, and each of them with every choice of 1 to ``depth`` more excluded classes.

    A row of ``queries`` has the conditions of a query; with a ``depth`` above 0 it excludes no class. Return (counts of
    queries with a relevant image, sums of their average precisions), both (R, depth + 1), by the number of added
    classes. :mod:`..kernels` has a compiled version, with the same result to the last bit.
    """
    counts, totals = np.zeros((len(queries), depth + 1), dtype=np.int64), np.zeros((len(queries), depth + 1))

    def visit(row: int, level: int, scores: np.ndarray, relevant: np.ndarray, first: int) -> None:
        counts[row, level] += 1
        totals[row, level] += _average_precision(scores, relevant)
        for condition in range(first, 2 * table.num_classes if level < depth else 0):
            # Without a relevant image here there is none for the queries with more conditions.
            remaining = relevant[table.satisfied[condition, relevant]]
            if remaining.size:
                visit(row, level + 1, scores + table.log_scores[condition], remaining, condition + 1)

    for row, conditions in enumerate(queries):
        relevant = table.images[table.starts[conditions[0]] : table.starts[conditions[0] + 1]]
        for condition in conditions[1:]:
            relevant = relevant[table.satisfied[condition, relevant]]
        if relevant.size:
            visit(row, 0, table.log_scores[conditions].sum(axis=0), relevant, table.num_classes)
    return counts, totals


def first_relevant(queries: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the lowest index of an image that satisfies each query (a row of conditions), as (R,); -1 without one.

    ``bits`` holds ``satisfied`` of a :class:`ConditionTable`, packed along the images by :func:`numpy.packbits`.
    """
    first = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), QUERIES_AT_A_TIME):
        block = queries[start : start + QUERIES_AT_A_TIME]
        met = np.bitwise_and.reduce(bits[block.T])
        place = (met != 0).argmax(axis=1)  # the first byte with a relevant image
        byte = np.take_along_axis(met, place[:, None], axis=1)
        image = 8 * place + np.unpackbits(byte, axis=1).argmax(axis=1)
        first[start : start + len(block)] = np.where(byte[:, 0], image, -1)
    return first


def _average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Compute average precision from (N,) scores and relevant indices; ties share a threshold, NaN is left out."""
    ranked = np.sort(scores[relevant])
    candidates = np.sort(scores[scores >= ranked[0]])  # images below the worst relevant one change nothing
    relevant_above = ranked.size - np.searchsorted(ranked, ranked)
    above = candidates.size - np.searchsorted(candidates, ranked)
    # From the best to the worst, one after the other, as the kernel adds; a plain sum would add in pairs.
    return float(np.cumsum((relevant_above / above)[::-1])[-1] / ranked.size)

"""Find the images that show some classes and not others, by the probability that a model gives to such a query."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import ArrayLike, as_labels
from ..predictions import Predictions
from .conditions import Scale, as_scores_on, log_probability


class Query(NamedTuple):
    """Classes that an image must show and classes that it must not show, as indices.

    Unpacks into the arguments of the functions below: ``rank_images(probabilities, *query)``.
    """

    positives: tuple[int, ...]
    negatives: tuple[int, ...] = ()

    def describe(self, class_names: Sequence[str]) -> str:
        """Write the query in words, such as ``3 and 7, not 5``; :func:`parse_query` reads it back."""
        wanted = ' and '.join(class_names[index] for index in self.positives)
        unwanted = ', '.join(f'not {class_names[index]}' for index in self.negatives)
        return ', '.join(part for part in (wanted, unwanted) if part)


def parse_query(text: str, class_names: Sequence[str]) -> Query:
    """Read a query such as ``'3, 7, -5'`` or ``'3 and 7, not 5'``.

    Conditions are separated by commas or ``and``; each one that is ruled out carries its own ``-`` or ``not``.
    Upper and lower case do not matter.

    Args:
        text: The query.
        class_names: Names of the classes in the order of the model's outputs.
    """
    index_of = {name.lower(): index for index, name in enumerate(class_names)}
    positives, negatives = [], []
    for condition in _split_conditions(text, index_of):
        # The whole condition first: a class may itself be called '-1' or 'not safe'.
        name, group = condition, positives
        negated = re.fullmatch(r'(?:-|not\s)\s*(.+)', condition, flags=re.IGNORECASE)
        if condition.lower() not in index_of and negated:
            name, group = negated[1], negatives
        if name.lower() not in index_of:
            raise ValueError(f"query '{text}' names the unknown class '{name}': {_hint(name, class_names)}")
        group.append(index_of[name.lower()])
    query = Query(tuple(dict.fromkeys(positives)), tuple(dict.fromkeys(negatives)))
    if not positives and not negatives:
        raise ValueError(f"query must name at least one class, got '{text}'")
    for index in set(positives) & set(negatives):
        raise ValueError(f"query '{text}' both asks for the class '{class_names[index]}' and rules it out")
    return query


class RetrievedImages(NamedTuple):
    """Images that answer a query, best first.

    Attributes:
        query: The query as class indices.
        indices: Which images, as rows of the predictions.
        scores: Log-probability that each one answers the query; ``-inf`` where the model holds it impossible.
        image_paths: Their files; empty when only probabilities were given.
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
    """Find the images that answer a query in words, best first; ties stay in the order of the images.

    Args:
        text: Such as ``'cat, dog, -person'``; see :func:`parse_query`.
        predictions: Predictions with class names and image paths, or an (N, C) matrix of probabilities.
        class_names: Names of the classes; those of the predictions, or their indices, by default.
        top: How many to return; all by default.
        scale: ``'logit'`` if the matrix holds log-odds.

    Examples:
        >>> found = query('cat, -dog', [[0.9, 0.8], [0.7, 0.1]], ['cat', 'dog'])
        >>> found.indices.tolist(), found.scores.round(2).tolist()
        ([1, 0], [-0.46, -1.71])
    """
    is_named = isinstance(predictions, Predictions)
    values = as_scores_on(scale, predictions.scores if is_named else predictions)
    names = tuple(class_names) or (predictions.class_names if is_named else tuple(map(str, range(values.shape[1]))))
    if len(names) != values.shape[1]:
        raise ValueError(f'class_names must have {values.shape[1]} entries, got {len(names)}')
    conditions = parse_query(text, names)
    indices = rank_images(values, *conditions, top=top, scale=scale)
    scores = retrieval_scores(values[indices], *conditions, scale=scale)
    paths = tuple(predictions.image_paths[index] for index in indices) if is_named else ()
    return RetrievedImages(conditions, indices, scores, paths)


def retrieval_scores(
    probabilities: ArrayLike,
    positives: Collection[int],
    negatives: Collection[int] = (),
    *,
    scale: Scale = 'probability',
) -> np.ndarray:
    r"""Log-probability that each image answers a query, its labels taken as independent.

    .. math::
        \log \prod_{i \in P} \eta_i \prod_{j \in N} (1 - \eta_j)
        = \sum_{i \in P} \log \eta_i + \sum_{j \in N} \log(1 - \eta_j)

    Sums of logarithms keep apart what a product of small probabilities would round to zero.

    Args:
        probabilities: (N, C) predicted probabilities :math:`\eta` in [0, 1].
        positives: Indices of the classes that the image must show.
        negatives: Indices of the classes that it must not show.
        scale: ``'logit'`` if ``probabilities`` holds log-odds.

    Returns:
        (N,) float64 scores; ``-inf`` for an image that the model holds impossible.
    """
    values = as_scores_on(scale, probabilities)
    positives, negatives = _checked_conditions(positives, negatives, values.shape[1])
    total = np.zeros(len(values))
    for is_asked, indices in ((True, positives), (False, negatives)):
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
    """Indices of the images that answer a query best, best first; ties stay in the order of the images.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        positives: Indices of the classes that the image must show.
        negatives: Indices of the classes that it must not show.
        top: How many to return; all by default.
        scale: ``'logit'`` if ``probabilities`` holds log-odds.
    """
    if top is not None and top < 1:
        raise ValueError(f'top must be at least 1, got {top}')
    scores = retrieval_scores(probabilities, positives, negatives, scale=scale)
    return np.argsort(-scores, kind='stable')[:top]


def relevant_images(labels: ArrayLike, positives: Collection[int], negatives: Collection[int] = ()) -> np.ndarray:
    """Whether the labels of each image are known to answer a query, as an (N,) bool array."""
    labels = as_labels(labels)
    if labels.ndim != 2:
        raise ValueError(f'labels must have the shape (samples, classes), got {labels.shape}')
    positives, negatives = _checked_conditions(positives, negatives, labels.shape[1])
    return (labels[:, positives] == 1).all(axis=1) & (labels[:, negatives] == 0).all(axis=1)


def _split_conditions(text: str, known_names: Collection[str]) -> list[str]:
    """Split at commas, then at ``and`` unless the piece is the name of a class (``black and white``)."""
    conditions = []
    for piece in (piece.strip() for piece in text.split(',')):
        parts = [piece] if piece.lower() in known_names else re.split(r'(?:^|\s+)and\s+', piece, flags=re.IGNORECASE)
        conditions += [part.strip() for part in parts if part.strip()]
    return conditions


def _hint(name: str, class_names: Sequence[str]) -> str:
    by_lower_name = {known.lower(): known for known in class_names}
    near = difflib.get_close_matches(name.lower(), by_lower_name, n=3, cutoff=0.5)
    if near:
        return 'did you mean ' + ' or '.join(f"'{by_lower_name[match]}'" for match in near) + '?'
    shown = ', '.join(class_names[:10])
    return f'the classes are {shown}' + (f', … ({len(class_names)} in all)' if len(class_names) > 10 else '')


def _checked_conditions(
    positives: Collection[int], negatives: Collection[int], num_classes: int
) -> tuple[list[int], list[int]]:
    if not positives and not negatives:
        raise ValueError('positives and negatives must name at least one class, got none')
    for name, indices in (('positives', positives), ('negatives', negatives)):
        for index in indices:
            if not 0 <= index < num_classes:
                raise ValueError(f'{name} must be class indices from 0 to {num_classes - 1}, got {index}')
    both = sorted(set(positives) & set(negatives))
    if both:
        raise ValueError(f'positives and negatives must not share classes, got {both} in both')
    return sorted(set(positives)), sorted(set(negatives))

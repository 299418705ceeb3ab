"""Find the images that show some classes and not others, by the probability that a model gives to such a query."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from .arrays import ArrayLike, as_labels, as_probabilities


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


def retrieval_scores(
    probabilities: ArrayLike, positives: Collection[int], negatives: Collection[int] = ()
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

    Returns:
        (N,) float64 scores; ``-inf`` for an image that the model holds impossible.
    """
    probabilities = as_probabilities(probabilities)
    positives, negatives = _checked_conditions(positives, negatives, probabilities.shape[1])
    with np.errstate(divide='ignore'):
        present = np.log(probabilities[:, positives].astype(np.float64)).sum(axis=1)
        absent = np.log1p(-probabilities[:, negatives].astype(np.float64)).sum(axis=1)
    return present + absent


def rank_images(
    probabilities: ArrayLike, positives: Collection[int], negatives: Collection[int] = (), top: int | None = None
) -> np.ndarray:
    """Indices of the images that answer a query best, best first; ties stay in the order of the images.

    Args:
        probabilities: (N, C) predicted probabilities in [0, 1].
        positives: Indices of the classes that the image must show.
        negatives: Indices of the classes that it must not show.
        top: How many to return; all by default.
    """
    scores = retrieval_scores(probabilities, positives, negatives)
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

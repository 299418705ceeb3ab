"""One way to evaluate queries, compiled where numba is installed and plain where it is not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from . import plain
from .conditions import ConditionTable
from .space import Subtree


class Engine:
    """Evaluates queries over one table of conditions; safe to use from several threads.

    Args:
        table: Scores and labels of the images.
        max_conditions: Largest number of conditions of a query.
        use_numba: Whether to use the compiled kernels; where numba is installed by default. Both ways give the same
            numbers to the last bit.
    """

    def __init__(self, table: ConditionTable, max_conditions: int, use_numba: bool | None = None):
        self.table = table
        self.max_conditions = max_conditions
        if use_numba and find_spec('numba') is None:
            raise ValueError('use_numba must be False or None where numba is not installed, got True')
        self._kernels = None
        if use_numba or (use_numba is None and find_spec('numba') is not None):
            self._kernels = _import_kernels(required=bool(use_numba))

    def evaluate_subtrees(self, parts: Sequence[Subtree]) -> np.ndarray:
        """Sum up subtrees of queries by the numbers of positives and negatives.

        Returns:
            (max_conditions + 1, max_conditions + 1, 3) array: for each (:math:`|P|`, :math:`|N|`) the number of
            queries, how many of them have a relevant image, and the sum of their average precisions.
        """
        sums = np.zeros((self.max_conditions + 1, self.max_conditions + 1, 3))
        extra = self._memory()
        module = self._kernels or plain
        num_classes = self.table.num_classes
        for part in parts:
            conditions = np.array([*part.positives, *(num_classes + index for index in part.negatives)], np.int64)
            counts, totals = module.evaluate_subtree(conditions, part.first_class, part.depth, self.table, *extra)
            lengths = slice(len(part.negatives), len(part.negatives) + part.depth + 1)
            sums[len(part.positives), lengths] += np.stack([part.num_queries(num_classes), counts, totals], axis=1)
        return sums

    def evaluate_queries(self, queries: np.ndarray) -> np.ndarray:
        """Average precision of each row of conditions, padded with -1; NaN without a relevant image."""
        return (self._kernels or plain).evaluate_queries(queries, self.table, *self._memory())

    def first_relevant(self, queries: np.ndarray) -> np.ndarray:
        """Index of the first image that is relevant to each row of conditions; -1 if there is none."""
        return (self._kernels or plain).first_relevant(queries, self.table)

    def _memory(self) -> tuple:
        if self._kernels is None:
            return ()
        return (self._kernels.workspace(self.max_conditions, self.table.num_images),)


def _import_kernels(required: bool) -> ModuleType | None:
    try:
        from . import kernels
    except ImportError as error:  # numba refuses a numpy that is newer than it knows
        if required:
            raise
        warnings.warn(f'numba is installed and cannot be imported, so retrieval is slower: {error}', stacklevel=2)
        return None
    return kernels

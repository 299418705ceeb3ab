"""One way to evaluate queries, compiled where numba is installed and plain where it is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..positive_ranks import has_numba, import_compiled
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
        if use_numba and not has_numba():
            raise ValueError('use_numba must be False or None where numba is not installed, got True')
        self._kernels = None
        if use_numba is None or use_numba:
            self._kernels = import_compiled(f'{__package__}.kernels', 'retrieval', required=bool(use_numba))

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

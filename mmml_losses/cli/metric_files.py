"""The figures of an evaluation as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mmengine
from mmengine.evaluator import Evaluator

from ..evaluation.metrics.base import finite_or_none
from ..evaluation.metrics.evaluator import MultiLabelEvaluator, details_of
from ..utils.files import replacing


def save_metrics(path: str | Path, metrics: Mapping[str, float], evaluator: Evaluator) -> None:
    """Write figures, and under ``details`` what else their metrics found, whole or not at all.

    Args:
        path: Ends in ``.json``, where NaN and infinity become null, in ``.yaml`` or in ``.pkl``.
        metrics: The figures by name.
        evaluator: What they come from.
    """
    path = Path(path)
    details = evaluator.details() if isinstance(evaluator, MultiLabelEvaluator) else details_of(evaluator.metrics)
    found = {**metrics, 'details': details} if details else dict(metrics)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        mmengine.dump(
            finite_or_none(found) if path.suffix == '.json' else found, temporary, file_format=path.suffix[1:]
        )

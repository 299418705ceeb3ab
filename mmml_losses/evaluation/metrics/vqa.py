"""Accuracy of answers to the questions of VQA v2 as an MMEngine metric."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric

from ...registry import METRICS
from ...utils.answers import answer_score, normalize_answer
from ...utils.errors import AnnotationError, MissingDataError
from .base import class_names_of


@METRICS.register_module()
class VQAAccuracy(BaseMetric):
    r"""Accuracy of answers as VQA v2 defines it, in percent.

    It is the mean over questions of

    .. math::
        \frac{1}{10} \sum_{k=1}^{10} \min\Big(\frac{n_k}{3},\, 1\Big)

    with :math:`n_k` the number of people other than the k-th, of the ten who were asked, who gave the answer with the
    highest score. Answers are compared after :func:`mmml_losses.datasets.normalize_answer`, and people's answers
    outside of the model's classes count, too: no model with these classes can get them right.

    Data samples have ``pred_score`` (C,) and the id of their question as ``question_id`` or, from a feature file, as
    ``img_id``. The class names of the dataset are the answers.

    Args:
        ann_file: The official annotation file, such as ``v2_mscoco_val2014_annotations.json``.
        prefix: Prefix of the metric name; ``vqa`` by default.
    """

    default_prefix = 'vqa'

    def __init__(self, ann_file: str | os.PathLike, prefix: str | None = None):
        super().__init__(prefix=prefix)
        self.ann_file = os.fspath(ann_file)
        if not Path(self.ann_file).expanduser().is_file():
            raise MissingDataError(f'VQAAccuracy needs the annotation file {self.ann_file}', [self.ann_file])
        self._answers: dict[int, Counter] | None = None

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the id of each question and the class with the highest score; ``data_batch`` is not used."""
        for sample in data_samples:
            question_id = sample.get('question_id', sample.get('img_id'))
            if question_id is None:
                raise ValueError(
                    f'data samples must hold question_id or img_id for {type(self).__name__}, got {sorted(sample)}'
                )
            self.results.append((int(question_id), int(torch.as_tensor(sample['pred_score']).argmax())))

    def compute_metrics(self, results: list[tuple[int, int]]) -> dict[str, float]:
        """Return ``{'accuracy': percent}``; a sampler may repeat questions, each of which counts once."""
        self._answers = self._answers or read_answers(self.ann_file)
        names = [normalize_answer(name) for name in class_names_of(self.dataset_meta)]
        chosen = dict(results)
        unknown = [question_id for question_id in chosen if question_id not in self._answers]
        if unknown:
            raise AnnotationError(f'{self.ann_file} must answer all questions, got none for question_id {unknown[0]}')
        scores = [
            answer_score(count) if (count := self._answers[question_id][names[label]]) else 0.0
            for question_id, label in chosen.items()
        ]
        return dict(accuracy=100 * float(np.mean(scores)) if scores else float('nan'))


def read_answers(path: str | os.PathLike) -> dict[int, Counter]:
    """Return {question_id: number of people by normalised answer} of an annotation file of VQA v2."""
    try:
        entries = json.loads(Path(path).expanduser().read_text(encoding='utf-8'))['annotations']
        return {
            entry['question_id']: Counter(normalize_answer(each['answer']) for each in entry['answers'])
            for entry in entries
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnnotationError(f'{path} is no annotation file of VQA v2: {type(error).__name__} {error}') from error

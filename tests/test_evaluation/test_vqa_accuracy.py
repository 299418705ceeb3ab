"""Test the accuracy of VQA v2 against its definition, person by person."""

import json
from itertools import combinations

import numpy as np
import pytest
import torch

from mmml_losses.evaluation import VQAAccuracy
from mmml_losses.utils.errors import AnnotationError, MissingDataError

CLASSES = ('yes', 'no', '2', 'a dog')
ANSWERS = {
    11: ['yes'] * 10,
    12: ['no', 'No.', *['yes'] * 8],
    13: ['two'] * 3 + ['three'] * 7,
    14: ['dog', *['cat'] * 9],
    15: ['red'] * 10,
}


@pytest.fixture
def ann_file(tmp_path):
    entries = [
        dict(question_id=key, answers=[dict(answer=text, answer_id=number) for number, text in enumerate(texts, 1)])
        for key, texts in ANSWERS.items()
    ]
    path = tmp_path / 'v2_mscoco_val2014_annotations.json'
    path.write_text(json.dumps(dict(annotations=entries)))
    return path


def evaluate(ann_file, chosen: dict[int, int], key: str = 'question_id') -> float:
    metric = VQAAccuracy(ann_file)
    metric.dataset_meta = dict(classes=CLASSES)
    samples = [{key: question, 'pred_score': torch.eye(4)[label]} for question, label in chosen.items()]
    metric.process(None, samples)
    return metric.evaluate(len(samples))['vqa/accuracy']


def definition(people: list[bool]) -> float:
    """Return the mean over the ten choices of nine people of min(agreeing / 3, 1)."""
    return float(np.mean([min(sum(nine) / 3, 1) for nine in combinations(people, 9)]))


def test_the_accuracy_is_the_mean_over_the_choices_of_nine_people(ann_file):
    chosen = {11: 0, 12: 1, 13: 2, 14: 3, 15: 0}
    agreeing = [10, 2, 3, 1, 0]
    expected = [definition([number < count for number in range(10)]) for count in agreeing]
    assert expected == pytest.approx([1, 0.6, 0.9, 0.3, 0])
    for key in ('question_id', 'img_id'):
        assert evaluate(ann_file, chosen, key) == pytest.approx(100 * np.mean(expected))
    assert evaluate(ann_file, {12: 0}) == 100


def test_a_repeated_question_counts_once(ann_file):
    metric = VQAAccuracy(ann_file)
    metric.dataset_meta = dict(classes=CLASSES)
    samples = [dict(question_id=key, pred_score=torch.eye(4)[0]) for key in (11, 15, 15)]
    metric.process(None, samples)
    assert metric.evaluate(3)['vqa/accuracy'] == 50


def test_what_is_missing_is_named(ann_file, tmp_path):
    with pytest.raises(MissingDataError, match=r'VQAAccuracy needs the annotation file .*none\.json'):
        VQAAccuracy(tmp_path / 'none.json')
    with pytest.raises(AnnotationError, match='got none for question_id 99'):
        evaluate(ann_file, {99: 0})
    with pytest.raises(ValueError, match='must hold question_id or img_id for VQAAccuracy'):
        evaluate(ann_file, {11: 0}, 'sample_idx')
    ann_file.write_text('{}')
    with pytest.raises(AnnotationError, match='is no annotation file of VQA v2'):
        evaluate(ann_file, {11: 0})

"""MultiLabelAP and MultiLabelF1 over the functions they report."""

import json

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS as ROOT_METRICS
from mmengine.structures import BaseDataElement

from mmml_losses.evaluation import (
    MultiLabelAP,
    MultiLabelEvaluator,
    MultiLabelF1,
    average_precision,
    best_threshold,
    f1_scores,
    mean_average_precision,
    micro_average_precision,
    midpoint_threshold,
)
from mmml_losses.evaluation.metrics import base

NUM_SAMPLES, NUM_CLASSES = 29, 6
NAMES = ('cat', 'dog', 'bird', 'fish', 'cow', 'ant')
FREQUENCIES = [500, 100, 60, 20, 19, 3]


@pytest.fixture
def case():
    generator = torch.manual_seed(0)
    scores = torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator)
    labels = (torch.rand(scores.shape, generator=generator) < 0.4).long()
    labels[:2] = 0
    labels[:, 5] = 0
    labels[3, 3] = -1
    return scores, labels


@pytest.fixture
def messages(monkeypatch):
    found = []
    monkeypatch.setattr(base, 'print_log', lambda message, **kwargs: found.append(message))
    return found


def evaluate(metric, scores, labels, evaluator=Evaluator, **meta):
    evaluator = evaluator([metric])
    evaluator.dataset_meta = meta
    samples = [BaseDataElement(pred_score=score, gt_score=label) for score, label in zip(scores, labels, strict=True)]
    for start in range(0, len(samples), 8):
        evaluator.process(samples[start : start + 8])
    return evaluator.evaluate(len(samples))


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_every_item_of_average_precision(case, evaluator):
    scores, labels = case
    items = ['mAP@class', 'mAP@sample', 'AP@micro', 'AP', 'mAP@groups']
    metric = MultiLabelAP(items=items, class_frequencies=FREQUENCIES)
    found = evaluate(metric, scores, labels, evaluator, classes=NAMES)
    by_class = 100 * average_precision(scores, labels)
    expected = {
        'mAP@class': 100 * mean_average_precision(scores, labels).value,
        'mAP@sample': 100 * mean_average_precision(scores, labels, by='sample').value,
        'AP@micro': 100 * micro_average_precision(scores, labels),
        'mAP@head': by_class[:2].mean(),
        'mAP@medium': by_class[2:4].mean(),
        'mAP@tail': by_class[4],
        **{f'AP/{name}': value for name, value in zip(NAMES, by_class, strict=True)},
    }
    assert found == pytest.approx({f'multi-label/{name}': value for name, value in expected.items()}, nan_ok=True)
    assert all(type(value) is float for value in found.values())


def test_defaults_report_groups_when_they_are_given(case):
    assert set(evaluate(MultiLabelAP(), *case)) == {'multi-label/mAP@class', 'multi-label/mAP@sample'}
    found = evaluate(MultiLabelAP(groups={'pets': ['cat', 'dog'], 'last': [4, 5]}), *case, classes=NAMES)
    by_class = 100 * average_precision(*case)
    assert found['multi-label/mAP@pets'] == pytest.approx(by_class[:2].mean())
    assert found['multi-label/mAP@last'] == pytest.approx(by_class[4])


def test_frequencies_come_from_a_file_or_from_the_dataset(case, tmp_path):
    path = tmp_path / 'frequencies.json'
    path.write_text(json.dumps({'class_freq': FREQUENCIES}))
    given = evaluate(MultiLabelAP(class_frequencies=FREQUENCIES), *case)
    assert evaluate(MultiLabelAP(class_frequencies=str(path)), *case) == given
    of_dataset = MultiLabelAP(items=['mAP@class', 'mAP@sample', 'mAP@groups'])
    assert evaluate(of_dataset, *case, class_frequencies=FREQUENCIES) == given


def test_groups_without_frequencies_are_rejected_at_the_first_batch(case):
    metric = MultiLabelAP(items=['mAP@groups'])
    with pytest.raises(ValueError, match="class_frequencies or groups must be given for 'mAP@groups'"):
        metric.process(None, [{'pred_score': case[0][0], 'gt_score': case[1][0]}])
    metric = MultiLabelAP(class_frequencies=FREQUENCIES[:-1])
    with pytest.raises(ValueError, match='class_frequencies must have one entry for each of 6 classes, got 5'):
        metric.process(None, [{'pred_score': case[0][0], 'gt_score': case[1][0]}])
    metric = MultiLabelAP(groups={'rare': ['unicorn']})
    with pytest.raises(ValueError, match=r"groups\['rare'\] must hold .*, got 'unicorn'"):
        metric.process(None, [{'pred_score': case[0][0], 'gt_score': case[1][0]}])


@pytest.mark.parametrize('convention', ['exact', 'voc11', 'mmpretrain', 'asl'])
def test_conventions_reach_every_mean(case, convention):
    found = evaluate(MultiLabelAP(convention=convention), *case)
    for by in ('class', 'sample'):
        expected = mean_average_precision(*case, by=by, convention=convention).value
        assert found[f'multi-label/mAP@{by}'] == pytest.approx(100 * expected)


def test_empty_classes_are_counted_in_the_log_and_in_the_details(case, messages):
    metric = MultiLabelAP(items=['mAP@class', 'AP'], empty='zero')
    found = evaluate(metric, *case, classes=NAMES)
    expected = mean_average_precision(*case, empty='zero')
    assert found['multi-label/mAP@class'] == pytest.approx(100 * expected.value)
    assert found['multi-label/AP/ant'] == 0
    assert messages == ['MultiLabelAP: 1 of 6 classes have no positive label and count as 0']
    details = metric.details()['mAP@class']
    assert (details['num_averaged'], details['num_skipped'], details['num_empty']) == (6, 0, 1)
    json.dumps(details)
    skipping = MultiLabelAP()
    evaluate(skipping, *case)
    assert messages[1] == 'MultiLabelAP: 1 of 6 classes have no positive label and are left out'
    assert skipping.details()['mAP@sample']['num_skipped'] >= 2
    with pytest.raises(ValueError, match='1 of 6 classes have no positive label'):
        evaluate(MultiLabelAP(empty='error'), *case)


def test_a_mean_of_nothing_is_null_in_the_details(case):
    metric = MultiLabelAP()
    found = evaluate(metric, case[0], torch.zeros_like(case[1]))
    assert np.isnan(list(found.values())).all()
    details = json.loads(json.dumps(metric.details(), allow_nan=False))
    assert details['mAP@class'] == {'value': None, 'num_averaged': 0, 'num_skipped': NUM_CLASSES, 'num_empty': 6}


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_every_item_of_f1(case, evaluator):
    scores, labels = case
    items = ['CP', 'CR', 'CF1', 'OP', 'OR', 'OF1', 'macro-F1', 'F1', 'best-macro-F1', 'best-OF1']
    found = evaluate(MultiLabelF1(items=items, threshold=0.4), scores, labels, evaluator, classes=NAMES)
    result = f1_scores(scores, labels, threshold=0.4)
    pooled = best_threshold(scores, labels, average='pooled')
    expected = {
        'CP': 100 * result.cp,
        'CR': 100 * result.cr,
        'CF1': 100 * result.cf1,
        'OP': 100 * result.op,
        'OR': 100 * result.or_,
        'OF1': 100 * result.of1,
        'macro-F1': 100 * result.macro_f1,
        'best-macro-F1': 100 * best_threshold(scores, labels).f1.mean(),
        'best-OF1': 100 * pooled.f1,
        'best-threshold': pooled.threshold,
        **{f'F1/{name}': 100 * value for name, value in zip(NAMES, result.class_f1, strict=True)},
    }
    assert found == pytest.approx({f'multi-label/{name}': value for name, value in expected.items()})
    assert all(type(value) is float for value in found.values())


def test_f1_at_a_number_of_labels_carries_it_in_its_names(case):
    found = evaluate(MultiLabelF1(top_k=3), *case)
    assert set(found) == {f'multi-label/{name}@3' for name in ('CP', 'CR', 'CF1', 'macro-F1', 'OP', 'OR', 'OF1')}
    assert found['multi-label/OF1@3'] == pytest.approx(100 * f1_scores(*case, top_k=3).of1)


def test_f1_takes_a_threshold_for_each_class_from_a_config(case):
    thresholds = best_threshold(*case).threshold.tolist()
    metric = ROOT_METRICS.build({'type': 'mmml_losses.MultiLabelF1', 'items': ['macro-F1'], 'threshold': thresholds})
    expected = 100 * best_threshold(*case).f1.mean()
    assert evaluate(metric, *case) == pytest.approx({'multi-label/macro-F1': expected})


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_f1_at_the_midpoint_of_its_scores(case, evaluator, messages):
    scores, labels = 0.3 + 0.7 * case[0], case[1]
    found = evaluate(MultiLabelF1(threshold='midpoint'), scores, labels, evaluator)
    threshold = midpoint_threshold(scores, labels)
    result = f1_scores(scores, labels, threshold=threshold)
    assert found['multi-label/macro-F1'] == pytest.approx(100 * result.macro_f1)
    assert found['multi-label/OF1'] == pytest.approx(100 * result.of1)
    assert messages[0] == f'MultiLabelF1: the threshold (1 + lowest probability) / 2 is {threshold:.4f}'
    with pytest.raises(ValueError, match='must hold probabilities'):
        evaluate(MultiLabelF1(threshold='midpoint'), 9 * scores, labels, evaluator)


def test_f1_counts_what_its_means_hide(case, messages):
    scores, labels = case
    tied = torch.ones_like(scores)
    metric = MultiLabelF1(top_k=2, empty='skip')
    assert metric.details() == {}
    evaluate(metric, tied, labels)
    assert messages == [
        'MultiLabelF1: 1 of 6 classes have no positive label and are left out of the class means',
        f'MultiLabelF1: top-2 cuts through tied scores in {NUM_SAMPLES} samples',
    ]
    assert metric.details() == {'num_empty': 1, 'num_unpredicted': 4, 'num_ties_cut': NUM_SAMPLES}


def test_no_samples_give_a_defined_answer():
    assert np.isnan(list(MultiLabelAP(items=['mAP@class', 'mAP@sample', 'AP@micro']).evaluate(0).values())).all()
    assert np.isnan(list(MultiLabelF1(empty='skip').evaluate(0).values())[:2]).all()


@pytest.mark.parametrize(
    ('kind', 'arguments', 'message'),
    [
        (MultiLabelAP, {'items': ['mAP']}, r"items must be some of .*, got \['mAP'\]"),
        (MultiLabelAP, {'items': 'AP'}, "items must be some of .*, got 'AP'"),
        (MultiLabelAP, {'empty': 'one'}, "empty must be 'skip', 'zero', 'error' or None, got 'one'"),
        (MultiLabelAP, {'convention': 'coco'}, "convention must be one of .*, got 'coco'"),
        (MultiLabelAP, {'convention': 'asl', 'items': ['AP@micro']}, "items must not hold 'AP@micro'"),
        (MultiLabelAP, {'groups': {}, 'class_frequencies': [1]}, 'class_frequencies and groups must not both be given'),
        (MultiLabelAP, {'groups': {}, 'items': ['AP']}, "items must hold 'mAP@groups'"),
        (MultiLabelF1, {'items': ['F2']}, r"items must be some of .*, got \['F2'\]"),
        (MultiLabelF1, {'threshold': 0.5, 'top_k': 3}, 'threshold and top_k must not both be given'),
        (MultiLabelF1, {'top_k': 0}, 'top_k must be a whole number of at least 1, got 0'),
        (MultiLabelF1, {'empty': 'one'}, "empty must be 'skip', 'zero' or 'error', got 'one'"),
        (MultiLabelF1, {'threshold': 'abc'}, 'threshold must be numbers, got abc'),
        (MultiLabelF1, {'threshold': [0.5, float('nan')]}, r'threshold must be numbers, got \[0.5, nan\]'),
        (MultiLabelF1, {'threshold': [[0.5]]}, r'threshold must be one number or one for each .* the shape \(1, 1\)'),
    ],
)
def test_bad_arguments_are_rejected_before_the_run(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'top_k': 7}, 'top_k must be a whole number of at least 1 and at most the 6 classes, got 7'),
        (
            {'threshold': [0.5] * 5},
            r'threshold must be one number or one for each of 6 classes, got the shape \(5,\)',
        ),
    ],
)
def test_f1_that_does_not_fit_the_classes_is_rejected_with_the_first_batch(case, arguments, message):
    metric = MultiLabelF1(**arguments)
    with pytest.raises(ValueError, match=message):
        metric.process(None, [{'pred_score': case[0][0], 'gt_score': case[1][0]}])

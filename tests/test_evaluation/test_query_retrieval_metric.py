import json

import numpy as np
import pytest
import torch
from mmengine.registry import METRICS as ROOT_METRICS

from mmml_losses.evaluation import QueryRetrieval, query_retrieval
from mmml_losses.evaluation.metrics import base

NUM_SAMPLES, NUM_CLASSES = 40, 5


@pytest.fixture
def case():
    generator = torch.manual_seed(0)
    labels = (torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator) < 0.3).long()
    scores = (0.5 * torch.rand(labels.shape, generator=generator) + 0.3 * labels).float()
    labels[3, 3] = -1
    return scores, labels


@pytest.fixture
def messages(monkeypatch):
    found = []
    monkeypatch.setattr(base, 'print_log', lambda message, **kwargs: found.append(message))
    return found


def evaluate(metric, scores, labels):
    samples = [{'pred_score': score, 'gt_score': label} for score, label in zip(scores, labels, strict=True)]
    for start in range(0, len(samples), 7):
        metric.process(None, samples[start : start + 7])
    return metric.evaluate(len(samples))


def test_metric_equals_the_function_in_percent(case):
    expected = query_retrieval(*case, 3)
    metrics = evaluate(QueryRetrieval(max_conditions=3), *case)
    assert metrics == pytest.approx(
        {
            'multi-label/retrieval_mAP': 100 * expected.overall.value,
            **{f'multi-label/retrieval_mAP@{n}': 100 * mean.value for n, mean in expected.by_conditions.items()},
        }
    )
    assert all(type(value) is float for value in metrics.values())


def test_metric_of_positives_and_negatives_builds_from_the_root_registry(case):
    config = {'type': 'mmml_losses.QueryRetrieval', 'max_conditions': 2, 'items': ['counts'], 'prefix': 'val'}
    metric = ROOT_METRICS.build(config)
    expected = query_retrieval(*case, 2).by_counts
    assert evaluate(metric, *case) == pytest.approx(
        {f'val/retrieval_mAP@{p}P{n}N': 100 * mean.value for (p, n), mean in expected.items()}
    )


def test_sample_comes_with_its_interval(case):
    metric = QueryRetrieval(max_conditions=3, budget=50, sample_size=200, items=['overall'])
    metrics = evaluate(metric, *case)
    expected = query_retrieval(*case, 3, budget=50, sample_size=200).overall
    assert metrics == pytest.approx(
        {
            'multi-label/retrieval_mAP': 100 * expected.value,
            'multi-label/retrieval_mAP_half_width': 100 * expected.half_width,
        }
    )


def test_number_of_queries_is_logged_first_and_those_left_out_last(case, messages):
    scores, labels = case
    labels = labels.clone()
    labels[:, 0] = 0
    evaluate(QueryRetrieval(max_conditions=1), scores, labels)
    assert messages == [
        'QueryRetrieval: 5 queries over 40 images, by (positives, negatives) (1, 0): 5',
        'QueryRetrieval: 4 of them ask for classes that occur together and are evaluated',
        'QueryRetrieval: 1 queries have no relevant image and are left out',
    ]


def test_result_stays_for_plots_and_files(case):
    metric = QueryRetrieval(max_conditions=2)
    assert metric.result is None
    assert metric.details() == {}
    evaluate(metric, *case)
    assert metric.result == query_retrieval(*case, 2)
    details = json.loads(json.dumps(metric.details()))
    assert details['overall']['value'] == 100 * metric.result.overall.value
    assert details['overall']['num_queries'] == metric.result.overall.num_queries
    assert details['by_conditions']['2']['num_queries'] == metric.result.by_conditions[2].num_queries
    assert set(details['by_counts']) == {'1P0N', '1P1N', '2P0N'}
    assert details['exhaustive'] is True


def test_checkpoint_file_is_taken_with_a_warning(case, tmp_path):
    with pytest.warns(UserWarning, match='checkpoint_file is ignored') as caught:
        metric = QueryRetrieval(max_conditions=2, checkpoint_file=tmp_path / 'checkpoint.npz')
    assert len(caught) == 1
    evaluate(metric, *case)
    assert metric.result == query_retrieval(*case, 2)


def test_no_samples_give_nan_and_not_a_crash():
    assert np.isnan(list(QueryRetrieval().evaluate(0).values())).all()


def test_means_without_a_query_are_null_in_the_details(case):
    metric = QueryRetrieval(max_conditions=1)
    evaluate(metric, case[0], torch.zeros_like(case[1]))
    assert np.isnan(metric.result.overall.value)
    assert json.loads(json.dumps(metric.details(), allow_nan=False))['overall']['value'] is None


def test_raw_scores_are_rejected_with_the_first_batch():
    message = r'pred_score must hold probabilities in \[0, 1\] for QueryRetrieval, got -3'
    with pytest.raises(ValueError, match=message):
        QueryRetrieval().process(None, [{'pred_score': torch.tensor([5.0, -3.0]), 'gt_label': [0]}])


def test_bad_arguments_are_rejected_before_the_evaluation():
    with pytest.raises(ValueError, match=r"items must be some of .*, got \['mAP'\]"):
        QueryRetrieval(items=['mAP'])
    with pytest.raises(ValueError, match='max_conditions must be at least 1, got 0'):
        QueryRetrieval(max_conditions=0)
    with pytest.raises(ValueError, match=r'min_positives must be from 1 to max_conditions \(2\), got 3'):
        QueryRetrieval(max_conditions=2, min_positives=3)
    with pytest.raises(ValueError, match='budget must be at least 0, got -1'):
        QueryRetrieval(budget=-1)
    with pytest.raises(ValueError, match='sample_size must be at least 480, got 20'):
        QueryRetrieval(sample_size=20)

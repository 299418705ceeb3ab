import json

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS as ROOT_METRICS

from mmml_losses.evaluation import (
    CalibrationError,
    MultiLabelEvaluator,
    ReliabilityBins,
    brier_score,
    calibration_errors,
    calibration_intervals,
    calibration_line,
    class_brier_scores,
    class_calibration_errors,
    class_negative_log_likelihoods,
    class_reliability_bins,
    negative_log_likelihood,
    reliability_bins,
)
from mmml_losses.evaluation.metrics import base

NUM_SAMPLES = 60
NAMES = ('cat', 'dog', 'bird', 'fish')
ITEMS = ('ACE', 'MCE', 'ECE', 'Brier', 'NLL', 'slope', 'intercept')


@pytest.fixture
def case():
    generator = torch.manual_seed(0)
    scores = torch.rand(NUM_SAMPLES, len(NAMES), generator=generator)
    labels = (torch.rand(scores.shape, generator=generator) < 0.3 + 0.4 * scores).to(torch.int8)
    labels[torch.rand(scores.shape, generator=generator) < 0.1] = -1
    labels[:, 2] = -1
    return scores, labels


def evaluate(metric, scores, labels, evaluator=Evaluator):
    evaluator = evaluator([metric])
    evaluator.dataset_meta = {'classes': NAMES}
    for start in range(0, len(scores), 7):
        rows = slice(start, start + 7)
        evaluator.process(
            [{'pred_score': score, 'gt_score': label} for score, label in zip(scores[rows], labels[rows], strict=True)]
        )
    return evaluator.evaluate(len(scores))


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_pooled_items_equal_the_functions(case, evaluator):
    errors, line = calibration_errors(reliability_bins(*case, 5)), calibration_line(*case)
    assert evaluate(CalibrationError(5, items=ITEMS), *case, evaluator) == pytest.approx(
        {
            'multi-label/ACE': 100 * errors.ace,
            'multi-label/MCE': 100 * errors.mce,
            'multi-label/ECE': 100 * errors.ece,
            'multi-label/Brier': 100 * brier_score(*case),
            'multi-label/NLL': negative_log_likelihood(*case),
            'multi-label/slope': line.slope,
            'multi-label/intercept': line.intercept,
        }
    )


@pytest.mark.parametrize(('binning', 'ace'), [('width', 'all'), ('mass', 'non-empty'), ('mass', 'adaptive')])
def test_bins_and_ace_are_the_configs_choice(case, binning, ace):
    metric = ROOT_METRICS.build(
        {
            'type': 'mmml_losses.CalibrationError',
            'num_bins': 30,
            'binning': binning,
            'ace': ace,
            'per': ['pooled', 'class'],
        }
    )
    metrics = evaluate(metric, *case)
    pooled = calibration_errors(reliability_bins(*case, 30, binning), ace)
    by_class = class_calibration_errors(class_reliability_bins(*case, 30, binning), ace).mean
    assert metrics['multi-label/ACE'] == pytest.approx(100 * pooled.ace)
    assert metrics['multi-label/ACE@class'] == pytest.approx(100 * by_class.ace)
    assert metric.bins.binning == binning
    assert metric.details()['ace'] == ace


def test_class_wise_items_leave_out_classes_without_a_known_label(case, monkeypatch):
    messages = []
    monkeypatch.setattr(base, 'print_log', lambda message, **kwargs: messages.append(message))
    items = ('ACE', 'MCE', 'ECE', 'Brier', 'NLL')
    metric = CalibrationError(per=('class', 'each'), items=items)
    metrics = evaluate(metric, *case)
    errors = class_calibration_errors(class_reliability_bins(*case))
    values = {
        'ACE': 100 * errors.ace,
        'MCE': 100 * errors.mce,
        'ECE': 100 * errors.ece,
        'Brier': 100 * class_brier_scores(*case),
        'NLL': class_negative_log_likelihoods(*case),
    }
    expected = {f'multi-label/{item}@class': np.nanmean(array) for item, array in values.items()}
    for item, array in values.items():
        expected |= {f'multi-label/{item}/{name}': value for name, value in zip(NAMES, array, strict=True)}
    assert metrics == pytest.approx(expected, nan_ok=True)
    assert messages == ['CalibrationError: 1 of 4 classes have no known label and are left out']
    np.testing.assert_array_equal(metric.class_bins.counts, class_reliability_bins(*case).counts)


def test_intervals_are_reported_with_their_items(case):
    metrics = evaluate(CalibrationError(items=ITEMS, num_resamples=30, confidence=0.8, seed=5), *case)
    intervals = calibration_intervals(
        *case, measures=[item.lower() for item in ITEMS], num_resamples=30, confidence=0.8, seed=5
    )
    for item in ITEMS:
        unit = 100 if item in ('ACE', 'MCE', 'ECE', 'Brier') else 1
        names = [f'multi-label/{item}{suffix}' for suffix in ('', '_lower', '_upper')]
        np.testing.assert_allclose([metrics[name] for name in names], unit * np.array(intervals[item.lower()]))


def test_details_are_plain_and_hold_the_bins(case):
    metric = CalibrationError(per=('pooled', 'class'), items=ITEMS)
    assert metric.details() == {}
    evaluate(metric, *case)
    details = json.loads(json.dumps(metric.details(), allow_nan=False))
    np.testing.assert_array_equal(ReliabilityBins.from_dict(details['bins']).counts, metric.bins.counts)
    assert details['num_pairs'] == int((case[1] >= 0).sum())
    assert details['num_unknown'] == int((case[1] < 0).sum())
    assert details['num_classes_skipped'] == 1
    assert details['line'] == 'fitted'
    assert details['classes']['bird'] == dict.fromkeys(('ACE', 'MCE', 'ECE', 'Brier', 'NLL'))
    assert details['classes']['cat']['ECE'] > 0


def test_a_line_that_cannot_be_fitted_is_logged(monkeypatch):
    messages = []
    monkeypatch.setattr(base, 'print_log', lambda message, **kwargs: messages.append(message))
    scores, labels = torch.tensor([[0.1, 0.2, 0.8, 0.9]]), torch.tensor([[0, 0, 1, 1]])
    metrics = evaluate(CalibrationError(items=['slope', 'intercept']), scores, labels)
    assert metrics['multi-label/slope'] == np.inf
    assert messages == ['CalibrationError: no slope and intercept could be fitted: separable']


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
@pytest.mark.parametrize('score', [4.2, -0.1])
def test_raw_scores_are_rejected_with_the_first_batch(case, score, evaluator):
    scores, labels = case
    scores[0, 1] = score
    with pytest.raises(ValueError, match=r'pred_score must hold probabilities in \[0, 1\] .*: let the head turn its'):
        evaluator([CalibrationError()]).process([{'pred_score': scores[0], 'gt_score': labels[0]}])


def test_no_samples_give_nan():
    metric = CalibrationError(per=('pooled', 'class'), items=ITEMS, num_resamples=3)
    assert np.isnan(list(metric.evaluate(0).values())).all()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'num_bins': 0}, 'num_bins must be at least 1, got 0'),
        ({'binning': 'equal'}, r"binning must be one of .*, got 'equal'"),
        ({'ace': 'mean'}, r"ace must be one of .*, got 'mean'"),
        ({'ace': 'adaptive'}, r"ace='adaptive' must be read from bins made with binning='mass'"),
        ({'per': 'sample'}, r"per must be one or several of .*, got 'sample'"),
        ({'per': []}, r'per must be one or several of .*, got \[\]'),
        ({'items': ['AUC']}, r"items must be some of .*, got \['AUC'\]"),
        ({'items': 'ACE'}, r"items must be some of .*, got 'ACE'"),
        (
            {'items': ['slope'], 'per': 'class'},
            r"per must hold 'pooled' for slope, intercept and intervals, got 'class'",
        ),
        ({'num_resamples': -1}, 'num_resamples must be at least 1, got -1'),
        ({'num_resamples': 10, 'confidence': 95}, 'confidence must lie between 0 and 1, got 95'),
        ({'num_resamples': 10, 'seed': -1}, 'seed must be .*, got -1'),
        ({'seed': -1}, 'seed must be .*, got -1'),
    ],
)
def test_bad_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        CalibrationError(**arguments)

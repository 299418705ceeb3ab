"""Recovery of hidden labels: counts against a loop over all labels, and the conventions in small cases."""

import math

import numpy as np
import pytest
import torch

from mmml_losses.evaluation import (
    LabelRecovery,
    MissingLabelRecovery,
    SavePredictions,
    label_recovery,
    load_predictions,
)
from mmml_losses.evaluation.metrics.evaluator import MultiLabelEvaluator


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    true = rng.integers(-1, 2, (40, 6)).astype(np.int8)
    observed = np.where((true == 1) & (rng.random(true.shape) < 0.5), rng.integers(-1, 1, true.shape), true)
    corrected = np.where(rng.random(true.shape) < 0.3, rng.integers(-1, 2, true.shape), observed)
    return observed, true, corrected


def count_by_loop(observed, true, corrected):
    names = ('hidden', 'corrected', 'recovered', 'rejected', 'rejected_hidden')
    names += ('true_positives', 'false_positives', 'true_negatives', 'false_negatives', 'unknown')
    counts = {name: np.zeros(observed.shape[1], dtype=int) for name in names}
    for (_, label), truth in np.ndenumerate(true):
        given, after = observed[_, label], corrected[_, label]
        happened = []
        if truth == -1:
            happened = ['unknown']
        else:
            hidden = truth == 1 and given != 1
            if hidden:
                happened.append('hidden')
            if given != 1 and after == 1:
                happened += ['corrected', 'recovered'] if hidden else ['corrected']
            if given == 0 and after == -1:
                happened += ['rejected', 'rejected_hidden'] if hidden else ['rejected']
            if after >= 0:
                happened.append(('true_' if after == truth else 'false_') + ('positives' if after else 'negatives'))
        for name in happened:
            counts[name][label] += 1
    return counts


def test_counts_equal_a_loop_over_all_labels(case):
    found, expected = label_recovery(*case), count_by_loop(*case)
    np.testing.assert_equal(vars(found), expected)
    assert all(counts.any() for counts in expected.values())


def test_fractions_follow_from_the_counts(case):
    found, counts = label_recovery(*case), count_by_loop(*case)
    total = {name: values.sum() for name, values in counts.items()}
    assert found.precision == total['recovered'] / total['corrected']
    assert found.recall == total['recovered'] / total['hidden']
    positives, negatives = ((counts['true_' + name], counts['false_' + name]) for name in ('positives', 'negatives'))
    assert found.ppv == pytest.approx(np.mean(positives[0] / (positives[0] + positives[1])))
    assert found.npv == pytest.approx(np.mean(negatives[0] / (negatives[0] + negatives[1])))
    assert (found.num_hidden, found.num_corrected) == (total['hidden'], total['corrected'])
    assert (found.num_recovered, found.num_rejected) == (total['recovered'], total['rejected'])
    assert found.num_unknown == (case[1] == -1).sum()


def test_batches_add_up(case, monkeypatch):
    whole = label_recovery(*case)
    batches = [label_recovery(*(labels[start : start + 7] for labels in case)) for start in range(0, 40, 7)]
    np.testing.assert_equal(vars(sum(batches)), vars(whole))
    np.testing.assert_equal(vars(LabelRecovery.from_counts(whole.counts())), vars(whole))
    monkeypatch.setattr('mmml_losses.utils.arrays.BLOCK_ENTRIES', 20)
    np.testing.assert_equal(vars(label_recovery(*case)), vars(whole))
    with pytest.raises(ValueError, match='label recoveries must have as many classes, got 6, 2'):
        whole + LabelRecovery.empty(2)


@pytest.mark.parametrize('convert', [torch.from_numpy, np.ndarray.tolist, lambda labels: labels.astype(np.float64)])
def test_arrays_tensors_and_lists_are_taken_and_left_alone(case, convert):
    before = [labels.copy() for labels in case]
    found = label_recovery(*(convert(labels) for labels in case))
    np.testing.assert_equal(vars(found), vars(label_recovery(*case)))
    np.testing.assert_equal(list(case), before)


def test_conventions_in_one_row():
    #           kept  found  wrong  missed  rejected  unknown label found  unknown truth
    observed = [[1, 0, 0, 0, 0, -1, 0]]
    true = [[1, 1, 0, 1, 1, 1, -1]]
    corrected = [[1, 1, 1, 0, -1, 1, 1]]
    found = label_recovery(observed, true, corrected)
    assert (found.num_hidden, found.num_corrected, found.num_recovered) == (4, 3, 2)
    assert (found.num_rejected, found.num_unknown) == (1, 1)
    assert (found.precision, found.recall) == (2 / 3, 1 / 2)
    # Of the classes with a positive after the correction three are right; the only negative is wrong.
    assert (found.ppv, found.npv) == (3 / 4, 0)


def test_soft_labels_are_decided_by_the_threshold():
    observed, true, soft = [[0, 0, 0, 0]], [[1, 1, 0, 0]], [[0.9, 0.5, 0.51, -1]]
    assert label_recovery(observed, true, soft).corrected.tolist() == [1, 0, 1, 0]
    assert label_recovery(observed, true, soft, threshold=0.6).corrected.tolist() == [1, 0, 0, 0]
    assert label_recovery(observed, true, soft).num_rejected == 1


def test_nothing_to_count_is_nan():
    labels = np.zeros((0, 3))
    found = label_recovery(labels, labels, labels)
    assert all(map(math.isnan, (found.precision, found.recall, found.ppv, found.npv)))


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (([0, 1], [0, 1], [0, 1]), r'observed must have the shape \(samples, classes\), got \(2,\)'),
        (([[0, 1]], [[0]], [[0, 1]]), r'true must have the shape of observed \(1, 2\), got \(1, 1\)'),
        (([[0, 1]], [[0, 1]], [[0]]), r'corrected must have the shape of observed \(1, 2\), got \(1, 1\)'),
        (([[0, 2]], [[0, 1]], [[0, 1]]), r'observed must be 1 \(positive\)'),
        (([[0, 1]], [[0, 0.5]], [[0, 1]]), r'true must be 1 \(positive\)'),
        (([[0, 1]], [[0, 1]], [[0, 1.5]]), 'corrected must be 1, 0, -1 for undecided, or between 0 and 1, got 1.5'),
        (([[0, 1]], [[0, 1]], [[0, math.nan]]), 'corrected must be .*, got nan'),
        (([[0, 1]], [[0, 1]], [[0, 1]], 1.5), r'threshold must be in \[0, 1\], got 1.5'),
    ],
)
def test_bad_input_is_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        label_recovery(*arguments)


def samples_of(scores, observed, true=None):
    return [
        dict(pred_score=torch.tensor(score), gt_score=label, **({} if true is None else dict(true_label=true[row])))
        for row, (score, label) in enumerate(zip(scores, observed, strict=True))
    ]


def test_the_metric_judges_scores_above_the_threshold_in_percent(case, tmp_path):
    observed, true, _ = case
    scores = np.random.default_rng(1).random(true.shape).astype(np.float32)
    metric = MissingLabelRecovery(threshold=0.7)
    assert (metric.recovery, metric.details()) == (None, {})
    evaluator = MultiLabelEvaluator([metric, SavePredictions(tmp_path / 'predictions.npz')])
    evaluator.process(samples_of(scores, observed, true))
    metrics = evaluator.evaluate(len(true))
    expected = label_recovery(observed, true, scores > 0.7)
    assert metrics == {
        'missing-label/precision': 100 * expected.precision,
        'missing-label/recall': 100 * expected.recall,
        'missing-label/PPV': 100 * expected.ppv,
        'missing-label/NPV': 100 * expected.npv,
    }
    assert metric.details()['hidden'] == expected.hidden.tolist()
    np.testing.assert_array_equal(load_predictions(tmp_path / 'predictions.npz').true_labels, true)


def test_ppv_and_npv_of_a_fully_labelled_test_set_are_those_of_the_predictions(case):
    # As in Figure 2 of the LASD paper: TP / (TP + FP) and TN / (TN + FN) of each class, averaged.
    labels = case[1]
    scores = np.random.default_rng(1).random(labels.shape).astype(np.float32)
    metric = MissingLabelRecovery(threshold=0.5, fully_labelled=True)
    metric.process(None, samples_of(scores, labels))
    metrics = metric.evaluate(len(labels))
    ppvs, npvs = [], []
    for score, label in zip(scores.T, labels.T, strict=True):
        ppvs.append((label[(score > 0.5) & (label >= 0)] == 1).mean())
        npvs.append((label[(score <= 0.5) & (label >= 0)] == 0).mean())
    assert metrics['missing-label/PPV'] == pytest.approx(100 * np.mean(ppvs))
    assert metrics['missing-label/NPV'] == pytest.approx(100 * np.mean(npvs))
    assert metric.recovery.num_hidden == (labels == 1).sum()


def test_the_metric_requires_true_labels(case):
    scores = np.zeros(case[0].shape, dtype=np.float32)
    with pytest.raises(ValueError, match=r"hold true_label for MissingLabelRecovery, got \['gt_score', 'pred_score'\]"):
        MissingLabelRecovery().process(None, samples_of(scores, case[0]))
    with pytest.raises(ValueError, match=r'threshold must be in \[0, 1\], got 60'):
        MissingLabelRecovery(threshold=60)
    assert all(map(math.isnan, MissingLabelRecovery().evaluate(0).values()))


@pytest.mark.parametrize('fully_labelled', [False, True])
def test_the_metric_rejects_raw_scores_with_the_first_batch(fully_labelled):
    samples = samples_of([[5.0, -3.0]], [[0, 1]], np.array([[1, 1]]))
    message = r'pred_score must hold probabilities in \[0, 1\] for MissingLabelRecovery, got -3'
    with pytest.raises(ValueError, match=message):
        MissingLabelRecovery(fully_labelled=fully_labelled).process(None, samples)

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS as ROOT_METRICS
from mmengine.structures import BaseDataElement

from mmml_losses.evaluation import (
    CalibrationError,
    MultiLabelAP,
    SavePredictions,
    average_precision,
    calibration_errors,
    load_predictions,
    mean_average_precision,
    reliability_bins,
)
from mmml_losses.evaluation.metrics import base

NUM_SAMPLES, NUM_CLASSES = 23, 5


@pytest.fixture
def case():
    generator = torch.manual_seed(0)
    scores = torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator)
    labels = (torch.rand(scores.shape, generator=generator) < 0.3).long()
    labels[:2] = 0
    labels[:, 1] = 0
    labels[3, 3] = -1
    return scores, labels


def data_samples(scores, labels):
    """Samples as a model returns them; labels as indices where there is no unknown one."""
    samples = []
    for index, (score, label) in enumerate(zip(scores, labels, strict=True)):
        sample = BaseDataElement(metainfo={'sample_idx': index, 'img_path': f'images/{index}.jpg'}, pred_score=score)
        if (label < 0).any():
            sample.gt_score = label
        else:
            sample.gt_label = label.nonzero().flatten()
        samples.append(sample)
    return samples


def evaluate(metrics, scores, labels, size=NUM_SAMPLES, **meta):
    evaluator = Evaluator(metrics)
    evaluator.dataset_meta = meta
    samples = data_samples(scores, labels)
    for start in range(0, len(samples), 4):
        evaluator.process(samples[start : start + 4])
    return evaluator.evaluate(size)


def test_metrics_equal_the_functions_in_percent(case):
    scores, labels = case
    metrics = evaluate([MultiLabelAP(), CalibrationError(num_bins=5)], scores, labels)
    errors = calibration_errors(reliability_bins(scores, labels, num_bins=5))
    assert metrics == pytest.approx(
        {
            'multi-label/mAP@class': 100 * mean_average_precision(scores, labels).value,
            'multi-label/mAP@sample': 100 * mean_average_precision(scores, labels, by='sample').value,
            'multi-label/ACE': 100 * errors.ace,
            'multi-label/MCE': 100 * errors.mce,
            'multi-label/ECE': 100 * errors.ece,
        }
    )
    assert all(type(value) is float for value in metrics.values())


def test_metrics_build_from_the_root_registry_with_a_prefix(case):
    metric = ROOT_METRICS.build({'type': 'mmml_losses.MultiLabelAP', 'items': ['mAP@class'], 'prefix': 'val'})
    assert set(evaluate([metric], *case)) == {'val/mAP@class'}


def test_average_precision_of_each_class_carries_its_name(case):
    scores, labels = case
    names = ('cat', 'dog', 'bird', 'fish', 'cow')
    metrics = evaluate([MultiLabelAP(items=['AP'])], scores, labels, classes=names)
    expected = dict(
        zip([f'multi-label/AP/{name}' for name in names], 100 * average_precision(scores, labels), strict=True)
    )
    assert metrics == pytest.approx(expected, nan_ok=True)


def test_skipped_classes_and_missing_samples_are_logged(case, monkeypatch):
    messages = []
    monkeypatch.setattr(base, 'print_log', lambda message, **kwargs: messages.append(message))
    evaluate([MultiLabelAP()], *case, size=NUM_SAMPLES + 1)
    assert messages[0] == 'MultiLabelAP: saw 23 of 24 samples'
    assert messages[1] == 'MultiLabelAP: 1 of 5 classes have no positive label and are left out'
    assert messages[2].endswith('of 23 samples have no positive label and are left out')


def test_samples_beyond_the_dataset_are_dropped(case):
    scores, labels = case
    padded = evaluate([MultiLabelAP()], torch.cat([scores, scores[:3]]), torch.cat([labels, labels[:3]]))
    assert padded == evaluate([MultiLabelAP()], scores, labels)


def test_second_evaluation_starts_afresh(case):
    metric = MultiLabelAP()
    first = evaluate([metric], *case)
    assert evaluate([metric], *case) == first


def test_half_precision_scores_are_taken(case):
    scores, labels = case
    for dtype in (torch.float16, torch.bfloat16):
        metrics = evaluate([MultiLabelAP()], scores.to(dtype), labels)
        expected = 100 * mean_average_precision(scores.to(dtype), labels).value
        assert metrics['multi-label/mAP@class'] == pytest.approx(expected)


def test_five_bytes_are_kept_for_each_pair(case):
    metric = MultiLabelAP()
    metric.process(None, [sample.to_dict() for sample in data_samples(*case)])
    assert metric._collected.nbytes == NUM_SAMPLES * NUM_CLASSES * 5
    metric.evaluate(NUM_SAMPLES)
    assert metric._collected.nbytes == 0


def test_bins_stay_for_the_plot(case):
    metric = CalibrationError(num_bins=4)
    assert metric.bins is None
    evaluate([metric], *case)
    np.testing.assert_array_equal(metric.bins.counts, reliability_bins(*case, num_bins=4).counts)


def test_saved_predictions_hold_everything(case, tmp_path):
    scores, labels = case
    path = tmp_path / 'predictions.npz'
    names = ('cat', 'dog', 'bird', 'fish', 'cow')
    assert evaluate([SavePredictions(path)], scores, labels, classes=names) == {}
    saved = load_predictions(path)
    np.testing.assert_array_equal(saved.scores, scores)
    np.testing.assert_array_equal(saved.labels, labels)
    assert saved.class_names == names
    assert saved.image_paths == tuple(f'images/{index}.jpg' for index in range(NUM_SAMPLES))
    assert saved.sample_idx.tolist() == list(range(NUM_SAMPLES))


def test_samples_without_path_or_index_are_saved(tmp_path):
    metric = SavePredictions(str(tmp_path / 'predictions.npz'))
    metric.process(None, [{'pred_score': torch.rand(3), 'gt_label': torch.tensor([], dtype=torch.long)}] * 2)
    metric.evaluate(2)
    saved = load_predictions(tmp_path / 'predictions.npz')
    assert saved.image_paths == ('', '')
    assert saved.sample_idx.tolist() == [-1, -1]
    assert saved.true_labels is None


def test_true_labels_are_saved_where_samples_have_them(tmp_path):
    def samples(*true):
        known = [{} if row is None else {'true_label': np.array(row, dtype=np.int8)} for row in true]
        return [{'pred_score': torch.rand(2), 'gt_label': [0], **extra} for extra in known]

    metric = SavePredictions(tmp_path / 'predictions.npz')
    # None of a batch, all of a batch, some of a batch, and none again.
    for batch in ([None], [[1, 0], [0, -1]], [None, [1, 1]], [None]):
        metric.process(None, samples(*batch))
    metric.evaluate(6)
    true = load_predictions(tmp_path / 'predictions.npz').true_labels
    assert true.tolist() == [[-1, -1], [1, 0], [0, -1], [-1, -1], [1, 1], [-1, -1]]
    assert true.dtype == np.int8


def test_a_refused_batch_leaves_nothing_behind(case):
    metric = SavePredictions('unused.npz')
    samples = [sample.to_dict() for sample in data_samples(*case)]
    metric.process(None, samples[:2])
    with pytest.raises(ValueError, match=r'true_label must have the shape of pred_score \(5,\), got \(3,\)'):
        metric.process(None, [{**samples[2], 'true_label': torch.zeros(3)}])
    assert {len(store) for store in metric._collected._stores.values()} == {2}


def test_no_samples_give_nan_and_not_a_crash():
    metrics = {**MultiLabelAP().evaluate(0), **CalibrationError().evaluate(0)}
    assert np.isnan(list(metrics.values())).all()


@pytest.mark.parametrize(
    ('sample', 'message'),
    [
        ({'gt_score': torch.tensor([0.3, 1.0])}, r'gt_score must be 1 \(positive\), 0 \(negative\) or -1 \(unknown\)'),
        ({'gt_score': torch.zeros(3)}, r'gt_score must have the shape of pred_score \(2,\), got \(3,\)'),
        ({'gt_label': torch.tensor([0, 2])}, r'gt_label must be class indices from 0 to 1, got \[0, 2\]'),
        ({}, r"data samples must hold gt_score or gt_label, got \['pred_score'\]"),
    ],
)
def test_bad_labels_are_refused_at_once(sample, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelAP().process(None, [{'pred_score': torch.rand(2), **sample}])


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"items must be some of .*, got \['mAP'\]"):
        MultiLabelAP(items=['mAP'])
    with pytest.raises(ValueError, match='num_bins must be at least 1, got 0'):
        CalibrationError(num_bins=0)
    with pytest.raises(ValueError, match=r"out_file must end with '.npz', got 'predictions.pkl'"):
        SavePredictions('predictions.pkl')

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS as ROOT_METRICS
from mmengine.structures import BaseDataElement

from mmml_losses.evaluation import (
    CalibrationError,
    DetectionCalibrationError,
    MissingLabelRecovery,
    MultiLabelAP,
    MultiLabelEvaluator,
    MultiLabelF1,
    QueryRetrieval,
    SavePredictions,
    average_precision,
    calibration_errors,
    load_predictions,
    mean_average_precision,
    reliability_bins,
)
from mmml_losses.evaluation.metrics import base, gathering

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
    """Make samples as a model returns them; labels are indices if none is unknown."""
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


@pytest.mark.parametrize('block_bytes', [100, 1 << 20])
def test_samples_in_any_order_go_to_their_places_once(case, monkeypatch, tmp_path, block_bytes):
    monkeypatch.setattr(gathering, 'BLOCK_BYTES', block_bytes)
    monkeypatch.setattr(gathering, 'EXCHANGE_BYTES', 64)
    scores, labels = case
    order = torch.randperm(NUM_SAMPLES).repeat(2)[: NUM_SAMPLES + 5].tolist()
    order = order[-5:-2] + order  # repeats come before some that are seen once
    samples = data_samples(*case)
    evaluator = Evaluator([MultiLabelAP(), SavePredictions(tmp_path / 'predictions.npz')])
    for start in range(0, len(order), 4):
        evaluator.process([samples[index] for index in order[start : start + 4]])
    assert evaluator.evaluate(NUM_SAMPLES) == evaluate([MultiLabelAP()], scores, labels)
    saved = load_predictions(tmp_path / 'predictions.npz')
    np.testing.assert_array_equal(saved.scores, scores)
    np.testing.assert_array_equal(saved.labels, labels)
    assert saved.image_paths == tuple(f'images/{index}.jpg' for index in range(NUM_SAMPLES))
    assert saved.sample_idx.tolist() == list(range(NUM_SAMPLES))


def test_images_of_detections_count_once_too():
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    samples = [
        {
            'sample_idx': index,
            'pred_instances': {'bboxes': boxes, 'scores': torch.tensor([score]), 'labels': torch.tensor([0])},
            'gt_instances': {'bboxes': boxes, 'labels': torch.tensor([index % 2])},
        }
        for index, score in enumerate((0.2, 0.5, 0.9))
    ]
    whole, repeating = DetectionCalibrationError(), DetectionCalibrationError()
    whole.process(None, samples)
    repeating.process(None, [samples[index] for index in (1, 1, 0, 2)])
    assert repeating.evaluate(3) == whole.evaluate(3)
    assert repeating.details() == whole.details()


@pytest.mark.parametrize(
    ('indices', 'size', 'places', 'is_told'),
    [
        ([], 3, None, False),
        ([0, 1, 2, 0], 3, None, False),  # in place already
        ([2, 0, 2, 1], 3, [2, 0, 3, 1], False),
        ([1, 0], 3, None, False),  # the evaluation is of less than the dataset, which another message reports
        ([0, -1, 2, 1], 3, None, False),
        ([0, 3, 2, 1], 3, None, False),
        ([0, 1, 2, 0, 1, 0], 5, None, False),  # two datasets in one, and the first again
        ([0, 2, 2, 0], 3, None, True),
        ([1, 1, 0, 0], 4, None, True),
    ],
)
def test_places_are_those_of_indices_that_cover_the_dataset(monkeypatch, indices, size, places, is_told):
    messages = []
    monkeypatch.setattr(gathering, 'print_log', lambda message, **kwargs: messages.append(message))
    found = gathering.places_of(torch.tensor(indices, dtype=torch.int64), size)
    assert (None if found is None else found.tolist()) == places
    assert len(messages) == is_told
    if is_told:
        named, samples = len(set(indices)), len(indices)
        assert f'sample_idx of {samples} samples names {named} of {size}, some of them twice' in messages[0]


def test_indices_of_joined_datasets_drop_nothing(case, tmp_path):
    samples = data_samples(*case)
    for index, sample in enumerate(samples):
        sample.set_metainfo({'sample_idx': index % 20})
    evaluator = Evaluator([SavePredictions(tmp_path / 'predictions.npz')])
    evaluator.process([*samples, samples[0]])
    evaluator.evaluate(NUM_SAMPLES)
    saved = load_predictions(tmp_path / 'predictions.npz')
    np.testing.assert_array_equal(saved.scores, case[0])
    assert saved.sample_idx.tolist() == [*range(20), *range(3)]


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


def test_five_bytes_are_kept_for_each_pair_and_an_index_for_each_sample(case):
    metric = MultiLabelAP()
    metric.process(None, [sample.to_dict() for sample in data_samples(*case)])
    stores = metric._collected._stores.values()
    num_bytes = sum(len(store) * store.width * store.dtype.itemsize for store in stores)
    assert num_bytes == NUM_SAMPLES * (NUM_CLASSES * 5 + 8)
    metric.evaluate(NUM_SAMPLES)
    assert not any(map(len, stores))


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


def test_a_rejected_batch_leaves_nothing_behind(case):
    metric = SavePredictions('unused.npz')
    samples = [sample.to_dict() for sample in data_samples(*case)]
    metric.process(None, samples[:2])
    with pytest.raises(ValueError, match=r'true_label must have the shape of pred_score \(5,\), got \(3,\)'):
        metric.process(None, [{**samples[2], 'true_label': torch.zeros(3)}])
    assert {len(store) for store in metric._collected._stores.values()} == {2}


def test_no_samples_give_nan_and_not_a_crash():
    metrics = {**MultiLabelAP().evaluate(0), **CalibrationError().evaluate(0)}
    assert np.isnan(list(metrics.values())).all()


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_no_samples_of_named_classes_give_a_defined_answer(evaluator, tmp_path):
    metrics = [
        MultiLabelAP(items=['mAP@class', 'mAP@sample', 'mAP@groups', 'AP@micro', 'AP'], class_frequencies=[200, 30, 5]),
        CalibrationError(items=['ACE', 'NLL', 'slope'], per=['pooled', 'class', 'each'], num_resamples=3),
        QueryRetrieval(max_conditions=2),
        MissingLabelRecovery(),
        SavePredictions(tmp_path / 'predictions.npz'),
    ]
    consumer = evaluator(metrics)
    consumer.dataset_meta = {'classes': ('cat', 'dog', 'bird')}
    found = consumer.evaluate(0)
    assert {'multi-label/AP/bird', 'multi-label/NLL/cat', 'multi-label/retrieval_mAP', 'missing-label/PPV'} <= {*found}
    assert np.isnan(list(found.values())).all()
    assert load_predictions(tmp_path / 'predictions.npz').scores.shape == (0, 3)
    consumer = evaluator([MultiLabelF1(items=['CF1', 'F1'], top_k=2), MultiLabelF1(threshold=[0.5] * 3, prefix='each')])
    consumer.dataset_meta = {'classes': ('cat', 'dog', 'bird')}
    assert set(consumer.evaluate(0).values()) == {0}  # nothing by nothing, as F1 counts it


@pytest.mark.parametrize(
    ('sample', 'message'),
    [
        ({'gt_score': torch.tensor([0.3, 1.0])}, r'gt_score must be 1 \(positive\), 0 \(negative\) or -1 \(unknown\)'),
        ({'gt_score': torch.zeros(3)}, r'gt_score must have the shape of pred_score \(2,\), got \(3,\)'),
        ({'gt_label': torch.tensor([0, 2])}, r'gt_label must be class indices from 0 to 1, got \[0, 2\]'),
        ({}, r"data samples must hold gt_score or gt_label, got \['pred_score'\]"),
        (
            {'pred_score': torch.rand(1, 2), 'gt_label': [0]},
            r'pred_score must have the shape \(classes,\), got \(1, 2\)',
        ),
        (
            {'pred_score': torch.tensor([0.5, torch.nan]), 'gt_label': [0]},
            'pred_score must not hold NaN, got NaN for class 1 in sample 0 of a batch',
        ),
    ],
)
def test_bad_samples_are_rejected_at_once(sample, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelAP().process(None, [{'pred_score': torch.rand(2), **sample}])


@pytest.mark.parametrize('kind', [MultiLabelAP, CalibrationError, MultiLabelF1, QueryRetrieval, MissingLabelRecovery])
def test_samples_without_a_score_are_rejected_by_name(kind):
    for consumer in (Evaluator([kind()]), MultiLabelEvaluator([kind()])):
        with pytest.raises(ValueError, match=r"data samples must hold pred_score, got \['gt_label'\]"):
            consumer.process([{'gt_label': [0]}])


@pytest.mark.parametrize('evaluator', [Evaluator, MultiLabelEvaluator])
def test_another_number_of_classes_is_rejected_and_nothing_is_filled_up(evaluator):
    def samples(*widths):
        return [{'pred_score': torch.rand(width), 'gt_score': torch.ones(width)} for width in widths]

    message = r'pred_score must have the shape \(2,\), got \(3,\)'
    with pytest.raises(ValueError, match=message):
        evaluator([MultiLabelAP()]).process(samples(2, 3))
    consumer = evaluator([MultiLabelAP()])
    consumer.process(samples(2, 2))
    with pytest.raises(ValueError, match=message):
        consumer.process(samples(3))
    named = evaluator([MultiLabelAP()])
    named.dataset_meta = {'classes': ('cat', 'dog')}
    with pytest.raises(ValueError, match=message):
        named.process(samples(3))


def test_stored_rows_widen_only_where_a_fill_is_given():
    store = gathering.RowStore(torch.float32, name='pred_score')
    store.append(torch.rand(2, 2))
    with pytest.raises(ValueError, match='pred_score must have 2 entries like those before, got 3'):
        store.append(torch.rand(2, 3))
    assert len(store) == 2


def test_bad_arguments_are_rejected():
    with pytest.raises(ValueError, match=r"items must be some of .*, got \['mAP'\]"):
        MultiLabelAP(items=['mAP'])
    with pytest.raises(ValueError, match='num_bins must be at least 1, got 0'):
        CalibrationError(num_bins=0)
    with pytest.raises(ValueError, match=r"out_file must end with '.npz', got 'predictions.pkl'"):
        SavePredictions('predictions.pkl')


@pytest.mark.parametrize(
    ('metric', 'names'),
    [
        (MultiLabelAP(items=['AP']), ['AP/cat (0)', 'AP/dog', 'AP/cat (2)']),
        (MultiLabelF1(items=['F1']), ['F1/cat (0)', 'F1/dog', 'F1/cat (2)']),
        (CalibrationError(per='each', items=['ACE']), ['ACE/cat (0)', 'ACE/dog', 'ACE/cat (2)']),
    ],
)
def test_classes_of_one_name_are_reported_each(metric, names):
    metric.dataset_meta = dict(classes=['cat', 'dog', 'cat'])
    metric.process(None, [dict(pred_score=torch.tensor([0.2, 0.7, 0.9]), gt_score=torch.tensor([0, 1, 1]))])
    assert list(metric.evaluate(1)) == [f'multi-label/{name}' for name in names]


@pytest.mark.parametrize('name', ['a.jpg', None, 1.7, np.array([3]), torch.tensor([1, 2])])
def test_sample_idx_may_be_any_value(name):
    metric = MultiLabelAP()
    scores = [[0.9, 0.1], [0.2, 0.8]]
    samples = [dict(pred_score=torch.tensor(row), gt_score=torch.tensor([1, 0]), sample_idx=name) for row in scores]
    metric.process(None, samples)
    assert metric.evaluate(2)['multi-label/mAP@class'] == 100


def test_nan_and_infinity_are_null_in_json():
    values = dict(a=np.float32('nan'), b=[float('inf'), 1.5], c=np.float64(2.0))
    assert base.finite_or_none(values) == dict(a=None, b=[None, 1.5], c=2.0)

"""Tests of metrics of recalibrated scores, which are reported next to the metrics of the raw scores."""

import numpy as np
import pytest
import torch
from mmengine.structures import BaseDataElement

from mmml_losses.evaluation import (
    CalibrationError,
    MultiLabelAP,
    MultiLabelEvaluator,
    Predictions,
    SavePredictions,
    load_predictions,
    log_odds_of,
    recalibrate,
)
from mmml_losses.losses import AsymmetricLoss
from mmml_losses.losses.links import PhiLink, TemperatureLink

PHI = dict(type='mmml_losses.PhiLink', gamma_positive=0.0, gamma_negative=4.0, margin=0.05)


@pytest.fixture
def logits():
    return 3 * torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def labels(logits):
    return (torch.rand(logits.shape, generator=torch.Generator().manual_seed(1)) < logits.sigmoid()).to(torch.int8)


def evaluate(evaluator, scores, labels):
    samples = [
        BaseDataElement(metainfo=dict(sample_idx=index), pred_score=score, gt_score=label)
        for index, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]
    evaluator.dataset_meta = dict(classes=tuple('abcd'))
    for start in range(0, len(samples), 16):
        evaluator.process(samples[start : start + 16])
    return evaluator.evaluate(len(samples))


def metrics(**kwargs):
    return [MultiLabelAP(**kwargs), CalibrationError(items=('ACE', 'ECE', 'NLL'), **kwargs)]


def test_both_are_reported_and_equal_separate_evaluations(logits, labels):
    scores = logits.sigmoid()
    together = evaluate(MultiLabelEvaluator(metrics(), post_hoc=dict(phi=PHI)), scores, labels)
    raw = evaluate(MultiLabelEvaluator(metrics()), scores, labels)
    phi_scores = AsymmetricLoss(link='phi').probabilities(logits)
    phi = evaluate(MultiLabelEvaluator(metrics(prefix='multi-label/phi')), phi_scores, labels)
    assert list(together) == [*raw, *phi]
    assert {name: together[name] for name in raw} == raw
    for name, value in phi.items():
        assert together[name] == pytest.approx(value, abs=1e-4), name
    assert together['multi-label/phi/ECE'] != together['multi-label/ECE']


def test_a_margin_changes_rankings_and_a_temperature_none(logits, labels):
    temperature = TemperatureLink()
    temperature.temperature.fill_(2.5)
    links = dict(asl=PHI, focal={**PHI, 'gamma_positive': 2.0, 'margin': 0.0}, temperature=temperature)
    found = evaluate(MultiLabelEvaluator(metrics(), post_hoc=links), (logits - 3).sigmoid(), labels)
    for name in ('focal', 'temperature'):
        assert found[f'multi-label/{name}/mAP@class'] == found['multi-label/mAP@class']
    assert found['multi-label/asl/mAP@class'] != found['multi-label/mAP@class']


def test_certain_scores_have_finite_log_odds_beyond_all_others():
    smallest = np.float32(1e-45)
    scores = np.array([[0.0, smallest, 0.5, np.float32(1) - np.float32(2**-24), 1.0]], dtype=np.float32)
    log_odds = log_odds_of(scores)[0]
    assert log_odds.isfinite().all()
    assert (log_odds.diff() > 0).all()
    assert log_odds[2] == 0
    back = log_odds.sigmoid().float().numpy()
    np.testing.assert_array_equal(back, scores[0])


def test_predictions_stay_as_they_are_but_for_the_scores(logits, labels):
    predictions = Predictions(logits.sigmoid().numpy(), labels.numpy(), class_names=tuple('abcd'))
    before = predictions.scores.copy()
    changed = recalibrate(predictions, PhiLink())
    np.testing.assert_array_equal(predictions.scores, before)
    assert changed.scores.dtype == np.float32
    np.testing.assert_array_equal(changed.labels, predictions.labels)
    assert changed.class_names == predictions.class_names
    np.testing.assert_allclose(changed.scores, PhiLink()(logits.double()), atol=1e-5)


def test_what_is_kept_for_plots_and_files_is_raw(logits, labels, tmp_path):
    calibration, saver = CalibrationError(), SavePredictions(tmp_path / 'predictions.npz')
    evaluator = MultiLabelEvaluator([calibration, saver], post_hoc=dict(phi=PHI))
    found = evaluate(evaluator, logits.sigmoid(), labels)
    np.testing.assert_array_equal(load_predictions(tmp_path / 'predictions.npz').scores, logits.sigmoid())
    details = evaluator.details()
    assert set(details) == {'multi-label/CalibrationError', 'multi-label/phi/CalibrationError'}
    raw, phi = (details[name]['bins'] for name in sorted(details))
    assert raw == calibration.bins.to_dict()
    assert raw != phi
    assert len(found) == 6


def test_metrics_that_cannot_be_recalibrated_are_rejected_with_the_first_batch(logits, labels, tmp_path):
    evaluator = MultiLabelEvaluator([SavePredictions(tmp_path / 'predictions.npz')], post_hoc=dict(phi=PHI))
    sample = dict(pred_score=logits[0].sigmoid(), gt_score=labels[0])
    with pytest.raises(ValueError, match=r'post_hoc needs a metric of mmml_losses .*, got SavePredictions'):
        evaluator.process([sample])
    with pytest.raises(ValueError, match=r'pred_score must hold probabilities in \[0, 1\] for post_hoc'):
        MultiLabelEvaluator([MultiLabelAP()], post_hoc=dict(phi=PHI)).process([{**sample, 'pred_score': logits[0]}])
    with pytest.raises(ValueError, match="post_hoc must hold links or their configs by name, got 'phi': 'phi'"):
        MultiLabelEvaluator(metrics(), post_hoc=dict(phi='phi'))
    with pytest.raises(ValueError, match=r'probabilities must .* \[0, 1\]'):
        log_odds_of(logits)

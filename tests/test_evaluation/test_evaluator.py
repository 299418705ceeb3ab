"""One collection of predictions for several metrics: the same figures as one by one, gathered once."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.evaluator import DumpResults, Evaluator
from mmengine.registry import EVALUATOR as ROOT_EVALUATOR
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

from mmml_losses.evaluation import (
    CalibrationError,
    MissingLabelRecovery,
    MultiLabelAP,
    MultiLabelEvaluator,
    PredictionMetric,
    SavePredictions,
    load_predictions,
)
from mmml_losses.evaluation.metrics import base, gathering
from mmml_losses.evaluation.metrics import evaluator as evaluator_module
from mmml_losses.evaluation.metrics.evaluator import details_of
from mmml_losses.evaluation.metrics.gathering import RowStore, gather_rows

NUM_SAMPLES, NUM_CLASSES = 23, 5
CLASSES = ('cat', 'dog', 'bird', 'fish', 'cow')


class Spy(PredictionMetric):
    """Metric that keeps the predictions that it is given."""

    def __init__(self, name='spy', **kwargs):
        super().__init__(**kwargs)
        self.name = name
        self.seen = None

    def compute_metrics(self, predictions):
        self.seen = predictions
        return {self.name: float(predictions.num_samples)}

    def details(self):
        return {} if self.seen is None else {'names': list(self.seen.class_names)}


class SpyOnPaths(Spy):
    columns = ('scores', 'labels', 'image_paths')


class OwnWay(Spy):
    """Metric that overrides how predictions are collected."""

    def process(self, data_batch, data_samples):
        self.log('mine')
        super().process(data_batch, data_samples[:1])


@pytest.fixture
def samples():
    generator = torch.manual_seed(0)
    scores = torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator)
    labels = (torch.rand(scores.shape, generator=generator) < 0.4).long()
    return [
        BaseDataElement(metainfo=dict(sample_idx=index, img_path=f'{index}.jpg'), pred_score=score, gt_score=label)
        for index, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]


def run(evaluator, samples, size=NUM_SAMPLES, batch_size=4):
    evaluator.dataset_meta = dict(classes=CLASSES)
    for start in range(0, len(samples), batch_size):
        evaluator.process(samples[start : start + batch_size])
    return evaluator.evaluate(size)


def all_metrics(folder):
    return [
        dict(type='mmml_losses.MultiLabelAP', items=('mAP@class', 'AP')),
        dict(type='mmml_losses.CalibrationError'),
        dict(type='mmml_losses.MissingLabelRecovery', threshold=0.5, fully_labelled=True),
        dict(type='mmpretrain.AveragePrecision'),
        dict(type='mmml_losses.SavePredictions', out_file=str(folder / 'predictions.npz')),
        dict(type='mmpretrain.MultiLabelMetric', thr=0.5, prefix='theirs'),
    ]


def test_a_runner_builds_it_and_figures_equal_those_of_a_plain_list(samples, tmp_path):
    pytest.importorskip('mmpretrain.evaluation')
    config = dict(type='mmml_losses.MultiLabelEvaluator', metrics=all_metrics(tmp_path))
    evaluator = Runner.build_evaluator(None, config)
    assert type(evaluator) is MultiLabelEvaluator
    together = run(evaluator, samples)
    saved = load_predictions(tmp_path / 'predictions.npz')
    one_by_one = run(Evaluator(all_metrics(tmp_path)), samples)
    assert together == one_by_one
    assert list(together) == list(one_by_one)
    assert {'multi-label/mAP@class', 'missing-label/PPV', 'theirs/f1-score'} <= set(together)
    np.testing.assert_equal(vars(saved), vars(load_predictions(tmp_path / 'predictions.npz')))
    assert saved.class_names == CLASSES


def test_a_misspelt_name_is_answered_with_near_ones():
    with pytest.raises(KeyError, match="did you mean 'MultiLabelEvaluator'"):
        ROOT_EVALUATOR.build(dict(type='mmml_losses.MultilabelEvaluators', metrics=[]))


def test_batches_are_read_and_gathered_once_whatever_the_number_of_metrics(samples, monkeypatch):
    calls = []
    names = ['scores', 'labels', 'image_paths', 'sample_idx']
    for name in names:
        read = gathering.COLUMNS[name].read
        spy = gathering.COLUMNS[name]._replace(
            read=lambda batch, name=name, read=read: calls.append(name) or read(batch)
        )
        monkeypatch.setitem(gathering.COLUMNS, name, spy)
    gather = gathering.gather_rows
    monkeypatch.setattr(gathering, 'gather_rows', lambda *args: calls.append('gather') or gather(*args))
    metrics = [Spy('a'), SpyOnPaths('b'), Spy('c')]
    run(MultiLabelEvaluator(metrics), samples, batch_size=10)
    assert sorted(calls) == sorted(names * 3 + ['gather'] * 4)
    assert metrics[0].seen is metrics[1].seen is metrics[2].seen


def test_no_metric_can_change_what_the_next_one_measures(samples):
    class Spoiler(Spy):
        def compute_metrics(self, predictions):
            predictions.scores[:] = 0

    with pytest.raises(ValueError, match='read-only'):
        run(MultiLabelEvaluator([Spoiler(), Spy()]), samples)


def test_appended_metrics_are_fed_and_know_the_classes(samples, tmp_path):
    evaluator = MultiLabelEvaluator([Spy('a')])
    evaluator.dataset_meta = dict(classes=CLASSES)
    evaluator.metrics += [SavePredictions(tmp_path / 'predictions.npz'), MultiLabelAP(items=['AP'])]
    evaluator.process(samples)
    assert 'multi-label/AP/cat' in evaluator.evaluate(NUM_SAMPLES)
    assert load_predictions(tmp_path / 'predictions.npz').class_names == CLASSES
    evaluator.process(samples[:4])
    evaluator.metrics.append(SpyOnPaths('b'))
    evaluator.metrics[1:3] = []
    assert 'multi-label/b' in evaluator.evaluate(4)  # the column was there for SavePredictions
    evaluator = MultiLabelEvaluator([Spy('a')])
    evaluator.process(samples[:4])
    evaluator.metrics.append(SpyOnPaths('b'))
    with pytest.raises(RuntimeError, match='got one that needs image_paths after 4 samples'):
        evaluator.process(samples[4:])


def test_metrics_that_override_collection_are_evaluated_alone(samples):
    metrics = [OwnWay('own'), Spy('shared')]
    assert run(MultiLabelEvaluator(metrics), samples) == {'multi-label/own': 6.0, 'multi-label/shared': 23.0}
    assert metrics[0].seen is not metrics[1].seen


def test_names_that_clash_are_rejected(samples):
    for metrics in ([Spy('a'), Spy('a')], [Spy('a'), OwnWay('a')]):
        with pytest.raises(ValueError, match='got multi-label/a twice: give one of them another prefix'):
            run(MultiLabelEvaluator(metrics), samples)
    assert len(run(MultiLabelEvaluator([Spy('a'), Spy('a', prefix='other')]), samples)) == 2


def test_offline_evaluation_and_a_second_one(samples):
    evaluator = MultiLabelEvaluator(MultiLabelAP())
    first = evaluator.offline_evaluate([sample.to_dict() for sample in samples], chunk_size=7)
    assert first == run(Evaluator(MultiLabelAP()), samples)
    assert run(evaluator, samples) == first
    # A sampler that starts over at the end adds samples, which are cut off.
    assert run(evaluator, samples + samples[:3]) == first


def test_missing_samples_are_logged_once(samples, monkeypatch):
    messages = []
    monkeypatch.setattr(base, 'print_log', lambda message, **kwargs: messages.append(message))
    run(MultiLabelEvaluator([Spy('a'), Spy('b')]), samples, size=24)
    assert messages == ['MultiLabelEvaluator: saw 23 of 24 samples']


def test_an_evaluation_without_samples_or_without_metrics(samples):
    assert np.isnan(list(MultiLabelEvaluator([MultiLabelAP(), CalibrationError()]).evaluate(0).values())).all()
    assert run(MultiLabelEvaluator([]), samples) == {}


def test_a_batch_that_a_metric_cannot_use_is_rejected_at_once(samples):
    evaluator = MultiLabelEvaluator([MultiLabelAP(), MissingLabelRecovery()])
    with pytest.raises(ValueError, match='data samples must hold true_label for MissingLabelRecovery'):
        evaluator.process(samples[:4])


def test_details_are_found_by_name(samples):
    metrics = [Spy('a'), Spy('b'), MultiLabelAP(), Spy('c', prefix='other')]
    assert details_of(metrics) == {}
    evaluator = MultiLabelEvaluator(metrics)
    run(evaluator, samples)
    names = {'names': list(CLASSES)}
    details = {'multi-label/Spy': names, 'multi-label/Spy 2': names, 'other/Spy': names}
    assert {name: value for name, value in evaluator.details().items() if 'Spy' in name} == details


@pytest.mark.parametrize('block_bytes', [1, 40, 1 << 20])
def test_stored_rows_come_back_in_order_whatever_the_blocks(monkeypatch, block_bytes):
    monkeypatch.setattr('mmml_losses.evaluation.metrics.gathering.BLOCK_BYTES', block_bytes)
    parts = [torch.arange(12, dtype=torch.int8).reshape(4, 3), torch.ones(1, 2, dtype=torch.int8)]
    parts += [torch.empty(2, 0, dtype=torch.int8), torch.full((3, 5), 7, dtype=torch.int8)]
    expected = torch.full((10, 5), -1, dtype=torch.int8)
    expected[:4, :3], expected[4, :2], expected[7:] = parts[0], 1, 7
    for size in (10, 12, 6, 0):
        store = RowStore(torch.int8, fill=-1)
        for part in parts:
            store.append(part)
        assert (len(store), store.width) == (10, 5)
        torch.testing.assert_close(gather_rows(store, size), expected[:size])
        assert (len(store), store.width) == (0, 0)


MEMORY_SCRIPT = """
import re, torch
from pathlib import Path
from mmml_losses.evaluation import MultiLabelEvaluator, PredictionMetric

class Count(PredictionMetric):
    def compute_metrics(self, predictions):
        return {'count': float(predictions.num_samples)}

def memory(kind):
    return int(re.search(rf'{kind}:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]) * 1024

batch, classes, times = 40, 1000, 1000
evaluator = MultiLabelEvaluator([Count(prefix=name) for name in 'abc'])
samples = [
    dict(pred_score=score, gt_score=label)
    for score, label in zip(torch.rand(batch, classes), torch.zeros(batch, classes, dtype=torch.int8))
]
evaluator.process(samples)
evaluator.evaluate(batch)
before = memory('VmRSS')
for _ in range(times):
    evaluator.process(samples)
assert evaluator.evaluate(batch * times)['a/count'] == batch * times
print((memory('VmHWM') - before) / (batch * times * classes))
"""


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='reads the peak of memory from /proc')
def test_memory_stays_near_five_bytes_for_each_pair():
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, '-c', MEMORY_SCRIPT], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Five, and a block of 40 MiB next to 200 MB; batches and their join at once would be ten, three metrics fifteen.
    assert 4.5 < float(done.stdout) < 6.5


def test_stopping_a_metric_logs_the_results_of_those_before(samples, monkeypatch):
    said = []
    monkeypatch.setattr(evaluator_module, 'print_log', lambda message, **kwargs: said.append(message))

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(CalibrationError, 'compute_metrics', stop)
    evaluator = MultiLabelEvaluator([MultiLabelAP(), CalibrationError()])
    evaluator.process(samples)
    with pytest.raises(KeyboardInterrupt):
        evaluator.evaluate(len(samples))
    assert said[-1].startswith('stopped; measured so far: multi-label/mAP@class: ')


def test_first_metrics_are_complete_when_a_later_one_is_stopped(samples, monkeypatch, tmp_path):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(CalibrationError, 'compute_metrics', stop)
    evaluator = MultiLabelEvaluator([DumpResults(str(tmp_path / 'out.pkl')), CalibrationError()])
    evaluator.process(samples)
    with pytest.raises(KeyboardInterrupt):
        evaluator.evaluate(len(samples))
    assert (tmp_path / 'out.pkl').is_file()

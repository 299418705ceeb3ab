"""Two processes give exactly what one gives, and nothing they exchange is pickled."""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import mmengine.dist
import mmengine.evaluator.metric
import numpy as np
import pytest
import torch
import torch.distributed
import torch.multiprocessing
from mmengine.dataset import DefaultSampler

from mmml_losses.evaluation import (
    CalibrationError,
    MissingLabelRecovery,
    MultiLabelAP,
    MultiLabelEvaluator,
    PredictionMetric,
    SavePredictions,
    load_predictions,
)
from mmml_losses.evaluation.metrics import gathering

NUM_SAMPLES, NUM_CLASSES, WORLD_SIZE = 23, 5, 2


class Scenario(NamedTuple):
    """Assignment of the first ``size`` samples to ranks: indices for each rank, or None for MMEngine's sampler."""

    size: int
    dealt: list[list[int]] | None = None
    round_up: bool = False
    exchange_bytes: int = 64
    has_index: bool = True

    def indices(self, rank):
        if self.dealt is not None:
            return self.dealt[rank]
        return list(DefaultSampler(range(self.size), shuffle=False, seed=0, round_up=self.round_up))


EVERY = list(range(NUM_SAMPLES))
ALL_ON_THE_LAST, ONE_ON_THE_FIRST = [[], EVERY], [[0], EVERY[1:]]
SCENARIOS = {
    'padded': Scenario(NUM_SAMPLES, round_up=True, exchange_bytes=1 << 22),
    'ragged': Scenario(NUM_SAMPLES),
    'empty rank': Scenario(1),
    'padded, no index': Scenario(NUM_SAMPLES, round_up=True, has_index=False),
    'all on the last rank': Scenario(NUM_SAMPLES, ALL_ON_THE_LAST),
    'all on the last rank, no index': Scenario(NUM_SAMPLES, ALL_ON_THE_LAST, has_index=False),
    'one on the first rank': Scenario(NUM_SAMPLES, ONE_ON_THE_FIRST),
    'one on the first rank, no index': Scenario(NUM_SAMPLES, ONE_ON_THE_FIRST, has_index=False),
    # As mmpretrain's SequentialSampler(subsample_type='sequential') deals them, and with the surplus on the first rank,
    # where taking turns would count a sample twice and another one not at all.
    'sequential': Scenario(NUM_SAMPLES, [EVERY[:12], [*EVERY[12:], 0]]),
    'sequential, from the end': Scenario(NUM_SAMPLES, [[*EVERY[12:], 0], EVERY[:12]]),
}


def all_samples(has_index=True):
    generator = torch.manual_seed(0)
    scores = torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator)
    labels = torch.randint(-1, 2, scores.shape, generator=generator)
    labels[0, 0] = 1
    true = labels.masked_fill(torch.rand(scores.shape, generator=generator) < 0.5, 1)
    return [
        {
            'pred_score': score,
            'gt_score': label,
            'true_label': true[index].numpy(),
            **({'sample_idx': index} if has_index else {}),
            'img_path': f'größer/{"x" * (index % 5)}{index}.jpg',
        }
        for index, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]


def some_metrics(out_file):
    return [
        MultiLabelAP(items=('mAP@class', 'mAP@sample', 'AP')),
        CalibrationError(),
        SavePredictions(out_file),
        MissingLabelRecovery(threshold=0.5),
    ]


def run_metrics(scenario, rank, out_file):
    """Pass the samples of this rank to each metric."""
    samples, indices = all_samples(scenario.has_index), scenario.indices(rank)
    results = {}
    for metric in some_metrics(out_file):
        for start in range(0, len(indices), 4):
            metric.process(None, [samples[index] for index in indices[start : start + 4]])
        results.update(metric.evaluate(scenario.size))
    return results


def run_together(scenario, rank, out_file):
    """Pass the samples of this rank to an evaluator with all metrics."""
    samples, indices = all_samples(scenario.has_index), scenario.indices(rank)
    evaluator = MultiLabelEvaluator(some_metrics(out_file))
    for start in range(0, len(indices), 4):
        evaluator.process([samples[index] for index in indices[start : start + 4]])
    return evaluator.evaluate(scenario.size)


def refusal_of_widths(rank):
    """Return the error for a model that has another number of classes on another rank."""
    metric = MultiLabelAP()
    metric.process(None, [{'pred_score': torch.rand(2 + rank), 'gt_label': [0]}])
    with pytest.raises(ValueError, match='pred_score') as refused:
        metric.evaluate(WORLD_SIZE)
    return str(refused.value)


class Count(PredictionMetric):
    def compute_metrics(self, predictions):
        return {'count': float(predictions.num_samples)}


def bytes_per_pair(batch=40, classes=1000, times=500):
    """Measure the peak memory that an evaluation adds on this rank, for each pair of the dataset."""

    def memory(kind):
        status = Path('/proc/self/status').read_text()
        return int(re.search(rf'{kind}:\s+(\d+) kB', status)[1]) * 1024

    evaluator = MultiLabelEvaluator([Count(prefix=name) for name in 'abc'])
    scores, labels = torch.rand(batch, classes), torch.zeros(batch, classes, dtype=torch.int8)
    samples = [{'pred_score': score, 'gt_score': label} for score, label in zip(scores, labels, strict=True)]
    before, size = memory('VmRSS'), WORLD_SIZE * batch * times
    for _ in range(times):
        evaluator.process(samples)
    assert evaluator.evaluate(size)['a/count'] == size
    return (memory('VmHWM') - before) / (size * classes)


def forbid_pickled_exchange():
    def refuse(*args, **kwargs):
        raise AssertionError('a metric exchanged pickled objects')

    names = ('all_gather_object', 'gather_object', 'broadcast_object_list', 'scatter_object_list', 'collect_results')
    modules = (torch.distributed, torch.distributed.distributed_c10d, mmengine.dist, mmengine.dist.dist)
    for module in (*modules, mmengine.evaluator.metric):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, refuse)
    torch.distributed.distributed_c10d._object_to_tensor = refuse
    torch.distributed.distributed_c10d._tensor_to_object = refuse


def worker(rank, folder):
    torch.set_num_threads(1)
    forbid_pickled_exchange()
    # A file instead of a port: nothing else can take it.
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=WORLD_SIZE)
    results = {}
    for name, scenario in SCENARIOS.items():
        gathering.EXCHANGE_BYTES = scenario.exchange_bytes
        results[name] = run_metrics(scenario, rank, folder / f'{name}.npz')
        results[f'{name} together'] = run_together(scenario, rank, folder / f'{name} together.npz')
    gathering.EXCHANGE_BYTES = 1 << 22
    results['widths'] = refusal_of_widths(rank)
    if sys.platform.startswith('linux'):
        results['bytes per pair'] = bytes_per_pair()
    (folder / f'rank{rank}.json').write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


@pytest.fixture(scope='module')
def distributed(tmp_path_factory):
    folder = tmp_path_factory.mktemp('distributed')
    torch.multiprocessing.spawn(worker, args=(folder,), nprocs=WORLD_SIZE)
    return folder


@pytest.mark.parametrize('name', SCENARIOS)
def test_two_processes_equal_one(distributed, tmp_path, name):
    expected = run_metrics(Scenario(SCENARIOS[name].size), 0, tmp_path / 'single.npz')
    for rank in range(WORLD_SIZE):
        results = json.loads((distributed / f'rank{rank}.json').read_text())
        np.testing.assert_equal(results[name], expected)
        np.testing.assert_equal(results[f'{name} together'], expected)


def test_ranks_with_different_numbers_of_classes_are_rejected_on_all_of_them(distributed):
    for rank in range(WORLD_SIZE):
        message = json.loads((distributed / f'rank{rank}.json').read_text())['widths']
        assert message == 'pred_score must have equally many entries on all processes, got [2, 3]'


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='reads the peak of memory from /proc')
def test_memory_of_the_main_process_stays_near_five_bytes_for_each_pair(distributed):
    main, other = (
        json.loads((distributed / f'rank{rank}.json').read_text())['bytes per pair'] for rank in range(WORLD_SIZE)
    )
    # Five, and next to 200 MB a block of 40 MiB and the buffers of an exchange; rows and their join would be ten.
    assert 4.5 < main < 9
    assert other < 5


@pytest.mark.parametrize('kind', ['', ' together'])
@pytest.mark.parametrize('name', SCENARIOS)
def test_saved_predictions_are_in_the_order_of_the_dataset(distributed, name, kind):
    saved = load_predictions(distributed / f'{name}{kind}.npz')
    samples = all_samples(SCENARIOS[name].has_index)[: SCENARIOS[name].size]
    np.testing.assert_array_equal(saved.scores, torch.stack([sample['pred_score'] for sample in samples]))
    np.testing.assert_array_equal(saved.labels, torch.stack([sample['gt_score'] for sample in samples]))
    np.testing.assert_array_equal(saved.true_labels, [sample['true_label'] for sample in samples])
    assert saved.image_paths == tuple(sample['img_path'] for sample in samples)
    assert saved.sample_idx.tolist() == [sample.get('sample_idx', -1) for sample in samples]


def test_texts_survive_as_tensors():
    texts = ['', 'a/größer.jpg', 'bad\udcff name.jpg', '猫.png']
    assert gathering.decode_texts(gathering.encode_texts(texts)) == texts
    assert gathering.decode_texts(gathering.encode_texts([])) == []

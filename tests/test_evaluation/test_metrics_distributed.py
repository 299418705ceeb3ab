"""Two processes give exactly what one gives, and nothing they exchange is pickled."""

import json
import re
import sys
from pathlib import Path

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

# Name, number of samples, whether the sampler evens out the ranks, bytes in one exchange.
SCENARIOS = [('padded', NUM_SAMPLES, True, 1 << 22), ('ragged', NUM_SAMPLES, False, 64), ('empty rank', 1, False, 64)]


def all_samples():
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
            'sample_idx': index,
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


def run_metrics(size, round_up, out_file):
    """Feed each metric the samples that MMEngine's sampler deals to this rank."""
    samples = all_samples()
    indices = list(DefaultSampler(range(size), shuffle=False, seed=0, round_up=round_up))
    results = {}
    for metric in some_metrics(out_file):
        for start in range(0, len(indices), 4):
            metric.process(None, [samples[index] for index in indices[start : start + 4]])
        results.update(metric.evaluate(size))
    return results


def run_together(size, round_up, out_file):
    """Feed an evaluator with all metrics the same samples."""
    samples = all_samples()
    indices = list(DefaultSampler(range(size), shuffle=False, seed=0, round_up=round_up))
    evaluator = MultiLabelEvaluator(some_metrics(out_file))
    for start in range(0, len(indices), 4):
        evaluator.process([samples[index] for index in indices[start : start + 4]])
    return evaluator.evaluate(size)


class Count(PredictionMetric):
    def compute_metrics(self, predictions):
        return {'count': float(predictions.num_samples)}


def bytes_per_pair(batch=40, classes=1000, times=500):
    """What an evaluation adds to the memory of this rank at its peak, for each pair of the dataset."""

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
    for name, size, round_up, exchange_bytes in SCENARIOS:
        gathering.EXCHANGE_BYTES = exchange_bytes
        results[name] = run_metrics(size, round_up, folder / f'{name}.npz')
        results[f'{name} together'] = run_together(size, round_up, folder / f'{name} together.npz')
    gathering.EXCHANGE_BYTES = 1 << 22
    if sys.platform.startswith('linux'):
        results['bytes per pair'] = bytes_per_pair()
    (folder / f'rank{rank}.json').write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


@pytest.fixture(scope='module')
def distributed(tmp_path_factory):
    folder = tmp_path_factory.mktemp('distributed')
    torch.multiprocessing.spawn(worker, args=(folder,), nprocs=WORLD_SIZE)
    return folder


@pytest.mark.parametrize(('name', 'size'), [scenario[:2] for scenario in SCENARIOS])
def test_two_processes_equal_one(distributed, tmp_path, name, size):
    expected = run_metrics(size, True, tmp_path / 'single.npz')
    for rank in range(WORLD_SIZE):
        results = json.loads((distributed / f'rank{rank}.json').read_text())
        np.testing.assert_equal(results[name], expected)
        np.testing.assert_equal(results[f'{name} together'], expected)


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='reads the peak of memory from /proc')
def test_memory_of_the_main_process_stays_near_five_bytes_for_each_pair(distributed):
    main, other = (
        json.loads((distributed / f'rank{rank}.json').read_text())['bytes per pair'] for rank in range(WORLD_SIZE)
    )
    # Five, and beside 200 MB a block of 40 MiB and the buffers of an exchange; rows and their join would be ten.
    assert 4.5 < main < 8
    assert other < 5


@pytest.mark.parametrize('kind', ['', ' together'])
@pytest.mark.parametrize(('name', 'size'), [scenario[:2] for scenario in SCENARIOS])
def test_saved_predictions_are_in_the_order_of_the_dataset(distributed, name, size, kind):
    saved = load_predictions(distributed / f'{name}{kind}.npz')
    samples = all_samples()[:size]
    np.testing.assert_array_equal(saved.scores, torch.stack([sample['pred_score'] for sample in samples]))
    np.testing.assert_array_equal(saved.labels, torch.stack([sample['gt_score'] for sample in samples]))
    np.testing.assert_array_equal(saved.true_labels, [sample['true_label'] for sample in samples])
    assert saved.image_paths == tuple(sample['img_path'] for sample in samples)
    assert saved.sample_idx.tolist() == list(range(size))


def test_texts_survive_as_tensors():
    texts = ['', 'a/größer.jpg', 'bad\udcff name.jpg', '猫.png']
    assert gathering.decode_texts(gathering.encode_texts(texts)) == texts
    assert gathering.decode_texts(gathering.encode_texts([])) == []

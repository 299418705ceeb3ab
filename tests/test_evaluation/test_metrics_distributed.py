"""Two processes give exactly what one gives, and nothing they exchange is pickled."""

import json

import mmengine.dist
import mmengine.evaluator.metric
import numpy as np
import pytest
import torch
import torch.distributed
import torch.multiprocessing
from mmengine.dataset import DefaultSampler

from mmml_losses.evaluation import CalibrationError, MultiLabelAP, SavePredictions, load_predictions
from mmml_losses.evaluation.metrics import gathering

NUM_SAMPLES, NUM_CLASSES, WORLD_SIZE = 23, 5, 2

# Name, number of samples, whether the sampler evens out the ranks, bytes in one exchange.
SCENARIOS = [('padded', NUM_SAMPLES, True, 1 << 26), ('ragged', NUM_SAMPLES, False, 64), ('empty rank', 1, False, 64)]


def all_samples():
    generator = torch.manual_seed(0)
    scores = torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator)
    labels = torch.randint(-1, 2, scores.shape, generator=generator)
    labels[0, 0] = 1
    return [
        {
            'pred_score': score,
            'gt_score': label,
            'sample_idx': index,
            'img_path': f'größer/{"x" * (index % 5)}{index}.jpg',
        }
        for index, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]


def run_metrics(size, round_up, out_file):
    """Feed each metric the samples that MMEngine's sampler deals to this rank."""
    samples = all_samples()
    indices = list(DefaultSampler(range(size), shuffle=False, seed=0, round_up=round_up))
    results = {}
    for metric in (
        MultiLabelAP(items=('mAP@class', 'mAP@sample', 'AP')),
        CalibrationError(),
        SavePredictions(out_file),
    ):
        for start in range(0, len(indices), 4):
            metric.process(None, [samples[index] for index in indices[start : start + 4]])
        results.update(metric.evaluate(size))
    return results


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
        result = json.loads((distributed / f'rank{rank}.json').read_text())[name]
        np.testing.assert_equal(result, expected)


@pytest.mark.parametrize(('name', 'size'), [scenario[:2] for scenario in SCENARIOS])
def test_saved_predictions_are_in_the_order_of_the_dataset(distributed, name, size):
    saved = load_predictions(distributed / f'{name}.npz')
    samples = all_samples()[:size]
    np.testing.assert_array_equal(saved.scores, torch.stack([sample['pred_score'] for sample in samples]))
    np.testing.assert_array_equal(saved.labels, torch.stack([sample['gt_score'] for sample in samples]))
    assert saved.image_paths == tuple(sample['img_path'] for sample in samples)
    assert saved.sample_idx.tolist() == list(range(size))


def test_texts_survive_as_tensors():
    texts = ['', 'a/größer.jpg', 'bad\udcff name.jpg', '猫.png']
    assert gathering.decode_texts(gathering.encode_texts(texts)) == texts
    assert gathering.decode_texts(gathering.encode_texts([])) == []

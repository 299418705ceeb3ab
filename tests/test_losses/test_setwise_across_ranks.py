"""Samples of all processes compared with each other: two processes train like one with the whole batch."""

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

from mmml_losses.losses import DRLoss, LSEPLoss, SumLoss, TwoWayLoss, ZLPRLoss

WORLD_SIZE, SAMPLES, CLASSES, WIDTH = 2, 11, 5, 4
# How many samples the first process has; the other one has the rest.
SHARES = {'uneven': 4, 'even but one': 6, 'all on one': 11, 'none on the first': 0}


def class_wise():
    return DRLoss(across_ranks=True)


LOSSES = {
    'two-way': lambda: TwoWayLoss(across_ranks=True),
    'two-way in buckets': lambda: TwoWayLoss(bucket_size=8, across_ranks=True),
    'dr, sum': lambda: DRLoss(reduction='sum', across_ranks=True),
    'joint': lambda: LSEPLoss(way='joint', across_ranks=True),
    'buckets, joint': lambda: ZLPRLoss(way='joint', bucket_size=3, across_ranks=True),
    'in a sum': lambda: SumLoss(dict(dr=class_wise(), twice=SumLoss(dict(a=class_wise()), loss_weight=0.5))),
    'compiled': lambda: torch.compile(TwoWayLoss(across_ranks=True), backend='aot_eager'),
}
WEIGHTS = {
    'no weight': lambda weight: None,
    'of samples': lambda weight: weight,
    'of labels': lambda weight: weight.unsqueeze(1).expand(-1, CLASSES),
    'flat': lambda weight: weight.repeat_interleave(CLASSES),
}


def whole_batch():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(SAMPLES, WIDTH, generator=generator, dtype=torch.float64)
    draws = torch.rand(SAMPLES, CLASSES, generator=generator)
    targets = (draws < 0.35).double().masked_fill(draws > 0.9, -1)
    weight = torch.randint(0, 3, (SAMPLES,), generator=generator).double()
    return features, targets, weight


def step(loss, rows, weighing='no weight', network=None, **kwargs):
    """Value and gradients of one step on some samples."""
    torch.manual_seed(0)
    linear = torch.nn.Linear(WIDTH, CLASSES, dtype=torch.float64)
    model = network(linear) if network else linear
    features, targets, weight = (tensor[rows] for tensor in whole_batch())
    value = loss(model(features), targets, weight=WEIGHTS[weighing](weight), **kwargs)
    value.backward()
    return value.detach(), linear.weight.grad, linear.bias.grad


def cases():
    for name in LOSSES:
        yield name, 'uneven', 'no weight'
    for share in SHARES:
        yield 'two-way', share, 'no weight'
    for weighing in WEIGHTS:
        yield 'two-way in buckets', 'uneven', weighing


CASES = {' | '.join(case): case for case in cases()}


def own_rows(rank, share):
    return slice(0, SHARES[share]) if rank == 0 else slice(SHARES[share], SAMPLES)


def refusal(rank):
    """Return the error of a process for a bad label that only the first process has."""
    targets = torch.zeros(2, CLASSES)
    if rank == 0:
        targets[1, 2] = 3
    with pytest.raises(ValueError, match='target must be') as refused:
        class_wise()(torch.zeros(2, CLASSES), targets)
    return str(refused.value)


def worker(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=WORLD_SIZE)
    results = {}
    for case, (name, share, weighing) in CASES.items():
        results[case] = step(LOSSES[name](), own_rows(rank, share), weighing, DistributedDataParallel)
    rows = own_rows(rank, 'uneven')
    for kind, factor in (('number', 1.0 + rank), ('tensor', torch.tensor([1.0 + rank]))):
        results[f'avg_factor {kind}'] = step(class_wise(), rows, network=DistributedDataParallel, avg_factor=factor)
    results['alone'] = step(TwoWayLoss(), rows)
    results['half'] = class_wise()(torch.ones(1 + rank, CLASSES).half(), torch.ones(1 + rank, CLASSES).bool())
    results['indices'] = class_wise()(torch.ones(1 + rank, CLASSES), torch.arange(1 + rank))
    results['refusal'] = refusal(rank)
    torch.save(results, folder / f'rank{rank}.pt')
    torch.distributed.destroy_process_group()


@pytest.fixture(scope='module')
def distributed(tmp_path_factory):
    folder = tmp_path_factory.mktemp('across_ranks')
    torch.multiprocessing.spawn(worker, args=(folder,), nprocs=WORLD_SIZE)
    return [torch.load(folder / f'rank{rank}.pt', weights_only=True) for rank in range(WORLD_SIZE)]


@pytest.mark.parametrize('case', CASES)
def test_two_processes_train_like_one_with_the_whole_batch(distributed, case):
    name, _, weighing = CASES[case]
    expected = step(LOSSES[name](), slice(None), weighing)
    for result in distributed:
        torch.testing.assert_close(result[case], expected)


@pytest.mark.parametrize('kind', ['number', 'tensor'])
def test_divisors_of_the_processes_add_up(distributed, kind):
    expected = step(class_wise(), slice(None), avg_factor=3.0)
    for result in distributed:
        torch.testing.assert_close(result[f'avg_factor {kind}'], expected)


def test_processes_compare_their_own_samples_unless_asked(distributed):
    for rank, result in enumerate(distributed):
        torch.testing.assert_close(result['alone'], step(TwoWayLoss(), own_rows(rank, 'uneven')))
    assert distributed[0]['alone'][0] != distributed[1]['alone'][0]


def test_half_precision_and_index_targets_are_joined(distributed):
    half = class_wise()(torch.ones(3, CLASSES).half(), torch.ones(3, CLASSES).bool())
    indices = class_wise()(torch.ones(3, CLASSES), torch.tensor([0, 0, 1]))
    for result in distributed:
        torch.testing.assert_close(result['half'], half)
        torch.testing.assert_close(result['indices'], indices)


def test_what_one_process_has_wrong_is_rejected_by_all(distributed):
    for result in distributed:
        assert result['refusal'] == (
            'target must be 1, 0, -1 for unknown, or between 0 and 1, got 3.0 at sample 1, class 2'
        )


@pytest.mark.parametrize('bucket_size', [None, 3, 100])
def test_one_process_compares_its_batch(bucket_size):
    loss = TwoWayLoss(bucket_size=bucket_size, across_ranks=True)
    torch.testing.assert_close(step(loss, slice(None)), step(TwoWayLoss(bucket_size=bucket_size), slice(None)))


def test_a_batch_below_the_bucket_size_is_one_bucket():
    torch.testing.assert_close(step(TwoWayLoss(bucket_size=100), slice(None)), step(TwoWayLoss(), slice(None)))


def test_rows_alone_are_rejected():
    with pytest.raises(ValueError, match="across_ranks must be False for way='sample'"):
        LSEPLoss(way='sample', across_ranks=True)

"""A memory of samples keeps what it was given: over epochs, checkpoints, copies and processes."""

import copy
import itertools
import math
import pickle

import pytest
import torch
from mmengine.model import ExponentialMovingAverage
from mmengine.runner.checkpoint import get_state_dict, load_state_dict
from torch import nn

from mmml_losses.losses.core.memory import SampleMemory, fingerprint_rows
from mmml_losses.losses.estimation import EMAPLLoss
from mmml_losses.losses.large_loss import LargeLossCorrection


@pytest.fixture
def memory():
    memory = SampleMemory('SomeLoss')
    memory.visit(torch.tensor([4, 1]), torch.eye(3)[:2], epoch=2)
    memory.write(torch.tensor([4, 1]), torch.tensor([[0, 1, 0], [1, 1, 0]]))
    return memory


EXPECTED = [[0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_reads_what_was_written_and_the_fill_elsewhere(memory):
    assert memory.rows().tolist() == EXPECTED
    assert memory.read(torch.tensor([1, 3, 99]), 3).tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert memory.read(torch.tensor([1]), 3).dtype == torch.uint8


def test_what_is_read_is_a_copy(memory):
    memory.read(torch.tensor([1]), 3).fill_(9)
    assert memory.rows().tolist() == EXPECTED


def test_the_largest_value_stays_in_whichever_order():
    entries = [(5, [1.0, 9.0]), (5, [3.0, 2.0]), (0, [4.0, 4.0]), (5, [2.0, 2.0])]
    for order in itertools.permutations(entries):
        memory = SampleMemory('SomeLoss', torch.float16, -math.inf)
        indices, rows = zip(*order, strict=True)
        memory.write(torch.tensor(indices[:3]), torch.tensor(rows[:3]))  # the same sample twice in a batch
        memory.write(torch.tensor(indices[3:]), torch.tensor(rows[3:]))
        assert memory.rows()[[0, 5]].tolist() == [[4.0, 4.0], [3.0, 9.0]]
        assert memory.rows()[1:5].isneginf().all()


def test_growth_copies_the_table_a_few_times_only():
    memory = SampleMemory('SomeLoss')
    places = set()
    for index in range(1000):
        memory.write(torch.tensor([index]), torch.ones(1, 2))
        places.add(len(memory.table))
    assert len(places) <= 11
    assert memory.rows().shape == (1000, 2)
    assert (memory.rows() == 1).all()
    assert memory.rows().element_size() == 1


def test_clear_forgets_values_and_keeps_the_samples(memory):
    memory.clear()
    assert not memory.rows().any()
    with pytest.raises(ValueError, match='got other labels for 4'):
        memory.visit(torch.tensor([4]), torch.zeros(1, 3))


def other_of_any_size(size):
    memory = SampleMemory('SomeLoss')
    if size:
        memory.visit(torch.tensor([size - 1]), torch.ones(1, 3), epoch=1)
    return memory


@pytest.mark.parametrize('size', [0, 2, 5, 50])
@pytest.mark.parametrize('load', [nn.Module.load_state_dict, load_state_dict], ids=['torch', 'mmengine'])
def test_a_state_dict_brings_the_table_whatever_was_there(memory, size, load):
    parent = nn.ModuleDict({'memory': other_of_any_size(size)})
    load(parent, nn.ModuleDict({'memory': memory}).state_dict(), strict=True)
    loaded = parent['memory']
    assert loaded.rows().tolist() == EXPECTED
    assert loaded.epoch == 2
    with pytest.raises(ValueError, match='got other labels for 4'):
        loaded.visit(torch.tensor([4]), torch.zeros(1, 3))
    loaded.write(torch.tensor([0]), torch.full((1, 3), 7))
    assert memory.rows().tolist() == EXPECTED  # not shared with the one that was saved


def test_an_empty_memory_empties_the_one_it_is_loaded_into(memory):
    assert not SampleMemory('SomeLoss').state_dict()
    memory.load_state_dict(SampleMemory('SomeLoss').state_dict())
    assert memory.size == 0
    assert memory.epoch is None
    assert not memory.visit(torch.tensor([4]), torch.zeros(1, 2))


def test_unknown_keys_of_a_state_dict_are_still_noticed(memory):
    with pytest.raises(RuntimeError, match='Unexpected key'):
        SampleMemory('SomeLoss').load_state_dict({**memory.state_dict(), 'tables': torch.zeros(1)})


def test_a_state_dict_holds_no_spare_rows_and_does_not_change_later(memory):
    memory.visit(torch.tensor([5]), torch.eye(3)[:1])
    state = memory.state_dict()
    assert len(memory.table) > 6
    assert state['table'].untyped_storage().nbytes() == 6 * 3
    memory.write(torch.tensor([0]), torch.ones(1, 3))
    assert not state['table'][0].any()


def test_mmengine_saves_it(memory):
    saved = get_state_dict(nn.ModuleDict({'memory': memory}))
    assert saved['memory.table'].tolist() == EXPECTED


@pytest.mark.parametrize('duplicate', [copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))])
def test_copies_go_their_own_way(memory, duplicate):
    other = duplicate(memory)
    other.write(torch.tensor([0]), torch.ones(1, 3))
    assert other.rows().tolist() == [[1, 1, 1], *EXPECTED[1:]]
    assert memory.rows().tolist() == EXPECTED


def test_moves_with_the_module_and_keeps_its_type():
    memory = SampleMemory('SomeLoss', torch.float16, -math.inf)
    memory.write(torch.tensor([0]), torch.ones(1, 3))
    parent = nn.ModuleDict({'memory': memory})
    parent.double()
    assert memory.table.dtype == torch.float16
    assert memory.fingerprints.dtype == torch.int64
    parent.to('meta')
    assert memory.table.device.type == memory.fingerprints.device.type == 'meta'


@pytest.mark.parametrize('update_buffers', [False, True])
def test_a_growing_memory_does_not_disturb_averaged_models(update_buffers):
    model = nn.ModuleDict({'fc': nn.Linear(2, 2), 'memory': SampleMemory('SomeLoss')})
    averaged = ExponentialMovingAverage(model, update_buffers=update_buffers)
    for index in range(5):
        model['memory'].write(torch.tensor([index]), torch.ones(1, 3))
        averaged.update_parameters(model)
    assert (model['memory'].rows() == 1).all()


def test_a_memory_first_read_in_inference_can_be_written_to():
    memory = SampleMemory('SomeLoss')
    with torch.inference_mode():
        memory.visit(torch.tensor([1]), torch.ones(1, 3), remember=False)
        assert memory.read(torch.tensor([1]), 3).tolist() == [[0, 0, 0]]
    memory.write(torch.tensor([1]), torch.ones(1, 3))
    assert memory.rows().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_another_sample_under_the_same_index_is_rejected(memory):
    message = r'got other labels for 4 than before: SomeLoss remembers.*ConcatDataset.*mixup'
    for remember in (True, False):
        with pytest.raises(ValueError, match=message):
            memory.visit(torch.tensor([4]), torch.tensor([[1.0, 0.5, 0.0]]), remember=remember)
    memory.visit(torch.tensor([4]), torch.tensor([[1.0, 0.0, 0.0]]))


def test_two_samples_of_a_batch_under_one_index_are_rejected():
    with pytest.raises(ValueError, match='got other labels for 3'):
        SampleMemory('SomeLoss').visit(torch.tensor([3, 3]), torch.eye(2))
    SampleMemory('SomeLoss').visit(torch.tensor([3, 3]), torch.ones(2, 2))


def test_a_look_without_remembering_leaves_no_trace():
    memory = SampleMemory('SomeLoss')
    assert not memory.visit(torch.tensor([3]), torch.ones(1, 2), epoch=4, remember=False)
    assert memory.epoch is None
    memory.visit(torch.tensor([3]), torch.zeros(1, 2))


def test_the_first_visit_of_an_epoch_is_marked():
    memory = SampleMemory('SomeLoss')
    visits = [memory.visit(torch.tensor([0]), torch.ones(1, 2), epoch) for epoch in (0, 0, 1, None, 1, 2)]
    assert visits == [True, False, True, False, False, True]


def test_impossible_rows_are_rejected(memory):
    with pytest.raises(ValueError, match='sample_idx must be at least 0, got -1'):
        memory.visit(torch.tensor([-1]), torch.ones(1, 3))
    with pytest.raises(ValueError, match='cls_score must have 3 classes, of which SomeLoss remembers, got 4'):
        memory.visit(torch.tensor([1]), torch.ones(1, 4))


def test_an_empty_batch_is_nothing(memory):
    none = torch.zeros(0, dtype=torch.int64)
    memory.visit(none, torch.zeros(0, 3))
    memory.write(none, torch.zeros(0, 3))
    assert memory.read(none, 3).shape == (0, 3)
    assert memory.rows().tolist() == EXPECTED


def test_fingerprints_tell_rows_apart():
    classes = 100
    one = torch.eye(classes)
    first, second = torch.triu_indices(classes, classes, offset=1)
    rows = torch.cat(
        [torch.zeros(1, classes), one, -one, 0.3 * one, one[first] + one[second], one[first] - one[second]]
    )
    fingerprints = fingerprint_rows(rows)
    assert len(fingerprints.unique()) == len(rows)
    assert (fingerprints > 0).all()
    for dtype in (torch.float64, torch.int8):
        hard = rows[: 1 + 2 * classes]
        assert torch.equal(fingerprint_rows(hard.to(dtype)), fingerprint_rows(hard))


# Two processes.

WORLD_SIZE, CLASSES = 2, 4
INDICES = ([0, 1, 2, 3], [9, 4, 8])  # each process has its own samples, and tables of its own size


def samples(indices):
    generator = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(10, CLASSES, generator=generator), torch.zeros(10, CLASSES)
    targets[torch.arange(10), torch.arange(10) % CLASSES] = 1
    return dict(cls_score=logits[indices], target=targets[indices], sample_idx=torch.tensor(indices))


def correction():
    return LargeLossCorrection(permanent=True, relative_increase=0.2)


def pseudo_labelling():
    return EMAPLLoss(warmup_epochs=1, max_epochs=3)


def worker(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=WORLD_SIZE)
    results = {}

    loss = correction()
    for epoch in range(3):
        loss(**samples(INDICES[rank]), epoch=epoch)
        loss.synchronize()
    results['correction'] = loss.memory.rows()

    loss = correction()
    if rank == 0:  # the other process has seen nothing at all
        loss(**samples(INDICES[0]), epoch=1)
    loss.synchronize()
    results['one_sided'] = loss.memory.rows()

    loss = correction()
    loss.synchronize()
    results['empty'] = loss.memory.rows()

    loss = pseudo_labelling()
    for epoch in range(3):
        loss(**samples(INDICES[(rank + epoch) % 2]), epoch=epoch)
        loss.synchronize()
    results['pseudo_negatives'] = loss.pseudo_negatives.rows()
    results['predictions'] = loss.predictions.rows()

    for name, loss in (('correction', correction()), ('pseudo_labelling', pseudo_labelling())):
        loss(**samples(INDICES[rank]), epoch=0)
        loss(**samples(INDICES[rank]), epoch=0)
        try:
            loss(**samples(INDICES[rank]), epoch=1)
        except RuntimeError as error:
            results[f'{name}_error'] = str(error)
    torch.save(results, folder / f'rank{rank}.pt')
    torch.distributed.destroy_process_group()


@pytest.fixture(scope='module')
def distributed(tmp_path_factory):
    folder = tmp_path_factory.mktemp('memories')
    torch.multiprocessing.spawn(worker, args=(folder,), nprocs=WORLD_SIZE)
    return [torch.load(folder / f'rank{rank}.pt', weights_only=True) for rank in range(WORLD_SIZE)]


def test_processes_remember_the_union(distributed):
    loss = correction()
    for epoch in range(3):
        for indices in INDICES:
            loss(**samples(indices), epoch=epoch)
    assert loss.memory.rows().any()
    for result in distributed:
        assert torch.equal(result['correction'], loss.memory.rows())


def test_a_process_without_samples_learns_those_of_the_other(distributed):
    loss = correction()
    loss(**samples(INDICES[0]), epoch=1)
    for result in distributed:
        assert torch.equal(result['one_sided'], loss.memory.rows())
        assert result['empty'].shape == (0, 0)


def test_processes_find_the_pseudo_negatives_that_one_would_find(distributed):
    loss = pseudo_labelling()
    for epoch in range(3):
        for indices in INDICES:
            loss(**samples(indices), epoch=epoch)
    assert not loss.pseudo_negatives.rows().isneginf().all()
    for result in distributed:
        assert torch.equal(result['pseudo_negatives'], loss.pseudo_negatives.rows())
        assert torch.equal(result['predictions'], loss.predictions.rows())


@pytest.mark.parametrize('name', ['correction', 'pseudo_labelling'])
def test_processes_that_do_not_share_are_stopped(distributed, name):
    for result in distributed:
        message = result[f'{name}_error']
        assert 'did not share what they remember after epoch 0' in message
        assert 'TrainingSetHook' in message

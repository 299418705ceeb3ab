"""EPR and its regulariser, and the labels that ROLE estimates."""

import copy
import pickle

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mmml_losses.functional.estimation import epr_loss, expected_positive_regularizer, role_loss
from mmml_losses.losses import BCELoss, EPRLoss, ExpectedPositiveRegularizer, ROLELoss, SPALink, SPALoss, SumLoss
from mmml_losses.registry import LOSSES

SAMPLES, CLASSES, EXPECTED = 6, 5, 1.7
INDICES = torch.arange(SAMPLES)


@pytest.fixture
def batch():
    return example()


def example(seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(SAMPLES, CLASSES, generator=generator, dtype=dtype)
    targets = torch.zeros(SAMPLES, CLASSES, dtype=dtype)
    targets[INDICES, INDICES % CLASSES] = 1
    targets[2, 3] = -1
    return logits.requires_grad_(), targets


def role(num_samples=SAMPLES, seen=True, **kwargs):
    loss = ROLELoss(num_samples, CLASSES, EXPECTED, **kwargs)
    if seen:
        loss.see_training_labels(example()[1], INDICES)
    return loss


# The regulariser, and EPR.


def test_every_sample_has_the_penalty_of_the_batch(batch):
    logits, targets = batch
    penalty = expected_positive_regularizer(logits.sigmoid(), EXPECTED, targets)
    loss = ExpectedPositiveRegularizer(EXPECTED)
    torch.testing.assert_close(loss(*batch), penalty)
    torch.testing.assert_close(loss(*batch, reduction_override='none'), penalty.expand(SAMPLES))
    torch.testing.assert_close(loss(*batch, reduction_override='sum'), SAMPLES * penalty)
    torch.testing.assert_close(loss(*batch, avg_factor=SAMPLES), penalty)


def test_samples_of_weight_zero_leave_the_count(batch):
    logits, targets = batch
    weight = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    kept = weight > 0
    expected = expected_positive_regularizer(logits[kept].sigmoid(), EXPECTED, targets[kept])
    for form in (weight, weight.unsqueeze(1).expand(SAMPLES, CLASSES), weight.repeat_interleave(CLASSES)):
        total = ExpectedPositiveRegularizer(EXPECTED, reduction='sum')(*batch, form)
        torch.testing.assert_close(total, 4 * expected)


def test_label_weights_are_rejected(batch):
    weight = torch.rand(SAMPLES, CLASSES)
    for loss in (ExpectedPositiveRegularizer(EXPECTED), EPRLoss(EXPECTED)):
        with pytest.raises(ValueError, match='weight must be the same for all labels of a sample'):
            loss(*batch, weight)


def test_the_regularizer_reads_through_the_link_of_the_loss_next_to_it(batch):
    logits, targets = batch
    parts = SumLoss(dict(spa=SPALoss(), positives=ExpectedPositiveRegularizer(EXPECTED, loss_weight=0.5))).parts(*batch)
    expected = 0.5 * expected_positive_regularizer(SPALink()(logits), EXPECTED, targets)
    torch.testing.assert_close(parts['positives'], expected)


def test_epr_is_the_authors_code_or_the_papers_formula(batch):
    values, regularizer = epr_loss(*batch, EXPECTED)
    torch.testing.assert_close(EPRLoss(EXPECTED)(*batch), values.sum() / 29 + regularizer)
    paper = EPRLoss(EXPECTED, reading='paper', reduction='batchmean')
    torch.testing.assert_close(paper(*batch), values.sum(1).mean() + regularizer)
    torch.testing.assert_close(paper(*batch, avg_factor=SAMPLES), values.sum(1).mean() + regularizer)
    weighted = EPRLoss(EXPECTED, regularizer_weight=3.0, loss_weight=2.0)(*batch)
    torch.testing.assert_close(weighted, 2 * (values.sum() / 29 + 3 * regularizer))
    with pytest.raises(ValueError, match="'none' is not defined"):
        EPRLoss(EXPECTED)(*batch, reduction_override='none')


@pytest.mark.parametrize('reading', ['code', 'paper'])
@pytest.mark.parametrize('make', [lambda **kwargs: EPRLoss(EXPECTED, **kwargs), lambda **kwargs: role(**kwargs)])
def test_every_reduction_keeps_the_proportion_of_costs_and_regularizer(make, reading, batch):
    loss = make(reading=reading)
    mean, *others = (
        loss(*batch, sample_idx=INDICES, reduction_override=name) for name in ('mean', 'sum', 'batchmean', 'labelmean')
    )
    for value, factor in zip(others, (29, 29 / SAMPLES, 1), strict=True):
        torch.testing.assert_close(value, factor * mean)
    by_factor = loss(*batch, sample_idx=INDICES, reduction_override='mean', avg_factor=SAMPLES)
    torch.testing.assert_close(by_factor, 29 / SAMPLES * mean)


def test_epr_weighs_samples(batch):
    weight = torch.tensor([0.0, 1.0, 2.0, 0.5, 0.0, 3.0], dtype=torch.float64)
    values, _ = epr_loss(*batch, EXPECTED)
    kept = weight > 0
    _, regularizer = epr_loss(batch[0][kept], batch[1][kept], EXPECTED)
    expected = (values * weight.unsqueeze(1)).sum() + weight.sum() * regularizer
    torch.testing.assert_close(EPRLoss(EXPECTED, reading='paper', reduction='sum')(*batch, weight), expected)


def test_epr_reads_as_a_sigmoid(batch):
    logits, _ = batch
    torch.testing.assert_close(EPRLoss(EXPECTED).probabilities(logits), logits.sigmoid())
    assert EPRLoss(EXPECTED).pointwise


@pytest.mark.parametrize('make', [lambda: EPRLoss(EXPECTED), lambda: ExpectedPositiveRegularizer(EXPECTED)])
def test_unknown_labels_change_nothing(make, batch):
    logits, targets = batch
    targets = targets.clone()
    targets[:, 2], targets[4] = -1, -1
    rows, columns = [0, 1, 2, 3, 5], [0, 1, 3, 4]
    torch.testing.assert_close(make()(logits, targets), make()(logits[rows][:, columns], targets[rows][:, columns]))
    (gradient,) = torch.autograd.grad(make()(logits, targets), logits)
    assert not gradient[targets == -1].any()
    assert torch.autograd.gradcheck(lambda x: make()(x, targets), logits)


# ROLE.


def test_role_is_its_function(batch):
    logits, targets = batch
    loss = role()
    values, regularizer = role_loss(logits, targets, loss.label_estimator.double(), EXPECTED)
    torch.testing.assert_close(loss(*batch, sample_idx=INDICES), values.sum() / 29 + regularizer)
    loss.reading = 'paper'
    torch.testing.assert_close(
        loss(*batch, sample_idx=INDICES, reduction_override='batchmean'), values.sum(1).mean() + regularizer
    )
    with pytest.raises(ValueError, match="'none' is not defined"):
        loss(*batch, sample_idx=INDICES, reduction_override='none')


def test_role_weighs_samples(batch):
    logits, targets = batch
    loss = role(reduction='sum', reading='paper')
    weight = torch.tensor([0.0, 1.0, 2.0, 0.5, 0.0, 3.0], dtype=torch.float64)
    kept = weight > 0
    estimates = loss.label_estimator.double()
    values, _ = role_loss(logits, targets, estimates, EXPECTED)
    _, regularizer = role_loss(logits[kept], targets[kept], estimates[kept], EXPECTED)
    expected = (values * weight.unsqueeze(1)).sum() + weight.sum() * regularizer
    torch.testing.assert_close(loss(*batch, weight, sample_idx=INDICES), expected)


def test_estimates_start_in_doubt_and_sure_of_observed_positives():
    start = role(seen=False).label_estimator.sigmoid()
    assert start.min() >= 0.4
    assert start.max() <= 0.6
    assert start.std() > 0.03
    loss = role()
    positive = example()[1] == 1
    torch.testing.assert_close(loss.label_estimator.sigmoid()[positive], torch.full((SAMPLES,), 0.995))
    assert torch.equal(loss.label_estimator.sigmoid()[~positive], start[~positive])


def test_estimates_come_from_a_seed_of_their_own():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = role(seen=False)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(first.label_estimator, role(seen=False).label_estimator)
    assert not torch.equal(first.label_estimator, role(seen=False, seed=1).label_estimator)


def test_estimates_follow_their_sample(batch):
    logits, targets = batch
    loss = role(num_samples=10)
    order = torch.tensor([4, 0, 5])
    believed = loss.corrected_targets(logits[order], targets[order], sample_idx=order)
    expected = loss.label_estimator.sigmoid().double()[order].masked_fill(targets[order] < 0, -1)
    torch.testing.assert_close(believed, expected)
    loss(logits[order], targets[order], sample_idx=order).backward()
    moved = loss.label_estimator.grad.any(dim=1)
    assert moved.nonzero().squeeze(1).tolist() == [0, 4, 5]


def test_the_same_sample_twice_adds_both_gradients(batch):
    logits, targets = batch
    loss = role(reduction='sum', regularizer_weight=0.0)
    loss(logits[[1, 1]], targets[[1, 1]], sample_idx=torch.tensor([1, 1])).backward()
    double, loss.label_estimator.grad = loss.label_estimator.grad, None
    loss(logits[[1]], targets[[1]], sample_idx=torch.tensor([1])).backward()
    torch.testing.assert_close(double, 2 * loss.label_estimator.grad)


def test_training_labels_are_wanted_once(batch):
    loss = role(seen=False)
    assert loss.wants_training_labels
    with pytest.raises(RuntimeError, match=r'must see the labels.*TrainingSetHook.*see_training_labels'):
        loss(*batch, sample_idx=INDICES)
    loss.see_training_labels(batch[1].to(torch.int8), INDICES)
    assert not loss.wants_training_labels
    loss(*batch, sample_idx=INDICES)
    with torch.no_grad():
        loss.label_estimator.fill_(-1)
    loss.see_training_labels(batch[1], INDICES)
    assert (loss.label_estimator == -1).all()


def test_a_resumed_training_goes_on_as_if_it_had_not_stopped():
    def train(loss, steps):
        optimizer = torch.optim.SGD(loss.parameters(), lr=10.0)
        values = []
        for step in steps:
            logits, targets = example(step)
            order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(step))[:4]
            value = loss(logits[order], targets[order], sample_idx=order)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            values.append(value.item())
        return values

    loss = role()
    train(loss, range(3))
    resumed = role(seen=False, seed=5)
    resumed.load_state_dict(loss.state_dict())
    assert not resumed.wants_training_labels
    copies = [resumed, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))]
    expected = train(loss, range(3, 6))
    assert expected != train(role(), range(3, 6))
    for other in copies:
        assert train(other, range(3, 6)) == expected


def test_training_moves_the_estimates_towards_the_predictions():
    loss = role(regularizer_weight=0.0)
    logits, targets = torch.full((SAMPLES, CLASSES), -3.0), example(dtype=torch.float32)[1]
    optimizer = torch.optim.SGD(loss.parameters(), lr=20.0)
    for _ in range(100):
        optimizer.zero_grad()
        loss(logits, targets, sample_idx=INDICES).backward()
        optimizer.step()
    believed = loss.corrected_targets(logits, targets, sample_idx=INDICES)
    torch.testing.assert_close(believed[targets == 0], logits.sigmoid()[targets == 0], atol=0.02, rtol=0)
    assert (believed[targets == 1] > 0.4).all()


def test_the_learning_rate_of_the_estimates_is_set_by_name():
    model = nn.ModuleDict({'fc': nn.Linear(2, CLASSES), 'loss_module': role()})
    keys = dict(label_estimator=dict(lr_mult=10, decay_mult=0))
    optimizer = dict(type='SGD', lr=0.1, weight_decay=1e-4)
    wrapper = build_optim_wrapper(
        model, dict(type='OptimWrapper', optimizer=optimizer, paramwise_cfg=dict(custom_keys=keys))
    )
    groups = {id(group['params'][0]): group for group in wrapper.optimizer.param_groups}
    estimator = groups[id(model['loss_module'].label_estimator)]
    assert (estimator['lr'], estimator['weight_decay']) == (1.0, 0.0)
    assert groups[id(model['fc'].weight)]['lr'] == 0.1


def test_role_in_a_sum_is_read_as_a_sigmoid(batch):
    logits, targets = batch
    loss = SumLoss(dict(role=role(), bce=BCELoss()))
    torch.testing.assert_close(loss.probabilities(logits), logits.sigmoid())
    parts = loss.parts(logits, targets, sample_idx=INDICES)
    torch.testing.assert_close(parts['role'], role()(*batch, sample_idx=INDICES))


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(batch, dtype):
    half = batch[0].detach().to(dtype)
    value = role()(half, batch[1], sample_idx=INDICES)
    assert value.dtype == torch.float32
    assert value == role()(half.float(), batch[1], sample_idx=INDICES)


@pytest.mark.parametrize('size', [20.0, 1e4])
@pytest.mark.parametrize('make', [lambda: EPRLoss(EXPECTED), role, lambda: ExpectedPositiveRegularizer(EXPECTED)])
def test_extreme_logits_stay_finite(make, size):
    logits, targets = example(dtype=torch.float32)
    logits = (size * logits.detach().sign()).requires_grad_()
    loss = make()
    if isinstance(loss, ROLELoss):
        with torch.no_grad():
            loss.label_estimator.copy_(-logits)
    value = loss(logits, targets, sample_idx=INDICES)
    assert value.isfinite()
    value.backward()
    assert logits.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in loss.parameters())


@pytest.mark.parametrize('fill', [0, 1, -1])
@pytest.mark.parametrize('samples', [0, 1, 4])
@pytest.mark.parametrize('make', [EPRLoss, ExpectedPositiveRegularizer, lambda k: ROLELoss(4, CLASSES, k)])
def test_batches_of_one_kind(make, fill, samples):
    loss = make(EXPECTED)
    targets = torch.full((4, CLASSES), fill)
    loss.see_training_labels(targets, torch.arange(4))
    logits = torch.randn(samples, CLASSES, requires_grad=True)
    value = loss(logits, targets[:samples], sample_idx=torch.arange(samples))
    assert value.isfinite()
    value.backward()
    assert logits.grad.shape == (samples, CLASSES)
    if fill == -1 or samples == 0:
        assert value == 0


def test_bad_samples_are_rejected(batch):
    targets = batch[1]
    loss = role()
    with pytest.raises(ValueError, match=r"ROLELoss.*'sample_idx' to meta_keys of PackInputs"):
        loss(*batch)
    with pytest.raises(ValueError, match=r'sample_idx must be from 0 to 5.*num_samples, got 1 to 6'):
        loss(*batch, sample_idx=INDICES + 1)
    with pytest.raises(ValueError, match='got other labels for 4 than in the training set'):
        loss(*batch, sample_idx=INDICES.flip(0))
    with pytest.raises(ValueError, match='indices repeat in a ConcatDataset'):
        role(seen=False).see_training_labels(targets, torch.tensor([0, 1, 2, 0, 1, 2]))
    with pytest.raises(ValueError, match=r'labels must be of shape \(M, 5\), got \(6, 4\)'):
        role(seen=False).see_training_labels(targets[:, :4], INDICES)


def test_a_rejected_training_set_leaves_no_trace(batch):
    loss = role(seen=False)
    start = loss.label_estimator.clone()
    with pytest.raises(ValueError, match='indices repeat'):
        loss.see_training_labels(batch[1], torch.zeros(SAMPLES, dtype=torch.int64))
    assert loss.wants_training_labels
    assert torch.equal(loss.label_estimator, start)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: EPRLoss(-1), 'expected_positives must be at least 0, got -1'),
        (lambda: ROLELoss(0, 5, 1.0), 'num_samples and num_classes must be at least 1, got 0 and 5'),
        (lambda: ROLELoss(5, 5, -2.0), 'expected_positives must be at least 0, got -2.0'),
    ],
)
def test_bad_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_registered_under_their_names():
    assert isinstance(LOSSES.build(dict(type='EPRLoss', expected_positives=1.5)), EPRLoss)
    assert isinstance(LOSSES.build(dict(type='ExpectedPositiveRegularizer', expected_positives=1.5)).link, nn.Module)
    loss = LOSSES.build(dict(type='ROLELoss', num_samples=3, num_classes=2, expected_positives=1.5))
    assert loss.label_estimator.shape == (3, 2)


# Two processes.


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(3, CLASSES)
        self.loss_module = role()

    def forward(self, rows):
        features = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(0))
        targets = example(dtype=torch.float32)[1]
        return self.loss_module(self.fc(features[rows]), targets[rows], sample_idx=rows)


def train_in_turn(model, rows):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        model(rows.roll(step)).backward()
        optimizer.step()


def worker(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=2)
    model = Model()
    train_in_turn(DistributedDataParallel(model), INDICES[3 * rank : 3 * rank + 3])
    torch.save(model.state_dict(), folder / f'rank{rank}.pt')
    torch.distributed.destroy_process_group()


def test_processes_keep_the_same_estimates(tmp_path):
    torch.multiprocessing.spawn(worker, args=(tmp_path,), nprocs=2)
    first, second = (torch.load(tmp_path / f'rank{rank}.pt', weights_only=True) for rank in range(2))
    before = Model().state_dict()
    for key, value in first.items():
        assert torch.equal(value, second[key]), key
    moved = (first['loss_module.label_estimator'] != before['loss_module.label_estimator']).any(dim=1)
    assert moved.all()  # those of either process's samples

"""Large loss as a loss: its schedule, its memory, and the terms it is made of."""

import copy
import pickle

import pytest
import torch

from mmml_losses.functional import bce_positive, pair_loss
from mmml_losses.functional.large_loss import large_losses
from mmml_losses.losses import BCELoss, PairLoss
from mmml_losses.losses.core import context
from mmml_losses.losses.large_loss import LargeLossCorrection, LargeLossRejection
from mmml_losses.registry import LOSSES

INDICES = torch.arange(6)
KINDS = {
    'rejection': LargeLossRejection,
    'temporary': LargeLossCorrection,
    'permanent': lambda **kwargs: LargeLossCorrection(permanent=True, **kwargs),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


@pytest.fixture
def batch():
    return example()


def example(seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    targets = torch.zeros(6, 5, dtype=torch.float64)
    targets[torch.arange(6), torch.tensor([0, 1, 2, 3, 4, 0])] = 1
    targets[2, 3] = -1
    return logits.requires_grad_(), targets


def test_the_first_epoch_is_plain_training(make, batch):
    loss = make(relative_increase=0.1)(*batch, epoch=0, sample_idx=INDICES)
    torch.testing.assert_close(loss, BCELoss()(*batch))


def test_rejection_and_temporary_correction_grow_with_the_epoch(batch):
    logits, targets = batch
    rejection, correction = LargeLossRejection(0.05), LargeLossCorrection(0.05)
    for epoch, count in ((0, 0), (1, 2), (2, 3), (4, 6), (40, 23)):  # ceil(30 x 0.05 x epoch), 23 unobserved at most
        assert rejection.rejected(logits, targets, epoch=epoch).sum() == count
        believed = correction.corrected_targets(logits, targets, epoch=epoch)
        assert (believed != targets).sum() == count
        torch.testing.assert_close(
            correction(*batch, epoch=epoch, reduction_override='none'), pair_loss_of(logits, believed)
        )
        kept = targets.masked_fill(rejection.rejected(logits, targets, epoch=epoch), -1)
        values = rejection(*batch, epoch=epoch, reduction_override='none')
        torch.testing.assert_close(values, pair_loss_of(logits, kept))
        torch.testing.assert_close(rejection(*batch, epoch=epoch), values.sum() / 29)  # the rejected count in the mean


def pair_loss_of(logits, targets):
    bce = PairLoss()
    return pair_loss(logits, targets, **bce.settings)


def test_a_fixed_clean_rate_needs_no_epoch(batch):
    logits, targets = batch
    for clean_rate, count in ((1.0, 0), (0.9, 3), (0.0, 23)):
        assert LargeLossRejection(clean_rate=clean_rate).rejected(logits, targets).sum() == count
        believed = LargeLossCorrection(clean_rate=clean_rate).corrected_targets(logits, targets)
        assert (believed != targets).sum() == count


def test_permanent_corrections_add_up(batch):
    logits, targets = batch
    loss = KINDS['permanent'](relative_increase=0.1)
    for epoch, count in ((0, 0), (1, 3), (1, 6), (2, 9), (9, 12)):
        loss(logits, targets, epoch=epoch, sample_idx=INDICES)
        believed = loss.corrected_targets(logits, targets, sample_idx=INDICES)
        assert (believed != targets).sum() == count
        assert (believed[targets == 1] == 1).all()
        assert (believed[targets == -1] == -1).all()


def test_a_permanent_correction_follows_its_sample(batch):
    logits, targets = batch
    loss = KINDS['permanent'](relative_increase=0.1)
    loss(logits, targets, epoch=1, sample_idx=INDICES)
    corrected = loss.corrected_targets(logits, targets, sample_idx=INDICES) != targets
    assert torch.equal(corrected, large_losses(logits, targets, 0.1))
    # Other order, other company, an easy negative by now: still positive.
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    loss.relative_increase = 0.0
    values = loss(-logits[order], targets[order], epoch=5, sample_idx=order, reduction_override='none')
    torch.testing.assert_close(values[corrected[order]], bce_positive(-logits[order])[corrected[order]])


def test_the_same_sample_twice_in_a_batch_keeps_both_corrections():
    logits = torch.tensor([[5.0, -5.0, 0.0], [-5.0, 5.0, 0.0]])
    targets = torch.tensor([[0.0, 0.0, 1.0]]).expand(2, 3)
    loss = KINDS['permanent'](relative_increase=0.3)  # two of six labels
    loss(logits, targets, epoch=1, sample_idx=torch.tensor([7, 7]))
    assert loss.corrected_targets(logits, targets, sample_idx=torch.tensor([7, 7])).tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_resumed_training_goes_on_as_if_it_had_not_stopped():
    batches = [example(seed) for seed in range(6)]
    targets = batches[0][1]

    def train(loss, steps):
        return [loss(batches[step][0], targets, epoch=step // 2, sample_idx=INDICES).item() for step in steps]

    loss = KINDS['permanent'](relative_increase=0.1)
    train(loss, range(4))
    resumed = KINDS['permanent'](relative_increase=0.1)
    resumed.load_state_dict(loss.state_dict())
    for other in (resumed, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert torch.equal(other.memory.rows(), loss.memory.rows())
        assert train(other, range(4, 6)) == train(copy.deepcopy(loss), range(4, 6))
    fresh = KINDS['permanent'](relative_increase=0.1)
    assert train(fresh, range(4, 6)) != train(loss, range(4, 6))


def test_evaluation_changes_no_memory(batch):
    logits, targets = batch
    loss = KINDS['permanent'](relative_increase=0.1).eval()
    first = loss(logits, targets, epoch=1, sample_idx=INDICES)
    assert loss(logits, targets, epoch=1, sample_idx=INDICES) == first
    assert not loss.memory.rows().any()


def test_only_a_permanent_correction_remembers():
    assert KINDS['permanent']().remembers_samples
    assert not LargeLossCorrection().remembers_samples
    assert not LargeLossCorrection().state_dict()


def test_missing_context_is_named(make, batch, request, monkeypatch):
    monkeypatch.setattr(context, 'runner_info', lambda key: None)  # other tests may have left a Runner
    with pytest.raises(ValueError, match='epoch must be known to LargeLoss'):
        make()(*batch, sample_idx=INDICES)
    if 'permanent' in request.node.callspec.id:
        with pytest.raises(ValueError, match=r"LargeLossCorrection.*'sample_idx' to meta_keys of PackInputs"):
            make()(*batch, epoch=1)
        with pytest.raises(ValueError, match='must name the 6 samples of the batch, got 2 indices'):
            make()(*batch, epoch=1, sample_idx=INDICES[:2])


def test_takes_any_pair(make, batch):
    terms = dict(positive=dict(type='focal_margin', margin=0.5), negative='hill')
    loss, plain = make(relative_increase=0.1, **terms), PairLoss(**terms)
    samples = dict(sample_idx=INDICES)
    torch.testing.assert_close(loss(*batch, epoch=0, **samples), plain(*batch))
    logits, targets = batch
    large = large_losses(logits, targets, 0.1, plain.settings['negative'])
    fill = -1 if isinstance(loss, LargeLossRejection) else 1
    expected = pair_loss(logits, targets.masked_fill(large, fill), **plain.settings)
    torch.testing.assert_close(loss(*batch, epoch=1, reduction_override='none', **samples), expected)


def test_gradient_is_the_derivative(make, batch):
    logits, targets = batch
    loss = make(relative_increase=0.1).eval()
    assert torch.autograd.gradcheck(lambda x: loss(x, targets, epoch=1, sample_idx=INDICES), logits)


@pytest.mark.parametrize('size', [20.0, 1e4])
def test_extreme_logits_stay_finite(make, size):
    logits = (size * torch.tensor([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, 1.0, -1.0]])).requires_grad_()
    targets = torch.tensor([[1.0, 1.0, 0.0, 0.0]]).expand(2, 4)
    loss = make(relative_increase=0.2)(logits, targets, epoch=2, sample_idx=torch.arange(2))
    assert loss.isfinite()
    assert torch.autograd.grad(loss, logits)[0].isfinite().all()


@pytest.mark.parametrize('fill', [0, 1, -1, 0.5])
@pytest.mark.parametrize('samples', [0, 1, 4])
def test_batches_of_one_kind(make, fill, samples):
    logits = torch.randn(samples, 3, requires_grad=True)
    loss = make(relative_increase=0.5)(
        logits, torch.full((samples, 3), fill), epoch=1, sample_idx=torch.arange(samples)
    )
    assert loss.isfinite()
    assert torch.autograd.grad(loss, logits)[0].shape == (samples, 3)


def test_weights_and_divisors(make, batch):
    weight = torch.rand(6, 5, dtype=torch.float64)
    rest = dict(epoch=2, sample_idx=INDICES)
    values = make(relative_increase=0.1)(*batch, reduction_override='none', **rest)
    assert make(relative_increase=0.1)(*batch, weight, reduction_override='sum', **rest) == (values * weight).sum()
    torch.testing.assert_close(make(relative_increase=0.1)(*batch, avg_factor=6, **rest), values.sum() / 6)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(make, batch, dtype):
    logits, targets = batch
    half = logits.detach().to(dtype)
    losses = [make(relative_increase=0.1)(x, targets, epoch=1, sample_idx=INDICES) for x in (half, half.float())]
    assert losses[0].dtype == torch.float32
    assert losses[0] == losses[1]


def test_registered_under_their_names():
    loss = LOSSES.build(dict(type='LargeLossCorrection', permanent=True, negative=dict(type='focal', gamma=1.0)))
    assert isinstance(loss, LargeLossCorrection)
    assert isinstance(LOSSES.build(dict(type='LargeLossRejection')), LargeLossRejection)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(relative_increase=-0.1), r'relative_increase must be in \[0, 1\], got -0.1'),
        (dict(relative_increase=2), r'relative_increase must be in \[0, 1\], got 2'),
        (dict(clean_rate=1.5), r'clean_rate must be in \[0, 1\], got 1.5'),
    ],
)
def test_bad_arguments_are_rejected(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_keeps_no_tensor_of_the_batch(make, batch):
    loss = make(relative_increase=0.1)
    logits, targets = batch
    loss(logits, targets, epoch=1, sample_idx=INDICES).backward()
    kept = [value for module in loss.modules() for value in vars(module).values() if isinstance(value, torch.Tensor)]
    assert all(value.grad_fn is None for value in kept)
    storages = {value.untyped_storage().data_ptr() for value in kept}
    assert not storages & {logits.untyped_storage().data_ptr(), targets.untyped_storage().data_ptr()}

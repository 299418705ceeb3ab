"""EM, and the pseudo-negatives that APL finds from epoch to epoch."""

import copy
import pickle

import pytest
import torch
from mmengine.logging import MessageHub

from mmml_losses.functional.estimation import em_apl_loss, em_loss
from mmml_losses.losses.core import context
from mmml_losses.losses.estimation import EMAPLLoss, EMLoss
from mmml_losses.registry import LOSSES

SAMPLES, CLASSES = 10, 3
INDICES = torch.arange(SAMPLES)


def example(seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(SAMPLES, CLASSES, generator=generator, dtype=torch.float64)
    targets = torch.zeros(SAMPLES, CLASSES, dtype=torch.float64)
    targets[INDICES, INDICES % CLASSES] = 1
    targets[2, 0] = -1
    return logits.requires_grad_(), targets


def train(loss, epochs, batches=((0, 4), (4, 8), (8, 10)), seed=None):
    """Return the values of each step, with other logits in every epoch unless ``seed`` is fixed."""
    values = []
    for epoch in epochs:
        logits, targets = example(epoch if seed is None else seed)
        for start, stop in batches:
            part = slice(start, stop)
            values.append(loss(logits[part], targets[part], epoch=epoch, sample_idx=INDICES[part]).item())
    return values


def soft_labels(loss):
    """Of the training set: probabilities at pseudo-negatives, -1 at other unobserved labels, 1 at positives."""
    logits, targets = example()
    return loss.corrected_targets(logits, targets, sample_idx=INDICES)


def test_em_is_its_function():
    batch = example()
    torch.testing.assert_close(EMLoss(alpha=0.1, reduction='none')(*batch), em_loss(*batch, alpha=0.1))
    assert EMLoss()(torch.zeros(1, 2), torch.zeros(1, 2)) < 0


def test_the_warm_up_is_em():
    loss = EMAPLLoss(warmup_epochs=2, max_epochs=6)
    plain = [EMLoss()(*(x[a:b] for x in example(e))).item() for e in range(2) for a, b in ((0, 4), (4, 8), (8, 10))]
    assert train(loss, range(2)) == pytest.approx(plain)


def test_pseudo_negatives_are_the_lowest_of_the_epoch_before_and_stay():
    loss = EMAPLLoss(warmup_epochs=2, max_epochs=6, negative_share=0.8)
    unobserved = example()[1] == 0
    previous = torch.zeros_like(unobserved)
    labels = soft_labels(loss)
    for epoch in range(6):
        train(loss, [epoch])
        before, labels = labels, soft_labels(loss)
        found = (labels >= 0) & unobserved
        if epoch < 2:
            assert not found.any()
            continue
        for label in range(CLASSES):
            candidates = [row for row in range(SAMPLES) if unobserved[row, label]]
            wanted = round(0.8 * len(candidates) * (epoch - 1) / 4)
            assert found[:, label].sum() == wanted
            open_rows = [row for row in candidates if not previous[row, label]]
            open_rows.sort(key=lambda row: example(epoch - 1)[0][row, label].item())
            expected = open_rows[: wanted - previous[:, label].sum()]
            assert set((found & ~previous)[:, label].nonzero().squeeze(1).tolist()) == set(expected)
        assert torch.equal(labels[previous], before[previous])
        anew = found & ~previous
        torch.testing.assert_close(labels[anew], example(epoch - 1)[0][anew].sigmoid(), rtol=2e-3, atol=0)
        previous = found


def test_the_value_is_that_of_the_function_with_its_pseudo_negatives():
    loss = EMAPLLoss(alpha=0.1, beta=0.7, warmup_epochs=1, max_epochs=3, reduction='none')
    logits, targets = example()
    loss(logits, targets, epoch=0, sample_idx=INDICES)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    values = loss(logits[order], targets[order], epoch=1, sample_idx=order)
    labels = soft_labels(loss)
    pseudo_negatives = labels.masked_fill(targets != 0, -1)
    assert (pseudo_negatives >= 0).any()
    torch.testing.assert_close(values, em_apl_loss(logits, targets, pseudo_negatives, 0.1, 0.7)[order])


def test_positives_and_unknown_labels_are_never_pseudo_negatives():
    loss = EMAPLLoss(warmup_epochs=0, max_epochs=2, negative_share=1.0)
    train(loss, range(3))
    labels, targets = soft_labels(loss), example()[1]
    assert (labels[targets == 1] == 1).all()
    assert (labels[targets == -1] == -1).all()
    assert (labels[targets == 0] >= 0).all()


def test_samples_that_an_epoch_left_out_wait():
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=2, negative_share=1.0)
    train(loss, [0], batches=((0, 4),))
    train(loss, [1])
    found = (soft_labels(loss) >= 0) & (example()[1] == 0)
    assert found[:4].sum() == (example()[1][:4] == 0).sum()
    assert not found[4:].any()


def test_of_a_repeated_sample_the_largest_probability_counts():
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=2, negative_share=0.5)
    targets = torch.zeros(3, 1)
    twice = torch.tensor([0, 0, 1])
    loss(torch.tensor([[-5.0], [2.0], [-1.0]]), targets, epoch=0, sample_idx=twice)
    loss(torch.tensor([[-9.0]]), targets[:1], epoch=0, sample_idx=torch.tensor([0]))
    loss(torch.zeros(1, 1), targets[:1], epoch=1, sample_idx=torch.tensor([1]))
    labels = loss.corrected_targets(None, targets[:2], sample_idx=torch.tensor([0, 1]))
    assert labels[0] == -1
    assert labels[1].item() == pytest.approx(torch.tensor(-1.0).sigmoid().item())


@pytest.mark.parametrize('stop', [1, 2, 3, 4])
def test_a_resumed_training_goes_on_as_if_it_had_not_stopped(stop):
    def make():
        return EMAPLLoss(warmup_epochs=2, max_epochs=5)

    loss = make()
    train(loss, range(stop))
    resumed = make()
    resumed.load_state_dict(loss.state_dict())
    copies = [resumed, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))]
    expected = train(loss, range(stop, 6))
    for other in copies:
        assert train(other, range(stop, 6)) == expected
        assert torch.equal(soft_labels(other), soft_labels(loss))


def test_resuming_within_an_epoch_selects_once():
    loss, resumed = (EMAPLLoss(warmup_epochs=1, max_epochs=3) for _ in range(2))
    train(loss, range(2), batches=((0, 4), (4, 10)))
    train(loss, [2], batches=((0, 4),))
    resumed.load_state_dict(loss.state_dict())
    for other in (loss, resumed):
        train(other, [2], batches=((4, 10),))
    assert torch.equal(soft_labels(loss), soft_labels(resumed))
    assert torch.equal(loss.predictions.rows(), resumed.predictions.rows())


def test_evaluation_changes_no_memory():
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=3)
    train(loss, range(2))
    state = loss.state_dict()
    loss.eval()
    train(loss, [2])
    for key, value in loss.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_the_length_of_the_training_comes_from_the_runner(request):
    hub = MessageHub.get_instance(request.node.name)
    try:
        hub.update_info('max_epochs', 4)
        hub.update_info('epoch', 0)
        logits, targets = example()
        EMAPLLoss(warmup_epochs=3)(logits, targets, sample_idx=INDICES)
        with pytest.raises(ValueError, match='warmup_epochs must be below the 4 epochs of the training, got 5'):
            EMAPLLoss()(logits, targets, sample_idx=INDICES)
    finally:
        MessageHub._instance_dict.pop(request.node.name)


def test_missing_context_is_named(monkeypatch):
    monkeypatch.setattr(context, 'runner_info', lambda key: None)
    logits, targets = example()
    with pytest.raises(ValueError, match=r"EMAPLLoss.*'sample_idx' to meta_keys of PackInputs"):
        EMAPLLoss(max_epochs=9)(logits, targets, epoch=0)
    with pytest.raises(ValueError, match='epoch must be known to EMAPLLoss'):
        EMAPLLoss(max_epochs=9)(logits, targets, sample_idx=INDICES)
    with pytest.raises(ValueError, match='max_epochs must be known to EMAPLLoss'):
        EMAPLLoss()(logits, targets, epoch=0, sample_idx=INDICES)


def test_labels_that_change_are_rejected():
    loss = EMAPLLoss(max_epochs=9)
    train(loss, [0])
    logits, targets = example()
    with pytest.raises(ValueError, match='got other labels for 0 than before: EMAPLLoss remembers'):
        loss(logits, targets.clamp(min=0) * 0.5, epoch=1, sample_idx=INDICES)


@pytest.mark.parametrize('size', [1e4, 1e6])
def test_extreme_logits_stay_finite_and_are_remembered(size):
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=2, negative_share=1.0)
    logits = torch.tensor([[-size, size, -size]], requires_grad=True)
    targets, index = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([3])
    for epoch in range(2):
        value = loss(logits, targets, epoch=epoch, sample_idx=index)
        assert value.isfinite()
        assert torch.autograd.grad(value, logits)[0].isfinite().all()
    assert loss.corrected_targets(logits, targets, sample_idx=index).tolist() == [[0, 1, 1]]


@pytest.mark.parametrize('fill', [0, 1, -1])
@pytest.mark.parametrize('samples', [0, 1, 4])
def test_batches_of_one_kind(fill, samples):
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=3)
    logits = torch.randn(samples, 3, requires_grad=True)
    for epoch in range(3):
        value = loss(logits, torch.full((samples, 3), fill), epoch=epoch, sample_idx=torch.arange(samples))
        assert value.isfinite()
        assert torch.autograd.grad(value, logits)[0].shape == (samples, 3)


def test_gradient_is_the_derivative():
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=3)
    train(loss, range(2))
    logits, targets = example()
    assert torch.autograd.gradcheck(lambda x: loss.eval()(x, targets, sample_idx=INDICES), logits)


def test_memory_is_four_bytes_a_label():
    loss = EMAPLLoss(warmup_epochs=1, max_epochs=3)
    train(loss, range(2))
    tables = [memory.rows() for memory in (loss.predictions, loss.pseudo_negatives)]
    assert sum(table.element_size() * table.numel() for table in tables) == 4 * SAMPLES * CLASSES
    assert loss.remembers_samples


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(negative_share=1.5), r'negative_share must be in \[0, 1\], got 1.5'),
        (dict(warmup_epochs=-1), 'warmup_epochs must be at least 0, got -1'),
    ],
)
def test_bad_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        EMAPLLoss(**arguments)


def test_registered_under_their_names():
    assert isinstance(LOSSES.build(dict(type='EMLoss', alpha=0.1)), EMLoss)
    assert isinstance(LOSSES.build(dict(type='EMAPLLoss', beta=0.1)), EMAPLLoss)

"""What a loss answers the heads of MMDetection, and what it makes of anchors. MMDetection itself is not needed."""

import copy

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mmml_losses.losses import (
    BCELoss,
    FocalLoss,
    LabelPairRegularizer,
    LargeLossCorrection,
    LargeLossRejection,
    LASDLoss,
    SoftmaxLoss,
    SPALoss,
    SumLoss,
    TwoWayLoss,
    ZLPRLoss,
)
from mmml_losses.registry import LOSSES
from tests.helpers.losses_table import TABLE, build

CLASSES = 4
SAFE = [name for name in TABLE if build(name).reason_against_anchors is None]


def anchors(count: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits and labels of anchors, of which one in six has an object."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.full((count,), CLASSES)
    labels[::6] = torch.randint(CLASSES, (len(labels[::6]),), generator=generator)
    return logits.requires_grad_(), labels


@pytest.mark.parametrize(
    'loss',
    [
        SPALoss(),
        FocalLoss(link='phi'),
        SumLoss(losses=dict(spa=SPALoss(), lpr=LabelPairRegularizer())),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_dense_heads_score_classes_and_roi_heads_a_background_of_zero(loss):
    logits, _ = anchors()
    assert loss.custom_cls_channels
    assert loss.custom_activation
    assert not getattr(loss, 'custom_accuracy', False)
    assert torch.equal(loss.get_activation(logits), loss.link(logits))
    of_roi_head = copy.deepcopy(loss)
    assert of_roi_head.get_cls_channels(CLASSES) == CLASSES
    for each in (of_roi_head, copy.deepcopy(of_roi_head)):
        scores = each.get_activation(logits)
        assert torch.equal(scores[:, :CLASSES], loss.link(logits))
        assert scores.shape == (len(logits), CLASSES + 1)
        assert not scores[:, CLASSES].any()


def test_activations_of_half_precision_and_of_nothing():
    assert SPALoss().get_activation(torch.zeros(2, 3, dtype=torch.bfloat16)).dtype == torch.float32
    assert SPALoss().get_activation(torch.zeros(0, 3)).shape == (0, 3)


def test_accuracy_takes_a_proposal_for_background_below_one_half():
    logits = torch.tensor([[3.0, 1.0], [-1.0, -2.0], [-1.0, 0.1], [2.0, 3.0]])
    labels = torch.tensor([0, 2, 2, 0])  # right, right, an object instead of background, another object
    assert BCELoss().get_accuracy(logits, labels) == dict(acc=torch.tensor(50.0))
    assert BCELoss().get_accuracy(logits[:0], labels[:0]) == dict(acc=torch.tensor(0.0))


def test_accuracy_reads_through_the_link():
    loss = SPALoss()
    logits = loss.link.inverse(torch.tensor([[0.4], [0.6]]))
    assert loss.get_accuracy(logits, torch.tensor([1, 0]))['acc'] == 100


@pytest.mark.parametrize('layout', ['anchor', 'class', 'flat'])
@pytest.mark.parametrize('name', SAFE)
def test_anchors_of_weight_zero_change_nothing(name, layout):
    logits, labels = anchors(24)
    ignored = torch.zeros(24, dtype=torch.bool)
    ignored[1::6] = True  # background, as detectors mark an anchor between object and background
    logits = torch.where(ignored.unsqueeze(1), 5.0, logits.detach()).requires_grad_()
    divisor = 1 if name == 'expected_positives' else 4
    weight = (~ignored).double()
    if layout != 'anchor':  # FSAF weighs every class of an anchor
        weight = weight.unsqueeze(1).expand(-1, CLASSES)
    found = evaluate(name, logits, labels, weight.flatten() if layout == 'flat' else weight, divisor)
    gradient = torch.autograd.grad(found, logits)[0]
    assert not gradient[ignored].any()
    without = evaluate(name, logits[~ignored], labels[~ignored], None, divisor)
    torch.testing.assert_close(found, without)


@pytest.mark.parametrize('name', SAFE)
@pytest.mark.parametrize('avg_factor', [0, 0.0, torch.tensor([0.0])])
def test_no_anchor_that_counts_gives_zero_in_the_graph(name, avg_factor):
    logits, labels = anchors(12)
    found = evaluate(name, logits, torch.full_like(labels, CLASSES), torch.zeros(12, dtype=torch.float64), avg_factor)
    assert found == 0
    assert not torch.autograd.grad(found, logits)[0].any()


def evaluate(name: str, logits: Tensor, labels: Tensor, weight: Tensor | None, avg_factor: float | Tensor) -> Tensor:
    # One bucket, just as large as there are anchors that count: several depend on the random order.
    counted = len(labels) if weight is None else int(weight.reshape(len(labels), -1).any(dim=1).sum())
    arguments = dict(bucket_size=max(counted, 1)) if getattr(build(name), 'bucket_size', None) else {}
    loss = build(name, CLASSES, **arguments)
    return loss(logits, labels, weight, avg_factor=avg_factor, epoch=2)


@pytest.mark.parametrize(
    ('config', 'reason'),
    [
        (dict(type='LSEPLoss'), "way must be 'class' or 'both' there, with a bucket_size, got 'sample'"),
        (dict(type='TwoWayLoss', way='sample'), 'the background would never be trained'),
        (dict(type='SoftmaxLoss'), 'the background would never be trained'),
        (dict(type='CircleLoss'), 'the background would never be trained'),
        (dict(type='DRLoss', way='sample', constraint='positive'), 'the background would never be trained'),
        (dict(type='TwoWayLoss'), "bucket_size must be a number of anchors for way='both' there, such as 128, got"),
        (dict(type='DRLoss'), "bucket_size must be a number of anchors for way='class'"),
        (dict(type='ZLPRLoss', way='joint', bucket_size=8), "way must be .* got 'joint'"),
        (dict(type='DRLoss', bucket_size=8, across_ranks=True), 'across_ranks must be False there, got True'),
        (dict(type='LargeLossCorrection', permanent=True), 'it remembers every sample'),
        (dict(type='EMAPLLoss'), 'it remembers every sample'),
        (dict(type='ROLELoss', num_samples=9, num_classes=4, expected_positives=1.0), 'it remembers every sample'),
        (dict(type='EMLoss'), 'its negative term never teaches that a class is absent'),
        (dict(type='EPRLoss', expected_positives=1.0), 'its negative term never teaches that a class is absent'),
        (dict(type='PairLoss', negative=dict(type='entropy', weight=2.0)), 'its negative term never teaches'),
        (dict(type='ConsistencyRegularizer'), 'it compares several views of an image'),
    ],
)
def test_what_cannot_work_on_anchors_is_rejected_with_the_reason(config, reason):
    loss = LOSSES.build(config)
    logits, labels = anchors()
    with pytest.raises(ValueError, match=f'{config["type"]} cannot be the loss of a detector: .*{reason}'):
        loss(logits, labels, avg_factor=3.0)
    joined = SumLoss(losses=dict(bce=BCELoss(), other=loss))
    assert "of its part 'other', " in joined.reason_against_anchors
    with pytest.raises(ValueError, match=reason):
        joined(logits, labels, avg_factor=3.0)


@pytest.mark.parametrize(
    'config',
    [
        dict(type='ZLPRLoss'),
        dict(type='MultiSimilarityLoss'),
        dict(type='DRLoss', way='sample'),
        dict(type='DRLoss', way='sample', constraint='both'),
        *(
            dict(type=name, way=way, bucket_size=8)
            for name in ('LSEPLoss', 'ZLPRLoss', 'TwoWayLoss', 'SoftmaxLoss', 'MultiSimilarityLoss', 'CircleLoss')
            for way in ('class', 'both')
        ),
    ],
    ids=lambda config: f'{config["type"]}-{config.get("way", "sample")}',
)
def test_comparisons_that_see_background_train_on_anchors(config):
    loss = LOSSES.build(config)
    assert loss.reason_against_anchors is None
    logits, labels = anchors()
    gradient = torch.autograd.grad(loss(logits, labels, avg_factor=3.0), logits)[0]
    assert gradient.isfinite().all()
    background, own = labels == CLASSES, torch.nn.functional.one_hot(labels, CLASSES + 1)[:, :CLASSES].bool()
    assert (gradient[background] > 0).any()
    assert (gradient[own] < 0).any()


def test_single_labels_without_background_are_no_anchors():
    logits, _ = anchors(6)
    labels = torch.tensor([0, 1, 2, 3, 1, 0])
    one_hot = torch.nn.functional.one_hot(labels, CLASSES)
    assert TwoWayLoss()(logits, labels) == TwoWayLoss()(logits, one_hot)


def test_buckets_are_cut_from_a_random_order_that_a_seed_repeats():
    logits, labels = anchors()
    loss = TwoWayLoss(way='class', bucket_size=8)
    torch.manual_seed(0)
    first, second = loss(logits, labels, avg_factor=1.0), loss(logits, labels, avg_factor=1.0)
    torch.manual_seed(0)
    assert loss(logits, labels, avg_factor=1.0) == first
    assert first != second


def test_a_bucket_of_all_anchors_does_not_depend_on_their_order():
    logits, labels = anchors()
    loss = ZLPRLoss(way='both', bucket_size=1000)
    torch.testing.assert_close(loss(logits, labels), loss(logits.flip(0), labels.flip(0)))


@pytest.mark.parametrize('kind', [TwoWayLoss, ZLPRLoss])
def test_an_anchor_of_weight_two_is_the_same_as_two(kind):
    logits, labels = anchors(24)
    weight = torch.ones(24, dtype=torch.float64)
    weight[::3] = 2
    loss = kind(way='both', bucket_size=1000)
    found = loss(logits, labels, weight, avg_factor=4.0)
    twice = torch.arange(24).repeat_interleave(weight.long())
    torch.testing.assert_close(found, loss(logits[twice], labels[twice], avg_factor=4.0))


@pytest.mark.parametrize(
    'config',
    [
        dict(type='SPALoss'),
        dict(type='LargeLossRejection', clean_rate=0.9),
        dict(type='ZLPRLoss'),
        dict(type='TwoWayLoss', bucket_size=16),
        dict(type='DRLoss', bucket_size=16),
    ],
    ids=lambda config: config['type'],
)
def test_compiled_losses_are_the_same_on_anchors(config):
    logits, labels = anchors()
    weight = torch.ones(60, dtype=torch.float64)
    weight[1::7] = 0
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)  # of buckets
        found = LOSSES.build(dict(config, compile=compiled))(logits, labels, weight, avg_factor=3.0)
        results.append((found, torch.autograd.grad(found, logits)[0]))
    torch.testing.assert_close(*results)


def test_compiled_losses_reject_anchors():
    with pytest.raises(ValueError, match='the background would never be trained'):
        SoftmaxLoss(compile=True)(*anchors(), avg_factor=3.0)


class CountNumbers(TorchDispatchMode):
    """How many numbers all operations together have written."""

    written = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, (tuple, list)) else [result]:
            self.written += each.numel() if isinstance(each, Tensor) else 0
        return result


@pytest.mark.parametrize('way', ['sample', 'class', 'both'])
def test_comparisons_cost_no_more_than_in_proportion_to_the_anchors(way):
    written = []
    for count in (512, 8 * 512):
        logits, labels = anchors(count)
        loss = ZLPRLoss(way=way, bucket_size=None if way == 'sample' else 64)
        with CountNumbers() as counter:
            loss(logits, labels, torch.ones(count, dtype=torch.float64), avg_factor=3.0).backward()
        written.append(counter.written)
    assert written[0] > 512 * CLASSES
    assert written[1] <= 8.1 * written[0]


def test_comparisons_of_few_objects_cost_a_fraction():
    """Of two-way, which is 0 without an object, against ZLPR, which never is, as a detector on COCO would see them."""
    logits, labels = torch.randn(4096, 80, requires_grad=True), torch.full((4096,), 80)
    labels[:20] = torch.arange(20) % 5
    written = {}
    for kind in (ZLPRLoss, TwoWayLoss):
        with CountNumbers() as counter:
            kind(way='both', bucket_size=1024)(logits, labels, torch.ones(4096), avg_factor=20.0).backward()
        written[kind] = counter.written
    assert written[TwoWayLoss] < written[ZLPRLoss] / 3


@pytest.mark.parametrize('shape', [(4,), (4, 1)])
@pytest.mark.parametrize('kind', [LargeLossRejection, LargeLossCorrection])
def test_ignored_anchors_do_not_take_the_place_of_large_losses(kind, shape):
    logits = torch.tensor([[6.0], [2.0], [-3.0], [-3.0]], requires_grad=True)
    labels, weight = torch.ones(4, dtype=torch.long), torch.tensor([0.0, 1.0, 1.0, 1.0]).reshape(shape)
    gradient = torch.autograd.grad(kind(clean_rate=0.75)(logits, labels, weight, avg_factor=1.0), logits)[0]
    assert gradient[0] == 0
    assert gradient[1] <= 0  # rejected, or taken for a positive
    assert (gradient[2:] > 0).all()


@pytest.mark.parametrize('name', SAFE)
def test_no_process_waits_for_another_at_a_call_that_a_head_may_skip(name, monkeypatch):
    """DINO skips it without queries of noise, PAA for an image without objects, RoI heads without proposals."""

    def wait(*args, **kwargs):
        raise AssertionError('waits for the other processes')

    monkeypatch.setattr(torch.distributed, 'is_initialized', lambda: True)
    monkeypatch.setattr(torch.distributed, 'get_world_size', lambda group=None: 2)
    for collective in ('all_reduce', 'all_gather', 'all_gather_object', 'broadcast'):
        monkeypatch.setattr(torch.distributed, collective, wait)
    logits, labels = anchors(12)
    assert evaluate(name, logits, labels, None, 4).isfinite()


@pytest.mark.parametrize('classes', [1, 2, 80])
def test_leverage_stays_in_range_where_hardly_an_anchor_has_an_object(classes):
    loss = LASDLoss()
    labels = torch.full((1000,), classes)
    labels[0] = 0
    logits = torch.full((1000, classes), -4.0, requires_grad=True)
    values = loss(logits, labels, reduction_override='none')
    assert loss.estimated_positives == pytest.approx(1e-3)
    plain = LASDLoss(negative_leverage=1.0)(logits, labels, reduction_override='none')
    leverage = (values[1:] / plain[1:]).detach()
    torch.testing.assert_close(leverage, torch.full_like(leverage, 1 / max(classes - 1, 1)))

"""The registered set-wise losses: golden figures, what their means divide by, weights, and combinations."""

import copy
import pickle
from pathlib import Path

import pytest
import torch

from mmml_losses import functional as F
from mmml_losses.functional.sets import WAYS
from mmml_losses.losses.pointwise import BCELoss
from mmml_losses.losses.setwise import (
    CircleLoss,
    DRLoss,
    LSEPLoss,
    MultiSimilarityLoss,
    SetwiseLoss,
    SoftmaxLoss,
    TwoWayLoss,
    ZLPRLoss,
)
from mmml_losses.losses.sum import SumLoss
from mmml_losses.registry import LOSSES
from tests.helpers.figures import figures

DATA = Path(__file__).resolve().parents[1] / 'data'
LOSS_TYPES = (LSEPLoss, ZLPRLoss, TwoWayLoss, SoftmaxLoss, MultiSimilarityLoss, CircleLoss, DRLoss)
COUNT_POSITIVE = (TwoWayLoss, SoftmaxLoss)


def tensors(case):
    logits = torch.tensor(case['logits'], dtype=torch.float64, requires_grad=True)
    return logits, torch.tensor(case['targets'], dtype=torch.float64), torch.tensor(case['loss'], dtype=torch.float64)


def example(dtype=torch.float64):
    """Targets with an empty, a full and an unknown row and column, and single unknown labels."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(7, 6, generator=generator, dtype=dtype)
    draws = torch.rand(7, 6, generator=generator)
    targets = torch.where(draws < 0.35, 1.0, 0.0).masked_fill(draws > 0.85, -1).to(dtype)
    for fill, line in ((0, 0), (1, 1), (-1, 2)):
        targets[line], targets[:, line] = fill, fill
    return logits.requires_grad_(), targets


def gradient(loss, logits):
    return torch.autograd.grad(loss, logits)[0]


@pytest.fixture(params=LOSS_TYPES, ids=lambda loss_type: loss_type.__name__)
def loss_type(request) -> type[SetwiseLoss]:
    return request.param


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


# Golden figures


@pytest.mark.parametrize('case', figures('two_way', 'dr', files=('official_losses',)))
def test_losses_equal_the_authors_code(case):
    logits, targets, expected = tensors(case)
    params = case['params']
    if case['name'] == 'dr':
        loss = DRLoss(pair_scale=params['gamma1'], constraint_scale=params['gamma2'], reduction='none')
    else:
        names = ('positive_temperature', 'negative_temperature')
        loss = TwoWayLoss(**{name: params[name] for name in names})
    values = loss(logits, targets)
    torch.testing.assert_close(values.detach(), expected)
    torch.testing.assert_close(gradient(values.sum(), logits), torch.tensor(case['grad'], dtype=torch.float64))


def golden_loss(name, params):
    """Build the loss of a figure of the papers' equations."""
    way = params.get('way')
    if name == 'lsep':
        return LSEPLoss(way=way, gamma=params['gamma'], reduction='none')
    if name == 'zlpr':
        return ZLPRLoss(way=way, reduction='none')
    if name == 'softmax':
        return SoftmaxLoss(way=way, reduction='none')
    if name == 'logit_bias':
        return TwoWayLoss(way=way, positive_temperature=1.0, logit_bias=params['bias'], reduction='none')
    if name == 'dr':
        return DRLoss(
            pair_scale=params['gamma1'],
            constraint_scale=params['gamma2'],
            constraint=params['constraint'],
            reduction='none',
        )
    temperatures = {key: params[key] for key in ('positive_temperature', 'negative_temperature')}
    return TwoWayLoss(way='joint' if name == 'joint_way' else way, reduction='none', **temperatures)


EQUATIONS = ('lsep', 'zlpr', 'softmax', 'two_way_one_way', 'logit_bias', 'dr', 'joint_way')


@pytest.mark.parametrize('case', figures(*EQUATIONS, files=('paper_equations',)))
def test_losses_equal_the_equations(case):
    logits, targets, expected = tensors(case)
    scale = case['params'].get('logit_scale', 1.0)
    values = golden_loss(case['name'], case['params'])(scale * logits, targets)
    torch.testing.assert_close(values.detach(), expected)


# Reduction


def expected_counts(loss_type, targets, way, bucket_size=None):
    counts = (targets == 1) if loss_type in COUNT_POSITIVE else (targets >= 0)
    buckets = counts.split(bucket_size or len(targets))
    return {
        'sample': counts.any(dim=1).sum(),
        'class': sum(bucket.any(dim=0).sum() for bucket in buckets),
        'joint': sum(bucket.any() for bucket in buckets),
    }[way]


@pytest.mark.parametrize('bucket_size', [None, 3])
@pytest.mark.parametrize('way', ['sample', 'class', 'joint'])
def test_means_are_over_the_sets_that_count(loss_type, way, bucket_size):
    logits, targets = example()
    loss = loss_type(way=way, bucket_size=bucket_size)
    values = loss(logits, targets, reduction_override='none')
    shapes = {'sample': (7,), 'class': (3, 6) if bucket_size else (6,), 'joint': (3,) if bucket_size else (1,)}
    assert values.shape == shapes[way]
    torch.testing.assert_close(loss(logits, targets, reduction_override='sum'), values.sum())
    count = expected_counts(loss_type, targets, way, bucket_size)
    torch.testing.assert_close(loss(logits, targets), values.sum() / count)
    torch.testing.assert_close(loss(logits, targets, avg_factor=5), values.sum() / 5)


@pytest.mark.parametrize('bucket_size', [None, 3])
def test_both_ways_add_their_means(loss_type, bucket_size):
    batch = example()
    of_samples, of_classes = (loss_type(way=way, bucket_size=bucket_size) for way in ('sample', 'class'))
    both = loss_type(way='both', bucket_size=bucket_size)
    torch.testing.assert_close(both(*batch), of_samples(*batch) + of_classes(*batch))
    with pytest.raises(ValueError, match="reduction 'none' is not defined for a sum of 2 parts"):
        both(*batch, reduction_override='none')


@pytest.mark.parametrize('fill', [0, -1])
def test_a_batch_without_positives_is_finite(loss_type, way, fill):
    logits, targets = example()
    value = loss_type(way=way)(logits, torch.full_like(targets, fill))
    assert value.isfinite()
    assert gradient(value, logits).isfinite().all()
    if fill == -1 or loss_type in (LSEPLoss, CircleLoss, *COUNT_POSITIVE):
        assert value == 0


@pytest.mark.parametrize('shape', [(0, 5), (1, 5), (6, 1)])
def test_small_batches_are_finite_and_attached(loss_type, way, shape):
    logits = torch.randn(shape, requires_grad=True)
    value = loss_type(way=way)(logits, torch.ones(shape))
    assert value.isfinite()
    assert gradient(value, logits).shape == shape


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('size', [20.0, 1e4])
def test_half_precision_is_computed_in_float32(loss_type, way, dtype, size):
    logits, targets = example(torch.float32)
    half = (size * logits.detach().sign()).to(dtype).requires_grad_()
    value = loss_type(way=way)(half, targets)
    assert value.dtype == torch.float32
    assert value == loss_type(way=way)(half.float(), targets)
    assert value.isfinite()
    assert gradient(value, half).isfinite().all()


# Weights


def test_sample_weights_are_multiplicities(loss_type, way):
    logits, targets = example()
    repeats = torch.tensor([1, 2, 0, 3, 1, 0, 2])
    repeated = [tensor.repeat_interleave(repeats, dim=0) for tensor in (logits, targets)]
    loss = loss_type(way=way, reduction='sum')
    for weight in (repeats.double(), repeats.unsqueeze(1).expand(7, 6), repeats.repeat_interleave(6)):
        torch.testing.assert_close(loss(logits, targets, weight), loss(*repeated))


def test_labels_of_weight_zero_are_unknown(loss_type, way):
    logits, targets = example()
    weight = torch.full_like(targets, 1.5)
    weight[:, 3] = 0
    weight[4, :2] = 0
    unknown = targets.masked_fill(weight == 0, -1)
    loss = loss_type(way=way)
    torch.testing.assert_close(loss(logits, targets, weight), loss(logits, unknown, weight.amax(dim=1)))
    assert (gradient(loss(logits, targets, weight), logits)[weight == 0] == 0).all()


def test_a_sample_of_weight_zero_counts_nowhere(loss_type, way):
    logits, targets = example()
    weight = torch.tensor([1.0, 0, 1, 1, 0, 1, 1])
    expected = loss_type(way=way)(logits[weight > 0], targets[weight > 0])
    for form in (weight, weight.unsqueeze(1).expand(7, 6)):
        torch.testing.assert_close(loss_type(way=way)(logits, targets, form.double()), expected)


def test_weights_that_mean_nothing_are_rejected(loss_type, way):
    logits, targets = example()
    with pytest.raises(ValueError, match='weight must be the same for all labels of a sample'):
        loss_type(way=way)(logits, targets, torch.rand(7, 6))
    with pytest.raises(ValueError, match=r'weight must be at least 0 in a loss that compares labels, got -1\.0'):
        loss_type(way=way)(logits, targets, torch.tensor([1.0, 1, 1, -1, 1, 1, 1]))


# As modules


def test_default_ways_are_those_of_the_papers():
    ways = {loss_type: loss_type().way for loss_type in LOSS_TYPES}
    assert ways == {
        LSEPLoss: 'sample',
        ZLPRLoss: 'sample',
        TwoWayLoss: 'both',
        SoftmaxLoss: 'sample',
        MultiSimilarityLoss: 'sample',
        CircleLoss: 'sample',
        DRLoss: 'class',
    }


def test_defaults_are_those_of_the_functions():
    logits, targets = example()
    functions = (
        F.lsep_loss,
        F.zlpr_loss,
        F.two_way_loss,
        F.softmax_loss,
        F.multi_similarity_loss,
        F.circle_loss,
        F.dr_loss,
    )
    for loss_type, function in zip(LOSS_TYPES, functions, strict=True):
        values = function(logits, targets)
        expected = sum(part.sum() for part in values) if isinstance(values, tuple) else values.sum()
        torch.testing.assert_close(loss_type(reduction='sum')(logits, targets), expected)


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        (dict(type='LSEPLoss', way='classes'), "way must be one of .*, got 'classes'"),
        (dict(type='TwoWayLoss', bucket_size=0), 'bucket_size must be None or a whole number of at least 1, got 0'),
        (dict(type='TwoWayLoss', positive_temperature=0), 'positive_temperature must be above 0, got 0'),
        (dict(type='MultiSimilarityLoss', negative_temperature=-1), 'negative_temperature must be above 0, got -1'),
        (dict(type='SoftmaxLoss', temperature=0), 'temperature must be above 0, got 0'),
        (dict(type='CircleLoss', similarity='cosine'), "similarity must be one of .*, got 'cosine'"),
        (dict(type='DRLoss', constraint='none'), "constraint must be one of .*, got 'none'"),
    ],
)
def test_bad_arguments_are_rejected_when_the_loss_is_built(config, message):
    with pytest.raises(ValueError, match=message):
        LOSSES.build(config)


def test_soft_targets_are_rejected(loss_type):
    with pytest.raises(ValueError, match=f'target of {loss_type.__name__} must be 1, 0 or -1'):
        loss_type()(torch.zeros(2, 3), torch.full((2, 3), 0.5))


def test_copies_are_the_same_loss(loss_type, way):
    batch = example()
    loss = loss_type(way=way, bucket_size=3, loss_weight=2.0)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert torch.equal(other(*batch), loss(*batch))
    assert not loss.state_dict()


def test_extra_context_is_accepted(loss_type):
    batch = example()
    loss = loss_type()
    assert torch.equal(loss(*batch, epoch=3, sample_idx=torch.arange(7)), loss(*batch))


@pytest.mark.parametrize(('way', 'bucket_size'), [('sample', None), ('both', 3), ('joint', None)])
def test_compiles_without_graph_breaks(loss_type, way, bucket_size):
    torch.compiler.reset()
    logits, targets = example(torch.float32)
    loss = loss_type(way=way, bucket_size=bucket_size)
    compiled = torch.compile(loss, fullgraph=True, backend='aot_eager')
    found, expected = compiled(logits, targets), loss(logits, targets)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient(found, logits), gradient(expected, logits))


@pytest.mark.parametrize('bucket_size', [None, 3])
def test_compiles_with_weights_and_for_any_batch_size(bucket_size):
    torch.compiler.reset()
    logits, targets = example(torch.float32)
    loss = TwoWayLoss(bucket_size=bucket_size)
    compiled = torch.compile(loss, fullgraph=True, backend='aot_eager')
    for samples in (7, 6, 4, 2):
        batch = logits[:samples], targets[:samples], torch.tensor([1.0, 2, 0, 3, 1, 0.5, 2])[:samples]
        torch.testing.assert_close(compiled(*batch), loss(*batch))


def test_sums_with_pointwise_losses():
    """The papers' DR + DB-Focal and BCE + C-LSEP are sums of this kind."""
    batch = example()
    loss = SumLoss(dict(bce=BCELoss(), ranking=LSEPLoss(way='class', loss_weight=0.5)))
    torch.testing.assert_close(loss(*batch), BCELoss()(*batch) + 0.5 * LSEPLoss(way='class')(*batch))
    assert loss.losses['ranking'].link is loss.link

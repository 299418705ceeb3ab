"""One table of losses, each taken through everything that all of them promise."""

import copy
import math

import pytest
import torch
from torch.nn.functional import one_hot

from mmml_losses.losses import MultiLabelLoss
from mmml_losses.registry import LOSSES

TABLE = {
    'bce': dict(type='BCELoss'),
    'asl': dict(type='AsymmetricLoss'),
    'asl_detached': dict(type='AsymmetricLoss', gamma_positive=1, detach_weight=True),
    'asl_without_margin': dict(type='AsymmetricLoss', margin=0.0, gamma_positive=1),
    'asl_fractional': dict(type='AsymmetricLoss', gamma_positive=0.5, gamma_negative=0.5),
    'spa': dict(type='SPALoss'),
    'spa_far_shifts': dict(type='SPALoss', positive_shift=5.0, negative_shift=-5.0, negative_slope=0.5),
    'lpr': dict(type='LabelPairRegularizer'),
    'lpr_on_spa': dict(type='LabelPairRegularizer', link=dict(type='SPALink')),
    'spa_lpr': dict(
        type='SumLoss', losses=dict(spa=dict(type='SPALoss'), lpr=dict(type='LabelPairRegularizer', loss_weight=0.5))
    ),
}
POINTWISE = [name for name in TABLE if not name.startswith('lpr') and name != 'spa_lpr']
SINGLE = [name for name in TABLE if name != 'spa_lpr']


def build(name, **kwargs) -> MultiLabelLoss:
    return LOSSES.build({**TABLE[name], **kwargs})


def example(samples=6, classes=5, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(samples, classes, generator=generator, dtype=dtype)
    targets = (torch.rand(samples, classes, generator=generator) < 0.4).to(dtype)
    targets[0], targets[1] = 0, 1  # an empty and a full row
    return logits.requires_grad_(), targets


def gradient(loss, logits):
    return torch.autograd.grad(loss, logits)[0]


@pytest.fixture(params=TABLE)
def name(request):
    return request.param


@pytest.mark.parametrize('name', [name for name in TABLE if name != 'asl_detached'])  # a constant weight on purpose
def test_gradient_is_the_derivative(name):
    logits, targets = example()
    assert torch.autograd.gradcheck(lambda x: build(name)(x, targets), logits)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name, dtype):
    logits, targets = example(dtype=torch.float32)
    half = logits.detach().to(dtype).requires_grad_()
    loss = build(name)(half, targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, build(name)(half.detach().float(), targets))
    assert gradient(loss, half).dtype == dtype


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize('size', [20.0, 1e4])
def test_extreme_logits_stay_finite(name, dtype, size):
    signs = torch.tensor([[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, 1, 1], [-1, -1, -1, -1]], dtype=dtype)
    logits = (size * signs).requires_grad_()
    targets = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    loss = build(name)(logits, targets)
    assert loss.isfinite()
    assert gradient(loss, logits).isfinite().all()
    probabilities = build(name).probabilities(logits)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


@pytest.mark.parametrize('name', ['bce', 'asl', 'spa'])
def test_a_confidently_wrong_positive_keeps_its_gradient(name):
    logits = torch.tensor([[-1e4]], requires_grad=True)
    assert gradient(build(name, reduction='sum')(logits, torch.ones(1, 1)), logits).item() == pytest.approx(-1)


def test_unknown_labels_change_nothing(name):
    logits, targets = example(classes=7)
    targets[:, 2] = -1
    kept = [0, 1, 3, 4, 5, 6]
    expected_logits = logits.detach()[:, kept].requires_grad_()
    loss, expected = build(name)(logits, targets), build(name)(expected_logits, targets[:, kept])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(loss, logits)[:, kept], gradient(expected, expected_logits))
    assert (gradient(build(name)(logits, targets), logits)[:, 2] == 0).all()


@pytest.mark.parametrize('fill', [0, 1, -1])
def test_rows_of_one_kind_are_finite(name, fill):
    logits, targets = example()
    loss = build(name)(logits, torch.full_like(targets, fill))
    assert loss.isfinite()
    assert gradient(loss, logits).isfinite().all()
    if fill == -1:
        assert loss == 0


@pytest.mark.parametrize('shape', [(0, 5), (1, 5), (6, 1), (1, 1)])
def test_small_batches_are_finite_and_attached(name, shape):
    logits = torch.randn(shape, requires_grad=True)
    loss = build(name)(logits, torch.ones(shape))
    assert loss.isfinite()
    assert gradient(loss, logits).shape == shape


def test_transposed_input_gives_the_same(name):
    logits, targets = example()
    loss = build(name)(logits.detach().T.contiguous().T, targets.T.contiguous().T)
    torch.testing.assert_close(loss, build(name)(logits, targets).detach())


def test_callers_tensors_are_left_alone(name):
    logits, targets = example()
    targets[2, 3] = -1
    before = logits.detach().clone(), targets.clone()
    build(name)(logits, targets).backward()
    assert torch.equal(logits.detach(), before[0])
    assert torch.equal(targets, before[1])


def test_permuting_samples_and_classes_changes_nothing(name):
    logits, targets = example()
    logits = logits.detach()
    rows, columns = torch.randperm(len(logits)), torch.randperm(logits.size(1))
    shuffled = build(name)(logits[rows][:, columns], targets[rows][:, columns])
    torch.testing.assert_close(shuffled, build(name)(logits, targets))


def test_index_targets_are_one_hot_with_background(name):
    logits, _ = example()
    indices = torch.tensor([0, 4, 5, 2, 5, 1])  # 5 is background
    expected = build(name)(logits, one_hot(indices, 6)[:, :5])
    torch.testing.assert_close(build(name)(logits, indices), expected)


def test_index_minus_one_is_an_unknown_row(name):
    logits, _ = example()
    indices = torch.tensor([0, 4, -1, 2, 5, 1])
    known = indices >= 0
    torch.testing.assert_close(build(name)(logits, indices), build(name)(logits[known], indices[known]))


@pytest.mark.parametrize('name', SINGLE)
def test_reductions_agree(name):
    logits, targets = example()
    targets[2, 3] = -1
    values = build(name, reduction='none')(logits, targets)
    assert values.shape == (logits.shape if name in POINTWISE else logits.shape[:1])
    count = (targets >= 0).sum() if name in POINTWISE else len(targets)
    torch.testing.assert_close(build(name, reduction='sum')(logits, targets), values.sum())
    torch.testing.assert_close(build(name)(logits, targets), values.sum() / count)
    overridden = build(name)(logits, targets, reduction_override='sum')
    torch.testing.assert_close(overridden, values.sum())


@pytest.mark.parametrize('avg_factor', [3, 2.5, torch.tensor(7.0), torch.tensor([7.0])])
def test_avg_factor_replaces_the_count(name, avg_factor):
    logits, targets = example()
    total = build(name)(logits, targets, reduction_override='sum')
    torch.testing.assert_close(build(name)(logits, targets, avg_factor=avg_factor), total / float(avg_factor))


@pytest.mark.parametrize('avg_factor', [0, 0.0, torch.tensor(0.0)])
def test_avg_factor_zero_of_an_empty_batch_is_zero(name, avg_factor):
    logits = torch.randn(0, 5, requires_grad=True)
    loss = build(name)(logits, torch.zeros(0, dtype=torch.long), avg_factor=avg_factor)
    assert loss == 0
    assert loss.requires_grad


def test_loss_weight_scales(name):
    logits, targets = example()
    torch.testing.assert_close(build(name, loss_weight=2.5)(logits, targets), 2.5 * build(name)(logits, targets))


def test_sample_weights_scale_samples(name):
    logits, targets = example()
    weight = torch.tensor([0.0, 1.0, 2.0, 0.5, 0.0, 3.0], dtype=logits.dtype)
    rows = [build(name)(logits[i : i + 1], targets[i : i + 1], reduction_override='sum') for i in range(6)]
    expected = sum(w * row for w, row in zip(weight, rows, strict=True))
    mean = build(name)(logits, targets, weight)
    for form in (weight, weight.unsqueeze(1).expand(6, 5), weight.repeat_interleave(5)):
        torch.testing.assert_close(build(name)(logits, targets, form, reduction_override='sum'), expected)
        torch.testing.assert_close(build(name)(logits, targets, form), mean)


@pytest.mark.parametrize('name', POINTWISE)
def test_label_weights_scale_labels(name):
    logits, targets = example()
    weight = torch.rand(6, 5, dtype=logits.dtype)
    values = build(name)(logits, targets, reduction_override='none')
    torch.testing.assert_close(build(name)(logits, targets, weight, reduction_override='none'), values * weight)


@pytest.mark.parametrize('name', ['lpr', 'lpr_on_spa'])
def test_labels_of_weight_zero_form_no_pairs(name):
    logits, targets = example()
    weight = torch.ones_like(targets)
    weight[:, 3] = 0
    unknown = targets.masked_fill(weight == 0, -1)
    torch.testing.assert_close(build(name)(logits, targets, weight), build(name)(logits, unknown))
    with pytest.raises(ValueError, match='weight must be the same for all labels of a sample'):
        build(name)(logits, targets, torch.rand_like(weight))


@pytest.mark.parametrize('name', POINTWISE)
def test_soft_targets_mix_the_two_terms(name):
    logits, _ = example()
    soft = torch.full_like(logits, 0.25)
    one, zero = (build(name)(logits, torch.full_like(soft, value)) for value in (1, 0))
    torch.testing.assert_close(build(name)(logits, soft), 0.25 * one + 0.75 * zero)


@pytest.mark.parametrize('name', ['lpr', 'spa_lpr'])
def test_soft_targets_are_refused_where_undefined(name):
    logits, targets = example()
    with pytest.raises(ValueError, match='LabelPairRegularizer must be 1, 0 or -1'):
        build(name)(logits, targets * 0.5)


@pytest.mark.parametrize('dtype', [torch.bool, torch.uint8, torch.int64, torch.float16])
def test_targets_of_any_dtype(name, dtype):
    logits, targets = example()
    torch.testing.assert_close(build(name)(logits, targets.to(dtype)), build(name)(logits, targets))


@pytest.mark.parametrize(
    ('targets', 'message'),
    [
        (torch.full((6, 5), 2.0), r'target must be 1, 0, -1 .* got values from 2.0 to 2.0'),
        (torch.full((6, 5), -0.5), r'target must be 1, 0, -1'),
        (torch.full((6, 5), math.nan), r'target must be 1, 0, -1'),
        (torch.zeros(5, 6), r'target must be of the shape of cls_score, \(6, 5\), .* shape \(5, 6\)'),
        (torch.zeros(6), r'target must be of the shape of cls_score'),
        (torch.tensor([0, 1, 2, 3, 4, 6]), r'target indices must be in \[0, 5\].* got 0 to 6'),
        (torch.tensor([0, 1, 2, 3, 4, -2]), r'target indices must be in \[0, 5\].* got -2 to 4'),
    ],
)
def test_impossible_targets_are_refused(name, targets, message):
    with pytest.raises(ValueError, match=message):
        build(name)(torch.zeros(6, 5), targets)


def test_other_bad_arguments_are_refused(name):
    logits, targets = example()
    with pytest.raises(ValueError, match=r'weight must be of shape \(6,\), \(6, 5\) or \(30,\), got \(4,\)'):
        build(name)(logits, targets, torch.ones(4))
    with pytest.raises(ValueError, match=r'weight must be of shape'):
        build(name)(logits, targets, torch.ones(5, 6))
    with pytest.raises(ValueError, match=r'avg_factor must be at least 0, got -2'):
        build(name)(logits, targets, avg_factor=-2)
    with pytest.raises(ValueError, match=r'avg_factor cannot be used with reduction=.sum.*MultiLabelHead'):
        build(name)(logits, targets, avg_factor=2, reduction_override='sum')
    with pytest.raises(ValueError, match='reduction_override must be one of'):
        build(name)(logits, targets, reduction_override='average')
    with pytest.raises(TypeError, match=r'cls_score must be a floating-point tensor, got torch\.int64'):
        build(name)(logits.long(), targets)
    with pytest.raises(ValueError, match=r'cls_score must be of shape \(N, C\), got \(30,\)'):
        build(name)(logits.flatten(), targets.flatten())


def test_copies_and_state_survive(name):
    loss = build(name)
    logits, targets = example()
    other = copy.deepcopy(loss)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(loss(logits, targets), other(logits, targets))


def test_grad_mode_is_left_alone(name):
    logits, targets = example()
    with torch.no_grad():
        assert not build(name)(logits, targets).requires_grad
        assert not torch.is_grad_enabled()


def test_extra_context_is_accepted(name):
    logits, targets = example()
    torch.testing.assert_close(
        build(name)(logits, targets, epoch=3, sample_idx=torch.arange(6)), build(name)(logits, targets)
    )

"""One table of losses, each taken through everything that all of them promise."""

import copy
import io
import math
import pickle

import pytest
import torch
from torch.nn.functional import one_hot

from mmml_losses.losses import BCELoss, MultiLabelLoss, SumLoss
from mmml_losses.registry import LOSSES
from tests.helpers.losses_table import (
    COUNTING_CLASSES,
    STATEFUL,
    SUMS,
    TABLE,
    build,
    context,
    evaluate,
    example,
    gradient,
    is_pointwise,
)

POINTWISE = [name for name in TABLE if is_pointwise(name)]
SINGLE = [name for name in TABLE if name not in SUMS]
LINEAR_IN_THE_TARGET = {
    'BCELoss',
    'LabelSmoothingBCELoss',
    'WANLoss',
    'FocalLoss',
    'AsymmetricLoss',
    'FocalMarginLoss',
    'MSENegativeLoss',
    'HillLoss',
    'SPALoss',
    'PairLoss',
    'LASLoss',
    'EMLoss',
    'WeightedBCELoss',
    'ReweightedBCELoss',
}
WITHOUT_BUCKETS = [name for name in TABLE if not TABLE[name].get('bucket_size')]
# One value a sample, so that a weight of the sample is a factor of it.
BY_SAMPLE = [*POINTWISE, 'lsep', 'zlpr', 'softmax', 'multi_similarity', 'circle', 'lpr', 'lpr_on_spa', 'consistency']
# Their gradient leaves a part out on purpose: a detached weight, or a pseudo-label that is no function of the logits.
NOT_A_DERIVATIVE = ['asl_detached', 'focal_detached', 'circle', 'role']


@pytest.fixture(params=TABLE)
def name(request):
    return request.param


def test_the_table_has_every_registered_loss():
    registered = {key for key, kind in LOSSES.module_dict.items() if issubclass(kind, MultiLabelLoss)}
    assert registered == {config['type'] for config in TABLE.values()}


@pytest.mark.parametrize('name', [name for name in TABLE if name not in NOT_A_DERIVATIVE])
def test_gradient_is_the_derivative(name):
    logits, targets = example()
    other_views = context(logits)['views']
    assert torch.autograd.gradcheck(lambda x: evaluate(name, x, targets, views=other_views), logits)


@pytest.mark.parametrize('name', [name for name in SINGLE if name not in NOT_A_DERIVATIVE])
def test_gradient_can_be_differentiated(name):
    logits, targets = example(samples=3, classes=3)
    targets[2] = torch.tensor([1, 0, -1])
    other_views = context(logits)['views']
    assert torch.autograd.gradgradcheck(lambda x: evaluate(name, x, targets, views=other_views), logits)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name, dtype):
    logits, targets = example(dtype=torch.float32)
    half = logits.detach().to(dtype).requires_grad_()
    loss = evaluate(name, half, targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, evaluate(name, half.detach().float(), targets))
    assert gradient(loss, half).dtype == dtype


def test_autocast_changes_nothing(name):
    logits, targets = example(dtype=torch.float32)
    expected = evaluate(name, logits, targets)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        loss = evaluate(name, logits, targets)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(loss, logits), gradient(expected, logits))


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize('size', [20.0, 1e4])
def test_extreme_logits_stay_finite(name, dtype, size):
    signs = torch.tensor([[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, 1, 1], [-1, -1, -1, -1]], dtype=dtype)
    logits = (size * signs).requires_grad_()
    targets = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    loss = evaluate(name, logits, targets)
    assert loss.isfinite()
    assert gradient(loss, logits).isfinite().all()
    probabilities = build(name, 4).probabilities(logits)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


def test_what_an_unknown_label_is_scored_changes_nothing(name):
    logits, targets = example(classes=7)
    unknown = torch.rand(6, 7, generator=torch.Generator().manual_seed(3)) < 0.3
    targets = targets.masked_fill(unknown, -1)
    views = context(logits)['views']
    loss = evaluate(name, logits, targets, views=views)
    other = torch.where(unknown, 5 - 2 * logits.detach(), logits.detach()).requires_grad_()
    other_loss = evaluate(name, other, targets, views=views)
    torch.testing.assert_close(other_loss, loss)
    slope = gradient(loss, logits)
    torch.testing.assert_close(gradient(other_loss, other), slope)
    assert (slope[unknown] == 0).all()


@pytest.mark.parametrize('name', [name for name in TABLE if name not in COUNTING_CLASSES])
def test_unknown_columns_might_as_well_be_absent(name):
    logits, targets = example(classes=7)
    targets[:, 6] = -1
    expected_logits = logits.detach()[:, :6].requires_grad_()
    loss, expected = evaluate(name, logits, targets), evaluate(name, expected_logits, targets[:, :6])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(loss, logits)[:, :6], gradient(expected, expected_logits))


@pytest.mark.parametrize('name', WITHOUT_BUCKETS)
def test_unknown_rows_might_as_well_be_absent(name):
    logits, targets = example()
    unknown = torch.full((2, 5), -1.0, dtype=targets.dtype)
    longer = torch.cat([logits.detach(), torch.randn(2, 5, dtype=targets.dtype)]).requires_grad_()
    views = context(longer)['views']
    loss = evaluate(name, longer, torch.cat([targets, unknown]), views=views)
    expected = evaluate(name, logits, targets, views=tuple(view[:6] for view in views))
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(loss, longer)[:6], gradient(expected, logits))


@pytest.mark.parametrize('fill', [0, 1, -1])
def test_batches_of_one_kind_are_finite(name, fill):
    logits, targets = example()
    loss = evaluate(name, logits, torch.full_like(targets, fill))
    assert loss.isfinite()
    slope = gradient(loss, logits)
    assert slope.isfinite().all()
    if fill == -1:
        assert loss == 0
        assert (slope == 0).all()


@pytest.mark.parametrize('fill', [0, 1, -1])
def test_columns_of_one_kind_are_finite(name, fill):
    logits, targets = example()
    targets[:, 2] = fill
    loss = evaluate(name, logits, targets)
    assert loss.isfinite()
    assert gradient(loss, logits).isfinite().all()


@pytest.mark.parametrize('shape', [(0, 5), (1, 5), (6, 1), (1, 1)])
def test_small_batches_are_finite_and_attached(name, shape):
    logits = torch.randn(shape, requires_grad=True)
    loss = evaluate(name, logits, torch.ones(shape))
    assert loss.isfinite()
    assert gradient(loss, logits).shape == shape


def test_transposed_input_gives_the_same(name):
    logits, targets = example()
    transposed = logits.detach().T.contiguous().T.requires_grad_()
    assert not transposed.is_contiguous()
    loss, expected = evaluate(name, transposed, targets.T.contiguous().T), evaluate(name, logits, targets)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(loss, transposed), gradient(expected, logits))


def test_strided_input_gives_the_same(name):
    logits, targets = example(samples=12, classes=10)
    strided, kept = logits[::2, 1::2], targets[::2, 1::2]
    loss = evaluate(name, strided, kept)
    torch.testing.assert_close(loss, evaluate(name, strided.contiguous(), kept.contiguous()))


def test_callers_tensors_are_left_alone(name):
    logits, targets = example()
    targets[2, 3] = -1
    weight = torch.ones(6, dtype=logits.dtype)
    tensors = logits, targets, weight
    before = [tensor.detach().clone() for tensor in tensors]
    evaluate(name, logits, targets, weight).backward()
    assert all(torch.equal(tensor.detach(), old) for tensor, old in zip(tensors, before, strict=True))


@pytest.mark.parametrize('name', WITHOUT_BUCKETS)  # which samples share a bucket is their order
def test_permuting_samples_changes_nothing(name):
    logits, targets = example()
    logits = logits.detach()
    rows = torch.tensor([4, 2, 0, 5, 1, 3])
    views = context(logits)['views']
    shuffled = evaluate(name, logits[rows], targets[rows], sample_idx=rows, views=tuple(view[rows] for view in views))
    torch.testing.assert_close(shuffled, evaluate(name, logits, targets))


@pytest.mark.parametrize('name', [name for name in TABLE if name != 'role'])  # its estimates start at random
def test_permuting_classes_changes_nothing(name):
    logits, targets = example()
    logits = logits.detach()
    columns = torch.tensor([3, 0, 4, 1, 2])
    changed = {}
    if 'class_frequencies' in TABLE[name]:
        frequencies = [5.0 * 2**column for column in range(5)]
        changed['class_frequencies'] = [frequencies[column] for column in columns]
    views = tuple(view[:, columns] for view in context(logits)['views'])
    shuffled = evaluate(name, logits[:, columns], targets[:, columns], views=views, loss_arguments=changed)
    torch.testing.assert_close(shuffled, evaluate(name, logits, targets))


def test_index_targets_are_one_hot(name):
    logits, _ = example()
    indices = torch.tensor([0, 4, 3, 2, 3, 1])
    torch.testing.assert_close(evaluate(name, logits, indices), evaluate(name, logits, one_hot(indices, 5)))


def test_background_is_a_row_of_zeros_or_rejected(name):
    logits, _ = example()
    indices = torch.tensor([0, 4, 5, 2, 5, 1])  # 5 is background
    loss = build(name)
    if loss.reason_against_anchors is not None:
        with pytest.raises(ValueError, match='cannot be the loss of a detector: '):
            evaluate(name, logits, indices)
        return
    order = torch.arange(6)
    if getattr(loss, 'bucket_size', None) is not None:  # buckets are cut from a random order
        torch.manual_seed(3)
        order = torch.randperm(6)
        torch.manual_seed(3)
    found = evaluate(name, logits, indices)
    torch.testing.assert_close(found, evaluate(name, logits[order], one_hot(indices, 6)[order, :5]))


def test_index_minus_one_is_an_unknown_row(name):
    logits, _ = example()
    indices = torch.tensor([0, 4, -1, 2, 3, 1])
    rows = one_hot(indices.clamp(min=0), 5).masked_fill(indices.unsqueeze(1) < 0, -1)
    torch.testing.assert_close(evaluate(name, logits, indices), evaluate(name, logits, rows))


@pytest.mark.parametrize('name', [name for name in BY_SAMPLE if name not in ('epr', 'role')])
def test_reductions_agree(name):
    logits, targets = example()
    targets[2, 3] = -1
    values = evaluate(name, logits, targets, reduction_override='none')
    assert values.shape == (logits.shape if name in POINTWISE else logits.shape[:1])
    torch.testing.assert_close(evaluate(name, logits, targets, reduction_override='sum'), values.sum())
    torch.testing.assert_close(evaluate(name, logits, targets, loss_arguments=dict(reduction='sum')), values.sum())
    mean = evaluate(name, logits, targets)
    if name in POINTWISE:
        torch.testing.assert_close(mean, values.sum() / (targets >= 0).sum())
    elif name != 'softmax':  # it counts the samples with a positive
        torch.testing.assert_close(mean, values.mean())


@pytest.mark.parametrize('name', [name for name in TABLE if name not in ('epr', 'role', 'expected_positives')])
@pytest.mark.parametrize('avg_factor', [3, 2.5, torch.tensor(7.0), torch.tensor([7.0])])
def test_avg_factor_replaces_the_count(name, avg_factor):
    logits, targets = example()
    total = evaluate(name, logits, targets, reduction_override='sum')
    torch.testing.assert_close(evaluate(name, logits, targets, avg_factor=avg_factor), total / float(avg_factor))


@pytest.mark.parametrize('name', [name for name in TABLE if name not in SUMS])
def test_the_means_of_a_recipe_are_the_mean_on_another_scale(name):
    logits, targets = example()
    targets[2, 3] = targets[4] = -1
    samples, labels = 5, 24
    mean, by_sample, by_label = (
        evaluate(name, logits, targets, reduction_override=each) for each in ('mean', 'batchmean', 'labelmean')
    )
    torch.testing.assert_close(by_sample, mean * (labels / samples if is_pointwise(name) else 1))
    torch.testing.assert_close(by_label, mean * (1 if is_pointwise(name) else samples / labels))
    by_factor = evaluate(name, logits, targets, reduction_override='batchmean', avg_factor=7)
    torch.testing.assert_close(by_factor, evaluate(name, logits, targets, avg_factor=7))


@pytest.mark.parametrize('reduction', ['sum', 'batchmean', 'labelmean'])
@pytest.mark.parametrize('own', ['mean', 'sum'])
def test_a_sum_is_scaled_as_a_whole(own, reduction):
    logits, targets = example()
    targets[2, 3] = targets[4] = -1
    config = dict(
        lsep=dict(type='LSEPLoss', way='class', reduction=own),
        spa=dict(type='SPALoss', reduction=own),
        lpr=dict(type='LabelPairRegularizer', loss_weight=0.5),
    )
    plain, scaled = SumLoss(losses=config), SumLoss(losses=config, reduction=reduction)
    factor = dict(mean=24, sum=1)[own] / dict(sum=1, batchmean=5, labelmean=24)[reduction]
    for name, part in plain.parts(logits, targets).items():
        torch.testing.assert_close(scaled.parts(logits, targets)[name], factor * part)
    torch.testing.assert_close(scaled(logits, targets), factor * plain(logits, targets))
    nested = SumLoss(losses=dict(inner=plain), reduction=reduction)
    torch.testing.assert_close(nested(logits, targets), scaled(logits, targets))
    whole = scaled(logits, targets, reduction_override='mean')
    torch.testing.assert_close(whole, plain(logits, targets, reduction_override='mean'))


def test_a_sum_that_is_reduced_by_sum_rejects_a_divisor():
    logits, targets = torch.zeros(2, 3), torch.ones(2, 3)
    for loss in (SumLoss(dict(bce=BCELoss()), reduction='sum'), SumLoss(dict(bce=BCELoss(reduction='sum')))):
        with pytest.raises(ValueError, match=r'avg_factor cannot be used with reduction=.sum.*MultiLabelHead'):
            loss(logits, targets, avg_factor=6)
        mean = loss(logits, targets, avg_factor=6, reduction_override='mean')
        torch.testing.assert_close(6 * mean, loss(logits, targets))


def test_a_sum_without_reduction_is_an_error_for_none():
    with pytest.raises(ValueError, match=r"reduction must be a mean or 'sum' for SumLoss.*got 'none'"):
        SumLoss(losses=dict(bce=dict(type='BCELoss')), reduction='none')


@pytest.mark.parametrize('avg_factor', [0, 0.0, torch.tensor(0.0)])
def test_avg_factor_zero_of_an_empty_batch_is_zero(name, avg_factor):
    logits = torch.randn(0, 5, requires_grad=True)
    loss = evaluate(name, logits, torch.zeros(0, dtype=torch.long), avg_factor=avg_factor)
    assert loss == 0
    assert loss.requires_grad


def test_loss_weight_scales(name):
    logits, targets = example()
    weighted = evaluate(name, logits, targets, loss_arguments=dict(loss_weight=2.5))
    torch.testing.assert_close(weighted, 2.5 * evaluate(name, logits, targets))


@pytest.mark.parametrize('name', [name for name in BY_SAMPLE if name not in ('epr', 'role')])
def test_sample_weights_scale_samples(name):
    logits, targets = example()
    weight = torch.tensor([0.0, 1.0, 2.0, 0.5, 0.0, 3.0], dtype=logits.dtype)
    values = evaluate(name, logits, targets, reduction_override='none')
    expected = (values * (weight.unsqueeze(1) if name in POINTWISE else weight)).sum()
    mean = evaluate(name, logits, targets, weight)
    for form in (weight, weight.unsqueeze(1).expand(6, 5), weight.repeat_interleave(5)):
        torch.testing.assert_close(evaluate(name, logits, targets, form, reduction_override='sum'), expected)
        torch.testing.assert_close(evaluate(name, logits, targets, form), mean)


@pytest.mark.parametrize('name', [name for name in POINTWISE if name not in ('epr', 'role')])
def test_label_weights_scale_labels(name):
    logits, targets = example()
    weight = torch.rand(6, 5, dtype=logits.dtype)
    values = evaluate(name, logits, targets, reduction_override='none')
    torch.testing.assert_close(evaluate(name, logits, targets, weight, reduction_override='none'), values * weight)


@pytest.mark.parametrize('name', ['lpr', 'lpr_on_spa', 'lsep', 'two_way', 'dr'])
def test_labels_of_weight_zero_are_compared_with_none(name):
    logits, targets = example()
    weight = torch.ones_like(targets)
    weight[:, 3] = 0
    unknown = targets.masked_fill(weight == 0, -1)
    torch.testing.assert_close(evaluate(name, logits, targets, weight), evaluate(name, logits, unknown))
    with pytest.raises(ValueError, match='weight must be the same for all labels of a sample'):
        evaluate(name, logits, targets, torch.rand_like(weight))


def test_sample_weights_scale_samples_in_a_sum():
    logits, targets = example()
    weight = torch.tensor([0.0, 1.0, 2.0, 0.5, 0.0, 3.0], dtype=logits.dtype)
    rows = [evaluate('spa_lpr', logits[i : i + 1], targets[i : i + 1], reduction_override='sum') for i in range(6)]
    expected = sum(factor * row for factor, row in zip(weight, rows, strict=True))
    for form in (weight, weight.unsqueeze(1).expand(6, 5), weight.repeat_interleave(5)):
        torch.testing.assert_close(evaluate('spa_lpr', logits, targets, form, reduction_override='sum'), expected)


def test_soft_targets_are_rejected_in_a_sum_with_a_part_that_has_none():
    logits, targets = example()
    with pytest.raises(ValueError, match='LabelPairRegularizer must be 1, 0 or -1'):
        evaluate('spa_lpr', logits, targets * 0.5)


@pytest.mark.parametrize('name', [name for name in TABLE if not build(name).goes_by_epochs and name not in STATEFUL])
def test_context_that_is_not_needed_changes_nothing(name):
    logits, targets = example()
    views = context(logits)['views']
    loss = build(name)
    torch.testing.assert_close(
        loss(logits, targets, epoch=3, sample_idx=torch.arange(6), views=views), loss(logits, targets, views=views)
    )


@pytest.mark.parametrize('name', [name for name in POINTWISE if TABLE[name]['type'] in LINEAR_IN_THE_TARGET])
def test_soft_targets_mix_the_two_terms(name):
    logits, _ = example()
    soft = torch.full_like(logits, 0.25)
    one, zero = (evaluate(name, logits, torch.full_like(soft, value)) for value in (1, 0))
    torch.testing.assert_close(evaluate(name, logits, soft), 0.25 * one + 0.75 * zero)


@pytest.mark.parametrize('name', [name for name in SINGLE if not build(name).soft_targets])
def test_soft_targets_are_rejected_where_undefined(name):
    logits, targets = example()
    with pytest.raises(ValueError, match=f'{TABLE[name]["type"]} must be 1, 0 or -1'):
        evaluate(name, logits, targets * 0.5)


@pytest.mark.parametrize('dtype', [torch.bool, torch.uint8, torch.int64, torch.float16])
def test_targets_of_any_dtype(name, dtype):
    logits, targets = example()
    torch.testing.assert_close(evaluate(name, logits, targets.to(dtype)), evaluate(name, logits, targets))


@pytest.mark.parametrize(
    ('targets', 'message'),
    [
        (torch.full((6, 5), 2.0), r'target must be 1, 0, -1 .* got 2.0 at sample 0, class 0'),
        (torch.full((6, 5), -0.5), r'target must be 1, 0, -1'),
        (torch.full((6, 5), math.nan), r'target must be 1, 0, -1'),
        (torch.zeros(5, 6), r'target must be of the shape of cls_score, \(6, 5\), .* shape \(5, 6\)'),
        (torch.zeros(6), r'target must be of the shape of cls_score'),
        (torch.tensor([0, 1, 2, 3, 4, 6]), r'target indices must be in \[0, 5\].* got 0 to 6'),
        (torch.tensor([0, 1, 2, 3, 4, -2]), r'target indices must be in \[0, 5\].* got -2 to 4'),
    ],
)
def test_impossible_targets_are_rejected(name, targets, message):
    with pytest.raises(ValueError, match=message):
        evaluate(name, torch.zeros(6, 5), targets)


def test_logits_that_are_not_numbers_are_rejected_with_their_position(name):
    logits, targets = example()
    logits = logits.detach()
    logits[4, 2] = logits[5, 0] = math.nan
    message = r'cls_score must be finite, got nan at sample 4, class 2, the first of 2 such entries of 30'
    with pytest.raises(ValueError, match=message):
        evaluate(name, logits, targets)
    logits[4, 2], logits[5, 0] = 0, math.inf
    with pytest.raises(ValueError, match='cls_score must be finite, got inf at sample 5, class 0'):
        evaluate(name, logits, targets)


@pytest.mark.parametrize('name', SINGLE)
def test_inputs_are_not_looked_at_without_check_inputs(name, monkeypatch):
    def refuse(*args):
        raise AssertionError('inputs were checked')

    monkeypatch.setattr('mmml_losses.losses.core.base.check_logits', refuse)
    monkeypatch.setattr('mmml_losses.losses.core.base.check_targets', refuse)
    logits, targets = example()
    assert evaluate(name, logits, targets, loss_arguments=dict(check_inputs=False)).isfinite()


def test_other_bad_arguments_are_rejected(name):
    logits, targets = example()
    with pytest.raises(ValueError, match=r'weight must be of shape \(6,\), \(6, 5\) or \(30,\), got \(4,\)'):
        evaluate(name, logits, targets, torch.ones(4))
    with pytest.raises(ValueError, match=r'weight must be of shape'):
        evaluate(name, logits, targets, torch.ones(5, 6))
    with pytest.raises(ValueError, match=r'avg_factor must be at least 0, got -2'):
        evaluate(name, logits, targets, avg_factor=-2)
    with pytest.raises(ValueError, match=r'avg_factor cannot be used with reduction=.sum.*MMDetection.*MultiLabelHead'):
        evaluate(name, logits, targets, avg_factor=2, reduction_override='sum')
    with pytest.raises(ValueError, match='reduction_override must be one of'):
        evaluate(name, logits, targets, reduction_override='average')
    with pytest.raises(TypeError, match=r'cls_score must be a floating-point tensor, got torch\.int64'):
        evaluate(name, logits.long(), targets)
    with pytest.raises(ValueError, match=r'cls_score must be of shape \(N, C\), got \(30,\)'):
        build(name)(logits.flatten(), targets.flatten())


def test_copies_and_state_survive(name):
    logits, targets = example()
    loss = build(name, labels=targets)
    expected = loss(logits, targets, **context(logits))
    buffer = io.BytesIO()
    torch.save(loss.state_dict(), buffer)
    buffer.seek(0)
    loaded = build(name, labels=targets)
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    copies = copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), loaded
    again = loss(logits, targets, **context(logits))
    for other in copies:
        torch.testing.assert_close(other(logits, targets, **context(logits)), again, rtol=0, atol=0)
    if name not in STATEFUL:
        assert torch.equal(again, expected)


class TensorFinder(pickle.Pickler):
    """Find the tensors that an object holds at any depth, in lists and dicts of its attributes as well."""

    def __init__(self):
        super().__init__(io.BytesIO())
        self.tensors = []

    def persistent_id(self, value):
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return len(self.tensors)
        return None


def test_nothing_of_the_batch_stays_on_the_module(name):
    logits, targets = example()
    loss = build(name, labels=targets)
    more = context(logits)
    loss(logits, targets, **more).backward()
    finder = TensorFinder()
    finder.dump(loss)
    batch = {tensor.untyped_storage().data_ptr() for tensor in (logits, targets, *more['views'])}
    parameters = {id(parameter) for parameter in loss.parameters()}
    assert parameters <= {id(tensor) for tensor in finder.tensors}
    for tensor in finder.tensors:
        assert id(tensor) in parameters or not tensor.requires_grad, 'the loss keeps the graph'
        assert tensor.untyped_storage().data_ptr() not in batch, 'the loss keeps a tensor of the batch'


def test_settings_are_shown(name):
    shown = repr(build(name))
    hidden = {'type', 'link', 'losses', 'class_frequencies', 'num_samples'}
    for key in TABLE[name].keys() - hidden:
        assert f'{key}=' in shown


def test_grad_mode_is_left_alone(name):
    logits, targets = example()
    with torch.no_grad():
        assert not evaluate(name, logits, targets).requires_grad
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def share(positive, negative):
    return positive / (positive + negative)


def spa_probability(v):
    return share(0.6 * torch.sigmoid(3 * (v - 1)), torch.sigmoid(-v))


def phi_probability(v):
    """Compute phi with the powers 1 and 3 as printed by Cheng and Vasconcelos, Eq. 14 and 15."""
    z = v.sigmoid()

    def h(z, gamma):
        return (z**gamma - gamma * z ** (gamma - 1) * (1 - z) * (1 - z).log()) / (1 - z)

    return share(h(z, 3), h(1 - z, 1))


# Closed forms of the links other than the sigmoid, with the settings that the losses of the table have.
PROBABILITIES = {
    'focal_asymmetric': phi_probability,
    'spa': spa_probability,
    'spa_far_shifts': lambda v: share(0.1 * torch.sigmoid((v + 5) / 2), torch.sigmoid(5 - v)),
    'lpr_on_spa': spa_probability,
    'spa_lpr': spa_probability,
}


def test_probabilities_are_of_the_link(name):
    logits, _ = example()
    loss = build(name)
    expected = PROBABILITIES.get(name, torch.sigmoid)(logits)
    torch.testing.assert_close(loss.probabilities(logits), expected)
    torch.testing.assert_close(loss.logit_probabilities(logits), expected.logit())

"""Set-wise losses against naive loops over pairs, and what the papers prove about them."""

import inspect
import itertools
from functools import partial
from math import exp, log, log1p

import pytest
import torch
from torch.nn.functional import cross_entropy

from mmml_losses.functional import sets
from mmml_losses.functional.sets import WAYS, Sets, count_sets
from mmml_losses.functional.setwise import (
    circle_loss,
    dr_loss,
    lsep_loss,
    multi_similarity_loss,
    softmax_loss,
    two_way_loss,
    zlpr_loss,
)


def pairs(positives, negatives, gamma=1.0):
    return sum(exp(gamma * (n - p)) for p, n in itertools.product(positives, negatives))


def tempered(scores, temperature):
    """Exponential of the tempered log-sum-exp."""
    return sum(exp(score / temperature) for score in scores) ** temperature


def naive_lsep(positives, negatives, gamma=1.0, logit_bias=0.0):
    return log1p(exp(logit_bias) * pairs(positives, negatives, gamma))


def naive_multi_similarity(positives, negatives, positive_temperature=1.0, negative_temperature=1.0, logit_bias=0.0):
    of_positives = tempered([-p for p in positives], positive_temperature)
    of_negatives = tempered(negatives, negative_temperature)
    return log1p(exp(logit_bias) * of_positives) + log1p(exp(logit_bias) * of_negatives)


def naive_two_way(positives, negatives, positive_temperature=4.0, negative_temperature=1.0, logit_bias=0.0):
    of_positives = tempered([-p for p in positives], positive_temperature)
    return log1p(exp(logit_bias) * of_positives * tempered(negatives, negative_temperature))


def naive_softmax(positives, negatives, temperature=1.0, logit_bias=0.0):
    total = sum(exp(p / temperature) for p in positives) + sum(exp(n / temperature + logit_bias) for n in negatives)
    return sum(-log(exp(p / temperature) / total) for p in positives) / max(len(positives), 1)


def naive_circle(positives, negatives, gamma=80.0, margin=0.4, similarity='sigmoid'):
    def read(x):
        return 1 / (1 + exp(-x)) if similarity == 'sigmoid' else x

    total = 0.0
    for p, n in itertools.product(map(read, positives), map(read, negatives)):
        of_positive = max(1 + margin - p, 0) * (p - (1 - margin))
        of_negative = max(n + margin, 0) * (n - margin)
        total += exp(gamma * (of_negative - of_positive))
    return log1p(total)


def naive_dr(positives, negatives, pair_scale=5.0, constraint_scale=7.0, constraint='negative', logit_bias=0.0):
    total = exp(logit_bias) * pairs(positives, negatives, pair_scale)
    if constraint in ('negative', 'both'):
        total += sum(exp(constraint_scale * n) for n in negatives)
    if constraint in ('positive', 'both'):
        total += sum(exp(-constraint_scale * p) for p in positives)
    return log1p(total)


# Each loss with its naive form; the second and later rows of a loss have arguments that are not the defaults.
TABLE = {
    'lsep': (lsep_loss, naive_lsep, {}),
    'lsep_scaled': (lsep_loss, naive_lsep, dict(gamma=3.0, logit_bias=0.7)),
    'zlpr': (zlpr_loss, naive_multi_similarity, {}),
    'zlpr_biased': (zlpr_loss, naive_multi_similarity, dict(logit_bias=-0.5)),
    'two_way': (two_way_loss, naive_two_way, {}),
    'two_way_tempered': (
        two_way_loss,
        naive_two_way,
        dict(positive_temperature=0.5, negative_temperature=2.0, logit_bias=1.5),
    ),
    'softmax': (softmax_loss, naive_softmax, {}),
    'softmax_tempered': (softmax_loss, naive_softmax, dict(temperature=2.0, logit_bias=0.8)),
    'multi_similarity': (multi_similarity_loss, naive_multi_similarity, {}),
    'multi_similarity_tempered': (
        multi_similarity_loss,
        naive_multi_similarity,
        dict(positive_temperature=4.0, negative_temperature=0.5, logit_bias=0.3),
    ),
    'circle': (circle_loss, naive_circle, {}),
    'circle_of_logits': (circle_loss, naive_circle, dict(gamma=2.0, margin=0.25, similarity='logit')),
    'dr': (dr_loss, naive_dr, {}),
    'dr_positive': (dr_loss, naive_dr, dict(constraint='positive', pair_scale=1.0, constraint_scale=1.0)),
    'dr_both': (dr_loss, naive_dr, dict(constraint='both', logit_bias=0.4)),
    'dr_without': (dr_loss, naive_dr, dict(constraint=None)),
}
CIRCLES = ('circle', 'circle_of_logits')  # of which the weights are constants for the gradient
ONE_WAYS = ('sample', 'class', 'joint')


@pytest.fixture(params=TABLE)
def name(request):
    return request.param


def loss_of(name, **kwargs):
    function, _, arguments = TABLE[name]
    return partial(function, **arguments, **kwargs)


def example(samples=7, classes=6, seed=0, dtype=torch.float64):
    """Logits and targets with unknown labels, and an empty, a full and an unknown row and column."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(samples, classes, generator=generator, dtype=dtype)
    draws = torch.rand(samples, classes, generator=generator)
    targets = torch.where(draws < 0.35, 1.0, 0.0).masked_fill(draws > 0.85, -1).to(dtype)
    for fill, line in ((0, 0), (1, 1), (-1, 2)):
        targets[line], targets[:, line] = fill, fill
    return logits.requires_grad_(), targets


def sets_of(logits, targets, way):
    """Positive and negative logits of each set, as lists of numbers."""
    logits, targets = logits.tolist(), targets.tolist()
    rows = [list(zip(*row, strict=True)) for row in zip(logits, targets, strict=True)]
    sets = {'sample': rows, 'class': list(zip(*rows, strict=True)), 'joint': [list(itertools.chain(*rows))]}[way]
    return [([x for x, y in labels if y == 1], [x for x, y in labels if y == 0]) for labels in sets]


def naive(name, logits, targets, way):
    _, function, arguments = TABLE[name]
    return torch.tensor(
        [function(*labels, **arguments) for labels in sets_of(logits, targets, way)], dtype=logits.dtype
    )


def total(values):
    return sum(part.sum() for part in values) if isinstance(values, tuple) else values.sum()


def gradient_of(name, logits, targets, **kwargs):
    return torch.autograd.grad(total(loss_of(name, **kwargs)(logits, targets)), logits)[0]


@pytest.mark.parametrize('seed', [0, 1])
@pytest.mark.parametrize('way', ONE_WAYS)
def test_each_loss_equals_its_loops(name, way, seed):
    logits, targets = example(seed=seed)
    torch.testing.assert_close(
        loss_of(name, way=way)(logits, targets).detach(), naive(name, logits.detach(), targets, way)
    )


def test_both_ways_are_the_two_ways(name):
    logits, targets = example()
    found = loss_of(name, way='both')(logits, targets)
    for values, way in zip(found, ('sample', 'class'), strict=True):
        assert torch.equal(values, loss_of(name, way=way)(logits, targets))


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('name', [name for name in TABLE if name not in CIRCLES])
def test_gradient_is_the_derivative(name, way):
    logits, targets = example(5, 4)
    assert torch.autograd.gradcheck(lambda x: total(loss_of(name, way=way, bucket_size=3)(x, targets)), logits)


@pytest.mark.parametrize('name', [name for name in TABLE if name not in CIRCLES])
def test_gradient_is_differentiable(name):
    logits, targets = example(4, 4)
    assert torch.autograd.gradgradcheck(lambda x: total(loss_of(name, way='both')(x, targets)), logits)


@pytest.mark.parametrize('similarity', ['sigmoid', 'logit'])
def test_circle_weights_are_constants_for_the_gradient(similarity):
    logits, targets = example()
    gamma, margin = 3.0, 0.25
    s = logits.sigmoid() if similarity == 'sigmoid' else logits
    expected = 0.0
    for row in range(len(logits)):
        positives, negatives = s[row][targets[row] == 1], s[row][targets[row] == 0]
        of_positives = (1 + margin - positives.detach()).relu() * (positives - 1 + margin)
        of_negatives = (negatives.detach() + margin).relu() * (negatives - margin)
        differences = gamma * (of_negatives.unsqueeze(1) - of_positives)
        expected = expected + differences.exp().sum().log1p()
    values = circle_loss(logits, targets, gamma=gamma, margin=margin, similarity=similarity)
    torch.testing.assert_close(values.sum(), expected)
    torch.testing.assert_close(torch.autograd.grad(values.sum(), logits), torch.autograd.grad(expected, logits))


@pytest.mark.parametrize('way', WAYS)
def test_unknown_labels_change_nothing(name, way):
    logits, targets = example()
    changed = torch.where(targets < 0, 1e4, logits).detach().requires_grad_()
    torch.testing.assert_close(
        loss_of(name, way=way)(changed, targets), loss_of(name, way=way)(logits, targets), rtol=0, atol=0
    )
    gradient = gradient_of(name, logits, targets, way=way)
    assert (gradient[targets < 0] == 0).all()
    assert (gradient[targets >= 0] != 0).any()


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('fill', [-1, 0, 1])
def test_sets_with_nothing_to_compare_cost_exactly_nothing(name, way, fill):
    logits = example()[0]
    targets = torch.full_like(logits, fill)
    value, gradient = total(loss_of(name, way=way)(logits, targets)), gradient_of(name, logits, targets, way=way)
    # ZLPR and multi-similarity compare with zero, softmax the positives with each other, DR constrains one side.
    costs_alone = {'zlpr': (0, 1), 'multi_similarity': (0, 1), 'softmax': (1,), 'dr': (0,), 'dr_positive': (1,)}
    stem = name.removesuffix('_biased').removesuffix('_tempered')
    if fill in {**costs_alone, 'dr_both': (0, 1)}.get(stem, ()):
        assert value > 0
        assert gradient.isfinite().all()
    else:
        assert value == 0
        assert (gradient == 0).all()


def test_a_class_without_positives_still_pays_the_negative_constraint():
    logits, _ = example()
    targets = torch.zeros_like(logits)
    expected = (7 * logits).exp().sum(dim=0).log1p()
    torch.testing.assert_close(dr_loss(logits, targets), expected)
    assert (gradient_of('dr', logits, targets) > 0).all()


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('shape', [(0, 5), (1, 5), (6, 1), (1, 1)])
def test_small_batches_are_finite_and_attached(name, way, shape):
    logits = torch.randn(shape, requires_grad=True)
    for bucket_size in (None, 1, 4):
        value = total(loss_of(name, way=way, bucket_size=bucket_size)(logits, torch.ones(shape)))
        assert value.isfinite()
        assert torch.autograd.grad(value, logits)[0].isfinite().all()


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('size', [30.0, 1e4])
def test_extreme_logits_stay_finite_in_float32(name, way, size):
    signs = torch.tensor([[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, 1, 1], [-1, -1, -1, -1.0]])
    logits = (size * signs).requires_grad_()
    targets = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    values = loss_of(name, way=way)(logits, targets)
    exact = loss_of(name, way=way)(logits.double(), targets)
    torch.testing.assert_close(total(values).double(), total(exact), rtol=1e-6, atol=1e-6 * size)
    gradient = gradient_of(name, logits, targets, way=way)
    torch.testing.assert_close(gradient, torch.autograd.grad(total(exact), logits)[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('name', ['lsep_scaled', 'zlpr', 'two_way', 'two_way_tempered', 'multi_similarity', 'dr_both'])
def test_the_largest_numbers_stay_finite(name, way):
    signs = torch.tensor([[1, -1, 1], [-1, 1, -1], [1, 1, 1], [-1, -1, -1.0]])
    logits = (torch.finfo(torch.float32).max * signs).requires_grad_()
    for targets in (torch.zeros(4, 3), torch.ones(4, 3), torch.eye(4)[:, :3]):
        assert total(loss_of(name, way=way)(logits, targets)).isfinite()
        assert gradient_of(name, logits, targets, way=way).isfinite().all()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name, dtype):
    logits, targets = example(dtype=torch.float32)
    half = (100 * logits).detach().to(dtype)
    found = loss_of(name, way='class')(half, targets.to(dtype))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loss_of(name, way='class')(half.float(), targets), rtol=0, atol=0)


def test_dr_at_large_scales_is_exact():
    logits = torch.tensor([[1e4, 9.0], [-1e4, 9.5]], requires_grad=True)
    targets = torch.tensor([[0, 0], [1, 1]])
    values = dr_loss(logits, targets, pair_scale=10, constraint_scale=10)
    # 10 (1e4 + 1e4) for the pair; in the second class log(1 + e^-5 + e^90).
    torch.testing.assert_close(values, torch.tensor([2e5, 90.0]))
    torch.testing.assert_close(
        torch.autograd.grad(values.sum(), logits)[0], torch.tensor([[10.0, 10.0], [-10.0, 0.0]]), atol=1e-30, rtol=0
    )


@pytest.mark.parametrize('way', ['class', 'both', 'joint'])
@pytest.mark.parametrize('bucket_size', [1, 2, 3, 7])
def test_buckets_are_compared_separately(name, way, bucket_size):
    logits, targets = example()
    found = loss_of(name, way=way, bucket_size=bucket_size)(logits, targets)
    if way == 'both':
        of_samples, found = found
        assert torch.equal(of_samples, loss_of(name, way='sample')(logits, targets))
    parts = [
        loss_of(name, way='joint' if way == 'joint' else 'class')(x, y)
        for x, y in zip(logits.split(bucket_size), targets.split(bucket_size), strict=True)
    ]
    torch.testing.assert_close(found, torch.cat(parts) if way == 'joint' else torch.stack(parts))


@pytest.mark.parametrize('bucket_size', [7, 100])
def test_a_bucket_that_holds_the_batch_changes_nothing(name, bucket_size):
    logits, targets = example()
    found = loss_of(name, way='class', bucket_size=bucket_size)(logits, targets)
    assert found.shape == (1, 6)
    assert torch.equal(found[0], loss_of(name, way='class')(logits, targets))
    joint = loss_of(name, way='joint', bucket_size=bucket_size)(logits, targets)
    assert torch.equal(joint, loss_of(name, way='joint')(logits, targets))


@pytest.mark.parametrize('way', ['class', 'joint'])
def test_weights_are_multiplicities_along_the_classes(name, way):
    logits, targets = example()
    repeats = torch.tensor([1, 2, 1, 3, 0, 1, 2])
    repeated = [tensor.repeat_interleave(repeats, dim=0) for tensor in (logits, targets)]
    for weight in (repeats, repeats.double()):
        torch.testing.assert_close(
            loss_of(name, way=way, weight=weight)(logits, targets), loss_of(name, way=way)(*repeated)
        )


def test_weights_are_factors_of_the_samples(name):
    logits, targets = example()
    weight = torch.tensor([1, 0.5, 1, 3, 0, 1, 2], dtype=torch.float64)
    values = loss_of(name, way='sample')(logits, targets)
    torch.testing.assert_close(loss_of(name, way='sample', weight=weight)(logits, targets), weight * values)
    of_samples, of_classes = loss_of(name, way='both', weight=weight)(logits, targets)
    torch.testing.assert_close(of_samples, weight * values)
    torch.testing.assert_close(of_classes, loss_of(name, way='class', weight=weight)(logits, targets))


def test_samples_of_weight_zero_are_out_however_large_their_logits(name):
    logits, targets = example(dtype=torch.float32)
    weight = torch.ones(7)
    weight[3] = 0
    changed = logits.detach().clone()
    changed[3] = 1e4
    kept = [0, 1, 2, 4, 5, 6]
    found = loss_of(name, way='class', weight=weight)(changed, targets)
    torch.testing.assert_close(found, loss_of(name, way='class')(logits[kept], targets[kept]))


def test_permuting_samples_and_classes_permutes_the_values(name):
    logits, targets = example()
    rows, columns = torch.randperm(7), torch.randperm(6)
    shuffled = logits[rows][:, columns], targets[rows][:, columns]
    torch.testing.assert_close(
        loss_of(name, way='both')(*shuffled),
        (
            loss_of(name, way='sample')(logits, targets)[rows],
            loss_of(name, way='class')(logits, targets)[columns],
        ),
    )


@pytest.mark.parametrize('dtype', [torch.bool, torch.uint8, torch.int64, torch.float16])
def test_targets_of_any_dtype(name, dtype):
    logits, targets = example()
    targets = targets.clamp(min=0)
    weight = torch.tensor([1, 0, 1, 3, 0, 1, 2])
    torch.testing.assert_close(
        loss_of(name, way='both', weight=weight)(logits, targets.to(dtype)),
        loss_of(name, way='both', weight=weight)(logits, targets),
    )


def test_transposed_input_and_the_callers_tensors(name):
    logits, targets = example()
    before = logits.detach().clone(), targets.clone()
    loss = loss_of(name, way='both', bucket_size=3)
    torch.testing.assert_close(loss(logits.T.contiguous().T, targets.T.contiguous().T), loss(logits, targets))
    total(loss(logits, targets)).backward()
    assert torch.equal(logits.detach(), before[0])
    assert torch.equal(targets, before[1])


def test_memory_is_linear(name):
    """Four times the classes take four times the memory of what the backward pass keeps."""

    def kept(classes):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: (sizes.append(x.numel()), x)[1], lambda x: x):
            logits = torch.randn(32, classes, requires_grad=True)
            total(loss_of(name, way='both')(logits, torch.rand(32, classes).round()))
        return sum(sizes)

    assert kept(1600) < 4.2 * kept(400)


# Few sets with a positive


def sparse_example(samples=23, classes=9):
    """Logits, and targets with three positives in two rows and two classes, one of them in the last bucket of four."""
    logits, targets = example(samples, classes)
    targets = targets.clamp(max=0)
    targets[3, 2] = targets[3, 7] = targets[samples - 1, 7] = 1
    return logits, targets


@pytest.fixture
def narrowed(monkeypatch):
    """Compute once with all sets, and once with only those that have a positive."""

    def compute(function):
        results = []
        for limit in (10**9, 1):
            monkeypatch.setattr(sets, 'MANY_LABELS', limit)
            results.append(function())
        return results

    return compute


@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('bucket_size', [None, 4, 40])
@pytest.mark.parametrize('way', ['sample', 'class', 'both'])
def test_sets_without_a_positive_need_not_be_computed(name, way, bucket_size, weighted, narrowed):
    logits, targets = sparse_example()
    weight = torch.linspace(0, 2, len(targets), dtype=torch.float64) if weighted else None
    loss = loss_of(name, way=way, bucket_size=bucket_size, weight=weight)

    def compute():
        values = loss(logits, targets)
        return values, torch.autograd.grad(total(values), logits)

    dense, sparse = narrowed(compute)
    torch.testing.assert_close(sparse, dense)


def test_which_sets_are_narrowed(monkeypatch):
    _, targets = sparse_example()
    assert Sets(targets, 'both')._narrowed() is None  # too small to pay
    monkeypatch.setattr(sets, 'MANY_LABELS', 1)
    rows, classes = Sets(targets, 'both', bucket_size=4)._narrowed()
    assert rows.chosen.tolist() == [0, 3, 22]  # the first is always kept
    assert classes.chosen.tolist() == [0, 2, 7]
    assert (rows.shape, classes.shape) == ((24,), (6, 9))
    assert Sets(targets, 'joint')._narrowed() is None
    assert Sets(torch.ones_like(targets), 'both')._narrowed() is None


@pytest.mark.parametrize('way', ['sample', 'class', 'both'])
@pytest.mark.parametrize('fill', [-1, 0])
def test_nothing_to_compare_is_attached_also_where_sets_are_narrowed(name, way, fill, narrowed):
    logits, _ = sparse_example()
    targets = torch.full_like(logits, fill)
    dense, sparse = narrowed(lambda: gradient_of(name, logits, targets, way=way))
    torch.testing.assert_close(sparse, dense)


@pytest.mark.parametrize('name', ['lsep_scaled', 'two_way', 'dr_both'])
def test_the_gradient_of_narrowed_sets_is_the_derivative_and_differentiable(name, monkeypatch):
    monkeypatch.setattr(sets, 'MANY_LABELS', 1)
    logits, targets = sparse_example(9, 8)
    loss = loss_of(name, way='both', bucket_size=4)
    assert torch.autograd.gradcheck(lambda x: total(loss(x, targets)), logits)
    assert torch.autograd.gradgradcheck(lambda x: total(loss(x, targets)), logits)


# What the papers prove


@pytest.mark.parametrize('way', WAYS)
def test_zlpr_is_multi_similarity_without_temperatures(way):
    batch = example()
    torch.testing.assert_close(zlpr_loss(*batch, way=way), multi_similarity_loss(*batch, way=way))


@pytest.mark.parametrize('logit_bias', [0.0, 1.5])
def test_two_way_with_one_positive_is_softmax(logit_bias):
    logits, _ = example()
    indices = torch.arange(7) % 6
    targets = torch.nn.functional.one_hot(indices, 6)
    found = two_way_loss(logits, targets, 'sample', positive_temperature=1.0, logit_bias=logit_bias)
    torch.testing.assert_close(found, softmax_loss(logits, targets, logit_bias=logit_bias))
    torch.testing.assert_close(found, cross_entropy(logits + logit_bias * (1 - targets), indices, reduction='none'))


@pytest.mark.parametrize('way', WAYS)
def test_two_way_with_unit_temperatures_is_lsep(way):
    batch = example()
    found = two_way_loss(*batch, way=way, positive_temperature=1.0, logit_bias=0.5)
    torch.testing.assert_close(found, lsep_loss(*batch, way=way, logit_bias=0.5))


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('scale', [1.0, 5.0])
def test_dr_without_constraint_is_lsep(way, scale):
    batch = example()
    torch.testing.assert_close(
        dr_loss(*batch, way=way, pair_scale=scale, constraint=None), lsep_loss(*batch, way=way, gamma=scale)
    )


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('name', ['lsep_scaled', 'two_way', 'two_way_tempered', 'softmax', 'dr_without'])
def test_shifted_logits_change_nothing(name, way):
    logits, targets = example()
    torch.testing.assert_close(loss_of(name, way=way)(logits + 7.5, targets), loss_of(name, way=way)(logits, targets))


def test_logit_bias_adds_up_over_positives_and_negatives():
    logits, targets = example()
    shifted = logits - 0.5 * (targets == 1) + 1.5 * (targets == 0)
    torch.testing.assert_close(lsep_loss(shifted, targets), lsep_loss(logits, targets, logit_bias=2.0))


# Counts and arguments


def test_counts_are_of_sets_with_a_positive_or_a_known_label():
    targets = torch.tensor([[1, 0, -1], [0, 0, -1], [-1, -1, -1], [0, 0, -1]])
    assert count_sets(targets, 'both') == [3, 2]
    assert count_sets(targets, 'both', with_positive=True) == [1, 1]
    assert count_sets(targets, 'class', bucket_size=3) == [4]
    assert count_sets(targets, 'joint', bucket_size=1) == [3]
    assert count_sets(targets, 'joint', with_positive=True) == [1]
    weight = torch.tensor([0.0, 1.0, 1.0, 0.5])
    assert count_sets(targets, 'both', weight=weight) == [2, 2]
    assert count_sets(targets, 'both', weight=weight, with_positive=True) == [0, 0]
    assert count_sets(targets == 1, 'both', weight=weight) == [3, 3]  # without unknown labels
    assert count_sets(targets[:0], 'both') == [0, 0]


@pytest.mark.parametrize(
    ('function', 'arguments', 'message'),
    [
        *(
            (function, arguments, message)
            for function in (
                lsep_loss,
                zlpr_loss,
                two_way_loss,
                softmax_loss,
                multi_similarity_loss,
                circle_loss,
                dr_loss,
            )
            for arguments, message in (
                (dict(way='row'), "way must be one of .*'joint'.*, got 'row'"),
                (dict(bucket_size=0), 'bucket_size must be None or a whole number of at least 1, got 0'),
                (dict(bucket_size=2.5), 'bucket_size must be None or a whole number of at least 1, got 2.5'),
            )
        ),
        (lsep_loss, dict(gamma=0), 'gamma must be above 0, got 0'),
        (two_way_loss, dict(positive_temperature=0.0), r'positive_temperature must be above 0, got 0\.0'),
        (two_way_loss, dict(negative_temperature=-1), 'negative_temperature must be above 0, got -1'),
        (multi_similarity_loss, dict(positive_temperature=-2), 'positive_temperature must be above 0, got -2'),
        (softmax_loss, dict(temperature=float('nan')), 'temperature must be above 0, got nan'),
        (circle_loss, dict(gamma=-1), 'gamma must be above 0, got -1'),
        (circle_loss, dict(similarity='cosine'), "similarity must be one of .*, got 'cosine'"),
        (dr_loss, dict(pair_scale=0), 'pair_scale must be above 0, got 0'),
        (dr_loss, dict(constraint_scale=0), 'constraint_scale must be above 0, got 0'),
        (dr_loss, dict(constraint='none'), "constraint must be one of .*, got 'none'"),
    ],
)
def test_bad_arguments_are_rejected(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*example(), **arguments)


def test_arguments_come_in_one_order():
    for function, _, _ in TABLE.values():
        names = list(inspect.signature(function).parameters)
        assert names[:3] == ['logits', 'targets', 'way']
        assert names[-2:] == ['bucket_size', 'weight']

"""Losses that know class frequencies: the figures, and where the frequencies come from."""

import copy
import json
import pickle

import pytest
import torch
from mmengine.runner.checkpoint import load_state_dict

from mmml_losses.functional.weights import rebalancing_weights, reweighting
from mmml_losses.losses.core import frequencies
from mmml_losses.losses.core.base import MultiLabelLoss
from mmml_losses.losses.core.frequencies import ClassFrequencies
from mmml_losses.losses.pointwise import BCELoss, FocalLoss, PairLoss
from mmml_losses.losses.reweighted import (
    CBFocalLoss,
    DBFocalLoss,
    DBLoss,
    LDAMLoss,
    ReweightedBCELoss,
    WeightedBCELoss,
)
from mmml_losses.losses.sum import SumLoss
from mmml_losses.registry import LOSSES
from tests.helpers.figures import figures

KINDS = [WeightedBCELoss, ReweightedBCELoss, CBFocalLoss, DBLoss, DBFocalLoss, LDAMLoss]
COUNTS = [12, 3, 700, 55, 240]
OTHER = DBLoss([9, 8, 7, 6, 5], 100).state_dict()
LABELS = torch.tensor([[1, 0, 1, -1, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 1], [0, 0, -1, 0, 1]])


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request) -> type[MultiLabelLoss]:
    return request.param


def example(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(6, 5, generator=generator, dtype=dtype)
    targets = (torch.rand(6, 5, generator=generator) < 0.4).to(dtype)
    targets[0], targets[1] = 0, 1
    targets[2, 3] = -1
    return logits.requires_grad_(), targets


CASES = {name: [case.values[0] for case in figures(name)] for name in ('db_focal', 'cb_focal', 'rw_bce')}


@pytest.mark.parametrize(
    ('name', 'kind', 'arguments'),
    [
        (
            'db_focal',
            DBFocalLoss,
            dict(
                alpha='alpha',
                beta='beta',
                mu='mu',
                negative_scale='neg_scale',
                kappa='init_bias',
                gamma='focal_gamma',
                balance='balance',
            ),
        ),
        ('cb_focal', CBFocalLoss, dict(beta='cb_beta', mode='cb_mode', gamma='focal_gamma', balance='balance')),
        ('rw_bce', ReweightedBCELoss, {}),
    ],
)
def test_losses_equal_the_authors_code(name, kind, arguments):
    for case in CASES[name]:
        params = case['params']
        settings = {argument: params[key] for argument, key in arguments.items()}
        loss = kind(params['class_freq'], params['num_train'], reduction='none', **settings)
        logits = torch.tensor(case['logits'], dtype=torch.float64, requires_grad=True)
        values = loss(logits, torch.tensor(case['targets']))
        # That code runs in float32.
        torch.testing.assert_close(values, torch.tensor(case['loss'], dtype=torch.float64), rtol=1e-5, atol=1e-6)
        (gradient,) = torch.autograd.grad(values.sum(), logits)
        torch.testing.assert_close(gradient, torch.tensor(case['grad'], dtype=torch.float64), rtol=1e-5, atol=1e-6)


def test_defaults_are_those_of_the_authors_figures():
    for name, loss in (('db_focal', DBFocalLoss), ('cb_focal', CBFocalLoss), ('rw_bce', ReweightedBCELoss)):
        case = CASES[name][0]
        params = case['params']
        values = loss(params['class_freq'], params['num_train'], reduction='none')(
            torch.tensor(case['logits']), torch.tensor(case['targets'])
        )
        torch.testing.assert_close(values, torch.tensor(case['loss']), rtol=1e-4, atol=1e-6)


def test_special_cases_are_the_plain_losses():
    logits, targets = example()
    everywhere = dict(class_frequencies=[100] * 5, num_samples=100)
    for mode in ('inverse', 'inverse_sqrt'):
        torch.testing.assert_close(
            ReweightedBCELoss(**everywhere, mode=mode)(logits, targets), BCELoss()(logits, targets)
        )
    halves = dict(class_frequencies=[50] * 5, num_samples=100)
    torch.testing.assert_close(WeightedBCELoss(**halves)(logits, targets), BCELoss()(logits, targets))
    torch.testing.assert_close(LDAMLoss(COUNTS, max_margin=0.0)(logits, targets), BCELoss()(logits, targets))
    focal = FocalLoss(gamma=2.0)(logits, targets)
    for mode in ('by_class', 'average_n', 'average_w', 'min_n'):
        torch.testing.assert_close(CBFocalLoss(COUNTS, beta=0.0, mode=mode, balance=1.0)(logits, targets), focal)
    unfocused = DBFocalLoss(COUNTS, 1000, gamma=0.0, balance=1.0)(logits, targets)
    torch.testing.assert_close(unfocused, DBLoss(COUNTS, 1000)(logits, targets))


@pytest.mark.parametrize(('positive', 'negative'), [('focal', 'hill'), ('bce', dict(type='mse', weight=0.5))])
def test_weights_lie_over_any_pair_of_terms(positive, negative):
    logits, targets = example()
    terms = dict(positive=positive, negative=negative, reduction='none')
    counts = torch.tensor(COUNTS, dtype=torch.float64)
    pair = PairLoss(**terms)(logits, targets)
    torch.testing.assert_close(
        ReweightedBCELoss(COUNTS, 1000, **terms)(logits, targets), reweighting(counts, 1000) * pair
    )
    torch.testing.assert_close(
        DBLoss(COUNTS, 1000, negative_scale=1.0, kappa=0.0, **terms)(logits, targets),
        rebalancing_weights(targets, counts) * pair,
    )
    weighted = WeightedBCELoss([500] * 5, 1000, **terms)(logits, targets)
    torch.testing.assert_close(weighted, pair)


def test_extreme_logits_and_absent_classes_stay_finite(kind):
    signs = torch.tensor([[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, 1, 1], [-1, -1, -1, -1]])
    targets = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    for dtype in (torch.float16, torch.float32):
        logits = (1e4 * signs).to(dtype).requires_grad_()
        loss = kind([0, 100, 1, 30], 100)(logits, targets)
        assert loss.isfinite()
        assert torch.autograd.grad(loss, logits)[0].isfinite().all()


@pytest.mark.parametrize(
    ('kind', 'arguments'),
    [(kind, {}) for kind in KINDS] + [(CBFocalLoss, dict(mode=mode)) for mode in ('average_n', 'average_w', 'min_n')],
)
def test_losses_compile_as_one_graph(kind, arguments):
    loss = kind(COUNTS, 1000, **arguments)
    logits, targets = example(torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend='aot_eager')(logits, targets)
    expected = loss(logits, targets)
    torch.testing.assert_close(compiled, expected)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (compiled, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    'content',
    [
        dict(class_frequencies=COUNTS, num_samples=1000),
        dict(class_freq=COUNTS, num_samples=1000),
        dict(class_freq=COUNTS),
        COUNTS,
    ],
)
def test_a_json_file_is_as_good_as_a_list(kind, tmp_path, content):
    file = tmp_path / 'counts.json'
    file.write_text(json.dumps(content))
    num_samples = None if 'num_samples' in content else 1000
    logits, targets = example()
    expected = kind(COUNTS, 1000)(logits, targets)
    for path in (file, str(file)):
        loss = kind(path, num_samples)
        assert torch.equal(loss(logits, targets), expected)
        assert not loss.wants_training_labels
    config = dict(type=kind.__name__, class_frequencies=str(file), num_samples=num_samples)
    assert torch.equal(LOSSES.build(config)(logits, targets), expected)


@pytest.mark.parametrize('dtype', [torch.int8, torch.float32])
def test_the_training_set_is_counted(kind, dtype, tmp_path):
    loss = kind()
    assert loss.wants_training_labels
    loss.see_training_labels(LABELS.to(dtype), torch.arange(4))
    assert not loss.wants_training_labels
    assert loss.frequencies.counts.tolist() == [3, 1, 1, 0, 2]  # unknown labels are not counted
    assert loss.frequencies.num_samples == 4
    logits, targets = example()
    file = tmp_path / 'counts.json'
    file.write_text(json.dumps(dict(class_frequencies=[3, 1, 1, 0, 2], num_samples=4, known_labels=[4, 4, 3, 3, 4])))
    assert torch.equal(loss(logits, targets), kind(file)(logits, targets))


@pytest.fixture(scope='module')
def hardly_labelled() -> torch.Tensor:
    """Make labels as in VAW: of the 620 attributes of an image about 1.8 are positive, 1.2 negative, others unknown."""
    generator = torch.Generator().manual_seed(0)
    chance = torch.rand(2000, 620, generator=generator)
    return torch.where(chance < 1.8 / 620, 1.0, torch.where(chance < 3.0 / 620, 0.0, -1.0))


def test_the_positives_of_weighted_bce_weigh_as_much_as_its_known_negatives(hardly_labelled):
    loss = WeightedBCELoss(reduction='none')
    loss.see_training_labels(hardly_labelled, torch.arange(len(hardly_labelled)))
    values = loss(torch.zeros_like(hardly_labelled), hardly_labelled)
    both = ((hardly_labelled == 1).any(dim=0)) & ((hardly_labelled == 0).any(dim=0))
    positives, negatives = (values.where(hardly_labelled == label, 0)[:, both].sum(dim=0) for label in (1, 0))
    assert both.sum() > 500
    torch.testing.assert_close(positives, negatives)


@pytest.mark.parametrize('kind', [DBLoss, DBFocalLoss])
def test_the_bias_of_db_is_that_of_the_known_labels(kind):
    """Compare with a training set of one class, from which the images of unknown label were taken out."""
    labels = torch.tensor([1.0, 0.0, 0.0, -1.0, -1.0, -1.0]).unsqueeze(1)
    whole, known = kind(), kind()
    whole.see_training_labels(labels, torch.arange(6))
    known.see_training_labels(labels[:3], torch.arange(3))
    logits = torch.linspace(-2, 2, 3).unsqueeze(1)
    assert torch.equal(whole(logits, labels[:3]), known(logits, labels[:3]))


@pytest.mark.parametrize('kind', [ReweightedBCELoss, CBFocalLoss, LDAMLoss])
def test_losses_that_need_the_positives_alone_do_not_ask_which_labels_are_unknown(kind):
    logits, targets = example()
    losses = kind(), kind()
    losses[0].see_training_labels(LABELS, torch.arange(4))
    losses[1].see_training_labels(LABELS.clamp(min=0), torch.arange(4))
    assert torch.equal(losses[0](logits, targets), losses[1](logits, targets))


def test_known_labels_go_with_the_frequencies(tmp_path):
    """Test files with and without them, checkpoints with and without them, and copies in half precision."""
    counted = WeightedBCELoss()
    counted.see_training_labels(LABELS, torch.arange(4))
    assert counted.frequencies.known_labels.tolist() == [4, 4, 3, 3, 4]
    logits, targets = example()
    content = dict(class_frequencies=[3, 1, 1, 0, 2], num_samples=4)
    for known_labels in ([4, 4, 3, 3, 4], None):
        file = tmp_path / 'counts.json'
        file.write_text(json.dumps(content | (dict(known_labels=known_labels) if known_labels else {})))
        from_file = WeightedBCELoss(file)
        assert torch.equal(from_file(logits, targets), counted(logits, targets)) is (known_labels is not None)
    loaded = WeightedBCELoss()
    loaded.load_state_dict(counted.state_dict())
    assert torch.equal(loaded(logits, targets), counted(logits, targets))
    older = {key: value for key, value in counted.state_dict().items() if 'known' not in key}
    loaded.load_state_dict(older)
    assert torch.equal(loaded(logits, targets), from_file(logits, targets))
    assert copy.deepcopy(counted).half().frequencies.known_labels.dtype == torch.float32


def test_a_checkpoint_with_other_known_labels_is_mentioned(logged):
    loss = WeightedBCELoss()
    loss.see_training_labels(LABELS, torch.arange(4))
    before = loss.state_dict()
    loss.load_state_dict(before)
    assert not logged
    other = WeightedBCELoss([3, 1, 1, 0, 2], 4)
    other.load_state_dict(before)
    assert len(logged) == 1


@pytest.mark.parametrize(
    'content',
    [dict(num_samples=9, known_labels=[9]), dict(num_samples=9, known_labels=[9, 1]), dict(known_labels=[9, 9])],
)
def test_known_labels_that_cannot_be_are_an_error(tmp_path, content):
    file = tmp_path / 'counts.json'
    file.write_text(json.dumps(dict(class_frequencies=[3, 4], **content)))
    with pytest.raises(ValueError, match='known_labels must be, for each class of class_frequencies, a number'):
        ClassFrequencies(file, needs_num_samples=False)


def test_soft_labels_count_by_their_share():
    counted = ClassFrequencies()
    counted.count(torch.tensor([[0.25, 1.0], [0.5, -1.0]]))
    assert counted.counts.tolist() == [0.75, 1.0]


def test_the_config_wins_over_the_training_set(kind):
    loss = kind(COUNTS, 1000)
    assert not loss.wants_training_labels
    loss.see_training_labels(LABELS, torch.arange(4))
    assert loss.frequencies.counts.tolist() == COUNTS


def test_calls_before_the_frequencies_are_known_say_what_to_do(kind):
    logits, targets = example()
    with pytest.raises(ValueError, match=r'not known yet: .* list .* json file .*mmml_losses\.TrainingSetHook'):
        kind()(logits, targets)


def test_the_number_of_classes_must_fit(kind):
    logits, targets = example()
    with pytest.raises(
        ValueError, match=r'one count for each of the 5 classes of cls_score, got 3 \(from the config\)'
    ):
        kind([5, 6, 7], 10)(logits, targets)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (([3, -1, 2], 10), r'class_frequencies must be counts of at least 0, got -1 for class 1'),
        (([3, float('nan')], 10), r'class_frequencies must be counts of at least 0, got nan for class 1'),
        (([0, 0, 0], 10), r'class_frequencies must not all be 0'),
        (([], 10), 'class_frequencies must be one number for each class, got none'),
        (([[1, 2]], 10), r'class_frequencies must be one number for each class, got the shape \(1, 2\)'),
        ((['a', 'b'], 10), r'class_frequencies must be a list of numbers'),
        (([3, 12], 10), r'class_frequencies must be at most num_samples, 10: .* got 12 for class 1'),
        (([3, 4], 0), r'num_samples must be a number above 0, got 0'),
        (([3, 4], 'ten'), r"num_samples must be a number above 0, got 'ten'"),
        (([3, 4], None), r'num_samples, the number of training images, must come with class_frequencies, got None'),
        ((None, 10), r'num_samples must come with class_frequencies, got 10 alone'),
        (('nowhere.json', 10), r"class_frequencies must be a readable file, got 'nowhere.json': No such file"),
    ],
)
def test_bad_frequencies_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        DBLoss(*arguments)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('[1, 2', 'class_frequencies must be a json file'),
        ('{"counts": [1, 2]}', r"must be a json file with a list or with one of the keys .*'class_freq'.*\['counts'\]"),
        ('7', 'must be a json file with a list or with one of the keys'),
        ('{"class_frequencies": [1, 2], "num_samples": 20}', 'num_samples must be 20, as in .*, or left out, got 10'),
        ('{"class_frequencies": "many"}', 'class_frequencies must be a list of numbers'),
        ('{"class_frequencies": null, "num_samples": 10}', 'class_frequencies must be a list of numbers'),
    ],
)
def test_bad_files_are_rejected(tmp_path, content, message):
    file = tmp_path / 'counts.json'
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        DBLoss(file, 10)


def test_a_pickle_is_no_frequency_file(tmp_path):
    file = tmp_path / 'counts.pkl'
    file.write_bytes(pickle.dumps(dict(class_frequencies=COUNTS, num_samples=1000)))
    with pytest.raises(ValueError, match='class_frequencies must be a json file'):
        DBLoss(file)


@pytest.mark.parametrize(
    ('kind', 'arguments', 'message'),
    [
        (WeightedBCELoss, dict(smoothing=-0.1), 'smoothing must be at least 0, got -0.1'),
        (ReweightedBCELoss, dict(mode='sqrt'), "mode must be one of .*, got 'sqrt'"),
        (ReweightedBCELoss, dict(positive='hinge'), "positive must be one of .*, got 'hinge'"),
        (CBFocalLoss, dict(mode='sqrt'), "mode must be one of .*, got 'sqrt'"),
        (CBFocalLoss, dict(beta=1.0), r'beta must be in \[0, 1\), got 1.0'),
        (CBFocalLoss, dict(gamma=-1), 'gamma must be at least 0, got -1'),
        (DBLoss, dict(negative_scale=0), 'negative_scale must be above 0, got 0'),
        (DBFocalLoss, dict(negative_scale=-1), 'negative_scale must be above 0, got -1'),
        (DBFocalLoss, dict(gamma=-1), 'gamma must be at least 0, got -1'),
        (LDAMLoss, dict(max_margin=-1), 'max_margin must be at least 0, got -1'),
        (LDAMLoss, dict(scale=0), 'scale must be above 0, got 0'),
    ],
)
def test_bad_settings_are_rejected_when_the_loss_is_built(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


def test_cb_and_ldam_need_no_number_of_images():
    logits, targets = example()
    for kind in (CBFocalLoss, LDAMLoss):
        assert torch.equal(kind(COUNTS)(logits, targets), kind(COUNTS, 1000)(logits, targets))


@pytest.mark.parametrize('duplicate', [copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))])
@pytest.mark.parametrize('source', ['config', 'training set', 'nothing'])
def test_copies_know_what_the_loss_knows(kind, duplicate, source):
    loss = kind(COUNTS, 1000) if source == 'config' else kind()
    if source == 'training set':
        loss.see_training_labels(LABELS, torch.arange(4))
    twin = duplicate(loss)
    assert twin.wants_training_labels == loss.wants_training_labels
    if source != 'nothing':
        logits, targets = example()
        assert torch.equal(twin(logits, targets), loss(logits, targets))


@pytest.mark.parametrize('load', [torch.nn.Module.load_state_dict, load_state_dict], ids=['torch', 'mmengine'])
def test_a_checkpoint_brings_the_frequencies(kind, load):
    logits, targets = example()
    trained, fresh = kind(COUNTS, 1000), kind()
    load(fresh, trained.state_dict(), strict=True)
    assert torch.equal(fresh(logits, targets), trained(logits, targets))
    assert fresh.frequencies.counts is not trained.frequencies.counts
    # They may be those of another training set: where there is one, it is counted.
    assert fresh.wants_training_labels
    load(fresh, kind([1, 2, 3], 9).state_dict(), strict=True)
    assert fresh.frequencies.counts.tolist() == [1, 2, 3]


def test_a_checkpoint_in_a_sum_brings_the_frequencies():
    config = dict(type='SumLoss', losses=dict(db=dict(type='DBLoss', class_frequencies=COUNTS, num_samples=1000)))
    fresh = SumLoss(losses=dict(db=dict(type='DBLoss')))
    fresh.load_state_dict(LOSSES.build(config).state_dict())
    logits, targets = example()
    assert torch.equal(fresh(logits, targets), LOSSES.build(config)(logits, targets))


@pytest.fixture
def logged(monkeypatch) -> list[str]:
    messages = []
    monkeypatch.setattr(frequencies, 'print_log', lambda message, logger, level: messages.append(message))
    return messages


def test_the_config_wins_over_a_checkpoint(logged):
    loss = DBLoss(COUNTS, 1000)
    loss.load_state_dict(loss.state_dict())
    assert not logged
    loss.load_state_dict(OTHER)
    assert loss.frequencies.counts.tolist() == COUNTS
    assert logged == [
        'The class frequencies of the config are used; the checkpoint was trained with others (5 classes, 100 images).'
    ]


@pytest.mark.parametrize('loaded_first', [False, True])
def test_the_training_set_wins_over_a_checkpoint(logged, loaded_first):
    loss = DBLoss()
    if loaded_first:
        loss.load_state_dict(OTHER)
    loss.see_training_labels(LABELS, torch.arange(4))
    if not loaded_first:
        loss.load_state_dict(OTHER)
    assert loss.frequencies.counts.tolist() == [3, 1, 1, 0, 2]
    assert [message.split(';')[0] for message in logged] == ['The class frequencies of the training set are used']


def test_a_checkpoint_without_frequencies_is_missed_only_where_they_are_needed():
    empty = DBLoss().state_dict()
    known, unknown = DBLoss(COUNTS, 1000), DBLoss()
    known.load_state_dict({})
    known.load_state_dict(empty)
    assert known.frequencies.counts.tolist() == COUNTS
    with pytest.raises(RuntimeError, match=r'Missing key.*frequencies\.counts'):
        unknown.load_state_dict({})
    unknown.load_state_dict(empty)
    assert unknown.wants_training_labels


@pytest.mark.parametrize('convert', [torch.nn.Module.half, torch.nn.Module.bfloat16, torch.nn.Module.double])
def test_changing_the_dtype_of_a_model_keeps_the_counts(convert):
    counts = [100_003, 7, 9_000_001]
    loss = convert(torch.nn.Sequential(torch.nn.Linear(1, 1), DBLoss(counts, 9_000_007)))[1]
    assert loss.frequencies.counts.tolist() == counts
    assert loss.frequencies.num_samples == 9_000_007
    assert loss(torch.zeros(2, 3), torch.zeros(2, 3)).isfinite()


def test_what_is_known_is_shown():
    assert '(frequencies): ClassFrequencies(not known yet)' in str(DBLoss())
    assert 'ClassFrequencies(5 classes, 1000 images, from the config)' in str(DBLoss(COUNTS, 1000))
    assert 'ClassFrequencies(5 classes, unknown number of images, from the config)' in str(LDAMLoss(COUNTS))

"""Links as modules: their bases, and how the fitted ones are fitted and kept."""

import copy
import io
import pickle

import pytest
import torch
from scipy.optimize import minimize_scalar

from mmml_losses.losses import AsymmetricLoss, BCELoss, LabelPairRegularizer, SigmoidLink, SPALink, SPALoss, SumLoss
from mmml_losses.losses.links import PhiLink, PlattLink, ScaledLink, TemperatureLink, VectorLink
from mmml_losses.registry import MODELS

CLASSES = 5
SCALED = {
    'temperature': lambda base=None: TemperatureLink(base),
    'platt': lambda base=None: PlattLink(base),
    'vector': lambda base=None: VectorLink(CLASSES, base),
}
BASES = {
    'none': lambda: None,
    'sigmoid': SigmoidLink,
    'spa': SPALink,
    'phi': lambda: PhiLink(gamma_positive=1.0, gamma_negative=3.0, margin=0.0),
}
scaled_links = pytest.mark.parametrize('make', list(SCALED.values()), ids=list(SCALED))
bases = pytest.mark.parametrize('make_base', list(BASES.values()), ids=list(BASES))


def set_values(link: ScaledLink) -> ScaledLink:
    """Values that are not the identity."""
    for name, value in link.named_buffers(recurse=False):
        steps = torch.linspace(0.25, 0.4, value.numel()).reshape(value.shape)
        value.copy_(steps - 1 if name == 'bias' else 10 * steps)
    return link


def labelled(samples=4000, seed=0):
    """Log-odds, and labels drawn from the probabilities that they mean."""
    generator = torch.Generator().manual_seed(seed)
    log_odds = 2 * torch.randn(samples, CLASSES, generator=generator, dtype=torch.float64) - 1
    labels = torch.rand(samples, CLASSES, generator=generator, dtype=torch.float64) < log_odds.sigmoid()
    return log_odds, labels.double()


@pytest.mark.parametrize('eta', [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
@pytest.mark.parametrize(
    'parameters',
    [
        dict(gamma_positive=2.0, gamma_negative=2.0, margin=0.0),
        dict(gamma_positive=0.0, gamma_negative=4.0, margin=0.0),
        dict(gamma_positive=1.0, gamma_negative=4.0, margin=0.05),
        dict(gamma_positive=0.5, gamma_negative=3.0, margin=0.2),
    ],
)
def test_phi_of_the_minimiser_is_the_true_probability(parameters, eta):
    loss = AsymmetricLoss(**parameters, link=PhiLink(**parameters), reduction='sum')

    def risk(logits):
        logits = torch.as_tensor(logits, dtype=torch.float64).reshape(-1, 1)
        return loss(logits, torch.full_like(logits, eta), reduction_override='none')

    grid = torch.linspace(-12, 12, 2401)
    near = grid[risk(grid).argmin()].item()
    least = minimize_scalar(lambda v: risk(v).item(), bounds=(near - 0.02, near + 0.02), options={'xatol': 1e-10}).x
    assert loss.probabilities(torch.tensor([[least]], dtype=torch.float64)).item() == pytest.approx(eta, abs=1e-5)
    if parameters['margin'] == 0:
        assert loss.link.inverse(torch.tensor(eta, dtype=torch.float64)).item() == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(gamma_negative=-1), 'gamma_negative must be at least 0, got -1'),
        (dict(margin=1.0), r'margin must be in \[0, 1\), got 1.0'),
    ],
)
def test_bad_arguments_of_phi_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        PhiLink(**arguments)


def test_links_show_their_constants():
    assert 'negative_slope=3.0' in repr(SPALink())
    assert 'gamma_negative=2.0, margin=0.0' in repr(PhiLink(gamma_negative=2.0, margin=0.0))
    assert PhiLink(1.0, 2.0).constants == dict(gamma_positive=1.0, gamma_negative=2.0, margin=0.05, alpha=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gama'"):
        PhiLink(gama=2.0)


@scaled_links
@bases
def test_links_begin_as_the_identity_and_are_invertible(make, make_base):
    base = make_base()
    link = make(base)
    logits = torch.linspace(-30, 30, 8 * CLASSES, dtype=torch.float64).reshape(8, CLASSES)
    log_odds = logits if base is None else base.logit_probabilities(logits)
    torch.testing.assert_close(link.logit_probabilities(logits), log_odds)
    set_values(link)
    assert not torch.allclose(link.logit_probabilities(logits), log_odds)
    torch.testing.assert_close(link.inverse_logit_probabilities(link.logit_probabilities(logits)), logits)
    probabilities = torch.tensor([1e-9, 0.2, 0.5, 0.9, 1 - 1e-9], dtype=torch.float64).reshape(1, CLASSES)
    torch.testing.assert_close(link(link.inverse(probabilities)), probabilities, rtol=1e-7, atol=0)


@scaled_links
@bases
def test_scaled_log_odds_are_exact_in_the_tails(make, make_base):
    link = set_values(make(make_base()))
    logits = torch.tensor([-500.0, -104.0, 0.5, 104.0, 500.0])
    torch.testing.assert_close(
        link.logit_probabilities(logits).double(), link.logit_probabilities(logits.double()), rtol=1e-5, atol=1e-5
    )
    assert link.logit_probabilities(logits.requires_grad_()).isfinite().all()


def test_the_formulas_of_the_scaled_links():
    logits = torch.tensor([[-3.0, 0.0, 1.0, 2.0, 700.0]])
    link = TemperatureLink()
    link.temperature.fill_(4.0)
    assert link.logit_probabilities(logits).tolist() == [[-0.75, 0.0, 0.25, 0.5, 175.0]]
    link = PlattLink()
    link.scale.fill_(2.0)
    link.bias.fill_(-1.0)
    assert link.logit_probabilities(logits).tolist() == [[-7.0, -1.0, 1.0, 3.0, 1399.0]]
    link = VectorLink(5)
    link.scale.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    link.bias.copy_(torch.arange(5))
    assert link.logit_probabilities(logits).tolist() == [[-3.0, 1.0, 5.0, 11.0, 3504.0]]


@pytest.mark.parametrize('temperature', [0.3, 2.5])
def test_a_known_temperature_is_recovered(temperature):
    log_odds, labels = labelled(20000)
    link = TemperatureLink()
    before, after = link.fit(temperature * log_odds, labels)
    assert link.temperature.item() == pytest.approx(temperature, rel=0.03)
    assert after < before


def test_known_scale_and_bias_are_recovered():
    log_odds, labels = labelled(20000)
    link = PlattLink()
    before, after = link.fit((log_odds + 1.5) / 0.4, labels)
    assert link.scale.item() == pytest.approx(0.4, rel=0.03)
    assert link.bias.item() == pytest.approx(-1.5, abs=0.03)
    assert after < before


def test_known_scales_and_biases_are_recovered():
    log_odds, labels = labelled(40000)
    scale = torch.tensor([0.2, 0.5, 1.0, 2.0, 5.0], dtype=torch.float64)
    bias = torch.tensor([-3.0, 0.0, 1.0, -1.0, 2.0], dtype=torch.float64)
    link = VectorLink(CLASSES)
    before, after = link.fit((log_odds - bias) / scale, labels)
    torch.testing.assert_close(link.scale.double(), scale, rtol=0.05, atol=0)
    torch.testing.assert_close(link.bias.double(), bias, rtol=0, atol=0.1)
    assert after < before


@scaled_links
@bases
def test_the_fit_has_the_least_negative_log_likelihood(make, make_base):
    """The conditions of logistic regression: residuals add to 0, and so do their products with the log-odds."""
    log_odds, labels = labelled(500, seed=1)
    base, link = make_base(), make(make_base())
    logits = 0.6 * log_odds + 0.3
    link.fit(logits, labels)
    residuals = link(logits) - labels
    inputs = logits if base is None else base.logit_probabilities(logits)
    axis = 0 if isinstance(link, VectorLink) else (0, 1)
    assert (residuals * inputs).mean(axis).abs().max() < 1e-5
    if not isinstance(link, TemperatureLink):
        assert residuals.mean(axis).abs().max() < 1e-5


@scaled_links
def test_a_fit_reports_the_likelihood_and_does_not_depend_on_earlier_values(make):
    log_odds, labels = labelled(300)
    link, again = make(), set_values(make())
    before, after = link.fit(3 * log_odds, labels)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    assert before == pytest.approx(loss(3 * log_odds, labels).item())
    assert after == pytest.approx(loss(link.logit_probabilities(3 * log_odds), labels).item())
    assert again.fit(3 * log_odds, labels).after == after
    assert all(torch.equal(*pair) for pair in zip(link.buffers(), again.buffers(), strict=True))


@scaled_links
def test_unknown_labels_change_nothing(make):
    log_odds, labels = labelled(300)
    link, with_unknown = make(), make()
    expected = link.fit(2 * log_odds, labels)
    more_logits = torch.cat([2 * log_odds, torch.full((50, CLASSES), 1e4)])
    result = with_unknown.fit(more_logits, torch.cat([labels, torch.full((50, CLASSES), -1.0)]))
    assert result == pytest.approx(expected, rel=1e-9)
    for value, same in zip(link.buffers(), with_unknown.buffers(), strict=True):
        torch.testing.assert_close(value, same)


@scaled_links
@pytest.mark.parametrize('dtype', [torch.float16, torch.float32])
def test_separated_labels_give_finite_values(make, dtype):
    logits = torch.linspace(-9, 9, 20, dtype=dtype).unsqueeze(1).repeat(1, CLASSES)
    link = make(SPALink())
    before, after = link.fit(logits, (logits > 0).float())
    assert after < before
    assert all(value.isfinite().all() for value in link.buffers())
    if not isinstance(link, TemperatureLink):
        assert (link.scale <= 100).all()


@scaled_links
def test_extreme_logits_give_finite_values(make):
    _, labels = labelled(50)
    logits = 1e4 * (2 * labels - 1)
    logits[:5] *= -1
    link = make()
    before, after = link.fit(logits, labels)
    assert after < before
    assert all(value.isfinite().all() for value in link.buffers())


def test_a_class_with_one_kind_of_label_keeps_its_log_odds():
    log_odds, labels = labelled(200)
    labels[:, 1], labels[:, 3], labels[:100, 4] = 0, 1, -1
    link = VectorLink(CLASSES)
    link.fit(3 * log_odds, labels)
    assert link.scale[[1, 3]].tolist() == [1, 1]
    assert link.bias[[1, 3]].tolist() == [0, 0]
    assert (link.scale[[0, 2, 4]] < 0.6).all()


@scaled_links
def test_data_that_cannot_be_fitted_is_rejected(make):
    logits = torch.zeros(4, CLASSES)
    for logits_, targets, message in (
        (logits, torch.full((4, CLASSES), -1), r'targets must hold known labels, got none in \(4, 5\)'),
        (logits, torch.zeros(4, CLASSES), 'positive and negative labels, got only one kind'),
        (logits, torch.ones(4, CLASSES), 'positive and negative labels, got only one kind'),
        (logits, torch.ones(3, CLASSES), r'one shape \(N, C\), got \(4, 5\) and \(3, 5\)'),
        (logits[0], torch.ones(CLASSES), r'one shape \(N, C\), got \(5,\)'),
        (logits, torch.full((4, CLASSES), 2), 'target must be 1, 0, -1 for unknown'),
        (logits / 0, torch.ones(4, CLASSES), 'logits must be finite'),
        (logits[:0], torch.ones(0, CLASSES), 'targets must hold known labels'),
    ):
        link = make()
        with pytest.raises(ValueError, match=message):
            link.fit(logits_, targets)
        assert all(torch.equal(*pair) for pair in zip(link.buffers(), make().buffers(), strict=True))


def test_vector_scaling_knows_its_classes():
    with pytest.raises(ValueError, match='num_classes must be at least 1, got 0'):
        VectorLink(0)
    with pytest.raises(ValueError, match='one entry for each of the 3 classes'):
        VectorLink(CLASSES).fit(torch.randn(4, 3), torch.tensor([[0, 1, 0]]).repeat(4, 1))


@scaled_links
@pytest.mark.parametrize('mode', [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_fit_leaves_grad_mode_and_inputs_alone(make, mode):
    log_odds, labels = labelled(100)
    log_odds.requires_grad_()
    copies = log_odds.detach().clone(), labels.clone()
    link = make()
    with mode():
        logits = 2 * log_odds
        enabled = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        link.fit(logits, labels)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == enabled
    assert torch.equal(log_odds, copies[0])
    assert torch.equal(labels, copies[1])
    assert log_odds.grad is None
    assert not any(value.requires_grad or value.is_inference() for value in link.buffers())
    link.logit_probabilities(log_odds).sum().backward()  # the fitted values serve a training, too


@scaled_links
def test_fitted_values_are_kept_and_not_trained(make):
    loss = SPALoss(link=make())
    log_odds, labels = labelled(100)
    loss.link.fit(3 * log_odds, labels)
    assert list(loss.parameters()) == []
    names = {f'link.{name}' for name, _ in make().named_buffers()}
    assert set(loss.state_dict()) == names
    expected = loss.probabilities(log_odds)
    assert not torch.allclose(expected, SPALoss().probabilities(log_odds))
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    loaded = SPALoss(link=make())
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for same in (loaded, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert torch.equal(same.probabilities(log_odds), expected)


@pytest.mark.parametrize(
    'config',
    [
        dict(type='TemperatureLink', base=dict(type='SPALink', negative_scale=2.0)),
        dict(type='PlattLink', base=dict(type='PhiLink', margin=0.0)),
        dict(type='VectorLink', num_classes=CLASSES, base=dict(type='TemperatureLink')),
    ],
)
def test_links_are_built_from_configs(config):
    link = MODELS.build(config)
    assert type(link).__name__ == config['type']
    assert type(link.base).__name__ == config['base']['type']


def test_a_scaled_link_wraps_the_own_link_of_its_loss():
    logits = torch.linspace(-3, 3, CLASSES).unsqueeze(0)
    for link in (dict(type='TemperatureLink'), TemperatureLink()):
        loss = SPALoss(link=link)
        loss.link.temperature.fill_(2.0)
        torch.testing.assert_close(loss.logit_probabilities(logits), SPALink().logit_probabilities(logits) / 2)
    assert torch.equal(BCELoss(link=dict(type='TemperatureLink')).logit_probabilities(logits), logits)
    nested = SPALoss(link=dict(type='PlattLink', base=dict(type='TemperatureLink')))
    assert isinstance(nested.link.base.base, SPALink)


def test_another_link_takes_the_place_of_the_own_one():
    logits = torch.linspace(-3, 3, CLASSES).unsqueeze(0)
    assert torch.equal(SPALoss(link=dict(type='SigmoidLink')).logit_probabilities(logits), logits)
    told = SPALoss(link=dict(type='TemperatureLink', base=dict(type='SigmoidLink')))
    assert torch.equal(told.logit_probabilities(logits), logits)


def test_a_sum_scales_the_link_of_its_first_pointwise_part():
    logits = torch.linspace(-3, 3, CLASSES).unsqueeze(0)
    loss = SumLoss(dict(lpr=LabelPairRegularizer(), spa=SPALoss(), bce=BCELoss()), link=dict(type='TemperatureLink'))
    loss.link.temperature.fill_(2.0)
    torch.testing.assert_close(loss.logit_probabilities(logits), SPALink().logit_probabilities(logits) / 2)
    assert loss.losses['lpr'].link is loss.link
    torch.testing.assert_close(loss.losses['spa'].probabilities(logits), SPALoss().probabilities(logits))
    assert list(loss.parameters()) == []
    regularisers = SumLoss(dict(lpr=LabelPairRegularizer()), link=dict(type='TemperatureLink'))
    assert torch.equal(regularisers.logit_probabilities(logits), logits)

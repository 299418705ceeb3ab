import numpy as np
import pytest

from mmml_losses.losses import BCELoss, LASDLoss
from mmml_losses.visualization import loss_curve, parse_loss, plot_loss_curves, png_bytes
from mmml_losses.visualization.loss_curves import build_loss

LOGITS = np.linspace(-5, 5, 21)
SIGMOID = 1 / (1 + np.exp(-LOGITS))


def curve(text, label, **kwargs):
    return loss_curve(build_loss(text), label, LOGITS, **kwargs)


def lines_of(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_bce_has_the_values_and_gradients_of_its_formula():
    negative, positive = curve('BCELoss', 'negative'), curve('BCELoss', 'positive')
    np.testing.assert_allclose(negative.values, -np.log(1 - SIGMOID))
    np.testing.assert_allclose(negative.gradients, SIGMOID)
    np.testing.assert_allclose(positive.values, -np.log(SIGMOID))
    np.testing.assert_allclose(positive.gradients, SIGMOID - 1)
    np.testing.assert_allclose(positive.probabilities, SIGMOID)


def test_gradient_of_hill_is_largest_at_one_half():
    # (lamb - p) p^2 with lamb = 1.5: the gradient by the logit is 3 p^2 (1 - p)^2, largest at p = 0.5.
    hill = curve('HillLoss', 'negative')
    np.testing.assert_allclose(hill.values, (1.5 - SIGMOID) * SIGMOID**2)
    np.testing.assert_allclose(hill.gradients, 3 * SIGMOID**2 * (1 - SIGMOID) ** 2)
    assert LOGITS[hill.gradients.argmax()] == 0


def test_spa_has_the_probabilities_of_its_own_link():
    text = 'SPALoss(negative_scale=5.0, negative_slope=3.0, negative_shift=1.0)'
    spa = curve(text, 'negative')
    np.testing.assert_allclose(spa.values, np.log1p(np.exp(3 * (LOGITS - 1))) / 5)
    np.testing.assert_array_less(spa.probabilities[LOGITS < 1], SIGMOID[LOGITS < 1])


def test_splc_corrects_a_probable_negative_from_the_second_epoch_on():
    before, after = curve('SPLCLoss', 'negative', epoch=0), curve('SPLCLoss', 'negative', epoch=1)
    doubtful = SIGMOID > 0.6
    assert (before.gradients > 0).all()
    assert (after.gradients[doubtful] < 0).all()
    np.testing.assert_array_equal(before.values[~doubtful], after.values[~doubtful])


def test_dr_has_the_gradient_of_equation_10():
    """Compare with one positive at 2.5 and the negative itself, pair scale 5 and constraint scale 7."""
    dr = curve('DRLoss', 'negative')
    pair, constraint = np.exp(5 * (LOGITS - 2.5)), np.exp(7 * LOGITS)
    np.testing.assert_allclose(dr.values, np.log1p(pair + constraint))
    np.testing.assert_allclose(dr.gradients, (5 * pair + 7 * constraint) / (1 + pair + constraint))


@pytest.mark.parametrize('way', ['sample', 'class', 'joint'])
def test_a_setwise_loss_compares_the_label_with_one_of_the_other_kind(way):
    text = f"LSEPLoss(way='{way}', gamma=2.0)"
    negative, positive = curve(text, 'negative', opponent=1.0), curve(text, 'positive', opponent=1.0)
    np.testing.assert_allclose(negative.values, np.log1p(np.exp(2 * (LOGITS - 1))))
    np.testing.assert_allclose(positive.values, np.log1p(np.exp(2 * (-1 - LOGITS))))


def test_way_both_doubles_the_gradient():
    both, one = (curve(f"LSEPLoss(way='{way}')", 'negative') for way in ('both', 'class'))
    np.testing.assert_allclose(both.gradients, 2 * one.gradients)


def test_number_of_classes_reaches_losses_that_count_them():
    two, ten = (curve('WANLoss', 'negative', num_classes=number) for number in (2, 10))
    np.testing.assert_allclose(two.gradients, 9 * ten.gradients)


def test_a_curve_does_not_update_the_loss():
    loss = LASDLoss()
    loss_curve(loss, 'negative', LOGITS)
    assert loss.training
    assert loss.estimated_positives == 0


@pytest.mark.parametrize(
    ('loss', 'message'),
    [
        ('LargeLossRejection', 'in LargeLossRejection a label costs something else when others stand beside it'),
        ('EMAPLLoss', 'EMAPLLoss remembers samples'),
        ('ConsistencyRegularizer', 'pairs of labels have such a curve, got ConsistencyRegularizer'),
        (
            "SumLoss(losses={'spa': {'type': 'SPALoss'}, 'lpr': {'type': 'LabelPairRegularizer'}})",
            'got LabelPairRegularizer in SumLoss: draw the parts by themselves',
        ),
        ('SPALink', 'loss must be a loss of mmml_losses, got SPALink'),
        ('BCELoss(size=3)', 'BCELoss takes reduction, .* got size'),
    ],
)
def test_losses_without_a_curve_are_rejected(loss, message):
    with pytest.raises(ValueError, match=message):
        curve(loss, 'negative')


def test_sums_of_pointwise_losses_have_a_curve():
    total = curve("SumLoss(losses={'bce': {'type': 'BCELoss'}, 'hill': {'type': 'HillLoss'}})", 'negative')
    np.testing.assert_allclose(
        total.gradients, curve('BCELoss', 'negative').gradients + curve('HillLoss', 'negative').gradients
    )


def test_losses_are_parsed_from_python():
    assert parse_loss(' HillLoss ') == dict(type='HillLoss')
    assert parse_loss("PairLoss(positive={'type': 'focal', 'gamma': 1.5}, negative='hill')") == dict(
        type='PairLoss', positive=dict(type='focal', gamma=1.5), negative='hill'
    )
    for text in ('', '3', 'HillLoss(', 'HillLoss(1)', 'HillLoss(**{})', 'HillLoss(margin=exit())', 'a; b'):
        with pytest.raises(ValueError, match='must'):
            parse_loss(text)


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(label='other'), r"label must be one of \('positive', 'negative'\), got 'other'"),
        (dict(logits=[[0.0]]), r'logits must be finite numbers of shape \(P,\), got the shape \(1, 1\)'),
        (dict(logits=[np.nan]), 'logits must be finite numbers'),
        (dict(num_classes=0), 'num_classes must be at least 1, got 0'),
    ],
)
def test_bad_curves_are_rejected(kwargs, message):
    arguments = dict(label='positive', logits=LOGITS) | kwargs
    with pytest.raises(ValueError, match=message):
        loss_curve(BCELoss(), **arguments)


def test_picture_holds_the_curves_of_the_losses():
    figure = plot_loss_curves({'cross-entropy': 'BCELoss', 'hill': dict(type='HillLoss')}, title='Two losses')
    assert png_bytes(figure, dpi=40).startswith(b'\x89PNG')
    assert [axes.get_title(loc='left') for axes in figure.axes] == [
        'loss, positive label',
        'loss, negative label',
        'gradient by the logit, positive label',
        'gradient by the logit, negative label',
    ]
    p, gradient = lines_of(figure.axes[3])['hill'].T
    np.testing.assert_allclose(gradient, 3 * p**2 * (1 - p) ** 2, atol=1e-12)
    p, value = lines_of(figure.axes[0])['cross-entropy'].T
    np.testing.assert_allclose(value, -np.log(p))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ['cross-entropy', 'hill']
    assert figure.get_suptitle() == 'Two losses'


def test_link_is_drawn_against_the_logit():
    figure = plot_loss_curves({'bce': BCELoss()}, against='logit', show=('value', 'link'), labels=('negative',))
    x, value = lines_of(figure.axes[0])['bce'].T
    np.testing.assert_allclose(value, np.log1p(np.exp(x)))
    x, probability = lines_of(figure.axes[1])['bce'].T
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-x)))


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(losses={}), 'losses must hold at least one loss, got none'),
        (dict(against='margin'), "against must be one of .* got 'margin'"),
        (dict(show=()), r'show must be some of .* got \(\)'),
        (dict(labels='positive'), "labels must be some of .* got 'positive'"),
        (dict(limit=0), 'limit must be above 0, got 0'),
    ],
)
def test_bad_choices_are_rejected(kwargs, message):
    with pytest.raises(ValueError, match=message):
        plot_loss_curves(**(dict(losses={'bce': 'BCELoss'}) | kwargs))

"""Test the margin of the two-way paper (Eq. 8), and what its loss makes of it (Propositions 1 and 2)."""

import numpy as np
import pytest
import torch

from mmml_losses import functional as F
from mmml_losses.evaluation import classification_margins


@pytest.fixture
def case():
    generator = torch.manual_seed(0)
    logits = 3 * torch.randn(40, 9, generator=generator, dtype=torch.float64)
    labels = (torch.rand(logits.shape, generator=generator) < 0.4).long()
    labels[:, :2], labels[:, 2:4] = 1, 0  # two of each kind at least
    return logits, labels


def seen_margins(logits, labels, positive_temperature, negative_temperature):
    """Return the margins that the loss of Eq. 14, softplus(-margin), sees in place of Eq. 8."""
    loss = F.two_way_loss(logits, labels, 'sample', positive_temperature, negative_temperature)
    return -torch.log(torch.expm1(loss)).numpy()


@pytest.mark.parametrize('by', ['sample', 'class'])
def test_margins_equal_a_loop(case, by):
    logits, labels = (array.numpy().copy() for array in case)
    labels[np.random.default_rng(0).random(labels.shape) < 0.3] = -1
    labels[0], labels[1], labels[:, 0] = 1, 0, 0
    rows = zip(logits, labels, strict=True) if by == 'sample' else zip(logits.T, labels.T, strict=True)
    expected = []
    for values, kinds in rows:
        positives, negatives = values[kinds == 1], values[kinds == 0]
        expected.append(min(positives) - max(negatives) if len(positives) and len(negatives) else np.nan)
    np.testing.assert_array_equal(classification_margins(logits, labels, by=by), expected)
    assert np.isnan(expected).any()
    assert not np.isnan(expected).all()


def test_other_directions_are_rejected():
    with pytest.raises(ValueError, match="by must be 'sample' or 'class', got 'image'"):
        classification_margins([[0.0]], [[1]], by='image')


@pytest.mark.parametrize('temperatures', [(1.0, 1.0), (4.0, 1.0), (0.5, 2.0)])
def test_the_loss_underestimates_every_margin(case, temperatures):  # Proposition 1
    seen = seen_margins(*case, *temperatures)
    assert (seen < classification_margins(*case)).all()


@pytest.mark.parametrize('kind', [0, 1])
def test_a_higher_temperature_sees_a_smaller_margin(case, kind):  # Proposition 2
    temperatures = np.ones((6, 2))
    temperatures[:, kind] = [0.25, 0.5, 1, 2, 4, 8]
    seen = np.array([seen_margins(*case, *map(float, pair)) for pair in temperatures])
    assert (np.diff(seen, axis=0) < 0).all()


def test_a_temperature_near_0_sees_the_margin_itself(case):
    np.testing.assert_allclose(seen_margins(*case, 1e-3, 1e-3), classification_margins(*case), atol=1e-3)
